"""Pins of export.saved_encoder: vectors in the caller's order, lengths, fingerprints, refusals."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

from samtone_tf.export.encoder import write_saved_model
from samtone_tf.export.saved_encoder import SavedEncoder
from samtone_tf.training.run_folder import load_model
from tests import tiny

LENGTHS = {"query_length": tiny.QUERY_LENGTH, "document_length": tiny.DOCUMENT_LENGTH}
TEXTS = [*tiny.ODD_TEXTS, b"\xff\xfe caf\xe9", *tiny.docstring_texts(40)]


@pytest.fixture(scope="module", params=tiny.ARCHITECTURES)
def saved(request):
    """(architecture, encoder of its export)."""
    return request.param, SavedEncoder(tiny.saved_model(request.param))


@pytest.mark.parametrize("side", ["query", "document"])
def test_vectors_are_those_of_the_python_model(saved, side):
    architecture, encoder = saved
    found = getattr(encoder, f"encode_{side}")(TEXTS)
    want = tiny.python_vectors(architecture, side, TEXTS)
    assert (found.shape, found.dtype) == ((len(TEXTS), tiny.DIM), np.float32)
    np.testing.assert_allclose(found, want, atol=1e-5)


def test_prompts_are_in_the_graph_and_in_the_encoder(tmp_path):
    """A text gets the vector that it has with its prompt typed, where there are no prompts."""
    model, tokenizer = load_model(tiny.run("ade_spl")), tiny.tokenizer()
    prompts = {"query_prompt": "ask: ", "document_prompt": "the old "}
    write_saved_model(model, tokenizer, tmp_path / "1", **LENGTHS, **prompts)
    prompted, plain = SavedEncoder(tmp_path / "1"), SavedEncoder(tiny.saved_model("ade_spl"))
    assert prompted.prompts == {"query": "ask: ", "document": "the old "}
    texts = ["small harbour", "", b"caf\xe9"]
    typed = {
        side: [prompt.encode() + t if isinstance(t, bytes) else prompt + t for t in texts]
        for side, prompt in prompted.prompts.items()
    }
    signatures = tf.saved_model.load(str(tmp_path / "1")).signatures
    for side in ("query", "document"):
        encode, want = getattr(prompted, f"encode_{side}"), getattr(plain, f"encode_{side}")
        np.testing.assert_allclose(encode(texts), want(typed[side]), atol=1e-6)
        assert np.abs(encode(texts) - want(texts)).max() > 1e-3
        in_graph = signatures[f"encode_{side}"](text=tf.constant(texts))["embedding"]
        np.testing.assert_allclose(in_graph, want(typed[side]), atol=1e-5)
    assert prompted.fingerprint != plain.fingerprint


def test_order_and_batches_change_nothing(saved):
    _, encoder = saved
    want = encoder.encode_document(TEXTS, batch_size=len(TEXTS))
    order = np.random.default_rng(0).permutation(len(TEXTS))
    found = encoder.encode_document([TEXTS[row] for row in order], batch_size=3)
    np.testing.assert_allclose(found, want[order], atol=1e-5)


def test_no_text_gives_no_row(saved):
    _, encoder = saved
    assert encoder.encode_query([]).shape == (0, tiny.DIM)


def test_a_string_instead_of_a_list_is_refused(saved):
    _, encoder = saved
    with pytest.raises(TypeError, match="must be a list of strings. Received: 'a question'"):
        encoder.encode_query("a question")


def test_lengths_are_the_exports_unless_given(saved):
    architecture, encoder = saved
    assert encoder.lengths == {"query": tiny.QUERY_LENGTH, "document": tiny.DOCUMENT_LENGTH}
    longer = SavedEncoder(tiny.saved_model(architecture), query_length=20)
    assert longer.lengths == {"query": 20, "document": tiny.DOCUMENT_LENGTH}
    short, long = "old harbour", "the old harbour " * 9
    np.testing.assert_allclose(
        longer.encode_query([short]), encoder.encode_query([short]), atol=1e-5
    )
    assert np.abs(longer.encode_query([long]) - encoder.encode_query([long])).max() > 1e-3
    np.testing.assert_allclose(
        longer.encode_document([long]), encoder.encode_document([long]), atol=1e-5
    )


@pytest.mark.parametrize("length", [0, 1, -3])
def test_a_length_without_room_is_refused(length):
    with pytest.raises(ValueError, match=f"Received: .*{length}"):
        SavedEncoder(tiny.saved_model("sde"), query_length=length).encode_query(["a"])


def test_copies_have_one_fingerprint_and_models_have_their_own(saved, tmp_path):
    architecture, encoder = saved
    shutil.copytree(tiny.saved_model(architecture), tmp_path / "elsewhere")
    assert SavedEncoder(tmp_path / "elsewhere").fingerprint == encoder.fingerprint
    other = {"sde": "ade_spl", "ade_spl": "sde"}[architecture]
    assert SavedEncoder(tiny.saved_model(other)).fingerprint != encoder.fingerprint


def test_what_is_no_saved_model_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"gone, which does not exist.*samtone export"):
        SavedEncoder(tmp_path / "gone")
    with pytest.raises(FileNotFoundError, match=r"holds no saved_model\.pb"):
        SavedEncoder(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"checkpoints|holds no saved_model\.pb"):
        SavedEncoder(tiny.run("sde"))


def test_the_folder_above_names_the_version_in_it():
    version = tiny.saved_model("sde")
    with pytest.raises(FileNotFoundError, match=f"Did you mean {version}\\?"):
        SavedEncoder(version.parent)


def test_a_saved_model_of_someone_else_is_refused(tmp_path):
    module = tf.Module()
    signature = tf.function(lambda x: {"y": x}, input_signature=[tf.TensorSpec([None])])
    module.call = signature
    tf.saved_model.save(module, str(tmp_path / "other"), signatures={"predict": signature})
    with pytest.raises(ValueError, match=r"signatures \['predict'\].*encode_document") as caught:
        SavedEncoder(tmp_path / "other")
    assert str(tmp_path / "other") in str(caught.value)


def test_an_export_without_its_extra_files_is_refused(tmp_path):
    shutil.copytree(tiny.saved_model("sde"), tmp_path / "1")
    (tmp_path / "1" / "assets.extra" / "samtone.json").unlink()
    with pytest.raises(ValueError, match=r"assets\.extra/samtone\.json"):
        SavedEncoder(tmp_path / "1")


def test_an_export_that_was_cut_off_is_refused(tmp_path):
    shutil.copytree(tiny.saved_model("sde"), tmp_path / "1")
    path = tmp_path / "1" / "saved_model.pb"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises((ValueError, OSError)):
        SavedEncoder(tmp_path / "1")
