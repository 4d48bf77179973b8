"""Judging a retriever on one data set: exact search and other indexes side by side.

Exact search shows what the model is worth. The difference to an approximate index
is the index's loss, and is shown as such, never as the model's quality.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from samtone_tf.data.records import RetrievalData
from samtone_tf.evaluation.evaluation import Evaluation
from samtone_tf.evaluation.measures import measure
from samtone_tf.evaluation.retrieval import Exclude, first_hits, search_run, self_retrieval_ids
from samtone_tf.evaluation.trec import Run, ranking
from samtone_tf.index.base import Index, check_k, check_vectors
from samtone_tf.index.exact import ExactIndex
from samtone_tf.index.report import index_report

EncodeQueries = Callable[[list[str]], np.ndarray]


def evaluate(
    data: RetrievalData,
    encode_queries: EncodeQueries,
    indexes: Sequence[Index],
    *,
    depth: int = 1000,
    drop_self: bool = False,
    runs: Mapping[str, Run] | None = None,
) -> Evaluation:
    """Encode the judged queries, search every index, judge every run.

    An index's loss is computed when an `ExactIndex` over the same documents is among
    `indexes`. Measures of an approximate index are those of a search `depth` deep,
    which may look harder than one for 10; `index_recall` is measured at 10 and 100.

    Args:
        data: queries, documents and judgements.
        encode_queries: texts → floats `(B, D)`, one row per text.
        indexes: what to search; each kind at most once.
        depth: int ≥ 1, documents per query.
        drop_self: leave out the document that is the query itself (ArguAna, Quora).
        runs: further runs to judge beside them, by name, such as BM25's.
    """
    depth = check_k(depth, "depth")
    _check_indexes(indexes, runs or {})
    judged_ids = _judged(data)
    query_ids = [query_id for query_id in judged_ids if query_id in data.queries]
    vectors = _encode(encode_queries, [data.queries[query_id] for query_id in query_ids])
    itself = self_retrieval_ids(data) if drop_self else {}
    exclude = {query_id: itself[query_id] for query_id in query_ids if query_id in itself}
    notes = _notes(data, indexes, len(judged_ids) - len(query_ids), len(exclude))
    found = {
        index.kind: search_run(index, query_ids, vectors, depth, exclude=exclude)
        for index in indexes
    }
    found |= {name: _cut(run, depth, exclude) for name, run in (runs or {}).items()}
    return Evaluation(
        source=data.source,
        split=data.split,
        depth=depth,
        scores={name: measure(run, data.qrels) for name, run in found.items()},
        runs=found,
        index_recall=_index_recall(indexes, vectors),
        notes=(*data.notes, *notes),
    )


def _judged(data: RetrievalData) -> list[str]:
    return [q for q, judged in data.qrels.items() if any(grade > 0 for grade in judged.values())]


def _cut(run: Run, depth: int, exclude: Exclude) -> Run:
    """The first `depth` hits of every query of a run from elsewhere."""
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


def _index_recall(indexes: Sequence[Index], vectors: np.ndarray) -> dict[str, dict[str, float]]:
    exact = next((index for index in indexes if isinstance(index, ExactIndex)), None)
    found = {}
    for index in indexes:
        if exact is not None and index is not exact:
            report = index_report(index, exact, vectors)
            found[index.kind] = {
                "recall@10": report.recall_at_10,
                "recall@100": report.recall_at_100,
            }
    return found


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


def _notes(
    data: RetrievalData, indexes: Sequence[Index], num_without_text: int, num_excluded: int
) -> list[str]:
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
    if num_excluded:
        notes.append(f"{num_excluded} queries are documents themselves; those hits were left out")
    return notes
