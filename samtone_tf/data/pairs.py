"""Reads one file of (query, document) rows: .jsonl, .tsv or .csv, each also with .gz.

Such a file has no separate corpus: the corpus is every document and negative in it.
"""

import csv
import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import numpy as np

from samtone_tf.data import grouping
from samtone_tf.data.columns import Numbers
from samtone_tf.data.fingerprints import fingerprint
from samtone_tf.data.lines import (
    id_field,
    join_title,
    read_json_lines,
    read_lines,
    shorten,
    text_field,
)
from samtone_tf.data.records import RetrievalData
from samtone_tf.data.table import RecordColumns, Records, Table, as_data

COLUMNS = ("query", "document", "title", "negatives", "query_id", "document_id", "split")
ENDINGS = (".jsonl", ".tsv", ".csv")


def read_pairs(file: str | Path, split: str) -> RetrievalData:
    """Read a file of pairs; each row says that a document answers a query.

    Columns: `query` and `document`; optional are `title` (put before the document's
    text), `negatives` (a list of texts; in .tsv and .csv a JSON list in one column),
    `query_id`, `document_id` and `split`. Without ids, a text's fingerprint is its id,
    so rows with the same text share one record; a negative is the first document with
    its text, if there is one. With a `split` column only the rows of `split` are judged;
    without one, all are, so what was trained on the file cannot be judged with it.

    A .csv needs a header and follows the usual quoting. A .tsv is split at tabs and
    nothing is a quote. Its first line is a header if any field of it is a column's name;
    without a header it must have exactly two columns, query and document.

    Args:
        file: path of the file.
        split: which rows are judged, such as `train`.
    """
    return as_data(tabulate_pairs(file, split))


def tabulate_pairs(
    file: str | Path, split: str, folder: Path | None = None, keep_ids: bool = False
) -> Table:
    """Read a file of pairs as `read_pairs` does, into columns.

    Args:
        file: path of the file.
        split: which rows are judged.
        folder: where the columns are written; None keeps them in memory.
        keep_ids: have ids in such a folder, too.
    """
    path = Path(file)
    scan = _Scan(path, split, folder, keep_ids)
    with _long_csv_fields():
        for number, row in _rows(path):
            scan.add(number, row)
        return scan.finish()


def pairs_splits(file: str | Path) -> tuple[str, ...]:
    """The values of the column `split`; none if there is no such column."""
    names = set()
    with _long_csv_fields():
        for _, row in _rows(Path(file)):
            if row.get("split") is None:  # all rows have one, or none has
                return ()
            names.add(str(row["split"]).strip())
    return tuple(sorted(names))


class _Scan:
    """What the rows of a file say, row by row, as columns; `finish` makes records of them.

    A query occurs once per row. A document occurs once per row, and after it the row's negatives.
    """

    def __init__(self, path: Path, split: str, folder: Path | None, keep_ids: bool):
        self.path, self.split = path, split
        self.queries = RecordColumns(folder, "queries", keep_ids)
        self.documents = RecordColumns(folder, "documents", keep_ids)
        # Of the texts as they are, to tell whether two are the same.
        self.query_texts = Numbers(folder, "query_texts")
        self.document_texts = Numbers(folder, "document_texts")
        self.is_negative = Numbers(folder, "is_negative", np.bool_)  # by occurrence
        self.is_judged = Numbers(folder, "is_judged", np.bool_)  # by row
        self.splits: dict[str | None, int] = {}  # split → its first line
        self.num_rows = 0

    def add(self, number: int, row: dict) -> None:
        """Takes in one row; `number` is its line, for messages."""
        place = f"{self.path}:{number}"
        _check_columns(row, place)
        query = _filled(text_field(row, "query", place).strip(), "query", place)
        document = _filled(text_field(row, "document", place).strip(), "document", place)
        document = join_title(text_field(row, "title", place) if "title" in row else "", document)
        self.query_texts.append(_occur(self.queries, "query_id", query, row, place))
        self._add_document(document, row, place, is_negative=False)
        for text in _negatives(row, place):
            self._add_document(text, {}, place, is_negative=True)
        row_split = text_field(row, "split", place).strip() if "split" in row else None
        self.splits.setdefault(row_split, number)
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
            source=f"pairs:{self.path}",
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
        number, row = next(islice(_rows(self.path), index, None))
        place = f"{self.path}:{number}"
        record_id = _record_id(column, int(texts[now]), row if now < self.num_rows else {}, place)
        raise ValueError(
            f"{place}: one `{column}` must have one text. Received: {record_id!r} with "
            f"{shorten(records.texts[now])} after {shorten(records.texts[before])}. "
            "Give them different ids."
        )

    def _notes(self, num_repeated: int) -> tuple[str, ...]:
        notes = []
        if None in self.splits and self.split != "train":
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
                f"{self.path}: expected rows with query and document. Received: no row. "
                "Write one pair per line."
            )
        if None in self.splits and len(self.splits) > 1:
            raise ValueError(
                f"{self.path}:{self.splits[None]}: `split` is missing here and present in other "
                "rows. Received: a row without it. Give every row a split, or none."
            )
        if None not in self.splits and self.split not in self.splits:
            raise ValueError(
                f"`split` must be one of those in {self.path}: {', '.join(sorted(self.splits))}. "
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


def _rows(path: Path) -> Iterator[tuple[int, dict]]:
    pairs_files(path)
    name = path.name.removesuffix(".gz")
    if name.endswith(".jsonl"):
        return read_json_lines(path)
    return _table_rows(path, is_csv=name.endswith(".csv"))


def pairs_files(file: str | Path, split: str = "") -> tuple[Path]:
    """Return the one file of a source of pairs, once its name and its being there are checked."""
    path = Path(file)
    if not path.name.removesuffix(".gz").endswith(ENDINGS):
        raise ValueError(
            f"`file` must end in {', '.join(ENDINGS)}, or one of these with .gz. "
            f"Received: {path}. Convert it, or give it the ending of its format."
        )
    if not path.is_file():
        raise FileNotFoundError(
            f"`file` must be an existing file of pairs. Received: {path}, "
            f"which {'is a folder' if path.is_dir() else 'does not exist'}. Check the spelling."
        )
    return (path,)


def _table_rows(path: Path, is_csv: bool) -> Iterator[tuple[int, dict]]:
    header: list[str] = []
    for number, fields in _csv_fields(path) if is_csv else _tsv_fields(path):
        place = f"{path}:{number}"
        if not header:
            header = _header(fields, place, is_csv)
            if header is fields:
                continue
        if len(fields) != len(header):
            raise ValueError(
                f"{place}: expected {len(header)} fields ({', '.join(header)}). "
                f"Received: {len(fields)}. Correct the row."
            )
        yield number, dict(zip(header, fields, strict=True))


def _tsv_fields(path: Path) -> Iterator[tuple[int, list[str]]]:
    for number, line in read_lines(path):
        if line.strip():
            yield number, line.split("\t")


@contextmanager
def _long_csv_fields() -> Iterator[None]:
    """Lift the `csv` module's limit of 131,072 characters a field; it is one for the process."""
    before = csv.field_size_limit(2**31 - 1)  # the most that a C long holds everywhere
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _csv_fields(path: Path) -> Iterator[tuple[int, list[str]]]:
    # csv needs the line ends back: a quoted field may span lines.
    reader = csv.reader((line + "\n" for _, line in read_lines(path)), strict=True)
    number = 1
    try:
        for fields in reader:
            if any(fields):
                yield number, fields
            number = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(
            f"{path}:{number}: expected a row of comma-separated fields. Received: {error}. "
            "Put fields with commas or line ends in double quotes."
        ) from error


def _header(fields: list[str], place: str, is_csv: bool) -> list[str]:
    if set(fields) & set(COLUMNS):
        doubled = [name for name in fields if fields.count(name) > 1]
        if doubled:
            raise ValueError(
                f"{place}: each column must be named once. Received: `{doubled[0]}` twice. "
                "Rename or remove one."
            )
        return fields
    if not is_csv and len(fields) == 2:
        return ["query", "document"]
    raise ValueError(
        f"{place}: expected a header with `query` and `document`. "
        f"Received: {shorten(', '.join(fields))}. "
        "Name the columns in the first line (a .tsv of exactly two columns needs no header)."
    )


def _check_columns(row: dict, place: str) -> None:
    unknown = [name for name in row if name not in COLUMNS]
    if unknown:
        raise ValueError(
            f"{place}: columns must be among {', '.join(COLUMNS)}. "
            f"Received: {', '.join(map(repr, unknown))}. Rename or remove it."
        )
    for name in [name for name, value in row.items() if value is None]:
        del row[name]  # null is the same as absent


def _negatives(row: dict, place: str) -> list[str]:
    value = row.get("negatives") or []
    try:
        texts = json.loads(value) if isinstance(value, str) else value
    except json.JSONDecodeError:
        texts = None
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError(
            f"{place}: `negatives` must be a list of strings (in .tsv and .csv as JSON). "
            f'Received: {shorten(str(value))}. Write it as ["one", "another"].'
        )
    return [_filled(text.strip(), "negatives", place) for text in texts]


def _filled(text: str, column: str, place: str) -> str:
    if not text:
        raise ValueError(
            f"{place}: `{column}` must not be empty. Received: an empty text. "
            "Fill it in or remove the row."
        )
    return text
