"""Which queries and documents a run is validated on, out of a data set.

Everything is a function of the data and a seed, so that a resumed run is tested alike.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from samtone_tf.data.fingerprints import fingerprint, normalise
from samtone_tf.data.records import RetrievalData

HELD_OUT_PERCENT = 5
_QUERIES_STREAM, _DOCUMENTS_STREAM = 2, 3  # keep the draws apart from those of `pipeline`


@dataclass(frozen=True)
class ValidationSet:
    """Judged queries, and the documents to find their answers among.

    Args:
        data: the chosen part of a data set.
        all_queries: judged queries of the whole set.
        all_documents: documents of the whole set.
    """

    data: RetrievalData
    all_queries: int
    all_documents: int

    def __str__(self) -> str:
        queries, documents = len(self.data.qrels), len(self.data.documents)
        text = f"{_of(queries, self.all_queries)} {self.data.split} queries over "
        text += f"{_of(documents, self.all_documents)} documents"
        sampled = documents < self.all_documents
        return text + (": higher than over the whole corpus" if sampled else "")


def choose(
    data: RetrievalData, queries: int, documents: int | Literal["all"], seed: int
) -> ValidationSet:
    """Takes a part of a data set to validate on.

    All judged documents of the chosen queries are in, relevant or not.

    Args:
        data: with the judgements to use.
        queries: the most judged queries.
        documents: the most documents beside the judged ones, or all.
        seed: int >= 0, of the draws.

    Raises:
        ValueError: no query has a relevant document.
    """
    judged = list(data.positives())
    if not judged:
        raise ValueError(
            f"`validation` needs a judged query whose answer is in the corpus. Received: none in "
            f"the split {data.split} of {data.source}. Name another validation.split."
        )
    chosen = _draw(judged, queries, (seed, _QUERIES_STREAM))
    qrels = {query_id: data.qrels[query_id] for query_id in chosen}
    kept = {i for found in qrels.values() for i in found if i in data.documents}
    others = [i for i in data.documents if i not in kept]
    most = len(others) if documents == "all" else documents
    kept.update(_draw(others, most, (seed, _DOCUMENTS_STREAM)))
    part = replace(
        data,
        qrels=qrels,
        queries={query_id: data.queries[query_id] for query_id in chosen},
        documents={i: text for i, text in data.documents.items() if i in kept},
        negatives={},
    )
    return ValidationSet(part, len(judged), len(data.documents))


def hold_out(data: RetrievalData, most: int) -> tuple[RetrievalData, RetrievalData]:
    """Takes 5 in 100 of the judged queries away, and returns what is left and them.

    The text of a query decides by its hash, so that equal queries stay together.

    Args:
        data: the training data.
        most: queries that are taken at most; equal ones may add a few.

    Raises:
        ValueError: fewer than two queries.
    """
    keys = {i: fingerprint(f"held out: {normalise(data.queries[i])}") for i in data.positives()}
    if len(set(keys.values())) < 2:
        raise ValueError(
            "`validation.split` can be held_out only where there are two queries. "
            f"Received: {len(keys)} in {data.source}. Set it to none."
        )
    num = max(1, min(most, len(keys) * HELD_OUT_PERCENT // 100))
    limit = sorted(keys.values())[num - 1]
    taken = {query_id for query_id, key in keys.items() if key <= limit}
    left = {i: judged for i, judged in data.qrels.items() if i not in taken}
    held_out = {i: judged for i, judged in data.qrels.items() if i in taken}
    return replace(data, qrels=left), replace(data, split="held_out", qrels=held_out, notes=())


def _draw(items: list[str], most: int, seed: tuple[int, int]) -> list[str]:
    """At most `most` of the items, in their order."""
    if most >= len(items):
        return items
    places = np.random.default_rng(seed).choice(len(items), most, replace=False)
    return [items[place] for place in sorted(places)]


def _of(part: int, whole: int) -> str:
    return f"{whole:,}" if part == whole else f"{part:,} of {whole:,}"
