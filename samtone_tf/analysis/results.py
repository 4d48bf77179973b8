"""What a report is made from: the contents of result files as plain records."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from samtone_tf.evaluation.bootstrap import Estimate
from samtone_tf.index.frontier import Frontier
from samtone_tf.index.report import IndexReport

Scores = dict[str, dict[str, Estimate]]
"""System → measure → mean with its interval."""


@dataclass(frozen=True)
class IndexLoss:
    """What an approximate search lost on one data set: recall, and exact search minus it."""

    description: str
    recall: dict[str, float]
    loss: dict[str, Estimate]


@dataclass(frozen=True)
class JudgedSet:
    """One row: a data set, or a group of them.

    Args:
        name: as the suite has it, or the source.
        split: whose judgements counted; None in a suite.
        num_queries: that count.
        scores: what systems reached.
        losses: system → what the index lost.
        facts: label → text, for the small print.
        notes: one line per oddity.
        side_files: name → where its values of single queries may lie, from the file's folder.
    """

    name: str
    split: str | None
    num_queries: int
    scores: Scores
    losses: dict[str, IndexLoss] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    side_files: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Published:
    """A published result: row of the table → value, and their average where all are known."""

    system: str
    measure: str
    source: str
    scores: dict[str, float]
    average: float | None


@dataclass(frozen=True)
class Judged:
    """One file of evaluation results: of a data set, or of a suite.

    Args:
        path: the file.
        suite: name of the suite; None for a single data set.
        model: folder of the model, or empty.
        measures: in order.
        rows: the data sets.
        level: of the intervals, such as 0.95.
        averages: over the rows; empty for a single data set.
        published: results of others.
        missing: sets that were left out.
    """

    path: Path
    suite: str | None
    model: str
    measures: tuple[str, ...]
    rows: tuple[JudgedSet, ...]
    level: float
    averages: Scores = field(default_factory=dict)
    published: tuple[Published, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Difference:
    """One measure of one pair of runs: second minus first, and how likely that is by chance."""

    first: str
    second: str
    measure: str
    difference: Estimate
    wins: int
    ties: int
    losses: int
    p_randomisation: float
    holm_randomisation: float
    p_t: float | None
    holm_t: float | None


@dataclass(frozen=True)
class Move:
    """A query whose value changed much."""

    first: str
    second: str
    query_id: str
    text: str
    before: float
    after: float


@dataclass(frozen=True)
class Compared:
    """A comparison of runs on one data set; `num_tests` are those that Holm's correction saw."""

    path: Path
    source: str
    split: str
    num_queries: int
    num_tests: int
    level: float
    differences: tuple[Difference, ...]
    moved_by: str
    moved: tuple[Move, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class LengthCounts:
    """Lengths of one side's texts; `bins` are (from, to, texts)."""

    side: str
    counted: int
    limit: int
    median: float
    percentile_95: float
    longest: int
    share_cut: float
    share_of_tokens_cut: float
    bins: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Inspected:
    """What `samtone inspect` found out about lengths."""

    path: Path
    source: str
    split: str
    tokens: str
    lengths: tuple[LengthCounts, ...]


@dataclass(frozen=True)
class QueryValues:
    """Values of single queries of one data set: system → measures and float64 `(Q, M)`.

    `origin` is the model's folder or the file, for where one data set has several.
    """

    name: str
    values: dict[str, tuple[list[str], np.ndarray]]
    origin: str


@dataclass
class Results:
    """Everything that was read.

    Args:
        files: what was read, with its kind in words.
        notes: what could not be found, in words.
    """

    files: list[tuple[Path, str]] = field(default_factory=list)
    judged: list[Judged] = field(default_factory=list)
    compared: list[Compared] = field(default_factory=list)
    frontiers: list[tuple[Path, Frontier]] = field(default_factory=list)
    index_reports: list[tuple[Path, IndexReport]] = field(default_factory=list)
    inspected: list[Inspected] = field(default_factory=list)
    query_values: list[QueryValues] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
