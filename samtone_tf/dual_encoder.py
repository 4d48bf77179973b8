"""`DualEncoder`: two T5 towers and the loss that compares them, as one Keras model.

This is the backend-neutral part. Under TensorFlow, `fit` runs the step of
`tensorflow_step` (global negatives under `tf.distribute`); elsewhere stock `fit`
runs `compute_loss`, where the batch is logically global already.
"""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from samtone_tf.checkpoints.source import Source
from samtone_tf.checks import check_at_least
from samtone_tf.config import check_adapters_train, frozen_parts, shared_parts
from samtone_tf.encoder_config import EncoderConfig
from samtone_tf.losses.base import DualEncoderLoss
from samtone_tf.losses.inputs import PairLogQ, PairVectors
from samtone_tf.losses.masks import PairIds
from samtone_tf.losses.temperature import Temperature
from samtone_tf.metrics import StepMetrics
from samtone_tf.towers.tower import Tower
from samtone_tf.types import Tensor

Tokens = Mapping[str, Tensor]
"""`token_ids` int32 `(B, L)` and `padding_mask` bool `(B, L)`, True on real tokens."""


@keras.saving.register_keras_serializable("samtone_tf", "DualEncoder")
class DualEncoder(keras.Model):
    """Symmetric and asymmetric T5 dual encoders, which differ in what the towers share.

    `"sde"` shares everything, `"ade_spl"` the projection, `"ade_ste"` the token embedding,
    `"ade"` nothing; a list names the shared parts out of `token_embedding`, `encoder`,
    `projection`. `"ade_fte"` shares nothing and freezes the token embedding (Dong et al. 2022).

    Call: a batch dict with `query` and `document` (and optional `negatives`), each
    `{"token_ids": int32 (B, L), "padding_mask": bool (B, L)}`, negatives `(B, N, L)`.
    Returns a dict of float32 unit vectors: `query` `(B, D)`, `document` `(B, D)`,
    `negatives` `(B, N, D)`.

    Train with `compile(optimizer, loss=SamToNe(...))` and `fit(dataset)`, where the
    dataset yields such batches with the ids that masks need (`data.pipeline`). Metrics
    of `compile` are not supported: the step reports those of `StepMetrics`. A temperature
    that the loss learns is a weight of the model.

    Args:
        encoder: a size by name, an `EncoderConfig`, or a dict of its fields. With its
            `lora_rank`, adapters and projection are all that trains; what is at rest starts equal
            in both towers, as frozen parts do. `merge.merged` gives the model without adapters.
        architecture: `"sde"`, `"ade"`, `"ade_spl"`, `"ade_ste"`, `"ade_fte"`, or a list of
            shared parts.
        embedding_dim: D.
        vocabulary_size: rows of the token table, if not the encoder's.
        dropout: rate, if not the encoder's.
        seed: of dropout; two runs with equal seeds draw equal masks.
        gradient_cache_chunk: rows that a replica encodes at a time in training; memory
            follows it and not the batch, at the price of a second forward pass. None
            encodes all at once. TensorFlow only.
        freeze: parts of both towers that do not train. A frozen part that the towers do not
            share starts with equal weights in both, as it would from pretrained ones: a text
            must not become two things before anything was learnt.
        remat: whether the backward pass computes each block's activations again instead of
            keeping them, if not the encoder's: less memory, about a third more time.

    Raises:
        ValueError: unknown size, architecture, part or field; nothing left to train; a float16
            dtype policy.

    Example:

    >>> model = DualEncoder("mini", architecture="ade_spl", embedding_dim=64)
    >>> model.query_tower.projection is model.document_tower.projection
    True

    Reference: Dong et al. 2022, https://arxiv.org/abs/2204.07120; Ni et al. 2022,
    https://arxiv.org/abs/2112.07899.
    """

    def __init__(
        self,
        encoder: str | EncoderConfig | Mapping[str, Any] = "mini",
        architecture: str | list[str] | tuple[str, ...] = "sde",
        embedding_dim: int = 768,
        vocabulary_size: int | None = None,
        dropout: float | None = None,
        seed: int = 0,
        gradient_cache_chunk: int | None = None,
        freeze: str | list[str] | tuple[str, ...] = (),
        remat: bool | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if self.dtype_policy.compute_dtype == "float16":
            raise ValueError(
                "`dtype` must be float32 or mixed_bfloat16. "
                f"Received: dtype={self.dtype_policy.name!r}. T5's activations exceed float16's "
                "largest number, 65504, and become inf."
            )
        check_at_least("embedding_dim", embedding_dim, 1)
        self.encoder_config = EncoderConfig.make(
            encoder, vocabulary_size=vocabulary_size, dropout=dropout, remat=remat
        )
        self.architecture = architecture if isinstance(architecture, str) else list(architecture)
        self.embedding_dim = embedding_dim
        self.seed = seed
        if gradient_cache_chunk is not None:
            check_at_least("gradient_cache_chunk", gradient_cache_chunk, 1)
        self.gradient_cache_chunk = gradient_cache_chunk
        self.freeze = list(frozen_parts(architecture, freeze))
        check_adapters_train(self.encoder_config.lora_rank, tuple(self.freeze))
        shared = shared_parts(architecture)
        make = dict(config=self.encoder_config, embedding_dim=embedding_dim)
        self.query_tower = Tower(**make, dtype=self.dtype_policy, name="query_tower")
        if shared == shared_parts("sde"):
            self.document_tower = self.query_tower
        else:
            parts = {name: self.query_tower.parts[name] for name in shared}
            self.document_tower = Tower(
                **make, shared=parts, dtype=self.dtype_policy, name="document_tower"
            )
        self.learned_temperature = Temperature(name="temperature")
        self.step_metrics = StepMetrics()
        # All sizes are known, so the weights exist at once: nothing has to run
        # on a batch before an optimizer is built or weights are loaded.
        self.build()
        for part in self.freeze:
            self._freeze(part)
        self._start_equal()

    @classmethod
    def from_pretrained(
        cls,
        source: str | Source,
        architecture: str | list[str] | tuple[str, ...] | None = None,
        embedding_dim: int | None = None,
        **arguments,
    ) -> "DualEncoder":
        """A model that starts from published weights.

        Args:
            source: `hf:FOLDER` (or `hf:ORGANISATION/NAME`), `keras_hub:PRESET`, `t5_tf:PATH`,
                `st:FOLDER`, or what `open_source` gave for one, which also has the tokenizer.
            architecture: None is the source's. Both towers start from one that has a single
                tower.
            embedding_dim: D; None is the source's, or 768 where it has no projection: then the
                projection starts from random weights.
            **arguments: further ones of `DualEncoder`, such as `dropout`.

        Raises:
            FileNotFoundError, ValueError: no such checkpoint, none of a T5 encoder, or an
                architecture that shares what the source does not.

        Example:

        >>> model = DualEncoder.from_pretrained("hf:t5-v1_1-base")  # doctest: +SKIP
        """
        from samtone_tf.checkpoints.assign import assign_towers
        from samtone_tf.checkpoints.open import open_source

        if isinstance(source, str):
            source = open_source(source)
        if architecture is None:
            architecture = source.architecture
        if embedding_dim is None:
            embedding_dim = source.query.embedding_dim or 768
        model = cls(source.query.encoder, architecture, embedding_dim, **arguments)
        assign_towers(model.query_tower, model.document_tower, source)
        return model

    def build(self, input_shape=None):
        """Makes the weights; sizes come from the constructor."""
        for tower in (self.query_tower, self.document_tower):
            if not tower.built:
                tower.build()
        self.built = True

    def _freeze(self, part: str) -> None:
        for tower in (self.query_tower, self.document_tower):
            tower.parts[part].trainable = False

    def _start_equal(self) -> None:
        """Gives the towers equal weights where they do not train."""
        pairs = zip(self.query_tower.weights, self.document_tower.weights, strict=True)
        for query, document in pairs:
            if document is not query and not document.trainable:
                document.assign(ops.convert_to_numpy(query))

    def call(self, batch: Mapping[str, Any], training: bool | None = None) -> dict[str, Tensor]:
        return {
            "query": self.encode_query(batch["query"], training=training),
            **self.encode_documents_and_negatives(batch, training=training),
        }

    def encode_query(
        self, tokens: Tokens, training: bool | None = False, seed: Tensor | None = None
    ) -> Tensor:
        """Unit vectors of queries, float32 `(B, D)`."""
        return self._encode(self.query_tower, tokens, training, seed)

    def encode_document(
        self, tokens: Tokens, training: bool | None = False, seed: Tensor | None = None
    ) -> Tensor:
        """Unit vectors of documents, float32 `(B, D)`."""
        return self._encode(self.document_tower, tokens, training, seed)

    def _encode(self, tower: Tower, tokens: Tokens, training, seed) -> Tensor:
        token_ids, padding_mask = tokens["token_ids"], tokens["padding_mask"]
        return tower(token_ids, padding_mask=padding_mask, training=training, seed=seed)

    def encode_documents_and_negatives(
        self,
        batch: Mapping[str, Any],
        training: bool | None = False,
        seed: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """`document` `(B, D)` and, if the batch has them, `negatives` `(B, N, D)`, in one pass."""
        if "negatives" not in batch:
            return {"document": self.encode_document(batch["document"], training, seed)}
        num = batch["negatives"]["token_ids"].shape[1]
        tokens = {}
        for name, positive in batch["document"].items():
            negative = batch["negatives"][name]
            flat = ops.reshape(negative, (-1, negative.shape[-1]))
            tokens[name] = ops.concatenate([positive, flat], axis=0)  # (B + B·N, L)
        vectors = self.encode_document(tokens, training, seed)
        size = ops.shape(batch["document"]["token_ids"])[0]
        negatives = ops.reshape(vectors[size:], (-1, num, self.embedding_dim))
        return {"document": vectors[:size], "negatives": negatives}

    def compile(self, optimizer="rmsprop", loss=None, **arguments):
        """As Keras's; a loss that learns its temperature gives the model one weight more.

        It begins at the loss's `temperature`, unless the model had this very loss before.

        Args:
            optimizer: any of Keras's or this package's.
            loss: one of this package's, such as `SamToNe()`.
            **arguments: further ones of `keras.Model.compile`.
        """
        if isinstance(loss, DualEncoderLoss) and loss is not getattr(self, "loss", None):
            self.learned_temperature.start(loss)
        super().compile(optimizer, loss, **arguments)

    def compile_from_config(self, config):
        """Keras's hook of loading, which it leaves out for a `compile` that is not its own."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def compute_loss(
        self, x=None, y=None, y_pred=None, sample_weight=None, training=True
    ) -> Tensor:
        """Mean loss of a batch that is global as it stands: one device, or a JAX distribution."""
        pairs = pair_vectors(y_pred, x)
        return ops.mean(self.pair_loss.rows(pairs, pairs, 0, self.temperature).loss)

    @property
    def pair_loss(self) -> DualEncoderLoss:
        """The loss given to `compile`.

        Raises:
            TypeError: it is none of this package's.
        """
        if not isinstance(self.loss, DualEncoderLoss):
            raise TypeError(
                "`loss` must compare two towers: an InBatchSoftmax or a SamToNe object, or another "
                "DualEncoderLoss of this package. "
                f"Received: loss={self.loss!r}. Call compile(optimizer, loss=SamToNe())."
            )
        return self.loss

    @property
    def temperature(self) -> Tensor | float:
        """What the loss divides cosines by, learned or as it was given."""
        loss = self.pair_loss
        return self.learned_temperature.value() if loss.learn_temperature else loss.temperature

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """What the step updates and `fit` reports."""
        if keras.backend.backend() != "tensorflow":
            return super().metrics
        return self.step_metrics.all()

    def train_step(self, *args):
        """One update; see `tensorflow_step.train_step`."""
        if keras.backend.backend() != "tensorflow":
            return super().train_step(*args)
        from samtone_tf import tensorflow_step

        return tensorflow_step.train_step(self, *args)

    def test_step(self, *args):
        """Loss of one batch without dropout and without an update."""
        if keras.backend.backend() != "tensorflow":
            return super().test_step(*args)
        from samtone_tf import tensorflow_step

        return tensorflow_step.test_step(self, *args)

    def make_train_function(self, force: bool = False):
        """Keras's hook before the first step: checks what `compile` was given."""
        self._check_compiled()
        if not self._make_multiworker_function("train_function", self.train_step, force):
            super().make_train_function(force)

    def make_test_function(self, force: bool = False):
        """As `make_train_function`, for `evaluate`."""
        self._check_compiled()
        if not self._make_multiworker_function("test_function", self.test_step, force):
            super().make_test_function(force)

    def _make_multiworker_function(self, name: str, step, force: bool) -> bool:
        """Sets the function of `fit` or `evaluate` where Keras's own fails; says if it did."""
        if keras.backend.backend() != "tensorflow":
            return False
        from samtone_tf import tensorflow_step

        if not tensorflow_step.spans_processes(self):
            return False
        if getattr(self, name) is None or force:
            setattr(self, name, tensorflow_step.make_function(self, step))
        return True

    def _check_compiled(self):
        self.pair_loss  # noqa: B018 (raises when it is not ours)
        compiled = self.get_compile_config() or {}
        if any(compiled.get(name) for name in ("metrics", "weighted_metrics", "loss_weights")):
            raise ValueError(
                "`metrics` of compile are not supported, nor are `weighted_metrics` and "
                "`loss_weights`: there are no labels. fit reports "
                f"{', '.join(self.step_metrics.NAMES)}."
            )
        if isinstance(self.optimizer, keras.optimizers.LossScaleOptimizer):
            raise ValueError(
                "`optimizer` must not be a LossScaleOptimizer: the step scales no loss, since "
                "float16 is refused and bfloat16 needs none. Pass the optimizer inside it."
            )
        if keras.backend.backend() == "tensorflow":
            from samtone_tf import tensorflow_step

            tensorflow_step.check_replicas(self)
            tensorflow_step.use_full_float32()

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        # Keras would average the first batch over the replicas to learn its
        # shapes, which fails for masks and ids. Everything here has its shape.
        if self.optimizer is not None and not self.optimizer.built:
            with self.distribute_strategy.scope():
                self.optimizer.build(self.trainable_variables)

    def get_config(self):
        """Plain numbers and strings that make the model again, without its weights."""
        return {
            **super().get_config(),
            "encoder": self.encoder_config.to_dict(),
            "architecture": self.architecture,
            "embedding_dim": self.embedding_dim,
            "seed": self.seed,
            "gradient_cache_chunk": self.gradient_cache_chunk,
            "freeze": self.freeze,
        }


def pair_vectors(embeddings: Mapping[str, Tensor], batch: Mapping[str, Any]) -> PairVectors:
    """Embeddings, ids and log probabilities of the same batch, as the losses take them."""
    ids = PairIds(
        batch.get("query_id"),
        batch.get("document_id"),
        batch.get("negative_id"),
        batch.get("positive_ids"),
    )
    log_q = PairLogQ(batch.get("query_log_q"), batch.get("document_log_q"))
    return PairVectors(
        embeddings["query"], embeddings["document"], embeddings.get("negatives"), ids, log_q
    )
