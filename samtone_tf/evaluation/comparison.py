"""Two or more runs on one data set: what differs, by how much, and whether by more than chance."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from samtone_tf.data.records import RetrievalData
from samtone_tf.evaluation.bootstrap import Estimate, estimates
from samtone_tf.evaluation.evaluate import cut_run, notes_on_cutoffs
from samtone_tf.evaluation.evaluation import FORMAT, estimate_all, interval_json
from samtone_tf.evaluation.measure_names import cutoff_of, parse_measures
from samtone_tf.evaluation.measures import MEASURES, Scores, measure
from samtone_tf.evaluation.per_query import matrix
from samtone_tf.evaluation.retrieval import drops_self, self_retrieval_ids
from samtone_tf.evaluation.significance import DRAWS, EXACT_UP_TO, holm, randomisation_test, t_test
from samtone_tf.evaluation.text_table import first_names
from samtone_tf.evaluation.trec import Run

SAME = 1e-12
"""Values of one query this close are a tie."""


@dataclass(frozen=True)
class Difference:
    """One measure of one pair of runs.

    Args:
        first: the run that is subtracted.
        second: the run that it is subtracted from.
        measure: its name.
        difference: mean of second minus first, with its paired bootstrap interval.
        wins: queries on which second is better; `ties` and `losses` are the others.
        p_randomisation: of the paired randomisation test, uncorrected.
        p_t: of the paired t test, uncorrected; None for one query.
        holm_randomisation: the same after Holm's correction over all differences.
        holm_t: the same for the t test.
    """

    first: str
    second: str
    measure: str
    difference: Estimate
    wins: int
    ties: int
    losses: int
    p_randomisation: float
    p_t: float | None
    holm_randomisation: float = math.nan
    holm_t: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The fields, as JSON holds them."""
        return {**vars(self), "difference": self.difference.to_json()}


@dataclass(frozen=True)
class Move:
    """One query whose value changed much from one run to another."""

    first: str
    second: str
    query_id: str
    text: str
    before: float
    after: float

    @property
    def change(self) -> float:
        """After minus before."""
        return self.after - self.before

    def to_json(self) -> dict[str, Any]:
        """The fields and the change, as JSON holds them."""
        return {**vars(self), "change": self.change}


@dataclass(frozen=True)
class Comparison:
    """The results of `compare_runs` on one data set.

    Args:
        source: name of the data set.
        split: which judgements were used.
        scores: run → what it is worth.
        estimates: run → measure → mean with its bootstrap interval.
        differences: of every pair of runs and every measure.
        moved_by: the measure that `moved` is about.
        moved: per pair, the queries that gained most, then those that lost most.
        seed: of the bootstrap and the randomisation test.
        num_tests: how many tests Holm's correction was over; more than there are
            `differences` where several data sets were corrected together.
        notes: one line per oddity.
    """

    source: str
    split: str
    scores: dict[str, Scores]
    estimates: dict[str, dict[str, Estimate]]
    differences: tuple[Difference, ...]
    moved_by: str
    moved: tuple[Move, ...]
    seed: int = 0
    num_tests: int = 0
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Everything but the values of the queries that moved little, as JSON holds it."""
        return {
            "format": FORMAT,
            "kind": "comparison",
            "source": self.source,
            "split": self.split,
            "num_queries": next(iter(self.scores.values())).num_queries,
            "measures": list(next(iter(self.estimates.values()))),
            "interval": interval_json(self.seed),
            "tests": {
                "randomisation": {
                    "draws": DRAWS,
                    "exact_up_to": EXACT_UP_TO,
                    "seed": self.seed,
                },
                "correction": "Holm",
                "num_tests": self.num_tests,
            },
            "rows": [
                {"system": name, "scores": {m: e.to_json() for m, e in found.items()}}
                for name, found in self.estimates.items()
            ],
            "differences": [difference.to_json() for difference in self.differences],
            "moved_by": self.moved_by,
            "moved": [move.to_json() for move in self.moved],
            "unanswered": {name: list(s.unanswered) for name, s in self.scores.items()},
            "notes": list(self.notes),
        }


def compare_runs(
    runs: Mapping[str, Run],
    data: RetrievalData,
    *,
    measures: str | Iterable[str] = MEASURES,
    moved_by: str | None = None,
    num_moved: int = 5,
    drop_self: bool | None = None,
    seed: int = 0,
) -> Comparison:
    """Test every pair of runs on every measure, over the judged queries.

    All judged queries with a relevant document count, in every run; what a run does not
    answer is 0. P values are corrected (Holm) over all pairs and measures.

    Args:
        runs: name → run, two or more; `read_run` reads a file.
        data: queries, documents and judgements. Queries of a run that are not judged are
            left out; documents that are not in the corpus keep their places. Both are noted.
        measures: names of ir_measures, a list or one string, such as `"nDCG@10 P@1"`.
        moved_by: one of `measures`; None takes the first nDCG, or else the first.
        num_moved: int ≥ 0, how many queries are named in each direction.
        drop_self: leave out hits that are the query itself, as in `evaluate`.
        seed: of the bootstrap and the randomisation test.

    Raises:
        ValueError: fewer than two runs, a run that answers no judged query or holds no
            document of the corpus, or a measure that cannot be computed.
    """
    cutoffs = {name: cutoff_of(parsed) for name, parsed in parse_measures(measures).items()}
    moved_by = _moved_by(moved_by, list(cutoffs))
    if num_moved < 0:
        raise ValueError(f"`num_moved` must be at least 0. Received: num_moved={num_moved}.")
    if len(runs) < 2:
        raise ValueError(
            f"`runs` must hold two runs or more. Received: {list(runs)}. Name another run."
        )
    scores, notes = _judge(runs, data, cutoffs, drop_self)
    values = {name: matrix(found) for name, found in scores.items()}
    column = list(cutoffs).index(moved_by)
    differences, moved = [], []
    for first, second in combinations(runs, 2):
        found = values[second] - values[first]
        differences += _differences(first, second, list(cutoffs), found, seed)
        pairs = zip(
            scores[first].per_query, values[first][:, column], values[second][:, column],
            strict=True,
        )  # fmt: skip
        moves = [
            Move(first, second, query_id, data.queries.get(query_id, ""), float(one), float(other))
            for query_id, one, other in pairs
        ]
        moved += _most_moved(moves, num_moved)
    comparison = Comparison(
        source=data.source,
        split=data.split,
        scores=scores,
        estimates=estimate_all(scores, seed),
        differences=tuple(differences),
        moved_by=moved_by,
        moved=tuple(moved),
        seed=seed,
        notes=(*data.notes, *notes),
    )
    return correct([comparison])[0]


def correct(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The same with Holm's correction over the tests of all of them, as for several data sets.

    Each of the two tests is corrected among its own kind.

    Args:
        comparisons: results of `compare_runs`.
    """
    tests = [difference for one in comparisons for difference in one.differences]
    randomisation = iter(holm([test.p_randomisation for test in tests]))
    t = iter(holm([math.nan if test.p_t is None else test.p_t for test in tests]))
    return [
        replace(
            one,
            num_tests=len(tests),
            differences=tuple(
                replace(
                    difference, holm_randomisation=next(randomisation), holm_t=_or_none(next(t))
                )
                for difference in one.differences
            ),
        )
        for one in comparisons
    ]


def _judge(
    runs: Mapping[str, Run],
    data: RetrievalData,
    cutoffs: Mapping[str, int | None],
    drop_self: bool | None,
) -> tuple[dict[str, Scores], list[str]]:
    """What each run is worth, and what there is to say."""
    notes = [note for name, run in runs.items() for note in _check_run(name, run, data)]
    exclude = self_retrieval_ids(data) if drops_self(data, drop_self) else {}
    depth = max(len(hits) for run in runs.values() for hits in run.values())
    notes += notes_on_cutoffs(cutoffs, depth, len(data.documents))
    scores = {
        name: measure(cut_run(run, depth, exclude), data.qrels, cutoffs)
        for name, run in runs.items()
    }
    notes += [
        f"{name}: {found.num_unanswered} judged queries are not in the run and count 0: "
        + first_names(found.unanswered)
        for name, found in scores.items()
        if found.unanswered
    ]
    return scores, notes


def _moved_by(name: str | None, measures: list[str]) -> str:
    if name is None:
        return next((known for known in measures if known.startswith("nDCG")), measures[0])
    if name not in measures:
        raise ValueError(
            f"`moved_by` must be one of the measures: {', '.join(measures)}. "
            f"Received: {name!r}. Add it to `measures`."
        )
    return name


def _check_run(name: str, run: Run, data: RetrievalData) -> list[str]:
    """What there is to say about ids; raises if a run cannot be of these data."""
    judged = {q for q, grades in data.qrels.items() if any(g > 0 for g in grades.values())}
    asked = [query_id for query_id, hits in run.items() if hits]
    if asked and judged and not judged.intersection(asked):
        raise ValueError(
            f"`runs` must answer queries that {data.source} ({data.split}) judges. "
            f"Received: run {name}, with {len(asked)} queries and none of them, such as "
            f"{asked[0]!r}; judged is for example {min(judged)!r}. Check data and split."
        )
    found = {document_id for hits in run.values() for document_id in hits}
    unknown = sorted(found - data.documents.keys())
    if not found or len(unknown) == len(found):
        raise ValueError(
            f"`runs` must find documents of {data.source}. Received: run {name}, with "
            f"{len(found)} documents and none of the corpus: {first_names(unknown) or 'empty'}. "
            "Check that run and data belong together."
        )
    notes = []
    if unknown:
        notes.append(
            f"{name}: {len(unknown)} documents are not in the corpus; they keep their places: "
            + first_names(unknown)
        )
    strange = [query_id for query_id in asked if query_id not in data.qrels]
    if strange:
        notes.append(
            f"{name}: {len(strange)} queries are not judged and left out: {first_names(strange)}"
        )
    return notes


def _differences(
    first: str, second: str, measures: list[str], found: np.ndarray, seed: int
) -> list[Difference]:
    rows = zip(
        measures,
        found.T,
        estimates(found, seed=seed),
        randomisation_test(found, seed=seed).tolist(),
        t_test(found).tolist(),
        strict=True,
    )
    return [
        Difference(
            first=first,
            second=second,
            measure=name,
            difference=estimate,
            wins=int(np.count_nonzero(column > SAME)),
            ties=int(np.count_nonzero(np.abs(column) <= SAME)),
            losses=int(np.count_nonzero(column < -SAME)),
            p_randomisation=p,
            p_t=_or_none(p_t),
        )
        for name, column, estimate, p, p_t in rows
    ]


def _most_moved(moves: list[Move], num: int) -> list[Move]:
    """Those that gained most, then those that lost most; equal ones in the order of the ids."""
    gained = sorted(moves, key=lambda move: (-move.change, move.query_id))[:num]
    lost = sorted(moves, key=lambda move: (move.change, move.query_id))[:num]
    return [m for m in gained if m.change > SAME] + [m for m in lost if m.change < -SAME]


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
