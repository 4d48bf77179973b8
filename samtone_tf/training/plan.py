"""`plan`: whether a model and a batch fit on a device, from formulas, before anything is built."""

from dataclasses import dataclass, replace
from itertools import combinations

from samtone_tf.checks import check_at_least, check_choice
from samtone_tf.config import STRATEGIES, ModelConfig, frozen_parts
from samtone_tf.training.memory import Batch, StepMemory, expected_memory
from samtone_tf.training.shapes import Weight, model_shapes

DEVICES = {
    "tpu-v2": 8,
    "tpu-v3": 16,
    "tpu-v4": 32,
    "tpu-v5e": 16,
    "tpu-v5p": 95,
    "tpu-v6e": 32,
    "gpu-t4": 16,
    "gpu-l4": 24,
    "gpu-a100-40": 40,
    "gpu-a100-80": 80,
    "gpu-h100": 80,
}
"""Device → GB of memory that one replica has: a core of TPU v2 and v3, a chip of later ones.

Sources: https://cloud.google.com/tpu/docs (page of each version), and the data sheets of NVIDIA's
T4, L4, A100 and H100.
"""

USABLE = 0.9
"""Share of a device's memory that is planned with; the rest is the framework's own."""

OPTIMIZERS = ("adafactor", "adam", "sgd")


@dataclass(frozen=True)
class Setup:
    """What decides how much memory a step takes.

    Args:
        model: the two towers; of its `init` nothing matters here.
        batch: of one replica.
        optimizer: adafactor, adam or sgd.
        chunk: pairs that are encoded at a time; None encodes all at once.
        vocabulary_size: pieces of the tokenizer.
    """

    model: ModelConfig
    batch: Batch
    optimizer: str
    chunk: int | None
    vocabulary_size: int

    def weights(self) -> list[Weight]:
        """Every variable of the model."""
        encoder = self.model.encoder(self.vocabulary_size)
        arguments = (self.model.architecture, self.model.vector_dim, self.model.freeze)
        return model_shapes(encoder, *arguments)

    def memory(self) -> StepMemory:
        """Expected bytes on each replica."""
        return expected_memory(
            self.weights(),
            self.model.encoder(self.vocabulary_size),
            self.optimizer,
            self.batch,
            self.chunk,
            compute_bytes=2 if self.model.dtype == "mixed_bfloat16" else 4,
        )

    def variant(self, chunk: int | None, remat: bool) -> "Setup":
        """The same with other ways to keep activations."""
        return replace(self, chunk=chunk, model=replace(self.model, remat=remat))


@dataclass(frozen=True)
class Plan:
    """What `plan` found; `str` of it is a page of text.

    Args:
        setup: what was asked for.
        device: name, or "memory" where bytes were given.
        capacity: bytes of one replica, of which `USABLE` are planned with.
        table: the setting that was asked for and its three variants: all at once and in chunks,
            each with activations kept and computed again.
    """

    setup: Setup
    device: str
    capacity: float
    table: tuple[Setup, ...]

    @property
    def parameters(self) -> int:
        """Numbers in all variables of both towers; what they share counts once."""
        return sum(weight.size for weight in self.setup.weights())

    @property
    def trainable(self) -> int:
        """Those that train."""
        return sum(weight.size for weight in self.setup.weights() if weight.trains)

    @property
    def memory(self) -> StepMemory:
        """Expected bytes of what was asked for, on each replica."""
        return self.setup.memory()

    @property
    def fits(self) -> bool:
        """Whether that is what the device has."""
        return self.holds(self.setup)

    def holds(self, setup: Setup) -> bool:
        """Whether another setup would fit on the same device."""
        return setup.memory().total <= USABLE * self.capacity

    def devices(self) -> list[str]:
        """Those out of `DEVICES` on which what was asked for fits."""
        need = self.memory.total
        return [name for name, gigabytes in DEVICES.items() if need <= USABLE * gigabytes * 1e9]

    def advice(self) -> list[str]:
        """Flags that would make it fit, the fewest first; none if it does, or nothing helps."""
        return [] if self.fits else _advice(self)

    def __str__(self) -> str:
        from samtone_tf.training.plan_text import as_text

        return as_text(self)


def plan(
    model: ModelConfig | str = "mini",
    *,
    batch_size: int = 256,
    replicas: int = 1,
    query_length: int = 64,
    document_length: int = 256,
    num_negatives: int = 0,
    optimizer: str = "adafactor",
    gradient_cache_chunk: int | None = None,
    vocabulary_size: int = 8000,
    strategy: str = "auto",
    device: str | None = None,
    memory: float | None = None,
) -> Plan:
    """Counts parameters and the memory of a training step, and says whether it fits.

    Nothing is built and no device is needed. Bytes are within 15 % of what a CPU was measured
    to need for t5.1.1-small and -base in float32 (benchmarks/README.md); XLA and the libraries
    of a GPU need more or less than that.

    Args:
        model: the two towers, or a size by name.
        batch_size: pairs of one global batch, over all replicas.
        replicas: devices that share the batch; each holds all weights.
        query_length: tokens of a query.
        document_length: tokens of a document.
        num_negatives: hard negatives per query.
        optimizer: `"adafactor"`, `"adam"` or `"sgd"`.
        gradient_cache_chunk: pairs that a replica encodes at a time; None is all at once.
        vocabulary_size: pieces of the tokenizer; T5 sizes have 32,128 rows at least.
        strategy: as `train.strategy`; `"tpu"` plans for a TPU v2, others for a T4, unless
            `device` or `memory` is given.
        device: one of `DEVICES`.
        memory: GB of one replica, instead of a device's.

    Raises:
        ValueError: an unknown name, a number too small, or a batch that cannot be divided.

    Example:

    >>> found = plan("t5.1.1-base", batch_size=512, replicas=8, device="tpu-v3")
    >>> found.parameters
    110218368
    """
    model = ModelConfig(size=model) if isinstance(model, str) else model
    check_choice("optimizer", optimizer, OPTIMIZERS)
    check_choice("strategy", strategy, STRATEGIES)
    name, capacity = _capacity(strategy, device, memory)
    rows = _rows(batch_size, replicas, gradient_cache_chunk)
    smallest = {"query_length": 2, "document_length": 2, "num_negatives": 0, "vocabulary_size": 3}
    for argument, least in smallest.items():
        check_at_least(argument, locals()[argument], least)
    batch = Batch(rows, query_length, document_length, num_negatives, replicas)
    setup = Setup(model, batch, optimizer, gradient_cache_chunk, vocabulary_size)
    chunk = gradient_cache_chunk or default_chunk(rows)
    table = [setup.variant(size, remat) for size in (None, chunk) for remat in (False, True)]
    return Plan(setup, name, capacity, tuple(table))


def default_chunk(rows: int) -> int:
    """The largest part of a batch that is 32 pairs or less, and less than all if that can be."""
    return max(n for n in range(1, min(32, max(1, rows - 1)) + 1) if rows % n == 0)


def _capacity(strategy: str, device: str | None, memory: float | None) -> tuple[str, float]:
    if memory is not None:
        if not 0 < memory < float("inf"):
            raise ValueError(
                f"`memory` must be greater than 0, in GB of one replica. Received: memory={memory}."
            )
        return f"{memory:g} GB", memory * 1e9
    if device is None:
        device = "tpu-v2" if strategy == "tpu" else "gpu-t4"
    if device not in DEVICES:
        raise ValueError(
            f"`device` must be one of {', '.join(DEVICES)}. Received: device={device!r}. "
            "Give the GB of one replica as `memory` for another one."
        )
    return device, DEVICES[device] * 1e9


def _rows(batch_size: int, replicas: int, chunk: int | None) -> int:
    """Pairs of one replica."""
    check_at_least("replicas", replicas, 1)
    check_at_least("batch_size", batch_size, 2)
    if batch_size % replicas:
        raise ValueError(
            "`batch_size` must be a whole number for each replica. Received: "
            f"batch_size={batch_size}, replicas={replicas}."
        )
    rows = batch_size // replicas
    if chunk is not None:
        check_at_least("gradient_cache_chunk", chunk, 1)
        if rows % chunk:
            raise ValueError(
                "`gradient_cache_chunk` must divide the pairs of one replica. Received: "
                f"gradient_cache_chunk={chunk}, {rows} pairs."
            )
    return rows


def _advice(plan: Plan) -> list[str]:
    """Of all sets of changes that fit, those of the smallest number."""
    changes = _changes(plan.setup)
    for number in range(1, len(changes) + 1):
        found = [_try(plan, chosen) for chosen in combinations(changes, number)]
        fitting = [flags for flags in found if flags]
        if fitting:
            return fitting
    return []


def _changes(setup: Setup) -> list[str]:
    """What could still be changed, what costs least first."""
    model, rows = setup.model, setup.batch.num_pairs
    frozen = frozen_parts(model.architecture, model.freeze)
    possible = {
        "chunk": rows > 1 and setup.chunk != 1,
        "remat": not model.remat,
        "dtype": model.dtype == "float32",
        "optimizer": setup.optimizer == "adam",
        "lora": not model.lora_rank and "encoder" not in frozen,
        "batch": rows > 1 and setup.chunk is None,
    }
    return [name for name, can_be in possible.items() if can_be]


def _try(plan: Plan, names: tuple[str, ...]) -> str | None:
    """The flags of these changes, if all of them together make it fit."""
    setup, flags = plan.setup, []
    fields = {
        "remat": ("remat", True),
        "dtype": ("dtype", "mixed_bfloat16"),
        "lora": ("lora_rank", 8),
    }
    for name in names:
        if name in fields:
            field, value = fields[name]
            setup = replace(setup, model=replace(setup.model, **{field: value}))
            flags.append(f"--model.{field} {str(value).lower() if value is True else value}")
    if "optimizer" in names:
        setup = replace(setup, optimizer="adafactor")
        flags.append("--optimizer adafactor")
    sizes = [name for name in names if name in ("chunk", "batch")]
    if len(sizes) == 2:
        return None  # chunks bound the memory of any batch
    if sizes:
        setup, flag = _smaller(plan, setup, sizes[0])
        flags.append(flag)
    return " ".join(flags) if plan.holds(setup) else None


def _smaller(plan: Plan, setup: Setup, name: str) -> tuple[Setup, str]:
    """The largest chunk that fits, or half, a quarter ... of the batch; the smallest if none."""
    rows = setup.batch.num_pairs
    if name == "chunk":
        sizes = [n for n in range((setup.chunk or rows) - 1, 0, -1) if rows % n == 0]
        tried = {n: replace(setup, chunk=n) for n in sizes}
    else:
        sizes = [rows >> halvings for halvings in range(1, rows.bit_length())]
        tried = {n: replace(setup, batch=setup.batch._replace(num_pairs=n)) for n in sizes}
    size = next((n for n in sizes if plan.holds(tried[n])), sizes[-1])
    total = size * (setup.batch.num_replicas if name == "batch" else 1)
    return tried[size], f"--{name} {total}"
