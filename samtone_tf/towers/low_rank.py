"""Low-rank adapters (LoRA): kernels at rest, beside which a product of two thin ones trains.

A pretrained kernel W stays as it is, and A and B learn what is to be added to it. Optimizer
slots and gradients are then those of A and B, a small part of a per cent of a large encoder.

Reference: Hu et al. 2022, https://arxiv.org/abs/2106.09685.
"""

import keras
from keras import ops

from samtone_tf.types import Tensor

ADAPTER_NAMES = ("lora_a", "lora_b")
"""Names of the variables that train where there are adapters."""


class LowRankDense(keras.layers.Layer):
    """y = x W + (alpha / rank) (x A) B, where A and B train and W does not.

    B begins at 0, so that a new adapter changes nothing; A begins uniform in ±1/√inputs. Its
    kernel has the name that a `Dense` gives it, so weights of either fit the other.

    Call: `inputs` `(..., inputs)`. Returns `(..., width)`.

    Keras's own `Dense.enable_lora` is not used: its file holds the sum and no adapter, so that
    a run could not go on from it to the bit.

    Args:
        width: of the outputs.
        rank: columns of A and rows of B.
        alpha: the product counts alpha / rank times, so that the rate need not change with
            the rank.
        kernel_initializer: of W.
    """

    def __init__(self, width: int, rank: int, alpha: float, kernel_initializer, **kwargs):
        super().__init__(**kwargs)
        self.width = width
        self.rank = rank
        self.scale = alpha / rank
        self.kernel_initializer = kernel_initializer

    def build(self, input_shape):
        """Makes W, A and B."""
        inputs = input_shape[-1]
        self.kernel = self.add_weight(
            name="kernel",
            shape=(inputs, self.width),
            initializer=self.kernel_initializer,
            trainable=False,
        )
        # Made here and not with the layer: it takes no seed from W, which is then the one that
        # a model without adapters would have.
        largest = inputs**-0.5
        uniform = keras.initializers.RandomUniform(-largest, largest)
        self.lora_a = self.add_weight(name="lora_a", shape=(inputs, self.rank), initializer=uniform)
        self.lora_b = self.add_weight(
            name="lora_b", shape=(self.rank, self.width), initializer="zeros"
        )
        self.built = True

    def call(self, inputs: Tensor) -> Tensor:
        """x W + (alpha / rank) (x A) B."""
        low_rank = ops.matmul(ops.matmul(inputs, self.lora_a), self.lora_b)
        return ops.matmul(inputs, self.kernel) + self.scale * low_rank


def dense(
    name: str,
    width: int,
    kernel_initializer: keras.initializers.Initializer,
    policy: keras.DTypePolicy,
    rank: int = 0,
    alpha: float = 16.0,
) -> keras.layers.Layer:
    """A kernel without bias, with an adapter if `rank` is above 0."""
    if rank:
        return LowRankDense(width, rank, alpha, kernel_initializer, dtype=policy, name=name)
    return keras.layers.Dense(
        width, use_bias=False, kernel_initializer=kernel_initializer, dtype=policy, name=name
    )


def train_adapters_only(layer: keras.layers.Layer) -> None:
    """Leaves the adapters of a built layer, and of all inside it, as the only ones that train."""
    for variable in layer.weights:
        variable.trainable = variable.name in ADAPTER_NAMES
