"""The results of judging searches on one data set: as rows, as JSON, as a table."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from samtone_tf.evaluation.bootstrap import DRAWS, LEVEL, METHOD, Estimate, estimates
from samtone_tf.evaluation.measures import Scores
from samtone_tf.evaluation.per_query import matrix
from samtone_tf.evaluation.text_table import align, first_names, span
from samtone_tf.evaluation.trec import Run

FORMAT = 2
"""Version of the JSON that results are written as; `docs/evaluation.md` describes it."""


@dataclass(frozen=True)
class Evaluation:
    """The results of `evaluate`.

    Args:
        source: name of the data set.
        split: which judgements were used.
        depth: documents retrieved per query.
        scores: system, such as `exact`, `scann` or `bm25` → what its run is worth.
        runs: system → its run, for run files.
        estimates: system → measure → mean with its bootstrap interval.
        losses: approximate search → measure → exact search minus it, paired, with its
            interval; positive is lost by the index.
        seed: of the bootstrap.
        num_documents: of the corpus.
        index_recall: approximate search → share of exact search's best 10 and 100
            documents that it finds: `{"recall@10": …, "recall@100": …}`.
        descriptions: approximate search → its index in words, such as
            `scann (brute force below 20,000 documents)`.
        measure_depths: approximate search → measure → `k` of the search that it was
            computed from, where that is not `depth` for all.
        model: what was judged: `folder`, `fingerprint` and `lengths`; empty if unknown.
        notes: one line per oddity.
    """

    source: str
    split: str
    depth: int
    scores: dict[str, Scores]
    runs: dict[str, Run]
    estimates: dict[str, dict[str, Estimate]]
    losses: dict[str, dict[str, Estimate]] = field(default_factory=dict)
    seed: int = 0
    num_documents: int = 0
    index_recall: dict[str, dict[str, float]] = field(default_factory=dict)
    descriptions: dict[str, str] = field(default_factory=dict)
    measure_depths: dict[str, dict[str, int]] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def index_loss(self, system: str) -> dict[str, float]:
        """Measure → exact search minus this index; positive is lost by the index."""
        return {name: found.value for name, found in self.losses[system].items()}

    def rows(self) -> list[dict[str, Any]]:
        """One row per system: its name, its measures and, for an index, recall and loss."""
        rows = []
        for system, found in self.estimates.items():
            row: dict[str, Any] = {
                "system": system,
                "scores": {name: estimate.to_json() for name, estimate in found.items()},
                "depth": self.depth,
            }
            if system in self.index_recall:
                row["index_recall"] = self.index_recall[system]
                row["index_loss"] = {n: loss.to_json() for n, loss in self.losses[system].items()}
            if system in self.descriptions:
                row["index"] = self.descriptions[system]
            if system in self.measure_depths:
                row["measure_depths"] = self.measure_depths[system]
            rows.append(row)
        return rows

    def to_json(self) -> dict[str, Any]:
        """Everything but the runs and the values of single queries, as JSON holds it."""
        first = next(iter(self.scores.values()))
        return {
            "format": FORMAT,
            "kind": "evaluation",
            "source": self.source,
            "split": self.split,
            "depth": self.depth,
            "model": self.model,
            "num_queries": first.num_queries,
            "num_documents": self.num_documents,
            "measures": list(first.mean),
            "interval": interval_json(self.seed),
            "rows": self.rows(),
            "counts": {system: _counts(scores) for system, scores in self.scores.items()},
            "unanswered": {system: list(s.unanswered) for system, s in self.scores.items()},
            "notes": list(self.notes),
        }

    def table(self) -> str:
        """Rows and columns for a terminal, four decimals, then what there is to say."""
        names = list(next(iter(self.scores.values())).mean)
        lines = [["system", *names]]
        for system, found in self.estimates.items():
            lines.append([system, *(f"{found[name].value:.4f}" for name in names)])
            spans = [span(found[name].low, found[name].high) for name in names]
            lines.append([f"  {LEVEL:.0%}", *spans])
        for system in self.index_recall:
            loss = self.index_loss(system)
            lines.append([f"exact - {system}", *(f"{loss[name]:+.4f}" for name in names)])
        return "\n".join(align(lines) + self._remarks())

    def _remarks(self) -> list[str]:
        counted = next(iter(self.scores.values())).num_queries
        remarks = [f"{self.source} ({self.split}): {counted} queries, depth {self.depth}"]
        for system, found in self.index_recall.items():
            shares = ", ".join(f"{name} {share:.4f}" for name, share in found.items())
            name = self.descriptions.get(system, system)
            remarks.append(f"{name} against exact search: {shares}")
        for system, depths in self.measure_depths.items():
            least = min(depths.values())
            remarks.append(
                f"{system}: cutoffs up to {least} from a search for {least}, "
                f"the rest from depth {self.depth}"
            )
        for system, scores in self.scores.items():
            if scores.unanswered:
                remarks.append(
                    f"{system}: {scores.num_unanswered} queries unanswered, counted 0: "
                    + first_names(scores.unanswered)
                )
            if scores.num_ties:
                remarks.append(f"{system}: {scores.num_ties} hits tie with the one before")
        return remarks + list(self.notes)


def interval_json(seed: int) -> dict[str, Any]:
    """How the intervals of a result were made."""
    return {"level": LEVEL, "method": METHOD, "draws": DRAWS, "seed": seed}


def estimate_all(scores: dict[str, Scores], seed: int = 0) -> dict[str, dict[str, Estimate]]:
    """System → measure → mean with its interval; the same draws of queries for all.

    Args:
        scores: system → what its run is worth; all of the same queries and measures.
        seed: of the bootstrap.
    """
    names = list(next(iter(scores.values())).mean)
    found = iter(estimates(np.hstack([matrix(found) for found in scores.values()]), seed=seed))
    # `mean` is summed without rounding, and is what is printed.
    return {
        system: {name: next(found)._replace(value=one.mean[name]) for name in names}
        for system, one in scores.items()
    }


def estimate_losses(
    scores: dict[str, Scores], systems: Sequence[str], seed: int = 0
) -> dict[str, dict[str, Estimate]]:
    """Approximate search → measure → exact search minus it, with its paired interval."""
    exact, losses = scores.get("exact"), {}
    for system in systems:
        found = estimates(matrix(exact) - matrix(scores[system]), seed=seed)
        mean = scores[system].mean
        losses[system] = {
            name: estimate._replace(value=exact.mean[name] - mean[name])
            for name, estimate in zip(mean, found, strict=True)
        }
    return losses


def _counts(scores: Scores) -> dict[str, int]:
    return {
        name: getattr(scores, name)
        for name in (
            "num_queries",
            "num_unanswered",
            "num_without_relevant",
            "num_unjudged",
            "num_ties",
        )
    }
