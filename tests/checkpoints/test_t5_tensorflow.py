"""Pins of checkpoints.t5_tensorflow: variables of T5's own code, all numbers from their shapes."""

from dataclasses import replace

import numpy as np
import pytest

from samtone_tf.checkpoints.t5_tensorflow import open_t5_tensorflow
from tests import tiny
from tests.checkpoints import files, made

QUERY = "encoder/block_001/layer_000/SelfAttention/q"


def opened(path):
    return open_t5_tensorflow(str(path), f"t5_tf:{path}")


def beside(tensors):
    """What else such a file holds."""
    slots = {
        f"{name}_slot_{kind}": np.zeros(tensor.shape[:1], np.float32)
        for name, tensor in tensors.items()
        for kind in ("v", "vr", "vc")
    }
    decoder = {"decoder/block_000/layer_001/EncDecAttention/q": np.ones((16, 12), np.float32)}
    return tensors | slots | decoder | {"global_step": np.int64(1_000_000)}


@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
@pytest.mark.parametrize("changes", [{}, files.UNGATED], ids=["v1.1", "v1.0"])
def test_numbers_and_tensors(tmp_path, changes, norm):
    config = replace(made.NUMBERS, **changes)
    tensors = beside(files.mesh_tensors(config, norm))
    prefix = files.write_tensorflow(tmp_path / "model.ckpt-1000000", tensors)
    for path in (prefix, tmp_path):
        source = opened(path)
        files.assert_equal(source, config)
        assert source.tokenizer is None
        assert source.name == f"t5_tf:{path}"


def test_the_vocabulary_beside_it_is_read(tmp_path):
    config = replace(made.NUMBERS, vocabulary_size=tiny.tokenizer().vocabulary_size)
    prefix = files.write_tensorflow(tmp_path / "model.ckpt-1", files.mesh_tensors(config))
    tiny.tokenizer().save(tmp_path / "sentencepiece.model")
    assert opened(prefix).tokenizer.fingerprint == tiny.tokenizer().fingerprint
    assert opened(tmp_path).tokenizer.fingerprint == tiny.tokenizer().fingerprint
    (tmp_path / "sentencepiece.model").write_bytes(b"none")
    with pytest.raises(ValueError, match=r"sentencepiece\.model: `model` must be a SentencePiece"):
        opened(prefix)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop(QUERY), f"it has no {QUERY}"),
        (lambda t: t.update(more=t.pop(QUERY)), f"no {QUERY}; nothing here takes its more"),
        (lambda t: t.update({QUERY: t[QUERY].T}), rf"{QUERY} has the shape \(12, 16\), not"),
        (
            lambda t: [t.pop(name) for name in list(t) if "block_001" in name],
            "it has no encoder/block_001",
        ),
        (lambda t: t.pop("shared/embedding"), "which has no matrix shared/embedding"),
        (
            lambda t: t.update({files.MESH_BIAS: t[files.MESH_BIAS].T}),
            r"must have the shape \(heads, 32\).* Received: \(32, 2\)",
        ),
    ],
    ids=["missing", "renamed", "turned", "a layer less", "no table", "bias turned"],
)
def test_what_does_not_fit_is_named(tmp_path, change, message):
    tensors = files.mesh_tensors()
    change(tensors)
    prefix = files.write_tensorflow(tmp_path / "model.ckpt-1", tensors)
    with pytest.raises(ValueError, match=message):
        opened(prefix)


def test_no_checkpoint_says_what_one_is(tmp_path):
    with pytest.raises(FileNotFoundError, match="a folder without a `checkpoint` file"):
        opened(tmp_path)
    with pytest.raises(FileNotFoundError, match="a prefix such as model.ckpt-1000000"):
        opened(tmp_path / "model.ckpt-1")
    (tmp_path / "bad.index").write_bytes(b"no such thing" * 99)
    (tmp_path / "bad.data-00000-of-00001").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match=r"must be a prefix .* Received: '.*bad', "):
        opened(tmp_path / "bad")
