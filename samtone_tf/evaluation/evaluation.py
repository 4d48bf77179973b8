"""The results of judging searches on one data set: as rows, as JSON, as a table."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from samtone_tf.evaluation.measures import Scores
from samtone_tf.evaluation.trec import Run


@dataclass(frozen=True)
class Evaluation:
    """The results of `evaluate`.

    Args:
        source: name of the data set.
        split: which judgements were used.
        depth: documents retrieved per query.
        scores: search, such as `exact`, `scann` or `bm25` → what its run is worth.
        runs: search → its run, for run files.
        index_recall: approximate search → share of exact search's best 10 and 100
            documents that it finds: `{"recall@10": …, "recall@100": …}`.
        descriptions: approximate search → its index in words, such as
            `scann (brute force below 20,000 documents)`.
        measure_depths: approximate search → measure → `k` of the search that it was
            computed from, where that is not `depth` for all.
        notes: one line per oddity.
    """

    source: str
    split: str
    depth: int
    scores: dict[str, Scores]
    runs: dict[str, Run]
    index_recall: dict[str, dict[str, float]] = field(default_factory=dict)
    descriptions: dict[str, str] = field(default_factory=dict)
    measure_depths: dict[str, dict[str, int]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def index_loss(self, search: str) -> dict[str, float]:
        """Measure → exact search minus this index; positive is lost by the index."""
        exact, other = self.scores["exact"].mean, self.scores[search].mean
        return {name: exact[name] - other[name] for name in exact}

    def rows(self) -> list[dict[str, Any]]:
        """One flat row per search: its name, measures and, for an index, recall and loss."""
        rows = []
        for search, scores in self.scores.items():
            row: dict[str, Any] = {"search": search, **scores.mean, "depth": self.depth}
            if search in self.index_recall:
                row["index_recall"] = self.index_recall[search]
                row["index_loss"] = self.index_loss(search)
            if search in self.descriptions:
                row["index"] = self.descriptions[search]
            if search in self.measure_depths:
                row["measure_depths"] = self.measure_depths[search]
            rows.append(row)
        return rows

    def to_json(self) -> dict[str, Any]:
        """Everything but the runs and the values of single queries, as JSON holds it."""
        return {
            "source": self.source,
            "split": self.split,
            "depth": self.depth,
            "rows": self.rows(),
            "counts": {search: _counts(scores) for search, scores in self.scores.items()},
            "unanswered": {search: list(s.unanswered) for search, s in self.scores.items()},
            "notes": list(self.notes),
        }

    def table(self) -> str:
        """Rows and columns for a terminal, four decimals, then what there is to say."""
        names = list(next(iter(self.scores.values())).mean)
        lines = [["search", *names]]
        for search, scores in self.scores.items():
            lines.append([search, *(f"{scores.mean[name]:.4f}" for name in names)])
        for search in self.index_recall:
            loss = self.index_loss(search)
            lines.append([f"exact - {search}", *(f"{loss[name]:+.4f}" for name in names)])
        return "\n".join(_align(lines) + self._remarks())

    def _remarks(self) -> list[str]:
        counted = next(iter(self.scores.values())).num_queries
        remarks = [f"{self.source} ({self.split}): {counted} queries, depth {self.depth}"]
        for search, found in self.index_recall.items():
            shares = ", ".join(f"{name} {share:.4f}" for name, share in found.items())
            name = self.descriptions.get(search, search)
            remarks.append(f"{name} against exact search: {shares}")
        for search, depths in self.measure_depths.items():
            least = min(depths.values())
            remarks.append(
                f"{search}: cutoffs up to {least} from a search for {least}, "
                f"the rest from depth {self.depth}"
            )
        for search, scores in self.scores.items():
            if scores.unanswered:
                remarks.append(
                    f"{search}: {scores.num_unanswered} queries unanswered, counted 0: "
                    + _first(scores.unanswered)
                )
            if scores.num_ties:
                remarks.append(f"{search}: {scores.num_ties} hits tie with the one before")
        return remarks + list(self.notes)


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


def _first(names: Sequence[str], most: int = 5) -> str:
    return ", ".join([*names[:most], *(["…"] if len(names) > most else [])])


def _align(lines: list[list[str]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]
