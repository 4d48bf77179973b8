"""The numbers of a T5 encoder, and the sizes that have a name."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from samtone_tf.checks import check_at_least, check_choice

_ENCODER_DIMS = ("num_layers", "hidden_dim", "num_heads", "head_dim", "feedforward_dim")
_UNGATED = {"gated": False, "activation": "relu"}  # T5 as it was first published
# Raffel et al. 2020 and the t5.1.1 release notes; `mini` is ours, made to train on a laptop's CPU.
SIZES: dict[str, dict[str, Any]] = {
    name: dict(zip(_ENCODER_DIMS, dims[:5], strict=True)) | dict(*dims[5:])
    for name, dims in {
        "mini": (2, 256, 4, 64, 512),
        "t5-small": (6, 512, 8, 64, 2048, _UNGATED),
        "t5-base": (12, 768, 12, 64, 3072, _UNGATED),
        "t5-large": (24, 1024, 16, 64, 4096, _UNGATED),
        "t5-3b": (24, 1024, 32, 128, 16384, _UNGATED),
        "t5-11b": (24, 1024, 128, 128, 65536, _UNGATED),
        "t5.1.1-small": (8, 512, 6, 64, 1024),
        "t5.1.1-base": (12, 768, 12, 64, 2048),
        "t5.1.1-large": (24, 1024, 16, 64, 2816),
        "t5.1.1-xl": (24, 2048, 32, 64, 5120),
        "t5.1.1-xxl": (24, 4096, 64, 64, 10240),
    }.items()
}
"""Encoder sizes by name."""

LORA_TARGETS = ("query_value", "all")

T5_VOCABULARY_SIZE = 32128
"""Rows of the published tables: 32,000 pieces and 100 extra ids, up to a multiple of 128."""


@dataclass(frozen=True)
class EncoderConfig:
    """The numbers of a T5 encoder.

    Args:
        num_layers: blocks.
        hidden_dim: H, width of the hidden states.
        num_heads: attention heads.
        head_dim: width of one head (T5's d_kv).
        feedforward_dim: width inside the feed-forward network (T5's d_ff).
        vocabulary_size: rows of the token table; at least the tokenizer's size.
        gated: gated feed-forward network, as in T5 v1.1 and Flan.
        activation: `"gelu"` (tanh approximation) or `"relu"`.
        num_buckets: relative position buckets.
        max_distance: tokens, beyond which all distances are one.
        dropout: rate, 0 to 1.
        remat: in training, keep the input of each block alone and compute the rest again in
            the backward pass: less memory, about a third more time, the same numbers.
        lora_rank: of low-rank adapters, beside which the rest of the encoder and the token
            table do not train; 0 for none.
        lora_alpha: an adapter counts lora_alpha / lora_rank times.
        lora_targets: the kernels that have one, `"query_value"` of the attention, or `"all"`.
    """

    num_layers: int
    hidden_dim: int
    num_heads: int
    head_dim: int
    feedforward_dim: int
    vocabulary_size: int = T5_VOCABULARY_SIZE
    gated: bool = True
    activation: str = "gelu"
    num_buckets: int = 32
    max_distance: int = 128
    dropout: float = 0.0
    remat: bool = False
    lora_rank: int = 0
    lora_alpha: float = 16.0
    lora_targets: str = "query_value"

    def __post_init__(self):
        for name in ("num_layers", "hidden_dim", "num_heads", "head_dim", "feedforward_dim"):
            check_at_least(name, getattr(self, name), 1)
        check_at_least("vocabulary_size", self.vocabulary_size, 3)
        check_choice("activation", self.activation, ("gelu", "relu"))
        if self.num_buckets < 4 or self.num_buckets % 4:
            raise ValueError(
                "`num_buckets` must be a multiple of 4 (two directions, half of each exact). "
                f"Received: num_buckets={self.num_buckets}."
            )
        check_at_least("max_distance", self.max_distance, self.num_buckets // 4 + 1)
        if not 0 <= self.dropout < 1:
            raise ValueError(f"`dropout` must be in [0, 1). Received: dropout={self.dropout}.")
        self._check_adapters()

    def _check_adapters(self) -> None:
        check_choice("lora_targets", self.lora_targets, LORA_TARGETS)
        inner = self.num_heads * self.head_dim
        largest = min(self.hidden_dim, inner)
        if self.lora_targets == "all":
            largest = min(largest, self.feedforward_dim)
        if not 0 <= self.lora_rank <= largest:
            raise ValueError(
                f"`lora_rank` must be from 0, for no adapters, to {largest}, the smallest side of "
                f"the kernels that have one. Received: lora_rank={self.lora_rank}. 8 is usual."
            )
        if not 0 < self.lora_alpha < math.inf:
            raise ValueError(
                "`lora_alpha` must be greater than 0 and finite. "
                f"Received: lora_alpha={self.lora_alpha}."
            )

    @classmethod
    def make(
        cls, config: "str | EncoderConfig | Mapping[str, Any]", **overrides
    ) -> "EncoderConfig":
        """An `EncoderConfig` from a size's name, a dict of fields, or another one.

        Args:
            config: what to start from.
            overrides: fields to set; None leaves a field as it is.

        Raises:
            ValueError: unknown size or field.
        """
        overrides = {name: value for name, value in overrides.items() if value is not None}
        if isinstance(config, EncoderConfig):
            return replace(config, **overrides)
        if isinstance(config, str):
            if config not in SIZES:
                raise ValueError(
                    f"`size` must be one of {', '.join(SIZES)}, or a dict of numbers. "
                    f"Received: size={config!r}."
                )
            return cls(**{**SIZES[config], **overrides})
        known = {item.name for item in fields(cls)}
        unknown = sorted(set(config) - known)
        if unknown:
            raise ValueError(f"Unknown encoder fields: {unknown}. Known: {sorted(known)}.")
        return cls(**{**config, **overrides})

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain numbers and strings."""
        return asdict(self)
