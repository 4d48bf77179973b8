"""`inspect_data`: what is in a data set, before anything is trained on it or judged with it.

Reads columns, as training does: with a cache no text stays in memory. Everything about
equal texts is counted with fingerprints of normalised texts, over the whole set; lengths and
languages are measured on texts evenly spread over it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samtone_tf.checks import check_at_least
from samtone_tf.data import grouping
from samtone_tf.data.cache import Cache
from samtone_tf.data.columns import Joined, take
from samtone_tf.data.inspection import Inspection, Pairs, Repeats, Sample, Shared
from samtone_tf.data.language import guess_languages
from samtone_tf.data.lengths import measure_lengths, spread
from samtone_tf.data.sources import list_splits, load_training_table
from samtone_tf.data.table import Records, Table, fingerprints_of
from samtone_tf.data.tokenizer import Tokenizer
from samtone_tf.data.training_pairs import TrainingPairs, make_training_pairs

COMPARED = ("train", "dev", "validation", "test")  # splits that are looked at unless asked for
NUM_SAMPLES = 5
_LANGUAGE_TEXTS = 2_000
_VOCABULARY_TEXTS = 20_000
_VOCABULARY_SIZE = 8_000


class _Split(NamedTuple):
    """What of a split is compared with others: fingerprints, each once."""

    queries: np.ndarray
    documents: np.ndarray
    pairs: np.ndarray
    judged: np.ndarray  # ids of judged queries


def inspect_data(
    source: str,
    split: str | None = None,
    *,
    vocabulary: str | Path | Tokenizer | None = None,
    query_length: int = 64,
    document_length: int = 256,
    batch_size: int = 512,
    against: Sequence[str] | None = None,
    sample: int = 100_000,
    cache: Cache | None = None,
) -> Inspection:
    """Return what is in a data set.

    Args:
        source: as for `load_data`.
        split: whose judgements are looked at; None takes train, or else the first there is.
        vocabulary: a SentencePiece model that counts tokens; None trains one of 8,000 pieces
            on at most 20,000 of the texts.
        query_length: tokens that are kept of a query, the end token counted.
        document_length: the same for a document.
        batch_size: of the batch in which equal documents may meet.
        against: splits that are compared with each other; None takes those of train, dev,
            validation and test that the set has.
        sample: texts of a side whose lengths are measured, at most.
        cache: where the columns are kept, as for training; None keeps them in memory.

    Raises:
        ValueError, FileNotFoundError: no such data, split or vocabulary.
    """
    for name, value in (("query_length", query_length), ("document_length", document_length)):
        check_at_least(name, value, 2)
    check_at_least("batch_size", batch_size, 1)
    check_at_least("sample", sample, 1)
    given = None if vocabulary is None else _tokenizer(vocabulary)
    splits = list_splits(source)
    if split is None:
        split = "train" if "train" in splits or not splits else splits[0]
    table = load_training_table(source, split, cache)
    compared = _compared(source, split, splits, against)
    pairs = make_training_pairs(table, ("id", "text", "positives"))
    documents = _text_fingerprints(table.documents)
    queries = _text_fingerprints(table.queries)
    found = {name: _of_split(table, pairs) for name in compared if name == split}
    for name in compared:
        if name != split:
            other = load_training_table(source, name, cache)
            found[name] = _of_split(other, make_training_pairs(other, ("id", "text", "positives")))
    relevant, judged = table.relevant(), np.unique(table.judged_queries)
    tokenizer, tokens = given or _train_tokenizer(table)
    judged_texts = table.judged_texts()
    grades, counts = np.unique(table.grades, return_counts=True)
    known = np.concatenate([part.judged for part in found.values()])
    return Inspection(
        source=source,
        split=split,
        splits=tuple(splits),
        compared=tuple(found),
        queries=len(table.queries),
        documents=len(table.documents),
        empty_documents=int(table.documents.is_empty.sum()),
        judged_queries=len(judged),
        judgements=len(table.grades),
        grades=dict(zip(grades.tolist(), counts.tolist(), strict=True)),
        absent_documents=len(table.documents.id_fingerprints) - len(table.documents),
        unanswerable_queries=len(judged) - grouping.count_distinct(table.judged_queries[relevant]),
        unjudged_queries=int((grouping.find(table.queries.id_fingerprints, known) < 0).sum()),
        queries_that_are_documents=int((grouping.find(queries[judged], documents) >= 0).sum()),
        query_repeats=_repeats(queries),
        document_repeats=_repeats(documents[~table.documents.is_empty]),
        pairs=_pairs(table, pairs, batch_size),
        query_lengths=measure_lengths(judged_texts, tokenizer, query_length, sample, "queries"),
        document_lengths=measure_lengths(
            table.documents.texts, tokenizer, document_length, sample, "documents"
        ),
        tokens=tokens,
        query_languages=_languages(judged_texts),
        document_languages=_languages(table.documents.texts),
        shared=_shared(found),
        samples=_samples(table, pairs),
        notes=table.notes + pairs.notes,
    )


def _tokenizer(vocabulary: str | Path | Tokenizer) -> tuple[Tokenizer, str]:
    if isinstance(vocabulary, Tokenizer):
        return vocabulary, f"a vocabulary of {vocabulary.vocabulary_size:,} pieces"
    tokenizer = Tokenizer.from_file(vocabulary)
    return tokenizer, f"{vocabulary}, {tokenizer.vocabulary_size:,} pieces"


def _train_tokenizer(table: Table) -> tuple[Tokenizer, str]:
    texts = Joined(table.judged_texts(), table.documents.texts)
    chosen = [texts[row] for row in spread(len(texts), _VOCABULARY_TEXTS).tolist()]
    tokenizer = Tokenizer.train(chosen, _VOCABULARY_SIZE)
    made_of = f"{len(chosen):,} of these texts"
    return tokenizer, f"{tokenizer.vocabulary_size:,} pieces, trained on {made_of}"


def _compared(
    source: str, split: str, splits: Sequence[str], against: Sequence[str] | None
) -> list[str]:
    unknown = [name for name in against or () if name not in splits]
    if unknown:
        raise ValueError(
            f"`against` must be splits of {source}: {', '.join(splits) or 'it has none'}. "
            f"Received: {', '.join(unknown)}. Choose among them."
        )
    chosen = [name for name in COMPARED if name in splits] if against is None else list(against)
    return list(dict.fromkeys([*chosen, split]))


def _text_fingerprints(records: Records) -> np.ndarray:
    """Int64 (len(records),)."""
    if records.text_fingerprints is not None:
        return records.text_fingerprints
    return fingerprints_of(records.texts)


def _of_split(table: Table, pairs: TrainingPairs) -> _Split:
    return _Split(
        np.unique(pairs.query_fingerprints),
        np.unique(pairs.document_fingerprints),
        np.unique(_pair_keys(pairs.query_fingerprints, pairs.document_fingerprints)),
        np.unique(table.queries.id_fingerprints[table.judged_queries]),
    )


def _pair_keys(queries: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """One number for two; as likely to be the same by chance as fingerprints are."""
    mixed = queries.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + documents.astype(np.uint64)
    return mixed.view(np.int64)


def _repeats(fingerprints: np.ndarray) -> Repeats:
    counts = _counts(fingerprints)
    return Repeats(len(fingerprints), len(counts), int(counts.max(initial=0)))


def _counts(fingerprints: np.ndarray) -> np.ndarray:
    """How many have each of the different fingerprints."""
    ordered = np.sort(fingerprints)
    starts = np.flatnonzero(np.diff(ordered, prepend=-1) != 0)
    return np.diff(np.append(starts, len(ordered)))


def _pairs(table: Table, pairs: TrainingPairs, batch_size: int) -> Pairs:
    batch = min(batch_size, len(pairs))
    return Pairs(
        num=len(pairs),
        queries=_repeats(pairs.query_fingerprints),
        documents=_repeats(pairs.document_fingerprints),
        batch_size=batch,
        same_query=_meetings(pairs.query_fingerprints, batch),
        same_document=_meetings(pairs.document_fingerprints, batch),
        negatives=len(table.negative_queries),
    )


def _meetings(fingerprints: np.ndarray, batch_size: int) -> float:
    """Other rows of a random batch that have a row's fingerprint, on average.

    Of n rows, c of which share one: (B - 1) Σ c (c - 1) / (n (n - 1)).
    """
    num, counts = len(fingerprints), _counts(fingerprints).astype(float)
    if num < 2:
        return 0.0
    return float((batch_size - 1) * (counts * (counts - 1)).sum() / (num * (num - 1)))


def _languages(texts: Sequence[str]) -> dict[str, float]:
    return guess_languages(take(texts, spread(len(texts), _LANGUAGE_TEXTS)))


def _shared(found: dict[str, _Split]) -> tuple[Shared, ...]:
    """Each split against those before it, `train` first."""
    order = sorted(found, key=lambda name: COMPARED.index(name) if name in COMPARED else 9)
    shared = []
    for place, split in enumerate(order):
        for other in order[:place]:
            one, two = found[split], found[other]
            numbers = {}
            for part in ("queries", "documents", "pairs"):
                mine, theirs = getattr(one, part), getattr(two, part)
                numbers[part] = len(mine)
                numbers[f"shared_{part}"] = len(np.intersect1d(mine, theirs, assume_unique=True))
            shared.append(Shared(split, other, **numbers))
    return tuple(shared)


def _samples(table: Table, pairs: TrainingPairs) -> tuple[Sample, ...]:
    rows = spread(len(pairs), NUM_SAMPLES)
    queries = take(table.queries.texts, pairs.query_rows[rows])
    documents = take(table.documents.texts, pairs.document_rows[rows])
    return tuple(Sample(*texts) for texts in zip(queries, documents, strict=True))
