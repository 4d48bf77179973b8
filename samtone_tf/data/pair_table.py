"""Rows of (query, document) → a table; the corpus is every document and negative in them.

The readers of such rows (`pairs`, `tfds`) say how they are read, as often as asked for.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samtone_tf.data import grouping
from samtone_tf.data.columns import Numbers
from samtone_tf.data.fingerprints import fingerprint
from samtone_tf.data.lines import id_field, join_title, shorten, text_field
from samtone_tf.data.pair_columns import PairColumns, negative_texts
from samtone_tf.data.records import RetrievalData
from samtone_tf.data.table import RecordColumns, Records, Table, as_data


class PairRows(NamedTuple):
    """Rows that can be read from the start more than once.

    Args:
        source: how they were named, such as `pairs:faq.jsonl`.
        name: what they are called in messages, such as `faq.jsonl`.
        read: starts again; yields (place, row), a place being `faq.jsonl:7`.
        columns: what the names in a row mean.
        has_split: whether rows without a column `split` belong to the split that is asked
            for because only its rows are read.
    """

    source: str
    name: str
    read: Callable[[], Iterator[tuple[str, dict]]]
    columns: PairColumns
    has_split: bool = False

    def rows(self) -> Iterator[tuple[str, dict]]:
        """Yield (place, row), with the columns' own names."""
        for place, row in self.read():
            for pair in self.columns.rows(row, place):
                yield place, pair

    def data(self, split: str) -> RetrievalData:
        """Return the split in memory, with ids."""
        return as_data(self.tabulate(split))

    def tabulate(self, split: str, folder: Path | None = None, keep_ids: bool = False) -> Table:
        """Return the split as columns.

        Args:
            split: which rows are judged; all where there is no column `split`.
            folder: where the columns are written; None keeps them in memory.
            keep_ids: have ids in such a folder, too.

        Raises:
            ValueError: a row that is no pair, an id with two texts, an unknown split, no row.
        """
        scan = _Scan(self, split, folder, keep_ids)
        for place, row in self.rows():
            scan.add(place, row)
        return scan.finish()

    def splits(self) -> tuple[str, ...]:
        """The values of the column `split`; none if there is no such column."""
        names = set()
        for _, row in self.rows():
            if row.get("split") is None:  # all rows have one, or none has
                return ()
            names.add(str(row["split"]).strip())
        return tuple(sorted(names))


class _Scan:
    """What the rows of a file say, row by row, as columns; `finish` makes records of them.

    A query occurs once per row. A document occurs once per row, and after it the row's negatives.
    """

    def __init__(self, source: PairRows, split: str, folder: Path | None, keep_ids: bool):
        self.source, self.split = source, split
        self.queries = RecordColumns(folder, "queries", keep_ids)
        self.documents = RecordColumns(folder, "documents", keep_ids)
        # Of the texts as they are, to tell whether two are the same.
        self.query_texts = Numbers(folder, "query_texts")
        self.document_texts = Numbers(folder, "document_texts")
        self.is_negative = Numbers(folder, "is_negative", np.bool_)  # by occurrence
        self.is_judged = Numbers(folder, "is_judged", np.bool_)  # by row
        self.splits: dict[str | None, str] = {}  # split → its first place
        self.num_rows = 0

    def add(self, place: str, row: dict) -> None:
        """Takes in one row; `place` is where it is, for messages."""
        query = _filled(text_field(row, "query", place).strip(), "query", place)
        document = _filled(text_field(row, "document", place).strip(), "document", place)
        document = join_title(text_field(row, "title", place) if "title" in row else "", document)
        self.query_texts.append(_occur(self.queries, "query_id", query, row, place))
        self._add_document(document, row, place, is_negative=False)
        for text in negative_texts(row.get("negatives"), place):
            text = _filled(text.strip(), "negatives", place)
            self._add_document(text, {}, place, is_negative=True)
        row_split = text_field(row, "split", place).strip() if "split" in row else None
        self.splits.setdefault(row_split, place)
        self.is_judged.append(row_split in (None, self.split))
        self.num_rows += 1

    def _add_document(self, text: str, row: dict, place: str, is_negative: bool) -> None:
        self.document_texts.append(_occur(self.documents, "document_id", text, row, place))
        self.is_negative.append(is_negative)

    def finish(self) -> Table:
        """The data set, once every row is in."""
        self._check_splits()
        queries, documents = self.queries.finish(), self.documents.finish()
        is_negative = self.is_negative.finish()
        # Negatives last: the row that gives a text its id may come after those that deny it.
        order = np.argsort(is_negative, kind="stable")
        row_of = (np.cumsum(~is_negative) - 1)[order]
        documents, texts = documents.at(order), self.document_texts.finish()[order]
        ids, num = documents.id_fingerprints, self.num_rows
        answer = grouping.find(texts[num:], texts[:num])
        ids[num:] = np.where(answer < 0, ids[num:], ids[answer])

        query_of, query_first = grouping.number(queries.id_fingerprints)
        document_of, document_first = grouping.number(ids)
        query_texts = self.query_texts.finish()
        self._check_one_text("query_id", queries, query_texts, query_first[query_of])
        self._check_one_text("document_id", documents, texts, document_first[document_of], row_of)

        is_judged = self.is_judged.finish()
        judged = np.flatnonzero(is_judged)
        pairs = judged[grouping.gather(query_of[judged], document_of[judged])]
        denials = num + np.flatnonzero(is_judged[row_of[num:]])
        denials = denials[grouping.gather(query_of[row_of[denials]], document_of[denials])]
        return Table(
            source=self.source.source,
            split=self.split,
            queries=queries.at(query_first),
            documents=documents.at(document_first),
            judged_queries=query_of[pairs],
            judged_documents=document_of[pairs],
            grades=np.ones(len(pairs), np.int64),
            negative_queries=query_of[row_of[denials]],
            negative_documents=document_of[denials],
            notes=self._notes(num_repeated=len(judged) - len(pairs)),
        )

    def _check_one_text(
        self,
        column: str,
        records: Records,
        texts: np.ndarray,
        first: np.ndarray,
        row_of: np.ndarray | None = None,
    ) -> None:
        """Raises when a record has another text than where it is `first`."""
        differs = np.flatnonzero(texts != texts[first])
        if not len(differs):
            return
        now, before = int(differs[0]), int(first[differs[0]])
        index = now if row_of is None else int(row_of[now])
        place, row = next(islice(self.source.rows(), index, None))
        record_id = _record_id(column, int(texts[now]), row if now < self.num_rows else {}, place)
        raise ValueError(
            f"{place}: one `{column}` must have one text. Received: {record_id!r} with "
            f"{shorten(records.texts[now])} after {shorten(records.texts[before])}. "
            "Give them different ids."
        )

    def _notes(self, num_repeated: int) -> tuple[str, ...]:
        notes = self.source.columns.notes()
        if None in self.splits and self.split != "train" and not self.source.has_split:
            notes.append(
                f"the file has no split column: all {self.num_rows} rows are judged, and if the "
                "model was trained on this file the numbers are not held out; add a split column"
            )
        if num_repeated:
            notes.append(f"{num_repeated} rows repeat an earlier pair")
        return tuple(notes)

    def _check_splits(self) -> None:
        if not self.num_rows:
            raise ValueError(
                f"{self.source.name}: expected rows with query and document. Received: no row. "
                "Write one pair per line."
            )
        if None in self.splits and len(self.splits) > 1:
            raise ValueError(
                f"{self.splits[None]}: `split` is missing here and present in other "
                "rows. Received: a row without it. Give every row a split, or none."
            )
        if None not in self.splits and self.split not in self.splits:
            found = ", ".join(sorted(self.splits))
            raise ValueError(
                f"`split` must be one of those in {self.source.name}: {found}. "
                f"Received: {self.split}. Choose one of them."
            )


def _occur(columns: RecordColumns, column: str, text: str, row: dict, place: str) -> int:
    """Add one occurrence of a record; return the fingerprint of its text."""
    number = fingerprint(text)
    columns.append(_record_id(column, number, row, place), text)
    return number


def _record_id(column: str, text_number: int, row: dict, place: str) -> str:
    if row.get(column) in (None, ""):
        return f"{column[0]}{text_number:016x}"
    return id_field(row, column, place)


def _filled(text: str, column: str, place: str) -> str:
    if not text:
        raise ValueError(
            f"{place}: `{column}` must not be empty. Received: an empty text. "
            "Fill it in or remove the row."
        )
    return text
