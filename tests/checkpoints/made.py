"""Made-up checkpoints in memory: wide random weights, so that a wrong place or turn shows."""

import numpy as np

from samtone_tf.checkpoints.source import (
    PROJECTION,
    LazyTensor,
    Source,
    TowerSource,
    encoder_shapes,
)
from samtone_tf.encoder_config import EncoderConfig

NUMBERS = EncoderConfig(
    num_layers=3,
    hidden_dim=16,
    num_heads=2,
    head_dim=6,
    feedforward_dim=24,
    vocabulary_size=64,
)


def arrays(config: EncoderConfig = NUMBERS, embedding_dim: int | None = None, seed: int = 0):
    """Our name → float32 array."""
    random = np.random.default_rng(seed)
    shapes = encoder_shapes(config)
    if embedding_dim:
        shapes[PROJECTION] = (config.hidden_dim, embedding_dim)
    return {
        name: random.normal(1.0 if len(shape) == 1 else 0.0, 0.3, shape).astype("float32")
        for name, shape in shapes.items()
    }


def tower(config: EncoderConfig = NUMBERS, embedding_dim: int | None = None, seed: int = 0):
    """A tower whose tensors are called `their/…`."""
    return TowerSource(
        config,
        {
            name: LazyTensor(f"their/{name}", array.shape, lambda array=array: array)
            for name, array in arrays(config, embedding_dim, seed).items()
        },
    )


def source(**changes) -> Source:
    """A checkpoint of one tower, without projection or tokenizer."""
    one = changes.pop("tower", None) or tower()
    return Source(**{"name": "made:up", "query": one, "document": one, **changes})
