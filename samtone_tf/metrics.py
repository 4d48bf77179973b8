"""What a training step reports: running means over the steps since the last reset."""

from collections.abc import Mapping

import keras
from keras import ops

from samtone_tf.types import Tensor

# Rows whose pairwise distances are looked at: for more, the cost would grow with the square.
UNIFORMITY_ROWS = 1024


class StepMetrics:
    """The metrics of one model, updated once per step with numbers of the global batch.

    loss: mean per pair, in nats. accuracy: share of queries whose positive scores highest of
    all columns, hard negatives among them. mrr: mean of 1 / its rank. masked_fraction: share
    of columns masked as false negatives. negatives_per_query: columns that are left, beside
    the positive. temperature: that of the loss after each step, learned or constant.
    alignment, uniformity: see these functions. gradient_norm: Euclidean length of the whole
    gradient before clipping; only training steps have it.
    """

    NAMES = (
        "loss",
        "accuracy",
        "mrr",
        "masked_fraction",
        "negatives_per_query",
        "temperature",
        "alignment",
        "uniformity",
        "gradient_norm",
    )

    def __init__(self):
        self.means = {name: keras.metrics.Mean(name=name) for name in self.NAMES}
        self.first_bad_step = FirstBadStep()

    def all(self) -> list[keras.metrics.Metric]:
        """All of them, for Keras to reset."""
        return [*self.means.values(), self.first_bad_step]

    def update(self, values: Mapping[str, Tensor], num_pairs: Tensor) -> dict[str, Tensor]:
        """Adds one step's numbers to the running means, and returns those."""
        for name, value in values.items():
            self.means[name].update_state(value, sample_weight=num_pairs)
        return {name: self.means[name].result() for name in values}


class FirstBadStep(keras.metrics.Metric):
    """The first step whose loss was not finite, since the last reset; 0 when all were.

    Kept on the device, so that nobody has to wait for each step's loss to name that step.
    """

    def __init__(self, name: str = "first_bad_step"):
        super().__init__(name=name)
        # Every replica sees the same loss.
        self.step = self.add_variable(
            shape=(),
            initializer="zeros",
            dtype="int64",
            aggregation="only_first_replica",
            name="step",
        )

    def update_state(self, loss: Tensor, step: Tensor) -> None:
        """Notes the step, counted from 1, if its loss is the first bad one."""
        kept = ops.convert_to_tensor(self.step)
        is_first = ops.logical_and(kept == 0, ops.logical_not(ops.isfinite(loss)))
        self.step.assign(ops.where(is_first, ops.cast(step, "int64"), kept))

    def result(self) -> Tensor:
        return ops.convert_to_tensor(self.step)


def alignment(query: Tensor, document: Tensor) -> Tensor:
    """How far queries are from their documents: the mean of ‖q_i - d_i‖², from 0 (best) to 4.

    Args:
        query: unit vectors `(B, D)`.
        document: unit vectors `(B, D)`, row by row the positives.

    Reference: Wang and Isola 2020, https://arxiv.org/abs/2005.10242, section 4.1, alpha = 2.
    """
    return ops.mean(ops.sum(ops.square(query - document), axis=-1))


def uniformity(vectors: Tensor) -> Tensor:
    """How evenly vectors cover the sphere: log of the mean of exp(-2 ‖x_i - x_j‖²) over i ≠ j.

    From 0, all in one point, down to about -4, evenly spread in many dimensions. Of more than
    `UNIFORMITY_ROWS` vectors the first so many count, which are a random sample of a shuffled
    batch. A single vector counts as all in one point.

    Args:
        vectors: unit vectors `(B, D)`.

    Reference: Wang and Isola 2020, https://arxiv.org/abs/2005.10242, section 4.1, t = 2.
    """
    vectors = vectors[:UNIFORMITY_ROWS]
    num = ops.shape(vectors)[0]
    cosine = ops.matmul(vectors, ops.transpose(vectors))
    place = ops.arange(num, dtype="int32")
    itself = place[:, None] == place[None, :]
    # Of unit vectors, ‖x - y‖² = 2 - 2 cos(x, y).
    total = ops.sum(ops.where(itself, 0.0, ops.exp(4.0 * (cosine - 1.0))))
    num_pairs = ops.cast(num * (num - 1), "float32")
    return ops.log(ops.where(num_pairs > 0, total / ops.maximum(num_pairs, 1.0), 1.0))
