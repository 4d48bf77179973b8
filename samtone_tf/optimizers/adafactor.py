"""Adafactor as T5 has it, which `keras.optimizers.Adafactor` is not."""

from typing import Any

import keras
from keras import ops

from samtone_tf.checks import check_at_least
from samtone_tf.optimizers.factoring import factored_axes, without
from samtone_tf.types import Tensor


@keras.saving.register_keras_serializable("samtone_tf", "Adafactor")
class Adafactor(keras.optimizers.Optimizer):
    """T5's optimizer: Adam's second moment in almost no memory, and no first moment.

    It keeps one number per row and one per column of a large matrix. A step is as long as the
    rate says, in parts of the weight's own size, whatever the scale of the gradient.

    Formula, for step t = 1, 2, ..., gradient G, weight W and rate r:

        b = 1 - t^-decay_exponent                   S = G² + epsilon1
        large matrix:  R = b R + (1 - b) mean of each row of S
                       C = b C + (1 - b) mean of each column of S
                       V = R C / mean(R)
        all others:    V = b V + (1 - b) S
        U = G / √V                                  U = U / max(1, RMS(U) / clip_threshold)
        W = W - r max(epsilon2, RMS(W)) U           without max(...) if not scaled by parameters

    A matrix is large if its two largest dimensions are at least `min_dim_size_to_factor`; any
    further dimension counts matrices. State and arithmetic are float32 whatever the weight's dtype.

    `keras.optimizers.Adafactor` differs: it never goes above a rate of 1/√t, always scales by
    parameters, factors the last two dimensions whatever their size, and keeps V in full.

    Args:
        learning_rate: r, a number or a schedule. T5 is fine-tuned with 1e-3.
        decay_exponent: the higher, the more of the past is kept at once.
        clip_threshold: the largest root mean square of U.
        epsilon1: keeps V above 0, at least 1e-30.
        epsilon2: the size of a weight counts as at least this, so that it can leave 0.
        multiply_by_parameter_scale: whether the step is in parts of the weight's size.
        min_dim_size_to_factor: 128 in T5X and optax, 32 in T5's first code.
        **arguments: those of `keras.optimizers.Optimizer`, such as `clipnorm`.

    Raises:
        ValueError: a number out of its range.

    Reference: Shazeer and Stern 2018, https://arxiv.org/abs/1804.04235.
    """

    def __init__(
        self,
        learning_rate: float | keras.optimizers.schedules.LearningRateSchedule = 1e-3,
        *,
        decay_exponent: float = 0.8,
        clip_threshold: float = 1.0,
        epsilon1: float = 1e-30,
        epsilon2: float = 1e-3,
        multiply_by_parameter_scale: bool = True,
        min_dim_size_to_factor: int = 128,
        **arguments: Any,
    ):
        for name, value in [("decay_exponent", decay_exponent), ("clip_threshold", clip_threshold)]:
            if not value > 0:
                raise ValueError(f"`{name}` must be greater than 0. Received: {name}={value}.")
        check_at_least("epsilon1", epsilon1, 1e-30)  # below it, float32 divides a zero row by 0
        check_at_least("epsilon2", epsilon2, 0)
        check_at_least("min_dim_size_to_factor", min_dim_size_to_factor, 1)
        super().__init__(learning_rate, **arguments)
        self.decay_exponent = decay_exponent
        self.clip_threshold = clip_threshold
        self.epsilon1 = epsilon1
        self.epsilon2 = epsilon2
        self.multiply_by_parameter_scale = multiply_by_parameter_scale
        self.min_dim_size_to_factor = min_dim_size_to_factor

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._moments = [self._add_moments(variable) for variable in variables]

    def _add_moments(self, variable: keras.Variable) -> list[keras.Variable]:
        """[R, C] of a large matrix, [V] of any other weight."""
        shape, name = tuple(variable.shape), variable.path.replace("/", "_")
        axes = self._factored_axes(shape)
        if axes is None:
            return [self.add_variable(shape, dtype="float32", name=f"{name}_moment")]
        return [
            self.add_variable(without(shape, axis), dtype="float32", name=f"{name}_{kind}_moment")
            for axis, kind in zip(axes, ("row", "column"), strict=True)
        ]

    def _factored_axes(self, shape: tuple[int, ...]) -> tuple[int, int] | None:
        """The axis over which R averages, and the one over which C does."""
        return factored_axes(shape, self.min_dim_size_to_factor)

    def update_step(self, gradient, variable, learning_rate):
        """One variable's step; Keras's hook."""
        weight = ops.cast(variable, "float32")
        gradient = ops.cast(gradient, "float32")
        if hasattr(gradient, "indices"):  # a token table's, as a list of rows with repeats
            gradient = ops.zeros_like(weight) + gradient  # their sum, of which the square counts
        moments = self._moments[self._get_variable_index(variable)]
        update = self._normalized(gradient, moments, self._factored_axes(tuple(variable.shape)))
        update = update / ops.maximum(1.0, root_mean_square(update) / self.clip_threshold)
        rate = ops.cast(learning_rate, "float32")
        if self.multiply_by_parameter_scale:
            rate = rate * ops.maximum(self.epsilon2, root_mean_square(weight))
        self.assign(variable, ops.cast(weight - rate * update, variable.dtype))

    def _normalized(
        self, gradient: Tensor, moments: list[keras.Variable], axes: tuple[int, int] | None
    ) -> Tensor:
        """G / √V, after V was brought up to date."""
        squared = ops.square(gradient) + self.epsilon1
        if axes is None:
            return gradient * ops.rsqrt(self._average(moments[0], squared))
        largest, second = axes
        row = self._average(moments[0], ops.mean(squared, axis=largest))
        column = self._average(moments[1], ops.mean(squared, axis=second))
        row, column = ops.expand_dims(row, largest), ops.expand_dims(column, second)
        row = row / ops.mean(row, axis=second, keepdims=True)
        # A row of zeros in a large gradient has a part of the mean that float32 takes for 0, and
        # 0 / √0 is NaN. With this floor no product of these factors, in whichever order
        # TensorFlow rearranges them, is infinite.
        row = ops.maximum(row, 1e-30)
        return gradient * ops.rsqrt(row) * ops.rsqrt(column)

    def _average(self, moment: keras.Variable, value: Tensor) -> Tensor:
        """b moment + (1 - b) value, which is also kept."""
        step = ops.cast(self.iterations + 1, "float32")
        share = ops.power(step, -self.decay_exponent)  # 1 - b, in full precision
        value = (1.0 - share) * moment + share * value
        self.assign(moment, value)
        return value

    def get_config(self):
        """The numbers that make the optimizer again."""
        return {
            **super().get_config(),
            "decay_exponent": self.decay_exponent,
            "clip_threshold": self.clip_threshold,
            "epsilon1": self.epsilon1,
            "epsilon2": self.epsilon2,
            "multiply_by_parameter_scale": self.multiply_by_parameter_scale,
            "min_dim_size_to_factor": self.min_dim_size_to_factor,
        }


def root_mean_square(x: Tensor) -> Tensor:
    """√(mean of the squares) over all numbers of `x`."""
    return ops.sqrt(ops.mean(ops.square(x)))
