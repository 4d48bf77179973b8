"""T5 self-attention and its relative position bias (Raffel et al. 2020, section 2.1)."""

import math

import keras
import numpy as np
from keras import ops

from samtone_tf.towers.dropout import dropout
from samtone_tf.towers.low_rank import dense
from samtone_tf.types import Tensor

# float32's lowest finite value, and not -inf: a row whose every key is masked
# (an empty text with no end token) must give numbers, not NaN.
LOWEST = float(np.finfo("float32").min)


def normal(stddev: float) -> keras.initializers.Initializer:
    """T5's initialiser: normal with mean 0, not truncated."""
    return keras.initializers.RandomNormal(mean=0.0, stddev=stddev)


def relative_position_buckets(num_buckets: int, max_distance: int) -> np.ndarray:
    """Bucket of each distance 0 … `max_distance`, for one direction.

    Half of a direction's buckets hold one distance each, the others grow
    logarithmically up to `max_distance`; beyond it everything is one bucket.

    Args:
        num_buckets: buckets of both directions together, an even number.
        max_distance: tokens.

    Returns:
        int32 `(max_distance + 1,)`, values below `num_buckets // 2`.
    """
    per_direction = num_buckets // 2
    max_exact = per_direction // 2
    distance = np.arange(max_distance + 1)
    # In float32 as the original computes it: bucket borders depend on rounding.
    ratio = np.log(np.maximum(distance, 1).astype("float32") / np.float32(max_exact))
    growth = ratio / np.float32(math.log(max_distance / max_exact))
    large = max_exact + (growth * np.float32(per_direction - max_exact)).astype("int32")
    large = np.minimum(large, per_direction - 1)
    return np.where(distance < max_exact, distance, large).astype("int32")


@keras.saving.register_keras_serializable("samtone_tf", "T5RelativePositionBias")
class T5RelativePositionBias(keras.layers.Layer):
    """One learned number per head and bucket of distance, added to the attention logits.

    T5 has one such table, which all blocks share.

    Call: `states` `(B, L, H)`, of which only L matters. Returns float32 `(1, heads, L, L)`.

    Args:
        num_heads: attention heads.
        hidden_dim: H; sets the initialiser's width, H^-1/2.
        num_buckets: buckets of both directions together; 32 in every published T5.
        max_distance: tokens, beyond which all distances are one; 128 in T5.
    """

    def __init__(self, num_heads, hidden_dim, num_buckets=32, max_distance=128, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.hidden_dim = hidden_dim
        self.num_buckets = num_buckets
        self.max_distance = max_distance

    def build(self, input_shape=None):
        self.table = self.add_weight(
            name="embeddings",
            shape=(self.num_buckets, self.num_heads),
            initializer=normal(self.hidden_dim**-0.5),
        )
        self.built = True

    def call(self, states: Tensor) -> Tensor:
        """Float32 `(1, heads, L, L)` for states `(B, L, H)`."""
        buckets = relative_position_buckets(self.num_buckets, self.max_distance)
        positions = ops.arange(ops.shape(states)[1], dtype="int32")
        offset = positions[None, :] - positions[:, None]  # key - query, (L, L)
        distance = ops.minimum(ops.abs(offset), self.max_distance)
        bucket = ops.take(ops.convert_to_tensor(buckets), distance, axis=0)
        after = ops.cast(offset > 0, "int32") * (self.num_buckets // 2)
        table = ops.cast(self.table, "float32")
        bias = ops.take(table, bucket + after, axis=0)  # (L, L, heads)
        return ops.expand_dims(ops.transpose(bias, (2, 0, 1)), 0)

    def get_config(self):
        """The numbers that make the layer again."""
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "hidden_dim": self.hidden_dim,
            "num_buckets": self.num_buckets,
            "max_distance": self.max_distance,
        }


@keras.saving.register_keras_serializable("samtone_tf", "T5Attention")
class T5Attention(keras.layers.Layer):
    """Multi-head self-attention with T5's conventions: no biases, logits not scaled.

    The 1/sqrt(d) of other transformers is folded into the query's initialiser.
    Softmax is float32 whatever the dtype policy.

    Call: `states` `(B, L, H)`, `bias` float32 `(B or 1, heads or 1, L, L)`, which holds
    the position bias and the padding mask, `seed` of dropout, integers `(2,)`, or None for
    none. Returns `(B, L, H)`.

    Args:
        hidden_dim: H.
        num_heads: attention heads.
        head_dim: width of one head (T5's d_kv).
        dropout: rate on the attention weights, 0 to 1.
        lora_rank: of the adapters; 0 for none.
        lora_alpha: what they count, times rank.
        lora_targets: `"query_value"`, or `"all"` four kernels.
    """

    def __init__(
        self,
        hidden_dim,
        num_heads,
        head_dim,
        dropout=0.0,
        lora_rank=0,
        lora_alpha=16.0,
        lora_targets="query_value",
        **kwargs,
    ):
        # No autocast: `bias` is float32 and must stay it; in bfloat16 its lowest is -inf.
        super().__init__(autocast=False, **kwargs)
        self.hidden_dim = hidden_dim
        self.num_heads = num_heads
        self.head_dim = head_dim
        self.dropout = dropout
        self.lora_rank = lora_rank
        self.lora_alpha = lora_alpha
        self.lora_targets = lora_targets
        inner = num_heads * head_dim

        def kernel(name, width, stddev):
            adapted = lora_targets == "all" or name in ("query", "value")
            rank = lora_rank if adapted else 0
            return dense(name, width, normal(stddev), self.dtype_policy, rank, lora_alpha)

        # Separate kernels: T5's Adafactor scales the step of each by its own RMS.
        self.query = kernel("query", inner, (hidden_dim * head_dim) ** -0.5)
        self.key = kernel("key", inner, hidden_dim**-0.5)
        self.value = kernel("value", inner, hidden_dim**-0.5)
        self.output_projection = kernel("output", hidden_dim, inner**-0.5)

    def build(self, input_shape=None):
        inner = self.num_heads * self.head_dim
        for layer in (self.query, self.key, self.value):
            layer.build((None, None, self.hidden_dim))
        self.output_projection.build((None, None, inner))
        self.built = True

    def call(self, states: Tensor, bias: Tensor, seed: Tensor | None = None) -> Tensor:
        """`(B, L, H)`: for each token, a mix of all."""
        num_tokens = ops.shape(states)[1]

        def heads(projected):  # (B, L, heads * d) -> (B, heads, L, d)
            shape = (-1, num_tokens, self.num_heads, self.head_dim)
            return ops.transpose(ops.reshape(projected, shape), (0, 2, 1, 3))

        query, key, value = (
            heads(self.query(states)),
            heads(self.key(states)),
            heads(self.value(states)),
        )
        logits = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))  # (B, heads, L, L)
        logits = ops.cast(logits, "float32") + bias
        # Keras warns of a softmax over one element, which a text of one token is.
        alone = logits.shape[-1] == 1
        weights = ops.ones_like(logits) if alone else ops.softmax(logits, axis=-1)
        weights = dropout(ops.cast(weights, self.compute_dtype), self.dropout, seed, "weights")
        mixed = ops.transpose(ops.matmul(weights, value), (0, 2, 1, 3))
        mixed = ops.reshape(mixed, (-1, num_tokens, self.num_heads * self.head_dim))
        return self.output_projection(mixed)

    def get_config(self):
        """The numbers that make the layer again."""
        return {
            **super().get_config(),
            "hidden_dim": self.hidden_dim,
            "num_heads": self.num_heads,
            "head_dim": self.head_dim,
            "dropout": self.dropout,
            "lora_rank": self.lora_rank,
            "lora_alpha": self.lora_alpha,
            "lora_targets": self.lora_targets,
        }
