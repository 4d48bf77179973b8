"""Published results to stand beside one's own; `references.json` holds them with their sources."""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Reference:
    """One system's published results by one measure.

    Args:
        system: its name, such as `GTR-Base`.
        measure: such as `nDCG@10`.
        source: where the numbers are from, in words.
        scores: row of the suite's table → value; sets without a source are absent.
    """

    system: str
    measure: str
    source: str
    scores: dict[str, float]


def references(suite: str | None) -> tuple[Reference, ...]:
    """The published results for a suite, in the order of the file.

    Args:
        suite: `beir`, `multireqa`, or None for none.

    Raises:
        ValueError: there are none of that name.
    """
    if suite is None:
        return ()
    content = _content()
    if suite not in content["suites"]:
        raise ValueError(
            f"`references` must be one of {', '.join(content['suites'])}. Received: {suite!r}. "
            "Leave it out to have none."
        )
    return tuple(
        Reference(
            entry["system"], entry["measure"], content["sources"][entry["source"]], entry["scores"]
        )
        for entry in content["suites"][suite]
    )


@cache
def _content() -> dict:
    file = files("samtone_tf.evaluation").joinpath("references.json")
    return json.loads(file.read_text(encoding="utf-8"))
