"""What a run is made of, as frozen dataclasses: typed, printable, and checked when they are made.

Only numbers, strings and lists live here, so that a configuration can be a YAML
file, command-line flags, or the `config.yaml` of a run folder. No Keras here.
"""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from samtone_tf.checks import (
    check_alpha,
    check_at_least,
    check_choice,
    check_hinge_margin,
    check_learned_temperature,
    check_same_tower,
    check_similarity_margin,
    check_temperature,
)
from samtone_tf.encoder_config import T5_VOCABULARY_SIZE, EncoderConfig

ARCHITECTURES: dict[str, tuple[str, ...]] = {
    "sde": ("token_embedding", "encoder", "projection"),
    "ade_spl": ("projection",),
    "ade": (),
    "ade_ste": ("token_embedding",),
    "ade_fte": (),
}
"""Architecture → the parts that the two towers share (Dong et al. 2022)."""

FROZEN: dict[str, tuple[str, ...]] = {"ade_fte": ("token_embedding",)}
"""Architecture → the parts that do not train, where its name says so."""

PARTS = ARCHITECTURES["sde"]
"""What two towers can share; `"encoder"` is all of T5 above its token table."""

MASKS = ("id", "text", "positives")

_SOFTMAX = {
    "temperature": 0.05,
    "learn_temperature": False,
    "min_temperature": 0.01,
    "max_temperature": 1.0,
    "log_q": False,
}
_DIRECTIONS = {"bidirectional": True, "directions": "sum"}

LOSSES: dict[str, dict[str, Any]] = {
    "samtone": {"same_tower": "query", **_SOFTMAX, **_DIRECTIONS},
    "in_batch_softmax": {**_SOFTMAX, **_DIRECTIONS},
    "pair": {"alpha": 0.1, "other_queries": False, **_SOFTMAX, **_DIRECTIONS},
    "triplet": {"same_tower": None, "margin": 0.2, "reduction": "hardest", **_DIRECTIONS},
    "gte": _SOFTMAX,
}
"""Loss → the options that it has besides those of every loss, and their defaults."""
STRATEGIES = ("auto", "one", "mirrored", "multiworker", "tpu")


def shared_parts(architecture: str | list[str] | tuple[str, ...]) -> tuple[str, ...]:
    """The parts that two towers share, in the order of `PARTS`.

    Args:
        architecture: a name out of `ARCHITECTURES`, or the parts themselves.

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
    return _parts("architecture", architecture)


def frozen_parts(
    architecture: str | list[str] | tuple[str, ...], freeze: str | list[str] | tuple[str, ...]
) -> tuple[str, ...]:
    """The parts of both towers that do not train, in the order of `PARTS`.

    Args:
        architecture: its name may freeze parts, too (`FROZEN`).
        freeze: the parts, as a list or separated by commas; `"none"` and `""` are none.

    Raises:
        ValueError: unknown part, or nothing left to train.
    """
    if isinstance(freeze, str):
        freeze = [part.strip() for part in freeze.split(",") if part.strip() not in ("", "none")]
    by_name = FROZEN.get(architecture, ()) if isinstance(architecture, str) else ()
    frozen = _parts("freeze", (*by_name, *freeze))
    if frozen == PARTS:
        raise ValueError(
            f"`freeze` must leave a part that trains, out of {', '.join(PARTS)}. "
            f"Received: architecture={architecture!r}, freeze={list(freeze)!r}."
        )
    return frozen


def _parts(argument: str, names: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    unknown = [part for part in names if part not in PARTS]
    if unknown:
        raise ValueError(
            f"`{argument}` may list the parts {', '.join(PARTS)}. "
            f"Received: {', '.join(map(repr, unknown))}."
        )
    return tuple(part for part in PARTS if part in names)


def check_init(init: str | None) -> None:
    """Raises ValueError unless `init` is None or `run:PATH`."""
    if init is None:
        return
    kind, colon, path = init.partition(":")
    if kind != "run" or not colon or not path:
        raise ValueError(
            "`model.init` must be run:FOLDER, a run folder or a .keras file. "
            f"Received: model.init={init!r}."
        )


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
        no_duplicates: no two equal queries or documents in one batch, instead of masking them.
        cache: folder of token ids, reused between runs; unless set, $SAMTONE_CACHE or
            samtone-tf among the user's caches; memory writes nothing.
    """

    source: str = "docstrings"
    split: str = "train"
    query_length: int = 64
    document_length: int = 256
    num_negatives: int = 0
    max_positives: int = 16
    vocabulary: str | None = None
    vocabulary_size: int = 8000
    no_duplicates: bool = False
    cache: str | None = None

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
        architecture: sde (towers share all), ade_spl (share the projection), ade_ste (share
            the token embedding), ade (share nothing), ade_fte (the same, token embedding
            frozen), or a list of what they share, out of token_embedding, encoder, projection.
        embedding_dim: width of the vectors; 768 for T5 sizes and 256 for mini unless set.
        num_layers: blocks, if not the size's.
        hidden_dim: width of the hidden states, if not the size's.
        num_heads: attention heads, if not the size's.
        head_dim: width of one head, if not the size's.
        feedforward_dim: width inside the feed-forward network, if not the size's.
        dropout: rate, 0 to 1.
        dtype: float32 or mixed_bfloat16.
        freeze: parts that do not train, out of token_embedding, encoder, projection; none
            freezes nothing.
        remat: compute each block's activations again in the backward pass instead of keeping
            them; less memory, about a third more time, the same numbers.
        init: weights to start from, as run:FOLDER, a run folder or a .keras file of the same
            size and vocabulary; the optimizer starts anew.
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
    freeze: str | list[str] = field(default_factory=list)
    remat: bool = False
    init: str | None = None

    def __post_init__(self):
        shared_parts(self.architecture)
        frozen_parts(self.architecture, self.freeze)
        check_init(self.init)
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
            remat=self.remat,
        )

    @property
    def vector_dim(self) -> int:
        """D: `embedding_dim`, or the size's default."""
        return self.embedding_dim or (256 if self.size == "mini" else 768)


@dataclass(frozen=True)
class LossConfig:
    """The loss. What is not set gets the loss's default; what the loss has not is refused.

    Args:
        name: samtone, in_batch_softmax, pair, triplet or gte.
        same_tower: query, document or both: whose same-tower negatives samtone (query unless
            set) or triplet (none unless set) adds.
        temperature: divides the cosine; 0.05 unless set, which suits training from scratch;
            pretrained weights want 0.01. All but triplet.
        bidirectional: adds the document-to-query loss, true unless set. All but gte.
        directions: sum, unless set, or mean of the two directions. All but gte.
        masks: false-negative rules, out of id, text, positives; none switches all off.
        negatives_scope: global (hard negatives are columns of every query) or own.
        similarity_margin: masks negatives, too, that are more alike than the positive by this
            much; 0.1 is usual, and none masks nothing.
        similarity_margin_kind: absolute, above s + margin, or relative, above s + margin * |s|,
            where s is the cosine of the pair.
        learn_temperature: learn the temperature, from the one given. All but triplet.
        min_temperature: lowest that is learned, 0.01 unless set.
        max_temperature: highest that is learned, 1 unless set.
        log_q: correct logits by how often a document or query is sampled. All but triplet.
        alpha: share of the passage-centric loss of pair, 0.1 unless set.
        other_queries: whether the passage-centric loss of pair has the other queries, too.
        margin: of triplet, between cosines, 0.2 unless set.
        reduction: of triplet, hardest, unless set, or mean of a row's negatives.
    """

    name: Literal["samtone", "in_batch_softmax", "pair", "triplet", "gte"] = "samtone"
    same_tower: Literal["query", "document", "both"] | None = None
    temperature: float | None = None
    bidirectional: bool | None = None
    directions: Literal["sum", "mean"] | None = None
    masks: str | list[str] = field(default_factory=lambda: list(MASKS))
    negatives_scope: Literal["global", "own"] = "global"
    similarity_margin: float | None = None
    similarity_margin_kind: Literal["absolute", "relative"] = "absolute"
    learn_temperature: bool | None = None
    min_temperature: float | None = None
    max_temperature: float | None = None
    log_q: bool | None = None
    alpha: float | None = None
    other_queries: bool | None = None
    margin: float | None = None
    reduction: Literal["hardest", "mean"] | None = None

    def __post_init__(self):
        check_choice("loss.name", self.name, tuple(LOSSES))
        self._resolve()
        object.__setattr__(self, "masks", list(mask_rules(self.masks)))
        check_similarity_margin(self.similarity_margin, self.similarity_margin_kind)
        if self.temperature is not None:
            check_temperature(self.temperature)
            check_learned_temperature(
                self.temperature,
                self.learn_temperature,
                self.min_temperature,
                self.max_temperature,
            )
        if self.same_tower is not None:
            check_same_tower(self.same_tower, self.bidirectional)
        if self.alpha is not None:
            check_alpha(self.alpha)
        if self.margin is not None:
            check_hinge_margin(self.margin)

    def _resolve(self) -> None:
        """Puts the loss's defaults where nothing is set; refuses what the loss has not."""
        options = LOSSES[self.name]
        for option in dict.fromkeys(name for each in LOSSES.values() for name in each):
            value = getattr(self, option)
            if value is None:
                object.__setattr__(self, option, options.get(option))
            elif option not in options:
                raise ValueError(
                    f"`loss.{option}` is no option of the loss {self.name}, which has "
                    f"{', '.join(options)}. Received: loss.{option}={value!r}. Leave it out."
                )

    @property
    def arguments(self) -> dict[str, Any]:
        """What the constructor of the loss takes."""
        shared = ("masks", "negatives_scope", "similarity_margin", "similarity_margin_kind")
        return {name: getattr(self, name) for name in (*LOSSES[self.name], *shared)}


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
        steps_per_execution: steps that run without coming back to Python; faster where a step is
            short, and on a TPU. Reports and saves wait for the last of them.
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
    steps_per_execution: int = 1
    strategy: Literal["auto", "one", "mirrored", "multiworker", "tpu"] = "auto"
    tpu: str = ""

    def __post_init__(self):
        for name in ("steps", "report_every", "save_every", "steps_per_execution"):
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
class ValidationConfig:
    """Retrieval tests during training, which choose the best checkpoint and may end the run.

    Args:
        split: whose judgements; held_out takes 5 in 100 queries out of training for it; none
            tests nothing. Unless set, dev where the source has it, and none elsewhere.
        every: steps between tests; unless set, a tenth of the run. The last step is tested, too.
        queries: the most queries that are asked, drawn at random from more.
        documents: documents that are searched beside the judged ones, drawn at random, or all;
            of fewer than all, the scores are too high and only to be compared with each other.
        measure: whose highest value makes the best checkpoint.
        patience: tests in a row without a new best value, after which the run ends; unless
            set, it never ends early.
    """

    split: str | None = None
    every: int | None = None
    queries: int = 1000
    documents: int | Literal["all"] = 10_000
    measure: Literal["P@1", "MRR@10", "nDCG@10", "R@100"] = "nDCG@10"
    patience: int | None = None

    def __post_init__(self):
        for name in ("every", "queries", "patience"):
            if getattr(self, name) is not None:
                check_at_least(f"validation.{name}", getattr(self, name), 1)
        if self.documents != "all":
            check_at_least("validation.documents", self.documents, 0)
        if self.patience is not None and self.split == "none":
            raise ValueError(
                "`validation.patience` needs tests to wait for. "
                f"Received: patience={self.patience} and split='none'. Name a split."
            )


@dataclass(frozen=True)
class RunConfig:
    """Everything `train` needs besides the folder it writes.

    Args:
        data: where the pairs come from.
        model: the two towers.
        loss: what is minimised.
        train: optimizer and length of the run.
        validation: retrieval tests during training.
    """

    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    validation: ValidationConfig = field(default_factory=ValidationConfig)

    @property
    def validation_every(self) -> int:
        """Steps between validations: `validation.every`, or a tenth of the run."""
        return self.validation.every or max(1, self.train.steps // 10)

    def to_dict(self) -> dict[str, Any]:
        """Nested plain dict, as `config.yaml` holds it."""
        return asdict(self)


SECTIONS = {
    "data": DataConfig,
    "model": ModelConfig,
    "loss": LossConfig,
    "train": TrainConfig,
    "validation": ValidationConfig,
}
"""Section of a configuration → its class."""
