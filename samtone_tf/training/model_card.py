"""The README.md of a run folder: what was trained, on what, with which result."""

from pathlib import Path

from samtone_tf.config import RunConfig, shared_parts
from samtone_tf.version import __version__


def write_model_card(run: Path, config: RunConfig, facts: dict, last: dict) -> None:
    """Writes `RUN/README.md`.

    Args:
        run: the run folder.
        config: what the run was started with.
        facts: counts of the data and the model, by name.
        last: the last line of `metrics.jsonl`.
    """
    loss, model, data = config.loss, config.model, config.data
    side = f", same tower: {loss.same_tower}" if loss.same_tower else ""
    if loss.temperature is not None:
        side += f", temperature {loss.temperature}"
    shared = ", ".join(shared_parts(model.architecture)) or "nothing"
    lines = [
        f"# Dual encoder, {model.size or model.init}, trained on {data.source}",
        "",
        "| | |",
        "|---|---|",
        f"| architecture | {model.architecture}: the towers share {shared} |",
        f"| loss | {loss.name}{side}, masks {', '.join(loss.masks) or 'none'} |",
        f"| lengths in training | query {data.query_length}, document {data.document_length} "
        "tokens |",
        *(f"| {name} | {value} |" for name, value in facts.items()),
        *(f"| last {name} | {value:g} |" for name, value in last.items()),
        f"| made by | samtone-tf {__version__} |",
        "| licence | not stated; that of the data applies |",
        "",
        "Loss and accuracy are over the batches of training, with the batch's documents as the",
        "only candidates. They say little of retrieval from a whole corpus. Judge that with:",
        "",
        "    samtone export RUN saved_models/NAME/1",
        "    samtone evaluate --model saved_models/NAME/1 --data SOURCE --split test",
        "",
    ]
    (run / "README.md").write_text("\n".join(lines), encoding="utf-8")
