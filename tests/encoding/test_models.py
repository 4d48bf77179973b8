"""Pins of encoding.models: exports and runs as encoders, their vectors, traces and refusals."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from samtone_tf.encoding.encode import encode_corpus
from samtone_tf.encoding.models import encoder_of, open_encoder
from samtone_tf.encoding.vectors import Vectors
from samtone_tf.export.saved_encoder import SavedEncoder
from samtone_tf.training.run_folder import load_model
from tests import tiny

ROOT = Path(__file__).parents[2]
TEXTS = {
    str(row): text
    for row, text in enumerate(
        [*tiny.ODD_TEXTS, b"\xff\xfe caf\xe9", "half \ud800", *tiny.docstring_texts(60)]
    )
}
LENGTHS = {"query": tiny.QUERY_LENGTH, "document": tiny.DOCUMENT_LENGTH}


@pytest.mark.parametrize("side", ["query", "document"])
@pytest.mark.parametrize("kind", ["export", "run"])
def test_c25_c26_vectors_are_those_of_the_export(tmp_path, kind, side):
    """Of every odd text, whatever it shares a batch with."""
    saved = SavedEncoder(tiny.saved_model("ade_spl"))
    want = getattr(saved, f"encode_{side}")(list(TEXTS.values()))
    model = saved.folder if kind == "export" else tiny.run("ade_spl")
    encoder = open_encoder(model, side, length=LENGTHS[side])
    done = encode_corpus(encoder, TEXTS, tmp_path / "v", shard_size=30, batch_tokens=100)
    vectors = Vectors(tmp_path / "v")
    np.testing.assert_allclose(vectors[:], want, atol=1e-5)
    python = tiny.python_vectors("ade_spl", side, list(TEXTS.values()))
    np.testing.assert_allclose(vectors[:], python, atol=1e-5)
    about = vectors.description
    assert (about.model, about.model_path) == (saved.fingerprint, str(model.resolve()))
    assert (about.side, about.dim, about.length) == (side, tiny.DIM, LENGTHS[side])
    assert done.num_empty == sum(not text.strip() for text in TEXTS.values()) == 3


def test_c25_order_and_batch_mates_change_nothing(tmp_path):
    encoder = open_encoder(tiny.saved_model("sde"))
    order = np.random.default_rng(0).permutation(len(TEXTS))
    texts = list(TEXTS.items())
    encode_corpus(encoder, TEXTS, tmp_path / "a")
    other = dict(texts[row] for row in order)
    encode_corpus(encoder, other, tmp_path / "b", shard_size=7, batch_tokens=40)
    a, b = Vectors(tmp_path / "a"), Vectors(tmp_path / "b")
    np.testing.assert_allclose(b[:], a[order], atol=1e-5)


def test_paths_are_opened_for_the_document_side(tmp_path):
    encode_corpus(tiny.saved_model("ade_spl"), TEXTS, tmp_path / "v")
    want = SavedEncoder(tiny.saved_model("ade_spl")).encode_document(list(TEXTS.values()))
    np.testing.assert_allclose(Vectors(tmp_path / "v")[:], want, atol=1e-5)


def test_lengths_of_a_run_are_those_that_export_takes():
    assert open_encoder(tiny.run("sde"), "query").length == 64
    assert open_encoder(tiny.run("sde"), "document").length == 512
    assert open_encoder(tiny.saved_model("sde"), "document").length == tiny.DOCUMENT_LENGTH
    assert open_encoder(tiny.saved_model("sde"), "document", length=9).length == 9


@pytest.mark.parametrize("jit_compile", [False, True])
def test_c27_200_lengths_make_no_more_graphs_than_widths(monkeypatch, jit_compile):
    from samtone_tf import tensorflow_encode
    from samtone_tf.data.length_batches import widths
    from samtone_tf.data.token_cache import TokenCache

    made = []
    function = tf.function

    def counting(*arguments, **keywords):
        def wrap(python_function):
            made.append(function(python_function, **keywords))
            return made[-1]

        return wrap

    monkeypatch.setattr(tensorflow_encode.tf, "function", counting)
    model = load_model(tiny.run("sde"))
    encoder = encoder_of(model, tiny.tokenizer(), length=40, jit_compile=jit_compile)
    monkeypatch.undo()
    sizes = np.arange(1, 41).repeat(5)
    tokens = TokenCache(np.ones(sizes.sum(), np.uint16), np.cumsum([0, *sizes]), 40, 0)
    for _ in range(2):
        encoder.encode(tokens, batch_tokens=200)
    assert made[0].experimental_get_tracing_count() <= len(widths(40)) == 3


def test_xla_gives_the_same_vectors():
    texts = list(TEXTS.values())
    for model in (tiny.saved_model("sde"), tiny.run("sde")):
        plain = open_encoder(model, length=20)
        compiled = open_encoder(model, length=20, jit_compile=True)
        want = plain.encode(plain.tokenize(texts))
        found = compiled.encode(compiled.tokenize(texts))
        np.testing.assert_allclose(found, want, atol=1e-5)


def test_c23_fingerprints_tell_models_apart_and_not_their_forms():
    prints = {
        (name, form): open_encoder(make(name)).fingerprint
        for name in tiny.ARCHITECTURES
        for form, make in (("run", tiny.run), ("export", tiny.saved_model))
    }
    for name in tiny.ARCHITECTURES:
        assert prints[name, "run"] == prints[name, "export"]
    assert len(set(prints.values())) == 2


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"side": "left"}, "`side` must be one of query, document"),
        ({"length": 1}, "`length` must be at least 2"),
        ({"strategy": "multiworker"}, "auto, one, mirrored, tpu.*'multiworker'.*shards"),
        ({"strategy": "mirrored"}, "`strategy` is for a run folder.*strategy='mirrored'"),
        ({"checkpoint": "last"}, "`checkpoint` is for a run folder.*checkpoint='last'"),
    ],
)
def test_settings_that_do_not_fit_an_export_are_refused(settings, match):
    with pytest.raises(ValueError, match=match):
        open_encoder(tiny.saved_model("sde"), **settings)


def test_tf_config_is_for_training(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{}")
    with pytest.raises(ValueError, match="TF_CONFIG is not used"):
        open_encoder(tiny.run("sde"))


def test_a_run_has_its_own_checks():
    with pytest.raises(FileNotFoundError, match="best"):
        open_encoder(tiny.run("sde"), checkpoint="best")
    with pytest.raises(ValueError, match="strategy='all'"):
        open_encoder(tiny.run("sde"), strategy="all")


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="gone, which does not exist"):
        open_encoder(tmp_path / "gone")
    module = tf.Module()
    module.call = tf.function(lambda x: {"y": x}, input_signature=[tf.TensorSpec([None])])
    tf.saved_model.save(module, str(tmp_path / "x"), signatures={"predict": module.call})
    with pytest.raises(ValueError, match=r"signatures \['predict'\].*encode_document"):
        open_encoder(tmp_path / "x")


@pytest.mark.slow
@pytest.mark.multi_device
def test_two_replicas_share_the_rows(tmp_path):
    command = [sys.executable, "-m", "tests.encoding.two_replicas"]
    done = subprocess.run(
        [*command, str(tiny.run("sde")), str(tmp_path / "v")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["2"]
    assert "`jit_compile` is for one device" in done.stderr
    vectors = Vectors(tmp_path / "v")
    saved = SavedEncoder(tiny.saved_model("sde"))
    want = saved.encode_document(list(tiny.data().documents.values()))
    np.testing.assert_allclose(vectors[:], want, atol=1e-5)
    assert vectors.description.model == saved.fingerprint
