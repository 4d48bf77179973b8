"""A loss by tiles of rows: the numbers of `loss.rows`, in memory that grows with G and not with G².

A tile is a few local rows against all G columns. The forward pass keeps one number per
row and no logit. The gradient is written by hand around the loop: it makes each tile
again, masks and log-sum-exp included, pulls the rows' upstream gradient back through
that tile alone, and adds what the columns get to a running sum. What the tile is, only
the loss knows, so that every loss whose rows do not depend on each other can be tiled.

TensorFlow's own loop and not `keras.ops.while_loop`, which runs up to ten tiles at once
(it has no `parallel_iterations`) and so needs the memory of ten.
"""

from collections.abc import Callable
from typing import Protocol

import tensorflow as tf
from keras import ops

from samtone_tf.losses.base import RowLosses
from samtone_tf.losses.inputs import PairVectors
from samtone_tf.losses.tiling import TILE_SIZE
from samtone_tf.types import Tensor


class RowLoss(Protocol):
    """Any loss of this package: see `DualEncoderLoss.rows`."""

    def rows(
        self,
        rows: PairVectors,
        columns: PairVectors,
        first_row: Tensor | int = 0,
        temperature: Tensor | float | None = None,
    ) -> RowLosses: ...


def tiled_rows(
    loss: RowLoss,
    rows: PairVectors,
    columns: PairVectors,
    first_row: Tensor | int = 0,
    temperature: Tensor | float | None = None,
    *,
    tile_size: int = TILE_SIZE,
) -> RowLosses:
    """`loss.rows(rows, columns, first_row, temperature)`, at most `tile_size` rows at a time.

    Has first-order gradients with respect to rows, columns, temperature and trainable
    variables of the loss, through `RowLosses.loss` alone.

    Args:
        loss: each row's result may depend on that row and on the columns only.
        rows: the local pairs.
        columns: the pairs of the global batch, the local ones among them.
        first_row: position of the first local pair in the global batch.
        temperature: a tensor where it is learned; None for the loss's own.
        tile_size: the most rows that are compared with all columns at once. On a CPU, time
            hardly depends on it: see benchmarks/loss_memory.py.

    Raises:
        ValueError: `tile_size` below 1.
    """
    if tile_size < 1:
        raise ValueError(f"`tile_size` must be at least 1. Received: tile_size={tile_size}.")
    size = ops.shape(rows.query)[0]  # a tensor where the batch is ragged
    num_tiles = -(-size // tile_size)
    tile = -(-size // num_tiles)  # tiles as even as they come, and little padding
    row_ids, row_log_q = (
        [None if x is None else _split(x, num_tiles, tile) for x in given]
        for given in (rows.ids, rows.log_q)
    )

    def losses_of(i: Tensor, row_vectors: list, shared: list) -> RowLosses:
        """What the loss says of tile i."""
        ids = rows.ids._make([None if x is None else x[i] for x in row_ids])
        log_q = rows.log_q._make([None if x is None else x[i] for x in row_log_q])
        query, document, negative = _fill(columns, shared)
        return loss.rows(
            PairVectors(*_fill(rows, row_vectors), ids, log_q),
            columns._replace(query=query, document=document, negative=negative),
            first_row + i * tile,
            shared[-1] if learned else temperature,
        )

    # What all tiles share: the columns, and the temperature where it has a gradient.
    learned = tf.is_tensor(temperature)

    @tf.custom_gradient
    def run(*vectors: Tensor) -> tuple[tuple[Tensor, ...], Callable]:
        row_vectors = [_split(x, num_tiles, tile) for x in vectors[:num_row_vectors]]
        shared = list(vectors[num_row_vectors:])

        def forward(i, results):
            of_tile = losses_of(i, [x[i] for x in row_vectors], shared)
            return i + 1, results.write(i, tf.stack(of_tile))

        results = tf.TensorArray("float32", num_tiles, element_shape=(len(RowLosses._fields), None))
        results = _loop(num_tiles, forward, results)[0].stack()  # (tiles, fields, tile)
        results = [_join(results[:, k], size) for k in range(len(RowLosses._fields))]

        def gradient(upstream, *_, variables=()):
            upstream = _split(upstream, num_tiles, tile)

            def backward(i, of_rows, of_shared, of_variables):
                inputs = [[x[i] for x in row_vectors], list(map(tf.identity, shared))]
                with tf.GradientTape() as tape:
                    tape.watch(inputs)
                    losses = losses_of(i, *inputs).loss
                found = tape.gradient(
                    losses, [*inputs, list(variables)], upstream[i], tf.UnconnectedGradients.ZERO
                )
                written = [array.write(i, x) for array, x in zip(of_rows, found[0], strict=True)]
                return i + 1, written, _add(of_shared, found[1]), _add(of_variables, found[2])

            of_rows = [
                tf.TensorArray("float32", num_tiles, element_shape=x.shape[1:]) for x in row_vectors
            ]
            of_shared = [tf.zeros_like(x) for x in shared]
            of_variables = [tf.zeros_like(x) for x in variables]
            sums = _loop(num_tiles, backward, of_rows, of_shared, of_variables)
            of_inputs = [_join(array.stack(), size) for array in sums[0]] + sums[1]
            return (of_inputs, sums[2]) if variables else of_inputs

        return tuple(results), gradient

    # float32 from here on, because the gradient of a column is a sum over all tiles.
    given_rows, given_columns = (
        [tf.cast(x, "float32") for x in pairs[:3] if x is not None] for pairs in (rows, columns)
    )
    num_row_vectors = len(given_rows)
    if learned:
        given_columns.append(tf.cast(temperature, "float32"))
    return RowLosses(*run(*given_rows, *given_columns))


def _loop(num_tiles: Tensor | int, body: Callable, *start) -> list:
    """Runs `body(i, *state)` for every tile, one after the other; returns the last state."""
    _, *state = tf.while_loop(
        lambda i, *_: i < num_tiles,
        body,
        (tf.constant(0), *start),
        parallel_iterations=1,
        maximum_iterations=num_tiles,
    )
    return state


def _split(x: Tensor, num_tiles: Tensor | int, tile: Tensor | int) -> Tensor:
    """`(B, …)` as `(tiles, tile, …)`; the rows that are missing are 0, their ids −1."""
    missing = num_tiles * tile - ops.shape(x)[0]
    padding = [[0, missing]] + [[0, 0]] * (len(x.shape) - 1)
    # Their upstream gradient is 0, and their results are cut off.
    x = tf.pad(x, padding, constant_values=-1 if x.dtype.is_integer else 0)
    return tf.reshape(x, (num_tiles, tile, *x.shape[1:]))


def _join(x: Tensor, size: Tensor | int) -> Tensor:
    """`(tiles, tile, …)` as `(B, …)`."""
    return tf.reshape(x, (-1, *x.shape[2:]))[:size]


def _fill(pairs: PairVectors, vectors: list) -> list:
    """`vectors` in the places of query, document and negative; None where `pairs` has None."""
    given = iter(vectors)
    return [None if x is None else next(given) for x in pairs[:3]]


def _add(sums: list, terms: list) -> list:
    return [a + b for a, b in zip(sums, terms, strict=True)]
