"""From the results of single data sets to those of a suite: groups, averages, JSON, Markdown."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from samtone_tf.evaluation.bootstrap import Estimate, bootstrap_means, interval
from samtone_tf.evaluation.evaluation import FORMAT, interval_json
from samtone_tf.evaluation.references import Reference, references
from samtone_tf.evaluation.suite import Suite
from samtone_tf.evaluation.text_table import short

Values = dict[str, tuple[list[str], np.ndarray]]
"""System → its measures, and the values of single queries `(Q, M)`."""

Estimates = dict[str, dict[str, Estimate]]
"""System → measure → mean with its interval."""


@dataclass(frozen=True)
class SuiteResults:
    """A suite's table.

    Args:
        suite: what was judged.
        sets: set → its JSON, as `Evaluation.to_json` gives it.
        rows: row of the table (a set, or a group of sets) → its estimates.
        parts: row → the sets in it that were judged.
        averages: over the rows, each counting once.
        missing: sets that are not there and were left out.
        seed: of the bootstrap.
    """

    suite: Suite
    sets: dict[str, dict[str, Any]]
    rows: dict[str, Estimates]
    parts: dict[str, list[str]]
    averages: Estimates
    missing: tuple[str, ...] = ()
    seed: int = 0

    @property
    def systems(self) -> list[str]:
        """All systems, in the order in which they appear."""
        return list(dict.fromkeys(system for row in self.rows.values() for system in row))

    def published(self, measure: str) -> list[Reference]:
        """The published results by a measure."""
        return [r for r in references(self.suite.references) if r.measure == measure]

    def cell(self, reference: Reference, row: str) -> float | None:
        """A published value, if it is of the same sets as the row; None for no value."""
        whole = len(self.parts[row]) == len(self.suite.rows[row])
        return reference.scores.get(row) if whole else None

    def published_average(self, reference: Reference) -> float | None:
        """The mean of a published system over the rows of this table, if all are known."""
        cells = [self.cell(reference, row) for row in self.rows]
        known = [cell for cell in cells if cell is not None]
        return sum(known) / len(known) if known and len(known) == len(cells) else None

    def to_json(self) -> dict[str, Any]:
        """Everything but the values of single queries, as JSON holds it."""
        first = next(iter(self.sets.values()))
        return {
            "format": FORMAT,
            "kind": "suite",
            "suite": self.suite.name,
            "model": first["model"],
            "measures": list(self.suite.measures),
            "interval": interval_json(self.seed),
            "systems": self.systems,
            "sets": [
                {
                    "set": row,
                    "parts": self.parts[row],
                    "num_queries": self._num_queries(row),
                    "rows": _rows(found),
                }
                for row, found in self.rows.items()
            ],
            "averages": {"over": len(self.rows), "rows": _rows(self.averages)},
            "references": [
                {
                    **vars(reference),
                    "average": self.published_average(reference),
                }
                for measure in self.suite.measures
                for reference in self.published(measure)
            ],
            "missing": list(self.missing),
        }

    def markdown(self) -> str:
        """A table per measure, the suite's own first, and what there is to say."""
        model = next(iter(self.sets.values()))["model"]
        parts = [f"# {self.suite.name}\n"]
        if model:
            parts.append(f"Model `{model['folder']}` (fingerprint {model['fingerprint']}).\n")
        for measure in self.suite.measures:
            parts += [f"## {measure}\n", *self._table(measure), ""]
        level = f"{interval_json(self.seed)['level']:.0%}"
        parts.append(
            f"In brackets: {level} bootstrap intervals over the queries. The average counts each "
            "row once; its interval holds the sets fixed and resamples their queries."
        )
        if self.missing:
            parts.append(f"\nNot there and left out: {', '.join(self.missing)}.")
        used = [r for measure in self.suite.measures for r in self.published(measure)]
        for source in dict.fromkeys(reference.source for reference in used):
            names = dict.fromkeys(f"{r.system} ({r.measure})" for r in used if r.source == source)
            parts.append(f"\nPublished: {', '.join(names)}. {source}.")
        return "\n".join(parts) + "\n"

    def _table(self, measure: str) -> list[str]:
        published = self.published(measure)
        lines = [["set", "queries", *self.systems, *(f"{r.system} (publ.)" for r in published)]]
        for row, found in self.rows.items():
            total, there = len(self.suite.rows[row]), len(self.parts[row])
            name = row if total == there else f"{row} ({there} of {total} parts)"
            own = [_cell(found.get(system, {}).get(measure)) for system in self.systems]
            theirs = [_number(self.cell(reference, row)) for reference in published]
            lines.append([name, str(self._num_queries(row)), *own, *theirs])
        own = [_cell(self.averages.get(system, {}).get(measure)) for system in self.systems]
        theirs = [_number(self.published_average(reference)) for reference in published]
        lines.append([f"average of {len(self.rows)}", "", *own, *theirs])
        return _markdown(lines)

    def _num_queries(self, row: str) -> int:
        return sum(self.sets[name]["num_queries"] for name in self.parts[row])


def gather(
    suite: Suite,
    sets: Mapping[str, dict[str, Any]],
    values: Mapping[str, Values],
    missing: tuple[str, ...] = (),
    seed: int = 0,
) -> SuiteResults:
    """Average groups, then the rows.

    Args:
        suite: what was judged.
        sets: set → its JSON, as `Evaluation.to_json` gives it.
        values: set → values of single queries, for the intervals of averages.
        missing: sets that are not there.
        seed: of the bootstrap.
    """
    rows, parts, draws = {}, {}, []
    places = {one.name: place for place, one in enumerate(suite.sets)}
    for row, names in suite.rows.items():
        there = [name for name in names if name in sets]
        if not there:
            continue
        parts[row] = there
        drawn = [_draws(values[name], seed, places[name]) for name in there]
        if len(there) == 1:
            rows[row] = _estimates(sets[there[0]])
        else:
            found = [_estimates(sets[name]) for name in there]
            rows[row] = _average(found, _mean_draws(drawn))
        draws.append(_mean_draws(drawn))
    averages = _average(list(rows.values()), _mean_draws(draws)) if rows else {}
    return SuiteResults(suite, dict(sets), rows, parts, averages, missing, seed)


Draws = dict[tuple[str, str], np.ndarray]
"""(System, measure) → means of resampled queries `(draws,)`."""


def _draws(values: Values, seed: int, place: int) -> Draws:
    # Sets are sampled independently: each has draws of its own.
    names = [(system, name) for system, (measures, _) in values.items() for name in measures]
    columns = np.hstack([found for _, found in values.values()])
    means = bootstrap_means(columns, seed=np.random.SeedSequence([seed, place]))
    return dict(zip(names, means.T, strict=True))


def _mean_draws(draws: list[Draws]) -> Draws:
    everywhere = [key for key in draws[0] if all(key in one for one in draws)]
    return {key: np.mean([one[key] for one in draws], axis=0) for key in everywhere}


def _average(found: list[Estimates], draws: Draws) -> Estimates:
    """Of what all of them have; `n` is how many they are."""
    averages: Estimates = {}
    for system, name in draws:
        if all(name in one.get(system, {}) for one in found):
            low, high = interval(draws[system, name][:, None])
            value = sum(one[system][name].value for one in found) / len(found)
            estimate = Estimate(value, float(low[0]), float(high[0]), len(found))
            averages.setdefault(system, {})[name] = estimate
    return averages


def _estimates(result: dict[str, Any]) -> Estimates:
    return {
        row["system"]: {name: Estimate(**score) for name, score in row["scores"].items()}
        for row in result["rows"]
    }


def _rows(found: Estimates) -> list[dict[str, Any]]:
    return [
        {"system": system, "scores": {name: one.to_json() for name, one in scores.items()}}
        for system, scores in found.items()
    ]


def _cell(found: Estimate | None) -> str:
    if found is None:
        return "-"
    if found.low is None or found.high is None:
        return f"{found.value:.4f}"
    return f"{found.value:.4f} [{short(found.low)}, {short(found.high)}]"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _markdown(lines: list[list[str]]) -> list[str]:
    """Rows of cells as a Markdown table that is also readable as text."""
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    made = []
    for line in lines:
        cells = [
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        made.append(f"| {' | '.join(cells)} |")
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return [made[0], f"| {' | '.join(rule)} |", *made[1:]]
