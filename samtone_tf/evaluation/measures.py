"""Retrieval measures of a run, as trec_eval defines them, computed by ir_measures.

Every measure comes from one ranking: score descending, then document id
descending. The libraries behind ir_measures break ties each in their own way, so
runs are rewritten with distinct scores before they see them.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import ir_measures

from samtone_tf.data.records import Qrels
from samtone_tf.evaluation.measure_names import parse_measures
from samtone_tf.evaluation.trec import Run, ranking

MEASURES = ("P@1", "MRR", "MRR@10", "nDCG@10", "R@100", "MAP")
"""The measures that are printed when none are named; MRR and MAP see the whole run."""


@dataclass(frozen=True)
class Scores:
    """What a run is worth.

    Args:
        mean: measure → mean over the counted queries.
        per_query: query id → measure → value, for every counted query.
        num_queries: queries judged with at least one relevant document; all count.
        unanswered: those of them for which the run holds nothing; they count as 0.
        num_without_relevant: judged queries left out, having no relevant document.
        num_unjudged: queries of the run that nobody judged; ignored.
        num_ties: hits of counted queries with the very score of the hit before them.
    """

    mean: dict[str, float]
    per_query: dict[str, dict[str, float]]
    num_queries: int
    unanswered: tuple[str, ...]
    num_without_relevant: int
    num_unjudged: int
    num_ties: int

    @property
    def num_unanswered(self) -> int:
        """How many queries the run holds nothing for."""
        return len(self.unanswered)


def measure(run: Run, qrels: Qrels, measures: str | Iterable[str] = MEASURES) -> Scores:
    """Judge a run.

    Grades are gains as they are (linear nDCG); below 0 they count as 0. Relevant
    documents that are not in the corpus stay in the ideal ranking. P@k divides by k, even
    where the run or the corpus is smaller; Judged@k by the hits there are.

    Args:
        run: query id → document id → score.
        qrels: query id → document id → grade.
        measures: names that ir_measures knows, such as `"nDCG@10 P@1 AP@100 Judged@10"`,
            and MRR, MAP and Recall for RR, AP and R.

    Raises:
        ValueError: a name that cannot be computed, NaN among the scores, a grade that is
            not whole, or no query with a relevant document.
    """
    parsed = parse_measures(measures)
    gains = _gains(qrels)
    counted = {query_id: run[query_id] for query_id in gains if run.get(query_id)}
    values = _calculate(set(parsed.values()), gains, counted)
    per_query = {
        query_id: {name: values.get((query_id, part), 0.0) for name, part in parsed.items()}
        for query_id in gains
    }
    return Scores(
        mean={
            name: math.fsum(query[name] for query in per_query.values()) / len(gains)
            for name in parsed
        },
        per_query=per_query,
        num_queries=len(gains),
        unanswered=tuple(query_id for query_id in gains if query_id not in counted),
        num_without_relevant=len(qrels) - len(gains),
        num_unjudged=sum(query_id not in qrels for query_id in run),
        num_ties=sum(len(scores) - len(set(scores.values())) for scores in counted.values()),
    )


def distinct_scores(scores: Mapping[str, float]) -> dict[str, float]:
    """The same ranking with scores n, n - 1, … 1, on which no two readers can differ."""
    for document_id, score in scores.items():
        if math.isnan(score):
            raise ValueError(
                f"`run` must hold numbers as scores. Received: nan for document {document_id!r}. "
                "Look for NaN in the model's output."
            )
    ranked = ranking(scores)
    return {document_id: float(len(ranked) - place) for place, document_id in enumerate(ranked)}


def _calculate(
    measures: Collection[Any], gains: Qrels, counted: Run
) -> dict[tuple[str, Any], float]:
    """(Query id, measure of ir_measures) → value, of the answered queries."""
    if not counted:  # nothing to compute, and not every provider takes an empty run
        return {}
    distinct = {query_id: distinct_scores(scores) for query_id, scores in counted.items()}
    results = ir_measures.iter_calc(list(measures), gains, distinct)
    return {(result.query_id, result.measure): float(result.value) for result in results}


def _gains(qrels: Qrels) -> Qrels:
    """Judgements of the queries that count, without negative grades."""
    gains: Qrels = {}
    for query_id, judged in qrels.items():
        if any(grade > 0 for grade in judged.values()):
            gains[query_id] = {
                document_id: max(0, _whole(grade, query_id, document_id))
                for document_id, grade in judged.items()
            }
    if not gains:
        raise ValueError(
            "`qrels` must judge at least one document as relevant (grade above 0). "
            f"Received: {len(qrels)} queries without any. Check the split."
        )
    return gains


def _whole(grade: Any, query_id: str, document_id: str) -> int:
    if int(grade) != grade:
        raise ValueError(
            f"`qrels` must hold whole grades. Received: {grade} for query {query_id!r} and "
            f"document {document_id!r}. Round or scale the grades."
        )
    return int(grade)
