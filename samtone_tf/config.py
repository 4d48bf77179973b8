"""What a run is made of, as frozen dataclasses: typed, printable, and checked when they are made.

Only numbers, strings and lists live here, so that a configuration can be a YAML
file, command-line flags, or the `config.yaml` of a run folder. No Keras here.
"""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from samtone_tf.checks import (
    check_at_least,
    check_choice,
    check_same_tower,
    check_temperature,
)
from samtone_tf.encoder_config import T5_VOCABULARY_SIZE, EncoderConfig

ARCHITECTURES: dict[str, tuple[str, ...]] = {
    "sde": ("token_embedding", "encoder", "projection"),
    "ade_spl": ("projection",),
    "ade": (),
}
"""Architecture → the parts that the two towers share (Dong et al. 2022)."""

PARTS = ARCHITECTURES["sde"]
"""What two towers can share; `"encoder"` is all of T5 above its token table."""

MASKS = ("id", "text", "positives")

STRATEGIES = ("auto", "one", "mirrored", "multiworker", "tpu")


def shared_parts(architecture: str | list[str] | tuple[str, ...]) -> tuple[str, ...]:
    """The parts that two towers share, in the order of `PARTS`.

    Args:
        architecture: `"sde"`, `"ade_spl"`, `"ade"`, or the parts themselves.

    Raises:
        ValueError: unknown name or part.
    """
    if isinstance(architecture, str):
        if architecture not in ARCHITECTURES:
            raise ValueError(
                f"`architecture` must be one of {', '.join(ARCHITECTURES)}, or a list of shared "
                f"parts out of {', '.join(PARTS)}. Received: architecture={architecture!r}."
            )
        return ARCHITECTURES[architecture]
    unknown = [part for part in architecture if part not in PARTS]
    if unknown:
        raise ValueError(
            f"`architecture` may list the shared parts {', '.join(PARTS)}. "
            f"Received: {', '.join(map(repr, unknown))}."
        )
    return tuple(part for part in PARTS if part in architecture)


def mask_rules(masks: str | list[str] | tuple[str, ...]) -> tuple[str, ...]:
    """The false-negative rules as a tuple; a string is split at commas, `"none"` and `""` are none.

    Raises:
        ValueError: a rule that is none of `id`, `text`, `positives`.
    """
    if isinstance(masks, str):
        masks = [name.strip() for name in masks.split(",") if name.strip()]
    masks = [name for name in masks if name != "none"]
    for name in masks:
        if name not in MASKS:
            raise ValueError(
                f"`masks` may hold {', '.join(MASKS)} or be none. Received: {name!r} in {masks}."
            )
    return tuple(name for name in MASKS if name in masks)


@dataclass(frozen=True)
class DataConfig:
    """Where the pairs come from and how they are cut into tokens.

    Args:
        source: beir:FOLDER, pairs:FILE (jsonl, tsv, csv) or docstrings.
        split: whose judgements are the training pairs.
        query_length: tokens of a query, the end token included.
        document_length: tokens of a document, the end token included.
        num_negatives: hard negatives per query, taken from the source.
        max_positives: known positives per query that the masks can use.
        vocabulary: SentencePiece model file (.spm, .model); none trains one on the texts.
        vocabulary_size: pieces of the vocabulary that is trained; a small corpus gets fewer.
    """

    source: str = "docstrings"
    split: str = "train"
    query_length: int = 64
    document_length: int = 256
    num_negatives: int = 0
    max_positives: int = 16
    vocabulary: str | None = None
    vocabulary_size: int = 8000

    def __post_init__(self):
        check_at_least("data.query_length", self.query_length, 2)
        check_at_least("data.document_length", self.document_length, 2)
        check_at_least("data.num_negatives", self.num_negatives, 0)
        check_at_least("data.max_positives", self.max_positives, 1)
        check_at_least("data.vocabulary_size", self.vocabulary_size, 16)


@dataclass(frozen=True)
class ModelConfig:
    """The two towers.

    Args:
        size: mini, t5.1.1-small, t5.1.1-base, t5.1.1-large, t5.1.1-xl or t5.1.1-xxl.
        architecture: sde (towers share all), ade_spl (share the projection), ade (share
            nothing), or a list out of token_embedding, encoder, projection.
        embedding_dim: width of the vectors; 768 for T5 sizes and 256 for mini unless set.
        num_layers: blocks, if not the size's.
        hidden_dim: width of the hidden states, if not the size's.
        num_heads: attention heads, if not the size's.
        head_dim: width of one head, if not the size's.
        feedforward_dim: width inside the feed-forward network, if not the size's.
        dropout: rate, 0 to 1.
        dtype: float32 or mixed_bfloat16.
    """

    size: str = "mini"
    architecture: str | list[str] = "sde"
    embedding_dim: int | None = None
    num_layers: int | None = None
    hidden_dim: int | None = None
    num_heads: int | None = None
    head_dim: int | None = None
    feedforward_dim: int | None = None
    dropout: float = 0.1
    dtype: Literal["float32", "mixed_bfloat16"] = "float32"

    def __post_init__(self):
        shared_parts(self.architecture)
        self.encoder(vocabulary_size=T5_VOCABULARY_SIZE)
        if self.embedding_dim is not None:
            check_at_least("model.embedding_dim", self.embedding_dim, 1)

    def encoder(self, vocabulary_size: int) -> EncoderConfig:
        """The encoder's numbers, for a tokenizer of `vocabulary_size` pieces.

        T5 sizes keep the published table of 32,128 rows, so that published weights fit.
        """
        if self.size != "mini":
            vocabulary_size = max(vocabulary_size, T5_VOCABULARY_SIZE)
        return EncoderConfig.make(
            self.size,
            vocabulary_size=vocabulary_size,
            num_layers=self.num_layers,
            hidden_dim=self.hidden_dim,
            num_heads=self.num_heads,
            head_dim=self.head_dim,
            feedforward_dim=self.feedforward_dim,
            dropout=self.dropout,
        )

    @property
    def vector_dim(self) -> int:
        """D: `embedding_dim`, or the size's default."""
        return self.embedding_dim or (256 if self.size == "mini" else 768)


@dataclass(frozen=True)
class LossConfig:
    """The contrastive loss.

    Args:
        name: samtone or in_batch_softmax.
        same_tower: query, document or both: whose same-tower negatives SamToNe adds.
        temperature: divides the cosine; 0.05 suits training from scratch, 0.01 pretrained weights.
        bidirectional: adds the document-to-query loss.
        directions: sum or mean of the two directions.
        masks: false-negative rules, out of id, text, positives; none switches all off.
        negatives_scope: global (hard negatives are columns of every query) or own.
    """

    name: Literal["samtone", "in_batch_softmax"] = "samtone"
    same_tower: Literal["query", "document", "both"] = "query"
    temperature: float = 0.05
    bidirectional: bool = True
    directions: Literal["sum", "mean"] = "sum"
    masks: str | list[str] = field(default_factory=lambda: list(MASKS))
    negatives_scope: Literal["global", "own"] = "global"

    def __post_init__(self):
        check_temperature(self.temperature)
        check_same_tower(self.same_tower, self.bidirectional, self.name == "samtone")
        object.__setattr__(self, "masks", list(mask_rules(self.masks)))


@dataclass(frozen=True)
class TrainConfig:
    """Optimizer and length of the run.

    Args:
        steps: updates of the weights.
        batch_size: pairs of one global batch, over all replicas.
        optimizer: adafactor or adam.
        learning_rate: rate after warm-up; decays linearly to 0 at the last step. Unless
            set, 0.02 for adafactor and 0.001 for adam, which suit training from scratch;
            pretrained weights want 0.001 with adafactor.
        warmup_steps: steps over which the rate grows from 0.
        seed: of the weights, the order of the pairs, and dropout.
        report_every: steps between lines of metrics.jsonl.
        save_every: steps between saved checkpoints.
        save_minutes: of wall time between saved checkpoints, whatever the steps.
        deterministic: the same run gives the same weights to the bit; costs about 1 %.
        jit_compile: compile the step with XLA; needs deterministic=false.
        gradient_cache_chunk: pairs encoded at a time, for batches that do not fit in memory;
            must divide the batch of one replica.
        strategy: one device; mirrored (all GPUs of this machine); multiworker (the machines
            that TF_CONFIG names); tpu; or auto, which takes what it finds.
        tpu: name or address of the TPU, if it is not this machine's.
    """

    steps: int = 1000
    batch_size: int = 256
    optimizer: Literal["adafactor", "adam"] = "adafactor"
    learning_rate: float | None = None
    warmup_steps: int = 0
    seed: int = 0
    report_every: int = 50
    save_every: int = 200
    save_minutes: float = 10.0
    deterministic: bool = True
    jit_compile: bool = False
    gradient_cache_chunk: int | None = None
    strategy: Literal["auto", "one", "mirrored", "multiworker", "tpu"] = "auto"
    tpu: str = ""

    def __post_init__(self):
        for name in ("steps", "report_every", "save_every"):
            check_at_least(f"train.{name}", getattr(self, name), 1)
        if self.jit_compile and self.deterministic:
            raise ValueError(
                "`train.jit_compile` does nothing while `train.deterministic` is true. "
                "Received: both true. Set train.deterministic=false to compile with XLA."
            )
        check_at_least("train.batch_size", self.batch_size, 2)
        if self.gradient_cache_chunk is not None:
            check_at_least("train.gradient_cache_chunk", self.gradient_cache_chunk, 1)
            if self.batch_size % self.gradient_cache_chunk:
                raise ValueError(
                    "`train.gradient_cache_chunk` must divide `train.batch_size`. Received: "
                    f"{self.gradient_cache_chunk}, and a batch of {self.batch_size}."
                )
        check_choice("train.strategy", self.strategy, STRATEGIES)
        check_at_least("train.seed", self.seed, 0)
        check_at_least("train.warmup_steps", self.warmup_steps, 0)
        if not self.save_minutes > 0:
            raise ValueError(
                "`train.save_minutes` must be greater than 0. "
                f"Received: train.save_minutes={self.save_minutes}."
            )
        if self.learning_rate is not None and not self.learning_rate > 0:
            raise ValueError(
                "`train.learning_rate` must be greater than 0. "
                f"Received: train.learning_rate={self.learning_rate}."
            )
        if self.warmup_steps >= self.steps:
            raise ValueError(
                "`train.warmup_steps` must be below `train.steps`. "
                f"Received: warmup_steps={self.warmup_steps}, steps={self.steps}."
            )

    @property
    def peak_rate(self) -> float:
        """`learning_rate`, or the optimizer's default."""
        if self.learning_rate is not None:
            return self.learning_rate
        return {"adafactor": 0.02, "adam": 0.001}[self.optimizer]


@dataclass(frozen=True)
class RunConfig:
    """Everything `train` needs besides the folder it writes.

    Args:
        data: where the pairs come from.
        model: the two towers.
        loss: what is minimised.
        train: optimizer and length of the run.
    """

    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    def to_dict(self) -> dict[str, Any]:
        """Nested plain dict, as `config.yaml` holds it."""
        return asdict(self)
