"""`Tower`: encoder → masked mean → bias-free projection → unit length. One text, one vector."""

import keras

from samtone_tf.config import PARTS
from samtone_tf.encoder_config import EncoderConfig
from samtone_tf.towers.attention import normal
from samtone_tf.towers.encoder import T5Encoder, T5Stack
from samtone_tf.towers.pooling import MaskedMeanPooling
from samtone_tf.types import Tensor
from samtone_tf.unit_norm import unit_norm


@keras.saving.register_keras_serializable("samtone_tf", "Tower")
class Tower(keras.layers.Layer):
    """One side of a dual encoder (Ni et al. 2022, section 3.1).

    Call: `token_ids` int32 `(B, L)`, `padding_mask` bool `(B, L)`; `training` and `seed` as in
    `T5Stack`. Returns float32 `(B, D)`, rows of length 1 (0 for a row without tokens).

    Args:
        config: what `T5Encoder` takes.
        embedding_dim: D, width of the vectors.
        shared: part name (one of `PARTS`) → layer of another tower to use
            instead of a new one.
    """

    def __init__(
        self,
        config: str | EncoderConfig | dict = "mini",
        embedding_dim: int = 768,
        shared: dict[str, keras.layers.Layer] | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.config = EncoderConfig.make(config)
        self.embedding_dim = embedding_dim
        shared = shared or {}
        token_embedding, stack = shared.get("token_embedding"), shared.get("encoder")
        self.encoder = T5Encoder(
            self.config, token_embedding, stack, dtype=self.dtype_policy, name="encoder"
        )
        self.pooling = MaskedMeanPooling(dtype="float32", name="pooling")
        # float32 in every policy, as t5x_retrieval does: it is small, and
        # everything behind it is compared at a temperature of 0.01.
        self.projection = shared.get("projection") or keras.layers.Dense(
            embedding_dim,
            use_bias=False,
            kernel_initializer=normal(self.config.hidden_dim**-0.5),
            dtype="float32",
            name="projection",
        )

    @property
    def parts(self) -> dict[str, keras.layers.Layer | T5Stack]:
        """Part name → layer, for another tower's `shared`."""
        parts = (self.encoder.token_embedding, self.encoder.stack, self.projection)
        return dict(zip(PARTS, parts, strict=True))

    def build(self, input_shape=None):
        self.encoder.build()
        if not self.projection.built:
            self.projection.build((None, self.config.hidden_dim))
        self.built = True

    def call(
        self,
        token_ids: Tensor,
        padding_mask: Tensor,
        training: bool | None = None,
        seed: Tensor | None = None,
    ) -> Tensor:
        """Unit vectors, float32 `(B, D)`."""
        states = self.encoder(token_ids, padding_mask=padding_mask, training=training, seed=seed)
        pooled = self.pooling(states, padding_mask=padding_mask)
        return unit_norm(self.projection(pooled))

    def get_config(self):
        """Its numbers; shared parts are not in it."""
        return {
            **super().get_config(),
            "config": self.config.to_dict(),
            "embedding_dim": self.embedding_dim,
        }
