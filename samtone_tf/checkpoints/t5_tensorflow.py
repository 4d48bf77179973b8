"""Reads the encoder of T5's own TensorFlow checkpoints (Mesh TensorFlow), local or `gs://`.

Such a checkpoint has no configuration: every number comes from the tensors' shapes. Adafactor's
slots, the step and the decoder are left alone.
"""

import os
import re
from collections.abc import Mapping

import numpy as np

from samtone_tf.checkpoints.source import (
    LazyTensor,
    Shape,
    Source,
    TowerSource,
    encoder_shapes,
    match,
)
from samtone_tf.checkpoints.t5_names import mesh_names
from samtone_tf.checks import check_vocabulary
from samtone_tf.data.tokenizer import Tokenizer
from samtone_tf.encoder_config import EncoderConfig

_NUM_BUCKETS = 32  # of every published T5; the file does not say up to which distance: 128
_TABLE = "shared/embedding"
_BLOCK = "encoder/block_000/"
_BIAS = f"{_BLOCK}layer_000/SelfAttention/relative_attention_bias"
_QUERY = f"{_BLOCK}layer_000/SelfAttention/q"
_IGNORED = (r"decoder/.*", r"global_step", r".*_slot_[a-z0-9]+")
_VOCABULARIES = ("sentencepiece.model", "spiece.model")


def open_t5_tensorflow(path: str, name: str) -> Source:
    """Opens a checkpoint of T5's own code; no tensor is read yet.

    The activation follows from the kernels: GELU where the feed-forward network is gated (v1.1,
    mT5, Flan), ReLU where it is not (v1.0).

    Args:
        path: a prefix such as `…/model.ckpt-1000000`, or a folder, whose latest checkpoint is
            taken; local or `gs://…`.
        name: what the user typed, such as `t5_tf:PATH`.

    Raises:
        FileNotFoundError: there is no checkpoint.
        ValueError: it is not T5's, or tensors are missing, left over or of another shape.
    """
    path = os.path.expanduser(path)
    reader = _open(path)
    shapes = {key: tuple(shape) for key, shape in reader.get_variable_to_shape_map().items()}
    config = _config(path, shapes)
    names, found = mesh_names(config), {}
    for theirs, shape in shapes.items():
        # Rows are heads there and buckets here; mT5's norms have another name.
        turned = theirs == _BIAS
        known = theirs.replace("/rms_norm/", "/layer_norm/")
        known = known.replace("encoder/layer_norm/", "encoder/final_layer_norm/")
        found[known] = _lazy(reader, theirs, shape, turned)
    tensors = match(path, encoder_shapes(config), names, found, _IGNORED)
    tower = TowerSource(config, tensors)
    tokenizer = _tokenizer(path)
    if tokenizer is not None:
        check_vocabulary(tokenizer.vocabulary_size, config.vocabulary_size)
    return Source(name, tower, tower, tokenizer=tokenizer)


def _lazy(reader, name: str, shape: Shape, turned: bool) -> LazyTensor:
    def read() -> np.ndarray:
        tensor = np.asarray(reader.get_tensor(name), dtype=np.float32)
        return tensor.T if turned else tensor

    return LazyTensor(name, shape[::-1] if turned else shape, read)


def _open(path: str):
    import tensorflow as tf

    try:
        latest = tf.train.latest_checkpoint(path) if tf.io.gfile.isdir(path) else path
        if latest and tf.io.gfile.exists(f"{latest}.index"):
            return tf.train.load_checkpoint(latest)
        reason = (
            "a folder without a `checkpoint` file" if latest is None else "nothing of that name"
        )
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
    raise FileNotFoundError(
        "A T5 checkpoint must be a prefix such as model.ckpt-1000000 (beside it .index and "
        f".data files) or the folder of one. Received: {path!r}, {reason}. Check the spelling, and "
        "for gs:// the network."
    )


def _config(path: str, shapes: Mapping[str, Shape]) -> EncoderConfig:
    """The numbers, from the shapes of the first block and the number of blocks."""
    blocks = {int(found[1]) for key in shapes if (found := re.match(r"encoder/block_(\d+)/", key))}
    gated = f"{_BLOCK}layer_001/DenseReluDense/wi_0/kernel" in shapes
    inner = f"{_BLOCK}layer_001/DenseReluDense/{'wi_0' if gated else 'wi'}/kernel"
    sizes = [shapes.get(key, ()) for key in (_TABLE, _BIAS, _QUERY, inner)]
    wrong = [
        key
        for key, size in zip((_TABLE, _BIAS, _QUERY, inner), sizes, strict=True)
        if len(size) != 2
    ]
    if wrong:
        raise ValueError(
            "A T5 checkpoint must hold the variables of T5's own code, whose shapes give the "
            f"numbers of the encoder. Received: {path}, which has no matrix {', '.join(wrong)}."
        )
    (vocabulary, hidden), (heads, buckets), (_, width), (_, feedforward) = sizes
    if buckets != _NUM_BUCKETS or width % heads:
        raise ValueError(
            f"{_BIAS} must have the shape (heads, {_NUM_BUCKETS}), and {_QUERY} a width that the "
            f"heads divide. Received: {(heads, buckets)} and {(hidden, width)} in {path}."
        )
    return EncoderConfig(
        num_layers=max(blocks) + 1,
        hidden_dim=hidden,
        num_heads=heads,
        head_dim=width // heads,
        feedforward_dim=feedforward,
        vocabulary_size=vocabulary,
        gated=gated,
        activation="gelu" if gated else "relu",
        num_buckets=buckets,
    )


def _tokenizer(path: str) -> Tokenizer | None:
    """The vocabulary beside the checkpoint, if there is one."""
    import tensorflow as tf

    folder = path if tf.io.gfile.isdir(path) else path.rpartition("/")[0] or "."
    for name in _VOCABULARIES:
        place = f"{folder}/{name}"
        if tf.io.gfile.exists(place):
            with tf.io.gfile.GFile(place, "rb") as file:
                try:
                    return Tokenizer(file.read())
                except ValueError as error:
                    raise ValueError(f"{place}: {error}") from error
    return None
