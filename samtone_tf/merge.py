"""`merged`: a model with low-rank adapters → the same without, with other kernels instead."""

from collections.abc import Mapping
from dataclasses import replace

import keras
import numpy as np
from keras import ops

from samtone_tf.dual_encoder import DualEncoder
from samtone_tf.encoder_config import EncoderConfig

_LORA_FIELDS = ("lora_rank", "lora_alpha", "lora_targets")


def merged(model: DualEncoder) -> DualEncoder:
    """The same model without adapters: each kernel is W + (alpha / rank) A B, in float32.

    It gives the same vectors, up to rounding, at the speed and size of a model that never had
    adapters; what is exported and converted is this. The sum is made in float64 and rounded once.

    Args:
        model: a `DualEncoder`; it is not changed.

    Returns:
        A model that was not compiled, or `model` itself where it has no adapters.

    Example:

    >>> model = DualEncoder(EncoderConfig.make("mini", lora_rank=8))
    >>> merged(model).encoder_config.lora_rank
    0
    """
    config = model.encoder_config
    if not config.lora_rank:
        return model
    defaults = {name: getattr(EncoderConfig, name) for name in _LORA_FIELDS}
    plain = replace(config, **defaults)
    result = DualEncoder.from_config({**model.get_config(), "encoder": plain.to_dict()})
    scale = config.lora_alpha / config.lora_rank
    for side in ("query_tower", "document_tower"):
        theirs = {variable.path: variable for variable in getattr(model, side).weights}
        for variable in getattr(result, side).weights:
            variable.assign(_value(theirs, variable.path, scale))
    return result


def _value(variables: Mapping[str, keras.Variable], path: str, scale: float) -> np.ndarray:
    """The variable at `path`, and what its adapter adds if it has one."""
    value = ops.convert_to_numpy(variables[path])
    layer = path.removesuffix("kernel")
    if f"{layer}lora_a" not in variables:
        return value
    a, b = (
        ops.convert_to_numpy(variables[f"{layer}{name}"]).astype("float64")
        for name in ("lora_a", "lora_b")
    )
    return (value + scale * (a @ b)).astype("float32")
