"""Rematerialisation: a layer's activations are dropped, and computed again in the backward pass.

Training then keeps one tensor per layer, its input, at the price of about a third more time
(Chen et al. 2016, https://arxiv.org/abs/1604.06174).
"""

from collections.abc import Callable, Sequence

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
            # Masks that follow from a seed alone would be drawn early, and kept for all layers.
            late = None if seed is None else _after(inputs[:1], seed)
            return layer.stateless_call(weights, frozen, *inputs, seed=late)[0]

        states, first = inputs[0], weights
        if weights and keras.backend.backend() == "tensorflow":
            states, *first = _weights_first(states, *weights)
        return keras.remat(run)(first, states, *inputs[1:])

    return call


@ops.custom_gradient
def _weights_first(states: Tensor, *weights: Tensor):
    """The same tensors; on the way back, `states` get their gradient after all weights have.

    Else TensorFlow goes down all layers first, and what the weights' gradients are made of
    waits for the end, layer upon layer.
    """

    def gradient(states_gradient, *weight_gradients):
        return [_after(weight_gradients, states_gradient), *weight_gradients]

    return [states, *weights], gradient


def _after(others: Sequence[Tensor], tensor: Tensor) -> Tensor:
    """The same tensor, which is known only once the others are.

    It depends on them by their data, which XLA keeps to, and of which no compiler knows
    that it is always 0.
    """
    never = ops.any(ops.stack([ops.reshape(x, (-1,))[0] > float("inf") for x in others]))
    return tensor + ops.cast(never, tensor.dtype)
