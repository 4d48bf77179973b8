"""`MaskedMeanPooling`: the mean of the hidden states of real tokens, in float32."""

import keras
from keras import ops

from samtone_tf.types import Tensor


@keras.saving.register_keras_serializable("samtone_tf", "MaskedMeanPooling")
class MaskedMeanPooling(keras.layers.Layer):
    """Mean over real tokens: sum_l m_l x_l / max(1, sum_l m_l).

    Sum and count are float32 in every dtype policy: in bfloat16, 511 ones sum to 512.
    A row with no token at all gives zeros, not NaN.

    Call: `states` `(B, L, H)`, `padding_mask` bool `(B, L)`. Returns float32 `(B, H)`.
    """

    def call(self, states: Tensor, padding_mask: Tensor) -> Tensor:
        states = ops.cast(states, "float32")
        mask = ops.cast(padding_mask, "bool")[:, :, None]
        # `where` and not a product: a padded position may hold inf or NaN.
        total = ops.sum(ops.where(mask, states, ops.zeros_like(states)), axis=1)
        count = ops.sum(ops.cast(mask, "float32"), axis=1)
        return total / ops.maximum(count, 1.0)
