"""What an index costs and loses: recall against exact search, time and bytes."""

import time
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from samtone_tf.index.base import Index, SearchResult, check_vectors
from samtone_tf.index.exact import ExactIndex
from samtone_tf.index.scann_settings import BRUTE_FORCE_BELOW, ScannSettings

MAX_QUERIES = 1_000
TIE = 1e-6
"""Scores this close count as equal: what float32 rounding does to a cosine."""


@dataclass(frozen=True)
class IndexReport:
    """Measured on one index; `report.json` in its folder.

    Args:
        kind: `exact` or `scann`.
        search: what a search does: `exact`; or ScaNN's `brute force`, which looks at every
            document and so loses nothing, or `codes + reorder`, or
            `tree + codes + reorder`.
        recall_at_10: share of the 10 best documents by exact search that the index finds.
        recall_at_100: the same for 100.
        num_queries: how many queries that was measured with.
        queries: `given`, or `sampled from the corpus`: documents as queries find
            themselves, so their recall flatters the index.
        ms_per_query: mean wall time of a search for 10 documents, in milliseconds, all
            queries searched as one batch on all cores.
        build_seconds: wall time of building, or None if not measured.
        bytes_on_disk: size of the folder without the report, or None if not saved.
        settings: the index's `ScannSettings`, all filled in; empty if it has none.
        storage: what the vectors behind the scores are kept as. What it loses is part of
            both recalls, for these are against float32.
        bytes_per_vector: size of the index's own files by document, without ids and texts, or
            None if not saved.
    """

    kind: str
    search: str
    num_documents: int
    dim: int
    recall_at_10: float
    recall_at_100: float
    num_queries: int
    queries: str
    ms_per_query: float
    build_seconds: float | None = None
    bytes_on_disk: int | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    storage: str = "float32"
    bytes_per_vector: float | None = None

    @property
    def description(self) -> str:
        """Kind and search for a person, such as `scann (tree + codes + reorder)`."""
        stored = "" if self.storage == "float32" else f", {self.storage}"
        if self.search == self.kind:
            return self.kind + stored
        small = self.search == "brute force" and self.num_documents < BRUTE_FORCE_BELOW
        reason = f" below {BRUTE_FORCE_BELOW:,} documents" if small else ""
        return f"{self.kind} ({self.search}{reason}){stored}"

    def to_json(self) -> dict[str, Any]:
        """The fields, as JSON holds them."""
        return asdict(self)


def index_report(
    index: Index,
    exact: ExactIndex,
    query_vectors: np.ndarray | None = None,
    *,
    build_seconds: float | None = None,
    bytes_on_disk: int | None = None,
    seed: int = 0,
) -> IndexReport:
    """Measure an index against exact search over the same documents.

    Args:
        index: the index to measure.
        exact: exact search over the very same documents, in float32.
        query_vectors: floats `(B, D)`; at most 1,000 of them are used, drawn with
            `seed`. None draws documents instead, and the report says so.
        build_seconds: passed on into the report.
        bytes_on_disk: passed on into the report.
        seed: int, of the draw.
    """
    given = query_vectors is not None and len(query_vectors) > 0
    pool = check_vectors(query_vectors, "query_vectors", index.dim) if given else exact.vectors
    chosen = np.sort(np.random.default_rng(seed).permutation(len(pool))[:MAX_QUERIES])
    queries = pool[chosen] if isinstance(pool, np.ndarray) else pool.take(chosen)
    settings = getattr(index, "settings", None)  # not of the protocol: exact search has none
    known = isinstance(settings, ScannSettings)
    index.search(queries[:1], 10)  # the first search pays for threads and caches
    start = time.perf_counter()
    found = index.search(queries, 10)
    milliseconds = (time.perf_counter() - start) * 1000 / len(queries)
    return IndexReport(
        kind=index.kind,
        search=settings.search if known else index.kind,
        num_documents=index.num_documents,
        dim=index.dim,
        recall_at_10=recall(found, exact, queries, 10),
        recall_at_100=recall(index.search(queries, 100), exact, queries, 100),
        num_queries=len(queries),
        queries="given" if given else "sampled from the corpus",
        ms_per_query=milliseconds,
        build_seconds=build_seconds,
        bytes_on_disk=bytes_on_disk,
        settings=settings.to_json() if known else {},
        storage=getattr(index, "storage", "float32"),
    )


def recall(found: SearchResult, exact: ExactIndex, queries: np.ndarray, k: int) -> float:
    """Mean share of the k best documents that were found among the first k.

    A document counts if its exact score reaches that of the k-th best, so any choice
    among documents that tie for the last places is as good as another.

    Args:
        found: what an index returned for `queries`.
        exact: exact search over the same documents.
        queries: float32 `(B, D)`.
        k: int ≥ 1, depth; fewer where the corpus is smaller.
    """
    k = min(k, exact.num_documents)
    best = exact.search(queries, k)
    shares = [
        np.count_nonzero(exact.score(query, ids[:k]) >= scores[-1] - TIE) / k
        for query, ids, scores in zip(queries, found.document_ids, best.scores, strict=True)
    ]
    return float(np.mean(shares))
