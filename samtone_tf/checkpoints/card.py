"""The README.md of a folder written for other tools: what it is, and how it is used."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from samtone_tf.checkpoints.source import Source
from samtone_tf.version import __version__


@dataclass(frozen=True)
class Card:
    """What a model card says besides what the model itself tells.

    Args:
        source: what was converted, as the user typed it.
        license: identifier for the Hub, such as `apache-2.0`.
        data: what the model was trained on, if known.
        command: what made it, if known.
        scores: name → number, of the last or best checkpoint.
        configuration: of the run, as YAML.
        notes: sentences on what differs from the source.

    Raises:
        ValueError: `license` is no identifier.
    """

    source: str
    license: str = "unknown"
    data: str | None = None
    command: str | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    configuration: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self):
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.+-]*", self.license):
            raise ValueError(
                "`license` must be an identifier as the Hugging Face Hub has them, such as "
                f"apache-2.0, mit or other. Received: license={self.license!r}."
            )


def write_card(
    folder: Path, card: Card, source: Source, lengths: Mapping[str, int], how: str, library: str
) -> None:
    """Writes README.md with the front matter that the Hugging Face Hub reads.

    Args:
        folder: where to.
        card: what is not in the model.
        source: the model.
        lengths: tokens of a `query` and a `document`.
        how: how it is used, as Markdown.
        library: for the Hub, such as `sentence-transformers`.
    """
    encoder, tower = source.query.encoder, source.query
    front = [
        "---",
        f"license: {card.license}",
        f"library_name: {library}",
        f"pipeline_tag: {_PIPELINE[library]}",
        "tags:",
        *(f"- {tag}" for tag in _TAGS[library]),
        "---",
    ]
    prompts = {"queries": source.query_prompt, "documents": source.document_prompt}
    facts = {
        "towers": f"{source.architecture}",
        "encoder": f"T5, {encoder.num_layers} layers of {encoder.hidden_dim}",
        "vectors": f"{tower.embedding_dim or encoder.hidden_dim} numbers, of unit length",
        "tokens of a query": lengths["query"],
        "tokens of a document": lengths["document"],
        **{f"stands before {side}": f"`{json.dumps(p)}`" for side, p in prompts.items() if p},
        "trained on": card.data or "not known",
        "made by": f"samtone-tf {__version__}, from {card.source}",
        **{name: f"{value:g}" for name, value in card.scores.items()},
    }
    rows = [f"| {name} | {_cell(value)} |" for name, value in facts.items()]
    lines = [*front, "", "# Text retrieval with a T5 dual encoder", "", "| | |", "|---|---|", *rows]
    lines += ["", *card.notes] if card.notes else []
    lines += ["", "## Use", "", *how.splitlines()]
    if card.command:
        lines += ["", "## Training", "", f"    {card.command}"]
    if card.configuration:
        lines += ["", "with this configuration:", "", "```yaml"]
        lines += [*card.configuration.splitlines(), "```"]
    (folder / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


_PIPELINE = {
    "sentence-transformers": "sentence-similarity",
    "transformers": "feature-extraction",
    "keras": "feature-extraction",
}
_TAGS = {
    "sentence-transformers": ("sentence-transformers", "feature-extraction", "sentence-similarity"),
    "transformers": ("t5", "feature-extraction"),
    "keras": ("t5", "feature-extraction"),
}


def _cell(value: object) -> str:
    return " ".join(str(value).replace("|", "\\|").split())
