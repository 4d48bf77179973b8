"""What a training step is expected to hold in memory at its peak, from sizes alone.

A rough sum, meant to say before the first step whether a batch fits: within a quarter of
what was measured on a CPU (benchmarks/step_memory.py). XLA and a GPU's own libraries need
more or less than that.
"""

import math
from typing import NamedTuple

from samtone_tf.dual_encoder import DualEncoder
from samtone_tf.encoder_config import EncoderConfig
from samtone_tf.losses.tiled import TILE_SIZE
from samtone_tf.tensorflow_step import MOST_LOGITS


class StepMemory(NamedTuple):
    """Bytes on each device."""

    weights: int
    gradients: int
    slots: int
    activations: int
    loss: int

    @property
    def total(self) -> int:
        """All of it at once."""
        return sum(self)


def step_memory(
    model: DualEncoder,
    num_pairs: int,
    query_length: int,
    document_length: int,
    num_negatives: int = 0,
    gradient_cache_chunk: int | None = None,
    num_replicas: int = 1,
) -> StepMemory:
    """Expected memory of one training step on one device.

    Args:
        model: built, and its optimizer, too.
        num_pairs: rows of this device's batch.
        query_length: tokens of a query.
        document_length: tokens of a document.
        num_negatives: hard negatives per query.
        gradient_cache_chunk: pairs that are encoded at a time; None encodes all at once.
        num_replicas: devices that each have as many rows.
    """
    weights = _size(model.weights)
    trainable = _size(model.trainable_variables)
    rows = gradient_cache_chunk or num_pairs
    compute_bytes = 2 if model.dtype_policy.compute_dtype == "bfloat16" else 4
    per_pair = sum(
        num_texts * activations_per_text(model.encoder_config, length, compute_bytes)
        for num_texts, length in ((1, query_length), (1 + num_negatives, document_length))
    )
    # With chunks: the sum before and after a chunk, and the gradient of that chunk.
    copies = 1 if gradient_cache_chunk is None else 3
    return StepMemory(
        weights,
        copies * trainable,
        _size(model.optimizer.variables),
        rows * per_pair,
        loss_memory(num_pairs, num_pairs * num_replicas * (1 + num_negatives)),
    )


def loss_memory(num_rows: int, num_columns: int) -> int:
    """Bytes of a loss and its gradient, by ten blocks of logits (benchmarks/loss_memory.py)."""
    if num_rows * num_columns > MOST_LOGITS:
        num_rows = TILE_SIZE
    return 10 * 4 * num_rows * num_columns


def activations_per_text(config: EncoderConfig, length: int, compute_bytes: int = 4) -> int:
    """Bytes that the forward pass of one text leaves for the backward pass, at its peak.

    Counted in numbers per token. Each block keeps its input and the two stages of each
    norm, the heads of query, key and value and their mix, the attention weights, and what
    the gated activation goes through; dropout keeps a mask of one byte per number, and the
    thinned weights. Outside the blocks there are embeddings and the last norm. On the way
    back, one block at a time has gradients of its own.
    """
    hidden, inner = config.hidden_dim, config.num_heads * config.head_dim
    feedforward, weights = config.feedforward_dim, config.num_heads * length
    stages = {"gelu": 5, "relu": 1}[config.activation] + (2 if config.gated else 0)
    kept = 4 * (6 * hidden + weights) + compute_bytes * (4 * inner + stages * feedforward)
    if config.dropout:
        kept += 2 * hidden + (1 + compute_bytes) * (weights + feedforward)
    one_at_a_time = 0
    if config.remat:  # a block keeps its input, twice more for a while, and the rest in its turn
        one_at_a_time, kept = kept, 3 * compute_bytes * hidden
    outside = 4 * 4 * hidden
    on_the_way_back = 4 * (2 * hidden + 3 * weights) + compute_bytes * 4 * feedforward
    return length * (config.num_layers * kept + one_at_a_time + outside + on_the_way_back)


_ITEM_BYTES = {"float32": 4, "int32": 4, "uint32": 4, "int64": 8, "bfloat16": 2}


def _size(variables: list) -> int:
    return sum(math.prod(v.shape) * _ITEM_BYTES[v.dtype] for v in variables)
