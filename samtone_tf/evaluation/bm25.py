"""The lexical baseline: BM25 in Lucene's form, by bm25s (extra `mining`)."""

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from samtone_tf.evaluation.retrieval import Exclude, first_hits
from samtone_tf.evaluation.trec import Run
from samtone_tf.index.base import check_k, id_ranks

K1 = 1.2  # Lucene's defaults
B = 0.75


def bm25_name() -> str:
    """What `bm25_run` computes here, for the record: a stemmer is used where one is installed."""
    stemmer = "Snowball stemmer" if _has_stemmer() else "no stemmer"
    return f"BM25 (Lucene, k1={K1}, b={B}, English stop words, {stemmer})"


def bm25_run(
    documents: Mapping[str, str],
    queries: Mapping[str, str],
    depth: int = 1000,
    *,
    exclude: Exclude | None = None,
) -> Run:
    """Rank documents by BM25.

    A document without any word of the query is no hit, so a query may get fewer than
    `depth` results, or none.

    Args:
        documents: document id → text.
        queries: query id → text.
        depth: int ≥ 1, documents per query.
        exclude: documents to leave out, by query; `depth` results remain.
    """
    depth = check_k(depth, "depth")
    bm25s = _import_bm25s()
    ids = list(documents)
    ranks = id_ranks(ids)
    tokens = _tokenize(bm25s, list(documents.values()))
    run: Run = {query_id: {} for query_id in queries}
    if not any(tokens):
        return run  # bm25s cannot index a corpus without words
    scorer = bm25s.BM25(method="lucene", k1=K1, b=B)
    scorer.index(tokens, show_progress=False)
    asked = zip(queries, _tokenize(bm25s, list(queries.values())), strict=True)
    for query_id, words in tqdm(asked, desc="bm25", unit="query", total=len(queries), delay=3):
        known = [word for word in words if word in scorer.vocab_dict]
        if known:
            out = (exclude or {}).get(query_id, ())
            scores = scorer.get_scores(known)
            best = _best(scores, ranks, depth + len(out))
            hits = {ids[row]: float(scores[row]) for row in best.tolist()}
            run[query_id] = first_hits(hits, depth, out)
    return run


def _best(scores: np.ndarray, ranks: np.ndarray, k: int) -> np.ndarray:
    """Rows of the k highest positive scores, ties by id descending."""
    rows = np.flatnonzero(scores > 0)
    if rows.size > k:
        kth = np.partition(scores[rows], rows.size - k)[rows.size - k]
        rows = rows[scores[rows] >= kth]
    return rows[np.lexsort((-ranks[rows], -scores[rows]))[:k]]


def _tokenize(bm25s: Any, texts: Sequence[str]) -> list[list[str]]:
    if not texts:
        return []
    stemmer = None
    if _has_stemmer():
        import Stemmer

        stemmer = Stemmer.Stemmer("english")
    return bm25s.tokenize(
        list(texts), stopwords="en", stemmer=stemmer, return_ids=False, show_progress=False
    )


def _has_stemmer() -> bool:
    return importlib.util.find_spec("Stemmer") is not None


def _import_bm25s() -> Any:
    try:
        import bm25s
    except ImportError as error:
        raise ImportError(
            f"`bm25s` must be installed for the BM25 baseline. Received: {error}. "
            'Run pip install "samtone-tf[mining]".'
        ) from error
    return bm25s
