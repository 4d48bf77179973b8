"""Shape of every variable of a dual encoder, and whether it trains, from numbers alone.

So that a model can be counted that this machine could not hold; tests compare with built models.
"""

import math
from typing import NamedTuple

from samtone_tf.checkpoints.source import PROJECTION, encoder_shapes
from samtone_tf.config import frozen_parts, shared_parts
from samtone_tf.encoder_config import EncoderConfig

_ADAPTED = {
    "query_value": ("query", "value"),
    "all": ("query", "key", "value", "output", "wi_0", "wi_1", "wo"),
}


class Weight(NamedTuple):
    """One variable: its name within its tower, its shape, whether it trains."""

    name: str
    shape: tuple[int, ...]
    trains: bool

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return math.prod(self.shape)


def model_shapes(
    config: EncoderConfig,
    architecture: str | list[str] | tuple[str, ...],
    embedding_dim: int,
    freeze: str | list[str] | tuple[str, ...] = (),
) -> list[Weight]:
    """The variables of a `DualEncoder` with these arguments, each of two towers by itself.

    Args:
        config: the encoder's numbers.
        architecture: what the towers share.
        embedding_dim: D.
        freeze: parts that do not train.

    Raises:
        ValueError: unknown architecture or part, or nothing left to train.
    """
    shared, frozen = shared_parts(architecture), frozen_parts(architecture, freeze)
    tower = [
        weight._replace(trains=weight.trains and weight.name.split("/")[0] not in frozen)
        for weight in (
            *_encoder(config),
            Weight(PROJECTION, (config.hidden_dim, embedding_dim), True),
        )
    ]
    own = [weight for weight in tower if weight.name.split("/")[0] not in shared]
    return tower + own


def _encoder(config: EncoderConfig) -> list[Weight]:
    weights = []
    for name, shape in encoder_shapes(config).items():
        weights.append(Weight(name, shape, trains=not config.lora_rank))
        layer, _, variable = name.rpartition("/")
        is_adapted = layer.rpartition("/")[2] in _ADAPTED[config.lora_targets]
        if config.lora_rank and variable == "kernel" and is_adapted:
            inputs, outputs = shape
            weights.append(Weight(f"{layer}/lora_a", (inputs, config.lora_rank), True))
            weights.append(Weight(f"{layer}/lora_b", (config.lora_rank, outputs), True))
    return weights
