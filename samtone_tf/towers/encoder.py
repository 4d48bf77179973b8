"""`T5Encoder`: token ids in, hidden states out; the encoder half of T5 v1.0, v1.1 and Flan.

No decoder is built. Numbers equal those of the original: pre-norm blocks, no
biases, one relative position bias for all blocks, RMS norms in float32.
"""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from samtone_tf.encoder_config import EncoderConfig
from samtone_tf.towers.attention import LOWEST, T5Attention, T5RelativePositionBias, normal
from samtone_tf.towers.dropout import dropout, fold
from samtone_tf.towers.low_rank import dense, train_adapters_only
from samtone_tf.towers.rematerialise import rematerialised
from samtone_tf.types import Tensor


def rms_norm(name: str, dtype) -> keras.layers.Layer:
    """T5's layer norm: no mean, no bias; Keras's layer squares in float32."""
    return keras.layers.RMSNormalization(epsilon=1e-6, dtype=dtype, name=name)


@keras.saving.register_keras_serializable("samtone_tf", "T5FeedForward")
class T5FeedForward(keras.layers.Layer):
    """Position-wise network: wo(f(wi_0 x) * wi_1 x) when gated, wo(f(wi_0 x)) otherwise.

    Call: `states` `(B, L, H)`, `seed` of dropout, integers `(2,)`, or None for none.
    Returns `(B, L, H)`.

    Args:
        hidden_dim: H.
        feedforward_dim: width in the middle (T5's d_ff).
        activation: `"gelu"` (T5's tanh approximation) or `"relu"`.
        gated: True in v1.1 and Flan, False in v1.0.
        dropout: rate, 0 to 1.
        lora_rank: of the adapters of all kernels; 0 for none.
        lora_alpha: what they count, times rank.
    """

    def __init__(
        self,
        hidden_dim,
        feedforward_dim,
        activation,
        gated,
        dropout=0.0,
        lora_rank=0,
        lora_alpha=16.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.hidden_dim = hidden_dim
        self.feedforward_dim = feedforward_dim
        self.activation = activation
        self.gated = gated
        self.dropout = dropout
        self.lora_rank = lora_rank
        self.lora_alpha = lora_alpha

        def kernel(name, width, fan_in):
            initializer = normal(fan_in**-0.5)
            return dense(name, width, initializer, self.dtype_policy, lora_rank, lora_alpha)

        self.wi_0 = kernel("wi_0", feedforward_dim, hidden_dim)
        self.wi_1 = kernel("wi_1", feedforward_dim, hidden_dim) if gated else None
        self.wo = kernel("wo", hidden_dim, feedforward_dim)

    def build(self, input_shape=None):
        self.wi_0.build((None, None, self.hidden_dim))
        if self.gated:
            self.wi_1.build((None, None, self.hidden_dim))
        self.wo.build((None, None, self.feedforward_dim))
        self.built = True

    def call(self, states: Tensor, seed: Tensor | None = None) -> Tensor:
        """`(B, L, H)`, each token by itself."""
        inner = self.wi_0(states)
        gelu = self.activation == "gelu"
        inner = ops.gelu(inner, approximate=True) if gelu else ops.relu(inner)
        if self.gated:
            inner = inner * self.wi_1(states)
        return self.wo(dropout(inner, self.dropout, seed, "inner"))

    def get_config(self):
        """The numbers that make the layer again."""
        return {
            **super().get_config(),
            "hidden_dim": self.hidden_dim,
            "feedforward_dim": self.feedforward_dim,
            "activation": self.activation,
            "gated": self.gated,
            "dropout": self.dropout,
            "lora_rank": self.lora_rank,
            "lora_alpha": self.lora_alpha,
        }


class T5EncoderBlock(keras.layers.Layer):
    """Pre-norm attention and feed-forward, each added to its input.

    Call: `states` `(B, L, H)`, `bias` float32 `(B, heads, L, L)`, `seed` of dropout, integers
    `(2,)`, or None for none. Returns `(B, L, H)`.
    """

    def __init__(self, config: EncoderConfig, **kwargs):
        super().__init__(autocast=False, **kwargs)  # `bias` stays float32
        self.hidden_dim = config.hidden_dim
        self.dropout = config.dropout
        policy = self.dtype_policy
        self.attention_norm = rms_norm("attention_norm", policy)
        self.attention = T5Attention(
            config.hidden_dim,
            config.num_heads,
            config.head_dim,
            config.dropout,
            config.lora_rank,
            config.lora_alpha,
            config.lora_targets,
            dtype=policy,
            name="attention",
        )
        self.feedforward_norm = rms_norm("feedforward_norm", policy)
        self.feedforward = T5FeedForward(
            config.hidden_dim,
            config.feedforward_dim,
            config.activation,
            config.gated,
            config.dropout,
            config.lora_rank if config.lora_targets == "all" else 0,
            config.lora_alpha,
            dtype=policy,
            name="feedforward",
        )

    def build(self, input_shape=None):
        shape = (None, None, self.hidden_dim)
        for layer in (self.attention_norm, self.attention, self.feedforward_norm, self.feedforward):
            layer.build(shape)
        self.built = True

    def call(self, states: Tensor, bias: Tensor, seed: Tensor | None = None) -> Tensor:
        """`(B, L, H)`, the input plus what was learned from it."""
        mixed = self.attention(self.attention_norm(states), bias=bias, seed=seed)
        states = states + dropout(mixed, self.dropout, seed, "attention")
        inner = self.feedforward(self.feedforward_norm(states), seed=seed)
        return states + dropout(inner, self.dropout, seed, "feedforward")


class T5Stack(keras.layers.Layer):
    """Everything of the encoder above the token table: position bias, blocks, final norm.

    It is a layer of its own because the towers of a dual encoder may share it
    without sharing the table, and the other way round. With adapters (`config.lora_rank`)
    nothing else of it trains.

    Call: `states` `(B, L, H)`, `padding_mask` bool `(B, L)`. Returns `(B, L, H)`. In training,
    `seed`, integers `(2,)`, decides every dropout mask; None takes the next of a stream.
    """

    def __init__(self, config: EncoderConfig, **kwargs):
        super().__init__(**kwargs)
        self.hidden_dim = config.hidden_dim
        self.dropout = config.dropout
        self.remat = config.remat
        self.has_adapters = config.lora_rank > 0
        policy = self.dtype_policy
        self.position_bias = T5RelativePositionBias(
            config.num_heads,
            config.hidden_dim,
            config.num_buckets,
            config.max_distance,
            dtype="float32",
            name="position_bias",
        )
        self.blocks = [
            T5EncoderBlock(config, dtype=policy, name=f"block_{i}")
            for i in range(config.num_layers)
        ]
        self.final_norm = rms_norm("final_norm", policy)
        self.seeds = keras.random.SeedGenerator() if self.dropout else None

    def build(self, input_shape=None):
        shape = (None, None, self.hidden_dim)
        for layer in (self.position_bias, *self.blocks, self.final_norm):
            layer.build(shape)
        if self.has_adapters:
            train_adapters_only(self)
        self.built = True

    def call(
        self,
        states: Tensor,
        padding_mask: Tensor,
        training: bool | None = None,
        seed: Tensor | None = None,
    ) -> Tensor:
        """Hidden states `(B, L, H)` of embedded tokens."""
        if not training:
            seed = None
        elif seed is None and self.dropout:
            seed = self.seeds.next()
        bias = self.position_bias(states)
        keys = ops.cast(padding_mask, "bool")[:, None, None, :]
        # `where` and not a sum: lowest + bias would overflow to -inf.
        bias = ops.where(keys, bias, LOWEST)  # (B, heads, L, L)
        states = dropout(states, self.dropout, seed, "embedding")
        for i, block in enumerate(self.blocks):
            run = rematerialised(block) if self.remat and training else block
            states = run(states, bias, seed=fold(seed, f"block_{i}"))
        return dropout(self.final_norm(states), self.dropout, seed, "final")


@keras.saving.register_keras_serializable("samtone_tf", "T5Encoder")
class T5Encoder(keras.layers.Layer):
    """T5's encoder: token ids to one hidden state per token.

    Use it alone to inspect hidden states; `Tower` puts pooling, projection and
    unit length on top. Padding changes nothing: masked tokens are no keys, and
    positions are relative.

    Call: `token_ids` int32 `(B, L)`, `padding_mask` bool `(B, L)`, True on real
    tokens; `training` and `seed` as in `T5Stack`. Returns `(B, L, H)` in the compute
    dtype. States at padded positions are meaningless.

    Args:
        config: a size by name (`"mini"`, `"t5.1.1-base"` …), an `EncoderConfig`,
            or a dict of its fields.
        token_embedding: a table to share with another encoder; None makes one.
        stack: the rest of another encoder to share; None makes one.
            Whoever passes shared parts also rebuilds the sharing on load:
            `get_config` holds numbers only.

    Example:

    >>> import numpy as np
    >>> encoder = T5Encoder("mini")
    >>> encoder(np.array([[5, 6, 1]]), np.ones((1, 3), bool)).shape
    TensorShape([1, 3, 256])

    Reference: Raffel et al. 2020, https://arxiv.org/abs/1910.10683; v1.1: Shazeer 2020,
    https://arxiv.org/abs/2002.05202.
    """

    def __init__(
        self,
        config: str | EncoderConfig | Mapping[str, Any] = "mini",
        token_embedding: keras.layers.Embedding | None = None,
        stack: T5Stack | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.config = EncoderConfig.make(config)
        policy = self.dtype_policy
        self.token_embedding = token_embedding or keras.layers.Embedding(
            self.config.vocabulary_size,
            self.config.hidden_dim,
            embeddings_initializer=normal(1.0),
            dtype=policy,
            name="token_embedding",
        )
        self.stack = stack or T5Stack(self.config, dtype=policy, name="stack")

    def build(self, input_shape=None):
        if not self.token_embedding.built:
            self.token_embedding.build((None, None))
        if not self.stack.built:
            self.stack.build((None, None, self.config.hidden_dim))
        if self.config.lora_rank:
            train_adapters_only(self.token_embedding)
        self.built = True

    def call(
        self,
        token_ids: Tensor,
        padding_mask: Tensor,
        training: bool | None = None,
        seed: Tensor | None = None,
    ) -> Tensor:
        """Hidden states `(B, L, H)` in the compute dtype."""
        states = self.token_embedding(token_ids)
        return self.stack(states, padding_mask=padding_mask, training=training, seed=seed)

    def get_config(self):
        """Its numbers; shared parts are not in it."""
        return {**super().get_config(), "config": self.config.to_dict()}
