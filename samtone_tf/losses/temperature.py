"""`Temperature`: the one weight of a loss, for losses whose temperature is learned."""

import math

import keras
from keras import ops

from samtone_tf.losses.base import DualEncoderLoss
from samtone_tf.types import Tensor


class Temperature(keras.layers.Layer):
    """A temperature in log space that stays within a range; part of the model, not of the loss.

    Formula, for the weight w and the range [smallest, largest]:

        temperature = largest · e^(1 - w),    1 ≤ w ≤ 1 + log(largest / smallest)

    One step of w is one step of -log(temperature), as in CLIP. After each update w is set back
    into its range and not only clipped where it is read: there the gradient would be 0
    outside, and w would never return. w is never below 1 because Adafactor takes steps in parts of
    a weight's size: a plain logarithm is 0 at temperature 1, and would stay there.

    Reference: Radford et al. 2021, section 2.5, https://arxiv.org/abs/2103.00020.
    """

    def __init__(self, **kwargs):
        super().__init__(dtype="float32", **kwargs)
        self.smallest = self.largest = 1.0

    def start(self, loss: DualEncoderLoss) -> None:
        """Begins at the loss's own temperature; without a weight if it is not learned."""
        self.trainable = loss.learn_temperature
        if not loss.learn_temperature:
            return
        self.smallest, self.largest = loss.min_temperature, loss.max_temperature
        if not self.built:
            self.build()
        self.weight.assign(1.0 + math.log(self.largest / loss.temperature))

    def build(self, input_shape=None):
        """Makes the weight; `start` calls it."""
        self.weight = self.add_weight(
            shape=(),
            initializer="ones",
            constraint=self._clamp,
            # The constraint assigns on every replica, where values are equal.
            aggregation="only_first_replica",
            name="weight",
        )
        self.built = True

    def value(self) -> Tensor:
        """The temperature, a float32 scalar."""
        return self.largest * ops.exp(1.0 - ops.convert_to_tensor(self.weight))

    def _clamp(self, weight: Tensor) -> Tensor:
        return ops.clip(weight, 1.0, 1.0 + math.log(self.largest / self.smallest))
