"""A corpus, queries and judgements that are kept apart → one table; nothing is held twice.

The readers of such layouts (`beir`, `msmarco`, `ir_datasets`, `multireqa`) say how each of
the three is read, as often as it is asked for; what they hold is checked here.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samtone_tf.data import grouping
from samtone_tf.data.columns import Numbers
from samtone_tf.data.fingerprints import fingerprint
from samtone_tf.data.lines import first_few
from samtone_tf.data.records import RetrievalData
from samtone_tf.data.table import RecordColumns, Records, Table, as_data


class Stream(NamedTuple):
    """What can be read from the start more than once; each item begins with its number.

    Args:
        name: before the number in messages, such as `data/corpus.jsonl`.
        read: starts again. Documents and queries are (number, id, text), judgements
            (number, query id, document id, grade).
        label: a short name, for notes.
    """

    name: str
    read: Callable[[], Iterable[tuple]]
    label: str


class NegativeRows(NamedTuple):
    """Row of a query and of a document (-1: not in the corpus), for every negative; and notes."""

    queries: np.ndarray
    documents: np.ndarray
    notes: list[str]


class Collection(NamedTuple):
    """One split of a data set.

    Args:
        source: how it was named, such as `beir:scifact`.
        split: whose judgements these are.
        documents: the whole corpus.
        queries: all of them.
        judgements: of the split.
        negatives: finds the hard negatives among (queries, documents), once these are read.
        notes: what was found odd before.
    """

    source: str
    split: str
    documents: Stream
    queries: Stream
    judgements: Stream
    negatives: Callable[[Records, Records], NegativeRows] | None = None
    notes: tuple[str, ...] = ()

    def read(self) -> RetrievalData:
        """Return it in memory, with ids."""
        return as_data(self.tabulate())

    def tabulate(self, into: Path | None = None) -> Table:
        """Return it as columns.

        Judged documents that are not in the corpus stay, since the ideal ranking holds them;
        judged queries that are not among the queries are dropped. Both are counted in `notes`.

        Args:
            into: the folder where the columns are written; None keeps them in memory.

        Raises:
            ValueError: an id twice, a pair with two grades, no text, or no relevant pair.
        """
        documents, notes = _read_documents(self.documents, into)
        queries = _read_queries(self.queries, into)
        judged, repeat_notes = _read_judgements(self.judgements, into)
        judged, documents, absent_notes = _find_records(judged, queries, documents, self)
        nothing = np.zeros(0, np.int64)
        negatives = NegativeRows(nothing, nothing, [])
        if self.negatives:
            negatives = self.negatives(queries, documents)
        notes = [*self.notes, *notes, *repeat_notes, *absent_notes, *negatives.notes]
        table = Table(
            source=self.source,
            split=self.split,
            queries=queries,
            documents=documents,
            judged_queries=judged.queries,
            judged_documents=judged.documents,
            grades=judged.grades,
            negative_queries=negatives.queries,
            negative_documents=negatives.documents,
            notes=tuple(notes),
        )
        if not len(table.relevant()):
            raise ValueError(
                f"{self.judgements.name}: no relevant pair is left. "
                f"Received: {'; '.join(notes) or 'no grade above 0'}. "
                f"Check that its ids are those of {self.queries.label} and {self.documents.label}."
            )
        return table


def negative_rows(
    pairs: Iterable[tuple[int, int]], queries: Records, documents: Records, into: Path | None
) -> NegativeRows:
    """Return rows for negatives that are given by ids.

    Args:
        pairs: fingerprints of the ids of a query and of its negative, as they come.
        queries: where the queries are.
        documents: where the negatives are.
        into: the folder for what is read; None keeps it in memory.
    """
    columns = [Numbers(into, f"negative_{name}") for name in ("queries", "documents")]
    for pair in pairs:
        for column, value in zip(columns, pair, strict=True):
            column.append(value)
    query_ids, document_ids = (column.finish() for column in columns)
    rows = grouping.find(query_ids, queries.id_fingerprints)
    found = grouping.find(document_ids, documents.id_fingerprints[: len(documents)])
    return NegativeRows(rows[rows >= 0], found[rows >= 0], [])


def _read_documents(stream: Stream, into: Path | None) -> tuple[Records, list[str]]:
    columns = RecordColumns(into, "documents")
    num = num_empty = 0
    empty: list[str] = []
    for _, document_id, text in stream.read():
        columns.append(document_id, text)
        num += 1
        if not text:
            num_empty += 1
            empty = [*empty, document_id][:4]  # enough for the message
    documents = columns.finish()
    _check_unique(documents, stream)
    if num_empty == num:
        raise ValueError(
            f"{stream.name}: every document is empty. Received: {num} documents without "
            "text. Check that this is the right file, and where it has its texts."
        )
    notes = [f"{num_empty} documents are empty: {first_few(empty)}"] if empty else []
    return documents, notes


def _read_queries(stream: Stream, into: Path | None) -> Records:
    columns = RecordColumns(into, "queries")
    for _, query_id, query in stream.read():
        columns.append(query_id, query)
    queries = columns.finish()
    _check_unique(queries, stream)
    return queries


def _check_unique(records: Records, stream: Stream) -> None:
    number_of, first = grouping.number(records.id_fingerprints)
    if len(first) == len(number_of):
        return
    repeat = int(np.flatnonzero(first[number_of] != np.arange(len(number_of)))[0])
    places = (int(first[number_of[repeat]]), repeat)
    # Reading again is cheaper than keeping a number for each of millions of records.
    found = [item for i, item in enumerate(stream.read()) if i in places]
    (before, *_), (number, record_id, _) = found
    raise ValueError(
        f"{stream.name}:{number}: every id must be there once. Received: {record_id!r}, which is "
        f"also on line {before}. Remove one of the two."
    )


class _Judged(NamedTuple):
    """Judgements, each pair once, by query: fingerprints of ids, and later rows."""

    queries: np.ndarray
    documents: np.ndarray
    grades: np.ndarray
    places: np.ndarray  # int64, which judgement of the stream each is


def _read_judgements(stream: Stream, into: Path | None) -> tuple[_Judged, list[str]]:
    columns = [Numbers(into, f"judged_{name}") for name in ("queries", "documents", "grades")]
    for _, query_id, document_id, grade in stream.read():
        values = (fingerprint(query_id), fingerprint(document_id), grade)
        for column, value in zip(columns, values, strict=True):
            column.append(value)
    queries, documents, grades = (column.finish() for column in columns)
    query_of, _ = grouping.number(queries)
    document_of, _ = grouping.number(documents)
    pair_of, first = grouping.number(query_of * (document_of.max(initial=0) + 1) + document_of)
    conflicts = np.flatnonzero(grades != grades[first[pair_of]])
    if len(conflicts):
        raise _two_grades(stream, int(conflicts[0]), int(grades[first[pair_of[conflicts[0]]]]))
    num_repeated = len(grades) - len(first)
    notes = [f"{num_repeated} judgements are repeated in {stream.label}"] if num_repeated else []
    first = first[np.argsort(query_of[first], kind="stable")]
    return _Judged(queries[first], documents[first], grades[first], first), notes


def _two_grades(stream: Stream, place: int, before: int) -> ValueError:
    number, query_id, document_id, grade = next(islice(stream.read(), place, None))
    return ValueError(
        f"{stream.name}:{number}: a pair must have one grade. Received: query {query_id!r}, "
        f"document {document_id!r} with grade {grade} after {before}. "
        "Remove one of the two lines."
    )


def _find_records(
    judged: _Judged, queries: Records, documents: Records, collection: Collection
) -> tuple[_Judged, Records, list[str]]:
    """Rows for ids: unknown queries are dropped, unknown documents added to the records."""
    notes, stream = [], collection.judgements
    query = grouping.find(judged.queries, queries.id_fingerprints)
    unknown = np.flatnonzero(query < 0)
    if len(unknown):
        _, first = grouping.number(judged.queries[unknown])
        names = _names(stream, judged.places[unknown[first[:4]]])
        notes.append(
            f"{len(first)} judged queries are not in the queries file and were dropped: "
            f"{first_few([query_id for query_id, _ in names])}"
        )
    judged = _Judged(*(column[query >= 0] for column in judged))
    document = grouping.find(judged.documents, documents.id_fingerprints)
    absent = np.flatnonzero(document < 0)
    if len(absent):
        number_of, first = grouping.number(judged.documents[absent])
        document[absent] = len(documents) + number_of
        first = absent[first]
        # Without ids, the first few are enough for the message.
        named = first if documents.ids is not None else first[:4]
        names = [document_id for _, document_id in _names(stream, judged.places[named])]
        notes.append(
            f"{len(first)} judged documents are not in the corpus (they stay in the ideal "
            f"ranking): {first_few(names)}"
        )
        documents = Records(
            documents.texts,
            np.concatenate([documents.id_fingerprints, judged.documents[first]]),
            None if documents.ids is None else [*documents.ids, *names],
        )
    return judged._replace(queries=query[query >= 0], documents=document), documents, notes


def _names(stream: Stream, places: np.ndarray) -> list[tuple[str, str]]:
    """Query id and document id of the judgements at `places`; the stream is read again."""
    wanted = set(places.tolist())
    found = {
        place: (query_id, document_id)
        for place, (_, query_id, document_id, _) in enumerate(stream.read())
        if place in wanted
    }
    return [found[place] for place in places.tolist()]
