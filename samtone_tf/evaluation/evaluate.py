"""Judging a retriever on one data set: exact search and other indexes side by side.

Exact search shows what the model is worth. The difference to an approximate index
is the index's loss, and is shown as such, never as the model's quality.

An approximate index works harder the more it is asked for, so each of its measures
comes from the search that its user would make: one for 10, or a deep one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from samtone_tf.data.records import RetrievalData
from samtone_tf.evaluation.evaluation import Evaluation, estimate_all, estimate_losses
from samtone_tf.evaluation.measure_names import cutoff_of, parse_measures
from samtone_tf.evaluation.measures import MEASURES, Scores, measure
from samtone_tf.evaluation.retrieval import (
    Exclude,
    drops_self,
    first_hits,
    search_run,
    self_retrieval_ids,
)
from samtone_tf.evaluation.trec import Run, ranking
from samtone_tf.index.base import Index, check_k, check_vectors
from samtone_tf.index.exact import ExactIndex
from samtone_tf.index.report import IndexReport, index_report

SHALLOW = 10
"""`k` of the search behind an approximate index's measures with a cutoff up to it."""

EncodeQueries = Callable[[list[str]], np.ndarray]


def evaluate(
    data: RetrievalData,
    encode_queries: EncodeQueries,
    indexes: Sequence[Index],
    *,
    depth: int = 1000,
    drop_self: bool | None = None,
    runs: Mapping[str, Run] | None = None,
    measures: str | Iterable[str] = MEASURES,
    seed: int = 0,
) -> Evaluation:
    """Encode the judged queries, search every index, judge every run.

    Every mean comes with a 95 % bootstrap interval over the queries.

    An index's loss is computed when an `ExactIndex` over the same documents is among
    `indexes`. An approximate index is searched twice: measures with a cutoff up to 10
    (P@1, MRR@10, nDCG@10) come from a search for 10 documents, as `samtone search`
    makes, the others (MRR, R@100, MAP) from one for `depth`, which may look harder.
    Its run is the deep one. `index_recall` comes from searches for 10 and for 100.

    Args:
        data: queries, documents and judgements.
        encode_queries: texts → floats `(B, D)`, one row per text.
        indexes: what to search; each kind at most once.
        depth: int ≥ 1, documents per query.
        drop_self: leave out the document that is the query itself. None does so for data
            whose source names ArguAna or Quora, and says so in the notes.
        runs: further runs to judge beside them, by name, such as BM25's.
        measures: names of ir_measures, a list or one string, such as `"nDCG@10 P@1"`.
        seed: of the bootstrap.
    """
    depth = check_k(depth, "depth")
    cutoffs = {name: cutoff_of(parsed) for name, parsed in parse_measures(measures).items()}
    _check_indexes(indexes, runs or {})
    judged_ids = _judged(data)
    query_ids = [query_id for query_id in judged_ids if query_id in data.queries]
    vectors = _encode(encode_queries, [data.queries[query_id] for query_id in query_ids])
    itself = self_retrieval_ids(data)
    itself = {query_id: itself[query_id] for query_id in query_ids if query_id in itself}
    exclude = itself if drops_self(data, drop_self) else {}
    notes = _notes(data, indexes, len(judged_ids) - len(query_ids))
    notes += _notes_on_self(data, drop_self, len(itself))
    notes += notes_on_cutoffs(cutoffs, depth, len(data.documents))
    found = {
        index.kind: search_run(index, query_ids, vectors, depth, exclude=exclude)
        for index in indexes
    }
    found |= {name: cut_run(run, depth, exclude) for name, run in (runs or {}).items()}
    scores = {name: measure(run, data.qrels, cutoffs) for name, run in found.items()}
    small = [name for name, cutoff in cutoffs.items() if cutoff and cutoff <= SHALLOW]
    twice = [index for index in indexes if depth > SHALLOW and not isinstance(index, ExactIndex)]
    for index in twice if small else ():
        run = search_run(index, query_ids, vectors, SHALLOW, exclude=exclude)
        scores[index.kind] = _merged(scores[index.kind], measure(run, data.qrels, small))
    depths = {name: SHALLOW if name in small else depth for name in cutoffs}
    reports = _reports(indexes, vectors)
    return Evaluation(
        source=data.source,
        split=data.split,
        depth=depth,
        scores=scores,
        runs=found,
        estimates=estimate_all(scores, seed),
        losses=estimate_losses(scores, list(reports), seed),
        seed=seed,
        num_documents=len(data.documents),
        index_recall={
            kind: {"recall@10": report.recall_at_10, "recall@100": report.recall_at_100}
            for kind, report in reports.items()
        },
        descriptions={kind: report.description for kind, report in reports.items()},
        measure_depths={index.kind: depths for index in twice if small},
        notes=(*data.notes, *notes),
    )


def _judged(data: RetrievalData) -> list[str]:
    return [q for q, judged in data.qrels.items() if any(grade > 0 for grade in judged.values())]


def cut_run(run: Run, depth: int, exclude: Exclude) -> Run:
    """The first `depth` hits of every query of a run from elsewhere.

    Args:
        run: scores, in any order.
        depth: int ≥ 1, hits that stay.
        exclude: documents that are left out before, by query.
    """
    cut = {}
    for query_id, scores in run.items():
        ranked = {document_id: scores[document_id] for document_id in ranking(scores)}
        cut[query_id] = first_hits(ranked, depth, exclude.get(query_id, ()))
    return cut


def _encode(encode_queries: EncodeQueries, texts: list[str]) -> np.ndarray:
    if not texts:
        raise ValueError(
            "`data` must judge at least one query whose text is there. Received: 0 such queries. "
            "Check that queries and judgements belong together."
        )
    vectors = check_vectors(encode_queries(texts), "encode_queries(texts)")
    if len(vectors) != len(texts):
        raise ValueError(
            "`encode_queries` must return one row per text. "
            f"Received: shape={vectors.shape} for {len(texts)} texts. Check its batching."
        )
    return vectors


def _merged(deep: Scores, shallow: Scores) -> Scores:
    """The deep run's scores, with the values of the measures that `shallow` holds."""
    per_query = {
        query_id: values | shallow.per_query[query_id]
        for query_id, values in deep.per_query.items()
    }
    return replace(deep, mean=deep.mean | shallow.mean, per_query=per_query)


def _reports(indexes: Sequence[Index], vectors: np.ndarray) -> dict[str, IndexReport]:
    """What was measured on each index beside exact search, if exact search is there."""
    exact = next((index for index in indexes if isinstance(index, ExactIndex)), None)
    if exact is None:
        return {}
    others = [index for index in indexes if index is not exact]
    return {index.kind: index_report(index, exact, vectors) for index in others}


def _check_indexes(indexes: Sequence[Index], runs: Mapping[str, Run]) -> None:
    names = [index.kind for index in indexes] + list(runs)
    if not names or len(set(names)) != len(names):
        raise ValueError(
            "`indexes` and `runs` must name at least one search, and each once. "
            f"Received: {names}. Rename or remove some."
        )
    for index in indexes[1:]:
        if set(index.document_ids) != set(indexes[0].document_ids):
            raise ValueError(
                "`indexes` must hold the same documents. "
                f"Received: {indexes[0].kind} and {index.kind}, which differ. "
                "Build them from the same vectors."
            )


def _notes(data: RetrievalData, indexes: Sequence[Index], num_without_text: int) -> list[str]:
    notes = []
    for index in indexes[:1]:
        missing = len(data.documents.keys() - set(index.document_ids))
        if missing == len(data.documents):
            raise ValueError(
                "`indexes` must hold documents of `data`. "
                f"Received: none of the {missing} documents of {data.source}. "
                "Use the index of this corpus."
            )
        if missing:
            notes.append(f"{missing} documents of the corpus are not in the index")
    if num_without_text:
        notes.append(f"{num_without_text} judged queries have no text; they count as unanswered")
    return notes


def notes_on_cutoffs(cutoffs: Mapping[str, int | None], depth: int, num: int) -> list[str]:
    """Says where a measure looks deeper than a search or a corpus goes.

    Args:
        cutoffs: measure → its cutoff, or None.
        depth: documents per query.
        num: documents of the corpus.
    """
    deeper = [name for name, cutoff in cutoffs.items() if cutoff and cutoff > min(depth, num)]
    if not deeper:
        return []
    what = f"the {num} documents of the corpus" if num < depth else f"depth {depth}"
    return [f"{', '.join(deeper)}: deeper than {what}; what is not there counts as not relevant"]


def _notes_on_self(data: RetrievalData, drop_self: bool | None, num_itself: int) -> list[str]:
    dropped = drops_self(data, drop_self)
    notes = []
    if dropped and drop_self is None:
        notes.append(f"drop_self was switched on by the name of the data, {data.source}")
    if num_itself and dropped:
        notes.append(f"{num_itself} queries are documents themselves; those hits were left out")
    elif num_itself:
        notes.append(
            f"{num_itself} queries are documents themselves (same id and text) and may find "
            "themselves; drop_self leaves those hits out"
        )
    return notes
