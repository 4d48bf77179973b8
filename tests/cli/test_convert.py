"""Pins of `samtone convert`: all targets from the command line, and one line for what is wrong."""

import numpy as np
import pytest

from samtone_tf.export.saved_encoder import SavedEncoder
from samtone_tf.training.run_folder import load_model
from tests import tiny
from tests.checkpoints import peer
from tests.cli.runner import refuse, succeed

QUERIES = ["the old harbour", "", "a museum"]  # of 12 tokens at most: one tower has one length
DOCUMENTS = [*QUERIES, "the library of the northern chapel opens before breakfast, and closes"]
CUT = ("--query_length=12", "--document_length=20")


def vectors(folder):
    encoder = SavedEncoder(folder)
    return encoder.encode_query(QUERIES), encoder.encode_document(DOCUMENTS)


def test_a_run_becomes_a_run_that_is_exported(tmp_path):
    run, saved = tmp_path / "run", tmp_path / "saved" / "1"
    done = succeed("convert", tiny.run("ade_spl"), run, "--to", "keras", "--license", "mit")
    assert f"wrote {run}" in done.out
    assert f"next: samtone export {run} saved_models/NAME/1" in done.out
    assert (run / "README.md").read_text().startswith("---\nlicense: mit\n")
    succeed("export", run, saved, *CUT)
    for got, want in zip(vectors(saved), vectors(tiny.saved_model("ade_spl")), strict=True):
        np.testing.assert_array_equal(got, want)


def test_parts_are_named_as_a_list(tmp_path):
    parts = "--architecture=[token_embedding, projection]"
    succeed("convert", tiny.run("sde"), tmp_path / "run", "--to=keras", parts)
    model = load_model(tmp_path / "run")
    assert model.architecture == ["token_embedding", "projection"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gone", "out", "--to=keras"), "source='gone', which does not exist"),
        (("gone", "out", "--to=onnx"), "`to` must be one of"),
        (("gone", "out"), "to"),
        (("st:gone/gone/gone", "out", "--to=keras"), "gone/gone/gone"),
        (("pt:gone", "out", "--to=keras"), "source='pt:gone', which does not exist"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert message in refuse("convert", *arguments)
    assert not list(tmp_path.iterdir())


@peer.interop
@pytest.mark.parametrize("architecture", tiny.ARCHITECTURES)
def test_a_run_goes_to_sentence_transformers_and_comes_back(architecture, tmp_path):
    there, back, saved = tmp_path / "there", tmp_path / "back", tmp_path / "saved" / "1"
    succeed("convert", tiny.run(architecture), there, "--to=sentence-transformers", *CUT)
    model = peer.load(there)
    want = vectors(tiny.saved_model(architecture))
    np.testing.assert_allclose(model.encode_query(QUERIES), want[0], atol=1e-5)
    np.testing.assert_allclose(model.encode_document(DOCUMENTS), want[1], atol=1e-5)
    card = (there / "README.md").read_text()
    assert "| trained on | made up |" in card
    assert f"  architecture: {architecture}" in card
    succeed("convert", f"st:{there}", back, "--to=keras")
    succeed("export", back, saved, *CUT)
    for got, vector in zip(vectors(saved), want, strict=True):
        np.testing.assert_array_equal(got, vector)


def test_a_run_goes_to_hugging_face(tmp_path):
    done = succeed("convert", tiny.run("sde"), tmp_path / "t5", "--to", "huggingface")
    assert "the projection: it lies beside, in projection.safetensors" in done.out
    assert (tmp_path / "t5" / "projection.safetensors").is_file()


@peer.interop
@pytest.mark.slow
def test_a_checkpoint_trains_saves_exports_and_serves(tmp_path):
    start = peer.save(tmp_path / "start", "ade_spl")
    data, run, saved = tiny.write_beir(tmp_path / "beir"), tmp_path / "run", tmp_path / "s" / "1"
    flags = ("--data.query_length=12", "--data.document_length=20", "--train.batch_size=8")
    succeed(
        *("train", "--data", f"beir:{data}", "--out", run, "--model.init", f"st:{start}"),
        *("--train.steps=20", "--train.report_every=20", *flags),
    )
    succeed("export", run, saved, *CUT)
    model, encoder = load_model(run), SavedEncoder(saved)
    assert model.architecture == "ade_spl"
    texts = peer.texts()
    for side, prompt in (("query", peer.PROMPTS["query"]), ("document", peer.PROMPTS["document"])):
        length = {"query": 12, "document": 20}[side]
        rows = tiny.tokenizer().prompted(prompt).encode(texts, length)
        ids = np.stack([np.pad(row, (0, length - len(row))) for row in rows])
        mask = np.arange(length) < np.array([[len(row)] for row in rows])
        tokens = {"token_ids": ids, "padding_mask": mask}
        want = np.asarray(getattr(model, f"encode_{side}")(tokens))
        np.testing.assert_allclose(getattr(encoder, f"encode_{side}")(texts), want, atol=1e-5)
    # Training did something.
    before = peer.theirs(start)["query"]
    assert np.abs(encoder.encode_query(texts) - before).max() > 1e-3
