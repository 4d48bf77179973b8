"""What a retrieval data set is, whatever file it came from: texts by id, and judgements.

Every reader in this package returns a `RetrievalData`, and everything after the
readers takes one. Ids are strings and stay strings ("007" is not 7).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

Qrels = dict[str, dict[str, int]]
"""Judgements: query id → document id → grade. A grade above 0 is relevant."""


class Pair(NamedTuple):
    """One training example: a query and a document that answers it, both by id."""

    query_id: str
    document_id: str


@dataclass(frozen=True)
class RetrievalData:
    """Queries, documents and the judgements of one split.

    Args:
        source: how it was named, such as `beir:scifact`; used in messages.
        split: which judgements these are, such as `train`.
        queries: query id → text, of the whole set.
        documents: document id → text (title and text already joined), the whole corpus.
        qrels: judgements of `split`.
        negatives: query id → ids of documents given as hard negatives; often empty.
        notes: one line per oddity found while reading, such as "3 documents are
            empty"; readers count what they skip and say so here.
    """

    source: str
    split: str
    queries: Mapping[str, str]
    documents: Mapping[str, str]
    qrels: Qrels
    negatives: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def pairs(self) -> Iterator[Pair]:
        """Every relevant (query, document) whose texts are present, in file order."""
        for query_id, judged in self.qrels.items():
            for document_id, grade in judged.items():
                if grade > 0 and query_id in self.queries and document_id in self.documents:
                    yield Pair(query_id, document_id)

    def positives(self) -> dict[str, tuple[str, ...]]:
        """Query id → ids of its relevant documents that are in the corpus."""
        found: dict[str, list[str]] = {}
        for pair in self.pairs():
            found.setdefault(pair.query_id, []).append(pair.document_id)
        return {query_id: tuple(ids) for query_id, ids in found.items()}
