"""The training step under TensorFlow: one loss over the global batch, on any number of replicas.

    1. encode the local rows, in one pass or in chunks (see `tensorflow_encode`);
    2. gather embeddings and ids over the replicas;
    3. loss of the local rows against all G columns, sum / G, and its gradient with
       respect to the local embeddings (the gather's gradient sums over replicas) and to
       the temperature where it is learned;
    4. pull that gradient back through the towers, densify, apply.

The optimizer sums gradients over replicas, so loss and weights are those of one
device with the whole batch (tested with SGD).
"""

import functools
import logging
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from samtone_tf.dual_encoder import DualEncoder, pair_vectors
from samtone_tf.losses.base import RowLosses
from samtone_tf.losses.inputs import PairVectors
from samtone_tf.losses.tiled import tiled_rows
from samtone_tf.losses.tiling import MOST_LOGITS
from samtone_tf.metrics import alignment, uniformity
from samtone_tf.tensorflow_encode import encode, encode_for_training, replica_id


def train_step(model: DualEncoder, batch: Mapping[str, Any]) -> dict[str, tf.Tensor]:
    """One update of the weights from one batch (of this replica).

    Args:
        model: compiled with one of this package's losses.
        batch: see `DualEncoder.call`, with ids; or Keras's `(batch, None, None)`.

    Returns:
        The metrics of the global batch, averaged since the last reset.
    """
    batch = only_batch(batch)
    local, pull_back = encode_for_training(model, batch)
    with tf.GradientTape() as loss_tape:
        loss_tape.watch(local)
        rows, columns = global_loss(model, local, batch)
        # Divided by G and not by B: gradients are summed over replicas later.
        share = tf.reduce_sum(rows.loss) / count_pairs(columns)
    learned = [weight.value for weight in model.learned_temperature.trainable_variables]
    upstream, of_learned = loss_tape.gradient(share, (local, learned))
    gradients = add_of_loss(model, pull_back(upstream), of_learned)
    gradients, norm = clip(model.optimizer, gradients)
    model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    values = {**describe_batch(model, rows, columns), "gradient_norm": norm}
    model.step_metrics.first_bad_step.update_state(values["loss"], model.optimizer.iterations)
    return model.step_metrics.update(values, count_pairs(columns))


def add_of_loss(model: DualEncoder, gradients: list, of_learned: list) -> list:
    """Adds what the loss's own weights got from it to the gradients of all weights."""
    places = {id(weight): place for place, weight in enumerate(model.trainable_variables)}
    learned = model.learned_temperature.trainable_variables
    for weight, gradient in zip(learned, of_learned, strict=True):
        gradients[places[id(weight)]] += gradient
    return gradients


def test_step(model: DualEncoder, batch: Mapping[str, Any]) -> dict[str, tf.Tensor]:
    """The loss of one batch, as `train_step` computes it, without dropout or update."""
    batch = only_batch(batch)
    local = encode(model, batch, training=False)
    rows, columns = global_loss(model, local, batch)
    return model.step_metrics.update(describe_batch(model, rows, columns), count_pairs(columns))


def only_batch(data: Any) -> Mapping[str, Any]:
    """The batch out of what Keras hands to a step.

    Raises:
        ValueError: it came with labels or sample weights, which no loss here uses.
    """
    batch, labels, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    if labels is not None or sample_weight is not None:
        raise ValueError(
            "`fit` takes batches of pairs alone; the pairs are their own labels. "
            "Received: labels or weights as well. Pass a dataset of dicts, and no y, "
            "sample_weight or class_weight."
        )
    return batch


def global_loss(
    model: DualEncoder, local: Mapping[str, tf.Tensor], batch: Mapping[str, Any]
) -> tuple[RowLosses, PairVectors]:
    """Loss of the local rows against the columns of all replicas.

    Returns:
        The rows' losses, and the pairs of the global batch.
    """
    rows = pair_vectors(local, batch)
    columns, first_row = gather(rows)
    if is_large(rows, columns):
        _say_tiled()
        return tiled_rows(model.pair_loss, rows, columns, first_row, model.temperature), columns
    return model.pair_loss.rows(rows, columns, first_row, model.temperature), columns


def count_pairs(columns: PairVectors) -> tf.Tensor:
    """G, as float32."""
    return tf.cast(tf.shape(columns.query)[0], "float32")


def is_large(rows: PairVectors, columns: PairVectors) -> bool:
    """Whether the loss is taken in tiles; a number of rows that is not known counts as small."""
    num_rows, num_columns = rows.query.shape[0], columns.query.shape[0]
    if num_rows is None or num_columns is None:
        return False
    slots = 0 if columns.negative is None else columns.negative.shape[1]
    return num_rows * num_columns * (1 + slots) > MOST_LOGITS


@functools.cache
def _say_tiled() -> None:
    logging.getLogger("samtone_tf").warning(
        "The batch is large: the loss is computed in tiles of rows, in memory that grows with "
        "the batch and not with its square. Its numbers are the same."
    )


def gather(rows: PairVectors) -> tuple[PairVectors, tf.Tensor | int]:
    """The pairs of all replicas, in replica order, and the position of the local ones.

    Differentiable: the gradient of a gathered row comes back to the replica that made it.
    """
    if _num_replicas() == 1:
        return rows, 0
    replica = tf.distribute.get_replica_context()
    size = rows.query.shape[0]
    if size is None:  # a dataset with a ragged last batch: replicas may differ
        sizes = replica.all_gather(tf.shape(rows.query)[:1], axis=0)
        first_row = tf.reduce_sum(sizes[: replica_id()])
    else:
        first_row = replica_id() * size
    num_pairs = None if size is None else size * _num_replicas()
    *vectors, query, document = _gather_together([*rows[:3], *rows.log_q], num_pairs)
    ids = _gather_together(rows.ids, num_pairs)
    log_q = rows.log_q._replace(query=query, document=document)
    return PairVectors(*vectors, rows.ids._make(ids), log_q), first_row


def _gather_together(tensors: Sequence[tf.Tensor | None], num_pairs: int | None) -> list:
    """Each `(B, …)` tensor with the rows of all replicas, in one collective; None stays None.

    They travel side by side as columns of one matrix: TensorFlow's own gather of
    several tensors has no working gradient.
    """
    present = [x for x in tensors if x is not None]
    if not present:
        return list(tensors)
    widths = [math.prod(x.shape[1:]) for x in present]
    matrix = tf.concat(
        [tf.reshape(x, (-1, w)) for x, w in zip(present, widths, strict=True)], axis=1
    )
    gathered = tf.distribute.get_replica_context().all_gather(matrix, axis=0)
    gathered = tf.ensure_shape(gathered, (num_pairs, sum(widths)))  # lost by the gather
    columns = iter(tf.split(gathered, widths, axis=1))
    return [None if x is None else tf.reshape(next(columns), (-1, *x.shape[1:])) for x in tensors]


def clip(
    optimizer: keras.optimizers.Optimizer, gradients: list[tf.Tensor]
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Clips the gradient of the global batch, where Keras would clip each replica's part.

    Returns:
        On several replicas, 1/replicas of the clipped sum, so that the optimizer's own
        clipping finds nothing to do and its sum over replicas is right; and the Euclidean
        length of the whole gradient before clipping.
    """
    if _num_replicas() == 1:
        return gradients, tf.linalg.global_norm(gradients)
    gradients = tf.distribute.get_replica_context().all_reduce("sum", gradients)
    length = tf.linalg.global_norm(gradients)
    if optimizer.clipnorm is not None:
        gradients = [tf.clip_by_norm(g, optimizer.clipnorm) for g in gradients]
    elif optimizer.global_clipnorm is not None:
        gradients, _ = tf.clip_by_global_norm(gradients, optimizer.global_clipnorm, length)
    elif optimizer.clipvalue is not None:
        value = optimizer.clipvalue
        gradients = [tf.clip_by_value(g, -value, value) for g in gradients]
    return [g / _num_replicas() for g in gradients], length


def describe_batch(
    model: DualEncoder, rows: RowLosses, columns: PairVectors
) -> dict[str, tf.Tensor]:
    """The numbers of one global batch by name, the same on every replica."""
    sums = tf.stack([tf.reduce_sum(value) for value in rows])
    if _num_replicas() > 1:
        sums = tf.distribute.get_replica_context().all_reduce("sum", sums)
    means = RowLosses(*tf.unstack(sums / count_pairs(columns)))
    return {
        "loss": means.loss,
        "accuracy": means.correct,
        "mrr": means.reciprocal_rank,
        "masked_fraction": means.masked,
        "negatives_per_query": means.negatives,
        "temperature": tf.convert_to_tensor(model.temperature),
        "alignment": alignment(columns.query, columns.document),
        "uniformity": (uniformity(columns.query) + uniformity(columns.document)) / 2.0,
    }


def spans_processes(model: DualEncoder) -> bool:
    """Whether the model trains in several processes, one or more devices each."""
    return isinstance(model.distribute_strategy, tf.distribute.MultiWorkerMirroredStrategy)


def make_function(model: DualEncoder, step: Callable) -> Callable:
    """What `fit` calls for each step when the model spans processes.

    Keras 3.15 concatenates the replicas' metrics there, which are scalars and cannot be.
    They are equal on all replicas, so their mean is each of them.
    """
    strategy = model.distribute_strategy

    def run(iterator):
        logs = strategy.run(step, args=(iterator.get_next(),))
        return {name: strategy.reduce("MEAN", value, axis=None) for name, value in logs.items()}

    return run if model.run_eagerly else tf.function(run)


def use_full_float32() -> None:
    """Switches TF32 off: it keeps 10 bits of a product, 0.04 in a logit at temperature 0.01.

    Towers that should be fast want the dtype policy mixed_bfloat16 and not this.
    """
    tf.config.experimental.enable_tensor_float_32_execution(False)


def check_replicas(model: DualEncoder) -> None:
    """Says what Keras cannot do on several replicas, before TensorFlow fails in its own words.

    XLA is switched off with a warning. The TPU can do both.

    Raises:
        ValueError: `steps_per_execution` above 1.
    """
    strategy = model.distribute_strategy
    if strategy.num_replicas_in_sync == 1 or isinstance(strategy, tf.distribute.TPUStrategy):
        return
    if model.steps_per_execution > 1:
        raise ValueError(
            f"`steps_per_execution` must be 1 on {strategy.num_replicas_in_sync} replicas of "
            f"{type(strategy).__name__}, where Keras cannot loop over a distributed dataset. "
            f"Received: steps_per_execution={model.steps_per_execution}."
        )
    if model.jit_compile:
        model.jit_compile = False
        warnings.warn(
            "`jit_compile` is switched off: XLA does not work with "
            f"{type(strategy).__name__} and {strategy.num_replicas_in_sync} replicas.",
            stacklevel=2,
        )


def enable_determinism() -> None:
    """Makes every TensorFlow op of this process give the same bits each time; about 1 % slower."""
    tf.config.experimental.enable_op_determinism()


def _num_replicas() -> int:
    return tf.distribute.get_strategy().num_replicas_in_sync
