"""A `Plan` as a page of text."""

from samtone_tf.training.memory import StepMemory, as_size
from samtone_tf.training.plan import USABLE, Plan, Setup


def as_text(plan: Plan) -> str:
    """Counts, the table of four settings, and what could be changed."""
    facts = _facts(plan)
    width = max(map(len, facts))
    lines = [f"{name:<{width}}  {value}" for name, value in facts.items()]
    return "\n".join([*lines, "", *_table(plan), "", *_verdict(plan)])


def _facts(plan: Plan) -> dict[str, str]:
    setup, memory = plan.setup, plan.memory
    model, batch = setup.model, setup.batch
    size = batch.num_pairs * batch.num_replicas
    negatives = f", {batch.num_negatives} hard negatives each" if batch.num_negatives else ""
    architecture = model.architecture
    if not isinstance(architecture, str):
        architecture = f"towers share {', '.join(architecture) or 'nothing'}"
    trains = "all train" if plan.trainable == plan.parameters else f"{plan.trainable:,} train"
    return {
        "model": f"{model.size}, {architecture}, vectors of {model.vector_dim}, {model.dtype}",
        "parameters": f"{plan.parameters:,}, {trains}",
        "each replica": f"{batch.num_pairs} of {size} pairs, "
        f"{batch.query_length} and {batch.document_length} tokens{negatives}",
        "weights": as_size(memory.weights),
        f"slots of {setup.optimizer}": as_size(memory.slots),
        "loss": as_size(memory.loss),
    }


def _table(plan: Plan) -> list[str]:
    columns = ("encoded at a time", "gradients", "activations", "total", "fits")
    rows = [columns]
    for setup in plan.table:
        memory = setup.memory()
        rows.append(
            (
                _named(setup),
                as_size(memory.gradients),
                as_size(memory.activations),
                as_size(memory.total),
                "yes" if plan.holds(setup) else "no",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(columns))]
    lines = []
    for row, setup in zip(rows, (None, *plan.table), strict=True):
        first, *rest = (
            f"{cell:<{width}}" if column == 0 else f"{cell:>{width}}"
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        asked = "  ← asked for" if setup == plan.setup else ""
        lines.append("  ".join([first, *rest]) + asked)
    return lines


def _named(setup: Setup) -> str:
    pairs = "1 pair" if setup.chunk == 1 else f"{setup.chunk or setup.batch.num_pairs} pairs"
    return f"{pairs}, remat" if setup.model.remat else pairs


def _verdict(plan: Plan) -> list[str]:
    total, device = as_size(plan.memory.total), plan.device
    usable = as_size(USABLE * plan.capacity)
    others = ", ".join(name for name in plan.devices() if name != device) or "none that is known"
    if plan.fits:
        return [f"It fits: {total} of {usable} (nine tenths of {device}).", f"Also on: {others}."]
    lines = [f"It does not fit: {total}, and {usable} are there (nine tenths of {device})."]
    advice = plan.advice()
    if advice:
        lines += ["It would with one of:", *(f"  {flags}" for flags in advice)]
    else:
        lines.append(_hopeless(plan))
    return [*lines, f"As asked for, it fits on: {others}."]


def _hopeless(plan: Plan) -> str:
    memory: StepMemory = plan.memory
    if memory.weights > USABLE * plan.capacity:
        return (
            f"Nothing helps: the weights alone take {as_size(memory.weights)} of each replica. "
            "Take a smaller --model.size or a larger device."
        )
    return (
        "No setting of chunks, remat, bfloat16, adapters and batch is enough: take "
        "more --replicas, shorter texts or a larger device."
    )
