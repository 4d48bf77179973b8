"""Rematerialisation: a layer's activations are dropped, and computed again in the backward pass.

Training then keeps one tensor per layer, its input, at the price of about a third more time
(Chen et al. 2016, https://arxiv.org/abs/1604.06174).
"""

from collections.abc import Callable

import keras
from keras import ops

from samtone_tf.types import Tensor


def rematerialised(layer: keras.layers.Layer) -> Callable[..., Tensor]:
    """The same layer, of which a gradient keeps the arguments and no activation.

    The layer runs twice, so its output must follow from its arguments and weights alone:
    dropout from `seed`, and no state that a call changes.

    Args:
        layer: built; called with floating tensors by position, which get a gradient, and
            with `seed`, integers `(2,)` or None.
    """
    # Weights are arguments, too: what runs twice is a pure function, on every backend.
    weights = [ops.copy(v.value) for v in layer.trainable_variables]  # tensors, not variables
    frozen = [ops.stop_gradient(v.value) for v in layer.non_trainable_variables]

    def call(*inputs: Tensor, seed: Tensor | None = None) -> Tensor:
        def run(weights, *inputs):
            return layer.stateless_call(weights, frozen, *inputs, seed=_after(inputs[0], seed))[0]

        return keras.remat(run)(weights, *inputs)

    return call


def _after(inputs: Tensor, seed: Tensor | None) -> Tensor | None:
    """The same seed, which is known only once the inputs are.

    Masks that follow from a seed alone would be drawn once and early, and kept for all layers.
    """
    if seed is None:
        return None
    never = ops.reshape(inputs, (-1,))[0] > float("inf")
    return seed + ops.cast(never, seed.dtype)
