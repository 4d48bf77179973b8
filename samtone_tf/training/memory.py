"""What a training step is expected to hold in memory at its peak, from sizes alone.

A sum, meant to say before the first step whether a batch fits: within 15 % of what was measured
on a CPU for t5.1.1-small and -base in float32, and a quarter elsewhere (benchmarks/README.md).
XLA and a GPU's own libraries need more or less than that.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from samtone_tf.encoder_config import EncoderConfig
from samtone_tf.losses.tiling import MOST_LOGITS, TILE_SIZE
from samtone_tf.optimizers.factoring import factored_axes
from samtone_tf.training.shapes import Weight

if TYPE_CHECKING:
    from samtone_tf.dual_encoder import DualEncoder


class Batch(NamedTuple):
    """The texts of one step on one device."""

    num_pairs: int
    query_length: int
    document_length: int
    num_negatives: int = 0
    num_replicas: int = 1


class StepMemory(NamedTuple):
    """Bytes on each device.

    Args:
        weights: of the model, and their copies where the encoder computes in bfloat16.
        gradients: of the weights that train, while they are gathered.
        slots: what the optimizer keeps between steps.
        activations: what the forward pass leaves for the way back, and the way back needs.
        loss: logits and what is made of them.
        update: gradients and what the optimizer makes of them, when activations are gone.
    """

    weights: int
    gradients: int
    slots: int
    activations: int
    loss: int
    update: int

    @property
    def total(self) -> int:
        """The most at once: on the way back or, after it, in the optimizer's update."""
        way_back = self.gradients + self.activations + self.loss
        return self.weights + self.slots + max(way_back, self.update)


def step_memory(
    model: "DualEncoder",
    num_pairs: int,
    query_length: int,
    document_length: int,
    num_negatives: int = 0,
    gradient_cache_chunk: int | None = None,
    num_replicas: int = 1,
) -> StepMemory:
    """Expected memory of one training step of a model that is there.

    Args:
        model: built, and its optimizer, too.
        num_pairs: rows of this device's batch.
        query_length: tokens of a query.
        document_length: tokens of a document.
        num_negatives: hard negatives per query.
        gradient_cache_chunk: pairs that are encoded at a time; None encodes all at once.
        num_replicas: devices that each have as many rows.
    """
    trainable = {id(variable) for variable in model.trainable_variables}
    weights = [Weight(v.path, tuple(v.shape), id(v) in trainable) for v in model.weights]
    found = expected_memory(
        weights,
        model.encoder_config,
        type(model.optimizer).__name__.lower(),
        Batch(num_pairs, query_length, document_length, num_negatives, num_replicas),
        gradient_cache_chunk,
        compute_bytes=2 if model.dtype_policy.compute_dtype == "bfloat16" else 4,
    )
    return found._replace(slots=_size(model.optimizer.variables))  # of any optimizer


def expected_memory(
    weights: Sequence[Weight],
    encoder: EncoderConfig,
    optimizer: str,
    batch: Batch,
    gradient_cache_chunk: int | None = None,
    compute_bytes: int = 4,
) -> StepMemory:
    """The same for a model that is not there.

    Args:
        weights: the model's variables, all float32.
        encoder: its encoder's numbers.
        optimizer: `"adafactor"`, `"adam"`, or another one, which then has no slots here.
        batch: of one device.
        gradient_cache_chunk: pairs that are encoded at a time; None encodes all at once.
        compute_bytes: of a number inside the encoder, 2 for bfloat16.
    """
    numbers = sum(weight.size for weight in weights)
    sizes = [weight.size for weight in weights if weight.trains]
    trainable = sum(sizes)
    rows = gradient_cache_chunk or batch.num_pairs
    per_pair = sum(
        num_texts * activations_per_text(encoder, length, compute_bytes)
        for num_texts, length in (
            (1, batch.query_length),
            (1 + batch.num_negatives, batch.document_length),
        )
    )
    # With chunks: the sum before and after a chunk, the gradient of that chunk, and a part of
    # them that is waiting or not yet given back.
    copies = 1 if gradient_cache_chunk is None else 3.5
    columns = batch.num_pairs * batch.num_replicas * (1 + batch.num_negatives)
    return StepMemory(
        numbers * (4 if compute_bytes == 4 else 4 + compute_bytes),
        # A token table's gradient is there twice, as the rows that were read and as their sum.
        int(4 * (copies * trainable + max(sizes, default=0))),
        slot_memory(optimizer, weights),
        rows * per_pair,
        loss_memory(batch.num_pairs, columns),
        int(4 * _UPDATE.get(optimizer, 2) * trainable),
    )


def slot_memory(optimizer: str, weights: Sequence[Weight]) -> int:
    """Bytes that an optimizer keeps between steps, for the weights that train."""
    numbers = 0
    for weight in weights:
        if weight.trains and optimizer == "adam":
            numbers += 2 * weight.size
        elif weight.trains and optimizer == "adafactor":
            axes = factored_axes(weight.shape)
            kept = weight.shape if axes is None else [weight.size // weight.shape[a] for a in axes]
            numbers += math.prod(kept) if axes is None else sum(kept)
    return 4 * numbers


def loss_memory(num_rows: int, num_columns: int) -> int:
    """Bytes of a loss and its gradient, by ten blocks of logits (benchmarks/loss_memory.py)."""
    if num_rows * num_columns > MOST_LOGITS:
        num_rows = TILE_SIZE
    return 10 * 4 * num_rows * num_columns


def activations_per_text(config: EncoderConfig, length: int, compute_bytes: int = 4) -> int:
    """Bytes that the forward pass of one text leaves for the backward pass, at its peak.

    Counted for one token. Each block keeps its input and the two stages of each norm, the
    heads of query, key and value and their mix, the attention weights, and what the gated
    activation goes through; dropout keeps masks and the thinned weights. Where query and value
    alone have adapters, the other kernels at rest need no inputs. Outside the blocks there
    are embeddings and the last norm. On the way back, one block at a time has gradients of
    its own; with `remat`, all of its activations.
    """
    hidden, inner = config.hidden_dim, config.num_heads * config.head_dim
    feedforward, weights = config.feedforward_dim, config.num_heads * length
    stages = {"gelu": 5, "relu": 1}[config.activation] + (2 if config.gated else 0)
    kept = 4 * (6 * hidden + weights) + compute_bytes * (4 * inner + stages * feedforward)
    outside = 4 * 3 * hidden
    if config.dropout:
        kept += 2 * hidden + (1 + compute_bytes) * feedforward + (3 + 2 * compute_bytes) * weights
        outside += 2 * 5 * hidden
    if config.lora_rank and config.lora_targets == "query_value":
        kept -= compute_bytes * (hidden + inner + feedforward)
    if config.remat:  # four tensors as wide as its input, and four fifths of one block in its turn
        per_block = 4 * compute_bytes * hidden
        return length * (config.num_layers * per_block + kept * 4 // 5 + 4 * 4 * weights)
    on_the_way_back = 4 * (2 * hidden + 3 * weights) + compute_bytes * 2 * feedforward
    return length * (config.num_layers * kept + outside + on_the_way_back)


def as_size(size: float) -> str:
    """Bytes for people: MB, or GB from a billion on."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


_UPDATE = {"sgd": 2, "adafactor": 3, "adam": 3.5}
"""Numbers for each that trains, while the optimizer works: its gradient and what is made of it."""

_ITEM_BYTES = {"float32": 4, "int32": 4, "uint32": 4, "int64": 8, "bfloat16": 2}


def _size(variables: list) -> int:
    return sum(math.prod(v.shape) * _ITEM_BYTES[v.dtype] for v in variables)
