"""A data set as arrays: which pairs there are, and what a mask must know about each.

A mask compares fingerprints, never strings. Which pairs meet in a batch is decided elsewhere.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

import numpy as np

from samtone_tf.config import MASKS
from samtone_tf.data.fingerprints import fingerprint, normalise
from samtone_tf.data.records import Pair, RetrievalData

ABSENT = -1  # a fingerprint that no record has


@dataclass(frozen=True)
class TrainingPairs:
    """The pairs to train on, and their known positives and hard negatives.

    Args:
        pairs: ids of query and document, in file order.
        query_fingerprints: int64 (n,), one per pair.
        document_fingerprints: int64 (n,), the same for documents.
        positive_fingerprints: int64 (n, P), the pair's own document first, then other
            known positives of its query, then -1.
        negatives: query id → ids of its hard negatives; each once, none a known positive.
        fingerprint_of: document id → fingerprint, of every document named here.
        positives_overflow: pairs with more known positives than P.
        notes: one line per oddity.
    """

    pairs: list[Pair]
    query_fingerprints: np.ndarray
    document_fingerprints: np.ndarray
    positive_fingerprints: np.ndarray
    negatives: Mapping[str, tuple[str, ...]]
    fingerprint_of: Mapping[str, int]
    positives_overflow: int
    notes: tuple[str, ...]


def make_training_pairs(
    data: RetrievalData, masks: Collection[str] = MASKS, max_positives: int = 16
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
    usable = [pair for pair in data.pairs() if _has_texts(pair, data)]
    num_dropped = sum(1 for _ in data.pairs()) - len(usable)
    notes = [f"{num_dropped} pairs with an empty text were dropped"] if num_dropped else []

    documents_used = {pair.document_id for pair in usable}
    wanted = {pair.query_id for pair in usable} & data.negatives.keys()
    documents_used.update(
        document_id
        for query_id in wanted
        for document_id in data.negatives[query_id]
        if data.documents.get(document_id, "").strip()
    )
    by_text = "text" in masks
    document_of = _fingerprints(documents_used, data.documents, by_text)
    query_of = _fingerprints({pair.query_id for pair in usable}, data.queries, by_text)

    known = _known_positives(usable, query_of, document_of) if "positives" in masks else {}
    positives, overflow = _positive_table(usable, query_of, document_of, known, max_positives)
    negatives, more_notes = _usable_negatives(data, sorted(wanted), query_of, document_of, known)
    return TrainingPairs(
        pairs=usable,
        query_fingerprints=_int64(query_of[pair.query_id] for pair in usable),
        document_fingerprints=_int64(document_of[pair.document_id] for pair in usable),
        positive_fingerprints=positives,
        negatives=negatives,
        fingerprint_of=document_of,
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


def _has_texts(pair: Pair, data: RetrievalData) -> bool:
    return bool(data.queries[pair.query_id].strip() and data.documents[pair.document_id].strip())


def _fingerprints(ids: Collection[str], texts: Mapping[str, str], by_text: bool) -> dict[str, int]:
    return {
        record_id: fingerprint(normalise(texts[record_id]) if by_text else record_id)
        for record_id in ids
    }


def _known_positives(
    pairs: list[Pair], query_of: Mapping[str, int], document_of: Mapping[str, int]
) -> dict[int, dict[int, None]]:
    """Query fingerprint → its documents' fingerprints, in file order: equal queries share them."""
    known: dict[int, dict[int, None]] = {}
    for query_id, document_id in pairs:
        known.setdefault(query_of[query_id], {})[document_of[document_id]] = None
    return known


def _positive_table(
    pairs: list[Pair],
    query_of: Mapping[str, int],
    document_of: Mapping[str, int],
    known: Mapping[int, dict[int, None]],
    max_positives: int,
) -> tuple[np.ndarray, int]:
    most = max(map(len, known.values()), default=1)
    table = np.full((len(pairs), min(most, max_positives)), ABSENT, dtype=np.int64)
    overflow = 0
    for row, (query_id, document_id) in enumerate(pairs):
        own = document_of[document_id]
        positives = known.get(query_of[query_id], ())  # own is among them, or there are none
        overflow += len(positives) > max_positives
        others = (number for number in positives if number != own)
        listed = [own, *islice(others, max_positives - 1)]
        table[row, : len(listed)] = listed
    return table, overflow


def _usable_negatives(
    data: RetrievalData,
    query_ids: list[str],
    query_of: Mapping[str, int],
    document_of: Mapping[str, int],
    known: Mapping[int, dict[int, None]],
) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    usable = {}
    num_missing = num_positive = 0
    for query_id in query_ids:
        positives = known.get(query_of[query_id], {})
        kept: dict[int, str] = {}  # by fingerprint: the same text twice is one negative
        for document_id in data.negatives[query_id]:
            number = document_of.get(document_id)
            if number is None:
                num_missing += 1
            elif number in positives:
                num_positive += 1
            else:
                kept.setdefault(number, document_id)
        usable[query_id] = tuple(kept.values())
    notes = []
    if num_missing:
        notes.append(f"{num_missing} hard negatives are empty or not in the corpus; left out")
    if num_positive:
        notes.append(f"{num_positive} hard negatives are known positives; left out")
    return usable, notes


def _int64(numbers: Iterable[int]) -> np.ndarray:
    return np.fromiter(numbers, dtype=np.int64)
