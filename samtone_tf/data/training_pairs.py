"""A data set as pairs to train on, and what a mask must know about each.

A mask compares fingerprints, never strings. Which pairs meet in a batch is decided elsewhere.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from samtone_tf.config import MASKS
from samtone_tf.data import grouping
from samtone_tf.data.hard_negatives import HardNegatives
from samtone_tf.data.records import RetrievalData
from samtone_tf.data.table import Table, as_table

ABSENT = -1  # a fingerprint that no record has


@dataclass(frozen=True)
class KnownPositives:
    """For every group of pairs that ask the same, the documents that answer it.

    Args:
        group: int64 (n,), the group of each pair.
        counts: int64 (u,), documents of each group.
        starts: int64 (u,), where they begin in `documents`.
        documents: int64, their fingerprints, group after group, each once and in the order
            of the pairs.
        width: P, the most that are listed for a pair.
    """

    group: np.ndarray
    counts: np.ndarray
    starts: np.ndarray
    documents: np.ndarray
    width: int

    def of(self, pairs: np.ndarray, own: np.ndarray) -> np.ndarray:
        """Return the known positives of `pairs`.

        Args:
            pairs: int64 (B,), numbers of pairs.
            own: int64 (B,), fingerprint of the document of each.

        Returns:
            int64 (B, P): the own document, then the others in order, then -1.
        """
        groups = self.group[pairs]
        column = np.arange(self.width)
        places = self.starts[groups, None] + column
        is_there = column < self.counts[groups, None]
        listed = self.documents[np.where(is_there, places, 0)]
        listed = np.where(is_there, listed, ABSENT)
        # The own document moves to the front; where it stood, the others close up.
        is_own = np.pad(listed == own[:, None], ((0, 0), (1, 0)))
        order = np.argsort(is_own, axis=1, kind="stable")[:, : self.width]
        return np.take_along_axis(np.column_stack([own, listed]), order, axis=1)


@dataclass(frozen=True)
class TrainingPairs:
    """The pairs to train on, and their known positives and hard negatives.

    Args:
        query_rows: int64 (n,), rows of the table, one per pair, in file order.
        document_rows: int64 (n,), the same for documents.
        query_fingerprints: int64 (n,), one per pair.
        document_fingerprints: int64 (n,), the same for documents.
        positives: what is known to answer the query of each pair.
        negatives: by row of the query; each text once, none a known positive.
        positives_overflow: pairs with more known positives than are listed.
        notes: one line per oddity.
    """

    query_rows: np.ndarray
    document_rows: np.ndarray
    query_fingerprints: np.ndarray
    document_fingerprints: np.ndarray
    positives: KnownPositives
    negatives: HardNegatives
    positives_overflow: int
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.query_rows)

    def positive_fingerprints(self, pairs: np.ndarray) -> np.ndarray:
        """Return int64 (B, P): own document first, then other known positives, then -1."""
        return self.positives.of(pairs, self.document_fingerprints[pairs])


def make_training_pairs(
    data: RetrievalData | Table, masks: Collection[str] = MASKS, max_positives: int = 16
) -> TrainingPairs:
    """Collect the relevant pairs of `data`.

    Args:
        data: the data set; its judgements above 0 are the pairs.
        masks: what counts as known. With `text`, records of equal normalised text share
            a fingerprint; otherwise a record's id makes it. With `positives`, all known
            positives of a query are listed; otherwise only the pair's own document.
        max_positives: the most known positives listed per pair.
    """
    _check(masks, max_positives)
    table = as_table(data)
    relevant = table.relevant()
    query_rows, document_rows = table.judged_queries[relevant], table.judged_documents[relevant]
    is_blank = table.queries.is_empty[query_rows] | table.documents.is_empty[document_rows]
    query_rows, document_rows = query_rows[~is_blank], document_rows[~is_blank]
    num_dropped = int(is_blank.sum())
    notes = [f"{num_dropped} pairs with an empty text were dropped"] if num_dropped else []

    by_text = "text" in masks
    queries = table.queries.fingerprints(query_rows, by_text)
    documents = table.documents.fingerprints(document_rows, by_text)
    knows = "positives" in masks
    positives, overflow = _known_positives(queries, documents, knows, max_positives)
    negatives, more_notes = _usable_negatives(
        table, query_rows, by_text, (queries, documents) if knows else None
    )
    return TrainingPairs(
        query_rows=query_rows,
        document_rows=document_rows,
        query_fingerprints=queries,
        document_fingerprints=documents,
        positives=positives,
        negatives=negatives,
        positives_overflow=overflow,
        notes=tuple(notes + more_notes),
    )


def _check(masks: Collection[str], max_positives: int) -> None:
    unknown = [name for name in masks if name not in MASKS]
    if isinstance(masks, str) or unknown:
        raise ValueError(
            f"`masks` must be a list with any of: {', '.join(MASKS)}. "
            f"Received: {masks!r}. Use () to mask nothing."
        )
    if max_positives < 1:
        raise ValueError(
            "`max_positives` must be at least 1, for the pair's own document. "
            f"Received: max_positives={max_positives}. The default is 16."
        )


def _known_positives(
    queries: np.ndarray, documents: np.ndarray, knows: bool, max_positives: int
) -> tuple[KnownPositives, int]:
    """By query fingerprint, so that equal queries share their documents; and the overflow."""
    if not knows:  # every pair is alone, and its own document is all that is known
        group = np.arange(len(queries))
        return KnownPositives(group, np.ones_like(group), group, documents, 1), 0
    group, _ = grouping.number(queries)
    document_of, _ = grouping.number(documents)
    first = grouping.gather(group, document_of)
    counts = np.bincount(group[first])
    width = min(counts.max(initial=1), max_positives)
    overflow = int((counts[group] > max_positives).sum())
    starts = np.cumsum(counts) - counts
    return KnownPositives(group, counts, starts, documents[first], width), overflow


def _usable_negatives(
    table: Table,
    query_rows: np.ndarray,
    by_text: bool,
    known: tuple[np.ndarray, np.ndarray] | None,
) -> tuple[HardNegatives, list[str]]:
    """The hard negatives of queries that have a pair.

    Args:
        table: the data set.
        query_rows: int64 (n,), rows of the queries of the pairs.
        by_text: whether fingerprints are of texts.
        known: fingerprints of the queries and of the documents of all pairs; None when
            known positives are not looked at.
    """
    has_pair = np.zeros(len(table.queries), bool)
    has_pair[query_rows] = True
    given = has_pair[table.negative_queries]
    queries, documents = table.negative_queries[given], table.negative_documents[given]
    # Row -1, which is absent, finds the last one.
    is_there = (documents >= 0) & ~np.append(table.documents.is_empty, True)[documents]
    num_missing = int((~is_there).sum())
    queries, documents = queries[is_there], documents[is_there]
    numbers = table.documents.fingerprints(documents, by_text)
    is_positive = np.zeros(len(documents), bool)
    if known and len(documents):
        is_positive = _are_among(table.queries.fingerprints(queries, by_text), numbers, *known)
    queries, documents = queries[~is_positive], documents[~is_positive]
    number_of, _ = grouping.number(numbers[~is_positive])
    first = grouping.gather(queries, number_of)  # the same text twice is one negative
    order = first[np.argsort(queries[first], kind="stable")]
    # Most data has none, and then no column as long as the queries is kept for them.
    counts = np.bincount(queries[order], minlength=len(table.queries) * bool(len(order)))
    notes = []
    if num_missing:
        notes.append(f"{num_missing} hard negatives are empty or not in the corpus; left out")
    if is_positive.any():
        notes.append(f"{is_positive.sum()} hard negatives are known positives; left out")
    return HardNegatives(counts, documents[order]), notes


def _are_among(
    queries: np.ndarray, documents: np.ndarray, known_queries: np.ndarray, known: np.ndarray
) -> np.ndarray:
    """Bool (k,): whether (query, document) is one of the known pairs, all as fingerprints."""
    num = len(known)
    query_of, _ = grouping.number(np.concatenate([known_queries, queries]))
    document_of, _ = grouping.number(np.concatenate([known, documents]))
    pair = query_of * (document_of.max(initial=0) + 1) + document_of
    return grouping.find(pair[num:], pair[:num]) >= 0
