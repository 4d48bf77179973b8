"""Embeddings of the local rows, and the way back: in one pass, or in chunks (gradient caching).

In one pass the tape keeps every activation of the batch. In chunks, the batch is encoded
without a tape; once the loss has given a gradient for each embedding, each chunk is
encoded again under a tape of its own, with the same dropout draws, and its gradient is
added up. Activations are then those of one chunk, however large the batch: this costs one
more forward pass (Gao et al. 2021, https://arxiv.org/abs/2101.06983).

Chunks are loops in the graph, whose size does not grow with their number.
"""

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from samtone_tf.dual_encoder import DualEncoder

SIDES = ("query", "document")

Embeddings = dict[str, tf.Tensor]
PullBack = Callable[[Embeddings], list[tf.Tensor]]
"""Gradient of the embeddings → gradient of each trainable variable, dense."""


def encode_for_training(
    model: DualEncoder, batch: Mapping[str, Any]
) -> tuple[Embeddings, PullBack]:
    """Embeddings with dropout, and the function that takes their gradient to the weights."""
    if model.gradient_cache_chunk is None:
        return _in_one_pass(model, batch)
    return _in_chunks(model, batch, model.gradient_cache_chunk)


def encode(
    model: DualEncoder, batch: Mapping[str, Any], training: bool, chunk: tf.Tensor | int = 0
) -> Embeddings:
    """Embeddings of some rows: `query`, `document` and perhaps `negatives`."""
    seeds = [dropout_seed(model, side, chunk) if training else None for side in SIDES]
    return {
        "query": model.encode_query(batch["query"], training, seeds[0]),
        **model.encode_documents_and_negatives(batch, training, seeds[1]),
    }


def make_text_encoder(
    model: DualEncoder, side: str, jit_compile: bool = False
) -> Callable[[Mapping[str, np.ndarray]], np.ndarray]:
    """A function from tokens `(B, L)` to unit vectors `(B, D)`, without dropout.

    Replicas share the rows, whose number they must divide, and every process gets all
    vectors. Each new shape is compiled, and each shape once.

    Args:
        model: its weights count as they are at each call.
        side: `"query"` or `"document"`.
        jit_compile: let XLA compile; on one device.
    """
    strategy = model.distribute_strategy
    encode = {"query": model.encode_query, "document": model.encode_document}[side]
    num_replicas = strategy.num_replicas_in_sync

    def on_replica(tokens):
        if num_replicas == 1:
            return encode(tokens, training=False)
        size = tokens["token_ids"].shape[0] // num_replicas
        first = replica_id() * size
        vectors = encode({name: x[first : first + size] for name, x in tokens.items()})
        return tf.distribute.get_replica_context().all_gather(vectors, axis=0)

    @tf.function(jit_compile=jit_compile and num_replicas == 1)
    def run(tokens):
        return strategy.run(on_replica, args=(tokens,))

    def to_vectors(tokens: Mapping[str, np.ndarray]) -> np.ndarray:
        found = run({name: tf.constant(x) for name, x in tokens.items()})
        return strategy.experimental_local_results(found)[0].numpy()

    return to_vectors


def dropout_seed(model: DualEncoder, side: str, chunk: tf.Tensor | int) -> tf.Tensor:
    """The seed of one pass: a function of (seed, step, chunk, tower), with nothing carried along.

    `chunk` counts the pieces of the global batch, replica after replica; a replica that
    encodes all at once is one piece. So replicas draw different masks, the same pieces
    draw the same on any number of replicas, and a run that goes on at step k draws what
    the undisturbed run would have drawn.

    Returns:
        int64 `(2,)`.
    """
    # An odd factor: chunks stay apart in all 32 bits.
    spread = tf.cast(chunk, "uint32") * tf.constant(2654435761, "uint32")
    key = tf.constant(zlib.crc32(f"{model.seed} {side}".encode()), "uint32")
    first = tf.cast(tf.bitwise.bitwise_xor(key, spread), "int64")
    return tf.stack([first, tf.cast(model.optimizer.iterations.value, "int64")])


def _in_one_pass(model: DualEncoder, batch: Mapping[str, Any]) -> tuple[Embeddings, PullBack]:
    with tf.GradientTape() as tape:
        local = encode(model, batch, training=True, chunk=replica_id())
    return local, lambda upstream: _gradients(model, tape, local, upstream)


def _in_chunks(
    model: DualEncoder, batch: Mapping[str, Any], chunk_size: int
) -> tuple[Embeddings, PullBack]:
    num_chunks = count_chunks(batch, chunk_size)
    first = replica_id() * num_chunks

    def rows(tensors, i: tf.Tensor):
        return tf.nest.map_structure(lambda x: _chunk(x, i, chunk_size), tensors)

    texts = {name: batch[name] for name in ("query", "document", "negatives") if name in batch}
    local = _forward(model, texts, chunk_size, num_chunks, first, rows)

    def pull_back(upstream: Embeddings) -> list[tf.Tensor]:
        def add_chunk(i, totals):
            with tf.GradientTape() as tape:
                again = encode(model, rows(texts, i), True, chunk=first + i)
            found = _gradients(model, tape, again, rows(upstream, i))
            return i + 1, [total + gradient for total, gradient in zip(totals, found, strict=True)]

        zeros = [tf.zeros_like(variable.value) for variable in model.trainable_variables]
        return _loop(num_chunks, add_chunk, zeros)

    return local, pull_back


def _forward(model, texts, chunk_size: int, num_chunks: int, first, rows) -> Embeddings:
    """All embeddings, chunk after chunk, with nothing kept for a gradient."""

    def encode_chunk(i, arrays):
        found = encode(model, rows(texts, i), True, chunk=first + i)
        return i + 1, {name: arrays[name].write(i, found[name]) for name in arrays}

    shapes = {name: (chunk_size, model.embedding_dim) for name in ("query", "document")}
    if "negatives" in texts:
        num = texts["negatives"]["token_ids"].shape[1]
        shapes["negatives"] = (chunk_size, num, model.embedding_dim)
    arrays = {
        name: tf.TensorArray(tf.float32, num_chunks, element_shape=shape)
        for name, shape in shapes.items()
    }
    arrays = _loop(num_chunks, encode_chunk, arrays)
    num_rows = num_chunks * chunk_size if isinstance(num_chunks, int) else -1
    return {
        name: tf.reshape(array.stack(), (num_rows, *shapes[name][1:]))
        for name, array in arrays.items()
    }


def _loop(num_chunks: int, body: Callable, start):
    """`body(i, state)` for each chunk, one after another; the state at the end."""
    return tf.while_loop(
        lambda i, state: i < num_chunks,
        body,
        (tf.constant(0), start),
        parallel_iterations=1,
        maximum_iterations=num_chunks,
    )[1]


def _gradients(model, tape: tf.GradientTape, outputs: Embeddings, upstream: Embeddings) -> list:
    """Gradient of each trainable variable, as a dense tensor.

    A token table's gradient is a list of rows with repeats; clipping, sums over chunks
    and Adafactor's statistics need their sum.
    """
    weights = [variable.value for variable in model.trainable_variables]
    found = tape.gradient(outputs, weights, output_gradients=upstream, unconnected_gradients="zero")
    return [tf.convert_to_tensor(gradient) for gradient in found]


def _chunk(x: tf.Tensor, i: tf.Tensor, size: int) -> tf.Tensor:
    """Rows i·size to (i + 1)·size; with a size that XLA sees as fixed, as x[a:b] has not."""
    rest = x.shape[1:]
    return tf.slice(x, [i * size, *[0] * len(rest)], [size, *rest])


def count_chunks(batch: Mapping[str, Any], chunk_size: int) -> int | tf.Tensor:
    """Chunks of a replica's rows; a tensor where their number is known at run time only.

    Raises:
        ValueError: the rows are no whole number of chunks (at run time, TensorFlow's
            InvalidArgumentError with the same text).
    """
    message = (
        "`gradient_cache_chunk` must divide the rows of each replica: drop the remainder of the "
        f"data, or change it. Received: gradient_cache_chunk={chunk_size}"
    )
    token_ids = batch["query"]["token_ids"]
    num_rows = token_ids.shape[0]
    if num_rows is None:
        # How TensorFlow splits a dataset over processes.
        num_rows = tf.shape(token_ids)[0]
        check = tf.debugging.assert_equal(num_rows % chunk_size, 0, message=message)
        with tf.control_dependencies([check]):
            return num_rows // chunk_size
    if num_rows % chunk_size:
        raise ValueError(f"{message}, {num_rows} rows.")
    return num_rows // chunk_size


def replica_id() -> tf.Tensor | int:
    """Which replica this is, of those that train together."""
    replica = tf.distribute.get_replica_context()
    return 0 if replica is None else replica.replica_id_in_sync_group
