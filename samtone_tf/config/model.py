"""`ModelConfig`: the two towers, and the weights they start from."""

from dataclasses import dataclass, field, fields
from typing import Literal

from samtone_tf.checks import check_at_least
from samtone_tf.config.parts import check_adapters_train, frozen_parts, shared_parts
from samtone_tf.encoder_config import T5_VOCABULARY_SIZE, EncoderConfig

INITS = {
    "run": "FOLDER (or FILE.keras)",
    "hf": "FOLDER",
    "keras_hub": "PRESET",
    "t5_tf": "PATH",
    "st": "FOLDER",
}
"""Kind of weights to start from → what stands behind it: a run, and published ones."""


def check_init(init: str | None) -> None:
    """Raises ValueError unless `init` is None or KIND:PATH of a kind out of `INITS`."""
    if init is None:
        return
    kind, _, path = init.partition(":")
    if kind not in INITS or not path:
        raise ValueError(
            f"`model.init` must be one of {', '.join(f'{k}:{what}' for k, what in INITS.items())}. "
            f"Received: model.init={init!r}."
        )


@dataclass(frozen=True)
class ModelConfig:
    """The two towers.

    Args:
        size: mini, t5.1.1-small, -base, -large, -xl or -xxl, or the older t5-small, -base,
            -large, -3b or -11b. Unless set, that of the weights to start from, or mini.
        architecture: sde (towers share all), ade_spl (share the projection), ade_ste (share
            the token embedding), ade (share nothing), ade_fte (the same, token embedding
            frozen), or a list of what they share, out of token_embedding, encoder, projection.
            Unless set, that of the weights to start from, or sde.
        embedding_dim: width of the vectors; unless set, that of the weights to start from, 256
            for mini, and 768 for every T5.
        num_layers: blocks, if not the size's.
        hidden_dim: width of the hidden states, if not the size's.
        num_heads: attention heads, if not the size's.
        head_dim: width of one head, if not the size's.
        feedforward_dim: width inside the feed-forward network, if not the size's.
        gated: gated feed-forward network, if not the size's.
        activation: gelu or relu, if not the size's.
        num_buckets: of relative positions, if not the size's.
        max_distance: tokens, beyond which all distances are one, if not the size's.
        vocabulary_size: rows of the token table, if more than the tokenizer needs.
        dropout: rate, 0 to 1; unless set, 0.1 from random weights, that of the run to start
            from, and 0 from published weights.
        dtype: float32 or mixed_bfloat16.
        freeze: parts that do not train, out of token_embedding, encoder, projection; none
            freezes nothing.
        remat: compute each block's activations again in the backward pass instead of keeping
            them; less memory, about a third more time, the same numbers.
        init: weights to start from: hf:FOLDER or hf:ORGANISATION/NAME (Hugging Face),
            keras_hub:PRESET, t5_tf:PATH (T5's TensorFlow files), st:FOLDER
            (sentence-transformers), or run:FOLDER, a run folder or a .keras file. The
            optimizer starts anew.
        lora_rank: of low-rank adapters; beside them the encoder and the token table do not train.
            0 for none; 8 is usual. An export holds no adapters: they are added to the kernels.
        lora_alpha: an adapter counts lora_alpha / lora_rank times.
        lora_targets: the kernels that have one, query_value of the attention, or all.
    """

    size: str | None = None
    architecture: str | list[str] | None = None
    embedding_dim: int | None = None
    num_layers: int | None = None
    hidden_dim: int | None = None
    num_heads: int | None = None
    head_dim: int | None = None
    feedforward_dim: int | None = None
    gated: bool | None = None
    activation: Literal["gelu", "relu"] | None = None
    num_buckets: int | None = None
    max_distance: int | None = None
    vocabulary_size: int | None = None
    dropout: float | None = None
    dtype: Literal["float32", "mixed_bfloat16"] = "float32"
    freeze: str | list[str] = field(default_factory=list)
    remat: bool = False
    init: str | None = None
    lora_rank: int = 0
    lora_alpha: float = 16.0
    lora_targets: Literal["query_value", "all"] = "query_value"

    def __post_init__(self):
        check_init(self.init)
        if self.init is None:
            for name, value in {"size": "mini", "architecture": "sde", "dropout": 0.1}.items():
                if getattr(self, name) is None:
                    object.__setattr__(self, name, value)
        if self.architecture is not None:
            shared_parts(self.architecture)
        frozen = frozen_parts(self.architecture or "sde", self.freeze)
        check_adapters_train(self.lora_rank, frozen)
        if self.size or self.num_layers:  # else they are those of `init`, not known yet
            self.encoder(vocabulary_size=T5_VOCABULARY_SIZE)
        if self.embedding_dim is not None:
            check_at_least("model.embedding_dim", self.embedding_dim, 1)

    def encoder(self, vocabulary_size: int) -> EncoderConfig:
        """The encoder's numbers, for a tokenizer of `vocabulary_size` pieces.

        T5 sizes keep the published table of 32,128 rows, so that published weights fit.
        """
        if self.vocabulary_size:
            vocabulary_size = self.vocabulary_size
        elif self.size != "mini":
            vocabulary_size = max(vocabulary_size, T5_VOCABULARY_SIZE)
        numbers = {item.name: getattr(self, item.name, None) for item in fields(EncoderConfig)}
        return EncoderConfig.make(
            self.size or "mini", **numbers | {"vocabulary_size": vocabulary_size}
        )

    @property
    def vector_dim(self) -> int:
        """D: `embedding_dim`, or the size's default."""
        return self.embedding_dim or (256 if self.size == "mini" else 768)

    @property
    def is_pretrained(self) -> bool:
        """Whether training starts from published weights."""
        return self.init is not None and not self.init.startswith("run:")
