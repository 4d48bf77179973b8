"""What an inspection of a data set holds, in numbers."""

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from samtone_tf.data.lengths import Lengths


@dataclass(frozen=True)
class Repeats:
    """How often texts of one kind are the same, after normalisation.

    Args:
        total: of them.
        different: texts among them.
        most: the most that have one text.
    """

    total: int
    different: int
    most: int

    @property
    def unique_rate(self) -> float:
        """Different texts in 1."""
        return self.different / self.total if self.total else 1.0


@dataclass(frozen=True)
class Pairs:
    """The pairs of the split, as training sees them.

    Args:
        num: of pairs.
        queries: of the pairs.
        documents: of the pairs; `documents.unique_rate` is the paper's rate.
        batch_size: of the batch that is asked about.
        same_query: other rows that have a row's query, on average over such a batch.
        same_document: the same for its document.
        negatives: hard negatives that queries of the split come with.
    """

    num: int
    queries: Repeats
    documents: Repeats
    batch_size: int
    same_query: float
    same_document: float
    negatives: int


@dataclass(frozen=True)
class Shared:
    """What two splits have in common, by text.

    Args:
        split: the one whose share is counted, such as `test`.
        other: the one it is looked for in, such as `train`.
        queries: different query texts of `split`.
        shared_queries: those that `other` asks, too.
        documents: different relevant texts of `split`.
        shared_documents: those that are relevant in `other`, too.
        pairs: different relevant pairs of `split`.
        shared_pairs: those that are pairs of `other`, too.
    """

    split: str
    other: str
    queries: int
    shared_queries: int
    documents: int
    shared_documents: int
    pairs: int
    shared_pairs: int


class Sample(NamedTuple):
    """One pair of the split."""

    query: str
    document: str


@dataclass(frozen=True)
class Inspection:
    """What `inspect_data` found; `to_json` gives it as plain numbers and texts.

    Args:
        source: how the set was named.
        split: whose judgements were looked at.
        splits: those that the set has; empty if it has no such division.
        compared: those that were read.
        queries: of the whole set.
        documents: the corpus.
        empty_documents: of them.
        judged_queries: of the split.
        judgements: of the split.
        grades: grade → judgements.
        absent_documents: judged documents that the corpus lacks.
        unanswerable_queries: judged in the split, without a relevant document in the corpus.
        unjudged_queries: judged in none of the splits that were read.
        queries_that_are_documents: judged queries whose text is a document's.
        query_repeats: equal texts among all queries.
        document_repeats: equal texts in the corpus.
        pairs: of the split.
        query_lengths: of its judged queries.
        document_lengths: of the corpus.
        tokens: which vocabulary counted them.
        query_languages: guess → share of queries that were looked at.
        document_languages: the same for documents.
        shared: what splits have in common.
        samples: five pairs.
        notes: what reading found odd.
    """

    source: str
    split: str
    splits: tuple[str, ...]
    compared: tuple[str, ...]
    queries: int
    documents: int
    empty_documents: int
    judged_queries: int
    judgements: int
    grades: dict[int, int]
    absent_documents: int
    unanswerable_queries: int
    unjudged_queries: int
    queries_that_are_documents: int
    query_repeats: Repeats
    document_repeats: Repeats
    pairs: Pairs
    query_lengths: Lengths
    document_lengths: Lengths
    tokens: str
    query_languages: dict[str, float]
    document_languages: dict[str, float]
    shared: tuple[Shared, ...]
    samples: tuple[Sample, ...]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return everything as dictionaries, lists, numbers and texts."""
        found = asdict(self)
        for part in ("query_repeats", "document_repeats"):
            found[part]["unique_rate"] = getattr(self, part).unique_rate
        for part in ("queries", "documents"):
            found["pairs"][part]["unique_rate"] = getattr(self.pairs, part).unique_rate
        found["samples"] = [sample._asdict() for sample in self.samples]
        return found

    def __str__(self) -> str:
        from samtone_tf.data.inspect_text import as_text

        return as_text(self)
