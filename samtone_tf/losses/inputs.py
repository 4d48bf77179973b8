"""What a loss takes: embeddings, fingerprints and log probabilities of pairs, checked."""

from typing import NamedTuple

import keras
from keras import ops

from samtone_tf.losses.masks import PairIds
from samtone_tf.types import Tensor


class PairLogQ(NamedTuple):
    """Log of the probability that a pair's query, or document, is sampled; each `(B,)` or None."""

    query: Tensor | None = None
    document: Tensor | None = None


class PairVectors(NamedTuple):
    """Embeddings and ids of pairs, of one replica or of the global batch.

    query, document: `(B, D)`. negative: `(B, N, D)` or None. ids: fingerprints for the masks.
    log_q: for losses that correct the sampling bias.
    """

    query: Tensor
    document: Tensor
    negative: Tensor | None = None
    ids: PairIds = PairIds()
    log_q: PairLogQ = PairLogQ()


def make_pairs(
    query: Tensor,
    document: Tensor,
    negative: Tensor | None = None,
    *,
    query_log_q: Tensor | None = None,
    document_log_q: Tensor | None = None,
    **ids: Tensor | None,
) -> PairVectors:
    """Arrays as `PairVectors`, after a check of every shape and type.

    Args:
        query: `(B, D)`.
        document: `(B, D)`.
        negative: `(B, N, D)`, or None.
        query_log_q: `(B,)`, or None.
        document_log_q: `(B,)`, or None.
        ids: `query_id`, `document_id`, `negative_id`, `positive_ids`.
    """
    query, document = ops.convert_to_tensor(query), ops.convert_to_tensor(document)
    negative = None if negative is None else ops.convert_to_tensor(negative)
    check_shapes(query, document, negative)
    num_pairs = tuple(query.shape)[:1]
    slots = None if negative is None else tuple(negative.shape)[:2]
    log_q = PairLogQ(
        make_log_q("query_log_q", query_log_q, num_pairs),
        make_log_q("document_log_q", document_log_q, num_pairs),
    )
    return PairVectors(query, document, negative, make_ids(num_pairs, slots, **ids), log_q)


def check_shapes(query: Tensor, document: Tensor, negative: Tensor | None) -> None:
    """Raises ValueError unless the shapes are `(B, D)`, `(B, D)` and `(B, N, D)` or None."""
    shapes = [tuple(x.shape) for x in (query, document)]
    if len(shapes[0]) != 2 or shapes[0] != shapes[1]:
        raise ValueError(
            "`query` and `document` must both have the shape (B, D). "
            f"Received: query {shapes[0]}, document {shapes[1]}."
        )
    if negative is not None:
        received = tuple(negative.shape)
        if len(received) != 3 or (received[0], received[2]) != shapes[0]:
            raise ValueError(
                f"`negative` must have the shape (B, N, D) with (B, D) = {shapes[0]}. "
                f"Received: negative {received}."
            )


def make_log_q(name: str, value: Tensor | None, pairs: tuple) -> Tensor | None:
    """Log probabilities as float32; ValueError unless they have the shape `pairs`, `(B,)`."""
    if value is None:
        return None
    value = ops.convert_to_tensor(value)
    if tuple(value.shape) != pairs:
        raise ValueError(
            f"`{name}` must hold one log probability for each of the {pairs[0]} pairs. "
            f"Received: shape {tuple(value.shape)}."
        )
    return ops.cast(value, "float32")


def make_ids(pairs: tuple, negatives: tuple | None, **given: Tensor | None) -> PairIds:
    """The fingerprints as int64 tensors.

    Args:
        pairs: `(B,)`.
        negatives: `(B, N)`, or None without hard negatives.
        given: `query_id`, `document_id`, `negative_id`, `positive_ids`; each may be None.

    Raises:
        TypeError: not integers. Floats cannot tell neighbouring fingerprints apart.
        ValueError: a shape that does not fit the embeddings.
    """
    ids = []
    for name, value in given.items():
        if value is None:
            ids.append(None)
            continue
        value = ops.convert_to_tensor(value)
        dtype, shape = keras.backend.standardize_dtype(value.dtype), tuple(value.shape)
        if "int" not in dtype:
            raise TypeError(f"`{name}` must be integers. Received: dtype {dtype}.")
        fits = {
            "negative_id": shape == negatives,
            "positive_ids": len(shape) == 2 and shape[:1] == pairs,
        }
        if not fits.get(name, shape == pairs):
            raise ValueError(
                f"`{name}` does not fit embeddings of {pairs[0]} pairs and "
                f"{negatives[1] if negatives else 0} hard negatives. Received: shape {shape}."
            )
        ids.append(ops.cast(value, "int64"))
    return PairIds(*ids)
