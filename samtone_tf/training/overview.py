"""What a user reads before the first step: counts, negatives, rates, memory, validation."""

import math
from collections.abc import Callable

from samtone_tf.config import LossConfig, RunConfig
from samtone_tf.data.pipeline import PairBatches
from samtone_tf.data.records import RetrievalData
from samtone_tf.data.table import Table
from samtone_tf.data.validation_set import ValidationSet
from samtone_tf.dual_encoder import DualEncoder
from samtone_tf.training.memory import as_size, step_memory

Facts = dict[str, str | int | float]


def describe(
    config: RunConfig,
    data: RetrievalData | Table,
    batches: PairBatches,
    model: DualEncoder,
    schedule: Callable[[int], float],
    held_out: ValidationSet | None = None,
) -> Facts:
    """The numbers of a run by name, for its first screen and its model card.

    Args:
        config: of the run.
        data: what it trains on.
        batches: its batches.
        model: compiled.
        schedule: learning rate as a function of the step.
        held_out: what it is validated on.
    """
    steps, size = config.train.steps, config.train.batch_size
    return {
        "training pairs": batches.num_pairs,
        "documents": len(data.documents),
        "parameters": _parameters(model),
        "replicas": model.distribute_strategy.num_replicas_in_sync,
        "global batch": _batch(size, model.distribute_strategy.num_replicas_in_sync),
        "negatives per query": _negatives(config, batches),
        **_temperature(config.loss),
        "steps per epoch": batches.steps_per_epoch,
        "steps": f"{steps} of {size} pairs ({steps / batches.steps_per_epoch:.1f} epochs)",
        "learning rate": _rates(schedule, steps),
        "expected memory": _memory(config, model),
        "validation": _validation(config, held_out),
        **{f"note {i}": note for i, note in enumerate((*data.notes, *batches.notes), 1)},
    }


def as_lines(facts: Facts) -> str:
    """Names and values in two columns."""
    width = max(map(len, facts))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in facts.items())


def _parameters(model: DualEncoder) -> str:
    trainable, total = (
        sum(math.prod(v.shape) for v in variables)
        for variables in (model.trainable_variables, model.weights)
    )
    of_all = f" of {total:,}" if trainable < total else ""
    return f"{trainable:,}{of_all} trainable"


def _batch(size: int, replicas: int) -> str:
    each = f", {size // replicas} on each replica" if replicas > 1 else ""
    return f"{size} pairs{each}"


def _negatives(config: RunConfig, batches: PairBatches) -> str:
    """The columns of a query before any is masked."""
    size = config.train.batch_size
    others = size if config.loss.negatives_scope == "global" else 1
    hard = round(batches.statistics.get("negatives_per_query", 0) * others)
    same_tower = config.loss.name == "gte" or config.loss.same_tower in ("query", "both")
    return f"{size - 1 + hard} documents" + (f" and {size - 1} queries" if same_tower else "")


def _temperature(loss: LossConfig) -> dict[str, str]:
    """The line on the temperature; none for a loss without one."""
    if loss.temperature is None:
        return {}
    learned = f", learned from {loss.min_temperature:g} to {loss.max_temperature:g}"
    text = f"{loss.temperature} (1/τ = {1 / loss.temperature:g})"
    return {"temperature": text + (learned if loss.learn_temperature else "")}


def _rates(schedule: Callable[[int], float], steps: int) -> str:
    ends = (0, steps // 2, steps)
    return "first, middle, end: " + ", ".join(f"{float(schedule(step)):.2e}" for step in ends)


def _memory(config: RunConfig, model: DualEncoder) -> str:
    """What one device is expected to need, whole and part by part."""
    with model.distribute_strategy.scope():
        model.optimizer.build(model.trainable_variables)
    chunk = config.train.gradient_cache_chunk
    replicas = model.distribute_strategy.num_replicas_in_sync
    sizes = dict(
        num_pairs=config.train.batch_size // replicas,
        query_length=config.data.query_length,
        document_length=config.data.document_length,
        num_negatives=config.data.num_negatives,
        num_replicas=replicas,
    )
    found = step_memory(model, **sizes, gradient_cache_chunk=chunk)
    parts = ", ".join(f"{name} {as_size(value)}" for name, value in found._asdict().items())
    text = f"about {as_size(found.total)} per replica ({parts})"
    if chunk is not None:
        whole = step_memory(model, **sizes)
        text += f"; {as_size(whole.total)} without gradient caching"
    return text


def _validation(config: RunConfig, held_out: ValidationSet | None) -> str:
    if held_out is None:
        return "none (see --validation.split)"
    settings = config.validation
    text = f"{settings.measure} every {config.validation_every} steps, {held_out}"
    if settings.patience is not None:
        text += f"; the run ends after {settings.patience} without a better one"
    return text
