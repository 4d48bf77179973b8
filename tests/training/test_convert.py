"""Pins of training.convert: every source and target, whole or not at all, and refusals."""

import json
import shutil
from dataclasses import replace

import keras
import numpy as np
import pytest

from samtone_tf.checkpoints.source import PROJECTION
from samtone_tf.dual_encoder import DualEncoder
from samtone_tf.encoder_config import EncoderConfig
from samtone_tf.export.encoder import export_saved_model
from samtone_tf.export.saved_encoder import SavedEncoder
from samtone_tf.training import convert as converting
from samtone_tf.training.convert import convert
from samtone_tf.training.initial_weights import open_initial
from samtone_tf.training.run_folder import BEST_FILE, MODEL_FILE, load_config, load_model
from tests import tiny
from tests.checkpoints import made


@pytest.fixture
def opened(monkeypatch):
    """`hf:made` is a made-up checkpoint without projection, whose tokenizer is the tiny one."""
    config = replace(made.NUMBERS, vocabulary_size=230, gated=False, activation="relu")
    source = made.source(
        name="hf:made",
        tower=made.tower(config),
        tokenizer=tiny.tokenizer(),
        query_prompt="q: ",
        max_length=33,
    )
    real = open_initial
    monkeypatch.setattr(
        converting, "open_initial", lambda name: source if name == "hf:made" else real(name)
    )
    return source


def test_a_published_checkpoint_is_served_without_training(opened, tmp_path):
    run = convert("hf:made", tmp_path / "run", "keras")
    config = load_config(run)
    assert (config.model.init, config.model.architecture) == ("hf:made", "sde")
    assert (config.model.gated, config.model.activation) == (False, "relu")
    assert config.data.query_prompt == "q: "
    model = load_model(run)
    # No projection: the identity, and so the mean hidden states.
    np.testing.assert_array_equal(
        model.query_tower.projection.kernel.numpy(), np.eye(made.NUMBERS.hidden_dim)
    )
    lengths = {"query_length": 33, "document_length": 33}
    encoder = SavedEncoder(export_saved_model(run, tmp_path / "saved" / "1", **lengths))
    texts = ["the old harbour", "a museum"]
    rows = tiny.tokenizer().prompted("q: ").encode(texts, 33)
    want = np.concatenate(
        [
            model.encode_query(
                {"token_ids": row[None], "padding_mask": np.ones((1, len(row)), bool)}
            )
            for row in rows
        ]
    )
    np.testing.assert_allclose(encoder.encode_query(texts), want, atol=1e-5)
    assert "--query_length 33 --document_length 33" in (run / "README.md").read_text()


@pytest.mark.parametrize("architecture", ["ade", "ade_spl", ["token_embedding"]])
def test_towers_are_taken_apart(opened, tmp_path, architecture):
    run = convert("hf:made", tmp_path / "run", "keras", architecture=architecture)
    model = load_model(run)
    assert model.architecture == architecture
    assert load_config(run).model.architecture == architecture
    for one, other in zip(model.query_tower.weights, model.document_tower.weights, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_a_run_is_a_run_again_with_its_configuration(tmp_path):
    run = convert(tiny.run("ade_spl"), tmp_path / "run", "keras")
    want, got = load_config(tiny.run("ade_spl")), load_config(run)
    assert (got.loss, got.train) == (want.loss, want.train)
    assert got.data == replace(want.data, query_prompt="", document_prompt="")
    assert got.model.init == f"run:{tiny.run('ade_spl')}"
    again = open_initial(f"run:{run}")
    for tower in ("query", "document"):
        first = getattr(open_initial(f"run:{tiny.run('ade_spl')}"), tower).tensors
        for name, tensor in getattr(again, tower).tensors.items():
            np.testing.assert_array_equal(tensor.read(), first[name].read())


def test_a_keras_file_needs_a_vocabulary(tmp_path):
    file = tiny.run("sde") / MODEL_FILE
    with pytest.raises(ValueError, match="`vocabulary` must be set for a source that holds none"):
        convert(file, tmp_path / "run", "keras")
    vocabulary = tiny.run("sde") / "vocabulary.spm"
    run = convert(file, tmp_path / "run", "keras", vocabulary=vocabulary)
    assert open_initial(f"run:{run}").tokenizer.model == tiny.tokenizer().model


def test_low_rank_adapters_are_merged(tmp_path):
    config = EncoderConfig.make(tiny.config().model.encoder(230), lora_rank=2, lora_targets="all")
    model = DualEncoder(config, embedding_dim=tiny.DIM)
    random = np.random.default_rng(0)
    for variable in model.weights:
        if variable.name == "lora_b":  # they start at 0, where nothing shows
            variable.assign(random.normal(size=variable.shape))
    model.save(tmp_path / "model.keras")
    vocabulary = tiny.run("sde") / "vocabulary.spm"
    run = convert(tmp_path / "model.keras", tmp_path / "run", "keras", vocabulary=vocabulary)
    again = load_model(run)
    assert again.encoder_config.lora_rank == load_config(run).model.lora_rank == 0
    ids = np.array([[5, 6, 7, 1]], "int32")
    tokens = {"token_ids": ids, "padding_mask": ids > 0}
    np.testing.assert_allclose(again.encode_query(tokens), model.encode_query(tokens), atol=1e-5)


def test_a_file_that_holds_code_is_refused(tmp_path):
    code = keras.layers.Lambda(lambda x: x + 1)
    keras.Sequential([keras.Input((1,)), code]).save(tmp_path / "model.keras")
    with pytest.raises(ValueError, match=r"model\.keras, which Keras cannot load: .*[Ll]ambda"):
        convert(tmp_path / "model.keras", tmp_path / "run", "keras")


def test_best_or_last_and_the_scores_of_that_one(tmp_path):
    run = tmp_path / "run"
    shutil.copytree(tiny.run("sde"), run)
    best = load_model(run)
    best.query_tower.projection.kernel.assign(2 * best.query_tower.projection.kernel)
    best.save(run / BEST_FILE)
    with (run / "metrics.jsonl").open("a") as file:
        for step, score in ((2, 0.25), (3, 0.75), (4, 0.5)):
            line = {"step": step, "val_nDCG@10": score, "val_R@100": score / 2, "val_seconds": 9}
            file.write(json.dumps(line) + "\n")
    kernels = {
        which: open_initial(
            f"run:{convert(run, tmp_path / str(which), 'keras', checkpoint=which)}"
        ).query.tensors[PROJECTION]
        for which in (None, "best", "last")
    }
    np.testing.assert_array_equal(kernels[None].read(), kernels["best"].read())
    np.testing.assert_array_equal(kernels["best"].read(), 2 * kernels["last"].read())
    for which, score in (("best", 0.75), ("last", 0.5)):
        card = (tmp_path / which / "README.md").read_text()
        assert f"| nDCG@10 in validation | {score:g} |" in card
        assert f"| R@100 in validation | {score / 2:g} |" in card
        assert "seconds" not in card


@pytest.mark.parametrize(
    ("source", "arguments", "error", "message"),
    [
        ("gone", {}, FileNotFoundError, "`source` must be a run folder, a .keras file, or a place"),
        ("hf:made", {"to": "onnx"}, ValueError, "`to` must be one of sentence-transformers, hugg"),
        ("hf:made", {"checkpoint": "best"}, ValueError, "`checkpoint` must be left out unless"),
        ("hf:made", {"architecture": "moe"}, ValueError, "`architecture` must be one of"),
        ("hf:made", {"license": "a: b"}, ValueError, "`license` must be an identifier"),
        ("hf:made", {"query_length": 1}, ValueError, "`length` must be at least 2 tokens"),
        ("hf:made", {"vocabulary": "other"}, ValueError, "`vocabulary` must be left out where"),
        ("RUN", {"architecture": "sde"}, ValueError, "share what .* have a token_embedding each"),
        ("RUN", {"checkpoint": "first"}, ValueError, "`checkpoint` must be one of last, best"),
    ],
)
def test_refusals_write_nothing(opened, tmp_path, source, arguments, error, message):
    from samtone_tf.data.tokenizer import Tokenizer

    if arguments.get("vocabulary"):
        Tokenizer.train(["another language of words"], 30).save(tmp_path / "other")
        arguments = {**arguments, "vocabulary": tmp_path / "other"}
    source = str(tiny.run("ade_spl")) if source == "RUN" else source
    with pytest.raises(error, match=message):
        convert(source, tmp_path / "out", **{"to": "keras", **arguments})
    assert not (tmp_path / "out").exists()


def test_nothing_is_overwritten_and_nothing_half_written_stays(opened, tmp_path, monkeypatch):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear reader")
    with pytest.raises(FileExistsError, match="`out` must be a new or empty folder"):
        convert("hf:made", tmp_path / "full", "keras")
    monkeypatch.setattr(converting, "save_model", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        convert("hf:made", tmp_path / "out", "keras")
    assert {path.name for path in tmp_path.iterdir()} == {"full"}
