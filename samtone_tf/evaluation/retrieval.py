"""From query vectors and an index to a run."""

import re
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from tqdm import tqdm

from samtone_tf.data.records import RetrievalData
from samtone_tf.evaluation.trec import Run
from samtone_tf.index.base import Index, check_k, check_vectors

Exclude = Mapping[str, Collection[str]]
"""Query id → ids of documents that must not be among its results."""

TAKE_QUERIES_FROM_CORPUS = ("arguana", "quora")
"""Data sets that are judged, by custom, without each query's hit on itself."""


def search_run(
    index: Index,
    query_ids: Sequence[str],
    query_vectors: np.ndarray,
    depth: int = 1000,
    *,
    batch_size: int = 256,
    exclude: Exclude | None = None,
) -> Run:
    """Search for every query.

    Args:
        index: what to search.
        query_ids: distinct strings, one per row of `query_vectors`.
        query_vectors: floats `(B, D)`.
        depth: int ≥ 1, documents per query; all of them, if there are fewer.
        batch_size: int ≥ 1, queries searched at once.
        exclude: documents to leave out, by query. The search goes deeper by as many,
            so `depth` results remain.
    """
    depth = check_k(depth, "depth")
    batch_size = check_k(batch_size, "batch_size")
    vectors = check_vectors(query_vectors, "query_vectors", index.dim)
    _check_query_ids(query_ids, len(vectors))
    exclude = exclude or {}
    k = min(depth + _most_excluded(exclude, query_ids), index.num_documents)
    run: Run = {}
    for start in tqdm(range(0, len(vectors), batch_size), desc="search", unit="batch", delay=3):
        found = index.search(vectors[start : start + batch_size], k)
        names = query_ids[start : start + batch_size]
        for query_id, ids, scores in zip(names, found.document_ids, found.scores, strict=True):
            hits = dict(zip(ids, scores.tolist(), strict=True))
            run[query_id] = first_hits(hits, depth, exclude.get(query_id, ()))
    return run


def first_hits(
    ranked: Mapping[str, float], depth: int, exclude: Collection[str] = ()
) -> dict[str, float]:
    """The first `depth` of hits that are in ranking order, without the excluded ones."""
    kept = [(document_id, s) for document_id, s in ranked.items() if document_id not in exclude]
    return dict(kept[:depth])


def self_retrieval_ids(data: RetrievalData) -> dict[str, set[str]]:
    """For each query that is itself a document of the corpus, that document.

    Sets such as ArguAna and Quora take their queries from the corpus, under the same
    id; a query's best hit is then itself. A document is taken for the query if it has
    its id and its text, with or without a title in front. An equal id alone is chance.
    """
    found: dict[str, set[str]] = {}
    for query_id, query in data.queries.items():
        if query_id in data.documents:
            query, document = _plain(query), _plain(data.documents[query_id])
            if query == document or (query and document.endswith(" " + query)):
                found[query_id] = {query_id}
    return found


def drops_self(data: RetrievalData, drop_self: bool | None = None) -> bool:
    """Whether a query's hit on itself is left out.

    Args:
        data: only its `source` matters, and of that the last component of the path.
        drop_self: True or False settles it; None is True if ArguAna or Quora is named there.
    """
    if drop_self is not None:
        return drop_self
    name = re.split(r"[:/\\]", data.source.rstrip("/\\"))[-1].lower()
    return any(known in name for known in TAKE_QUERIES_FROM_CORPUS)


def _plain(text: str) -> str:
    return " ".join(text.split())


def _most_excluded(exclude: Exclude, query_ids: Sequence[str]) -> int:
    return max((len(exclude.get(query_id, ())) for query_id in query_ids), default=0)


def _check_query_ids(query_ids: Sequence[str], num_vectors: int) -> None:
    if len(query_ids) != num_vectors:
        raise ValueError(
            f"`query_ids` must name every vector. Received: {len(query_ids)} ids for "
            f"{num_vectors} vectors. Pass one id per row."
        )
    if len(set(query_ids)) != len(query_ids):
        raise ValueError(
            "`query_ids` must be distinct. "
            f"Received: {len(query_ids) - len(set(query_ids))} repetitions. Remove them first."
        )
