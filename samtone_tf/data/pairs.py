"""Reads one file of (query, document) rows: .jsonl, .tsv or .csv, each also with .gz.

Such a file has no separate corpus: the corpus is every document and negative in it.
"""

import csv
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from samtone_tf.data.fingerprints import fingerprint
from samtone_tf.data.lines import (
    id_field,
    join_title,
    read_json_lines,
    read_lines,
    shorten,
    text_field,
)
from samtone_tf.data.records import Qrels, RetrievalData

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
    path = Path(file)
    collected = _Collected(path)
    with _long_csv_fields():
        for number, row in _rows(path):
            collected.add(number, row, split)
    return collected.finish(split)


def pairs_splits(file: str | Path) -> tuple[str, ...]:
    """The values of the column `split`; none if there is no such column."""
    names = set()
    with _long_csv_fields():
        for _, row in _rows(Path(file)):
            if row.get("split") is None:  # all rows have one, or none has
                return ()
            names.add(str(row["split"]).strip())
    return tuple(sorted(names))


@dataclass
class _Collected:
    """Records by id, gathered row by row."""

    path: Path
    queries: dict[str, str] = field(default_factory=dict)
    documents: dict[str, str] = field(default_factory=dict)
    qrels: Qrels = field(default_factory=dict)
    negative_texts: dict[str, dict[str, None]] = field(default_factory=dict)  # by query id
    negative_places: dict[str, str] = field(default_factory=dict)  # text → its first place
    splits: dict[str | None, int] = field(default_factory=dict)  # split → its first line
    num_rows: int = 0
    num_repeated: int = 0

    def add(self, number: int, row: dict, split: str) -> None:
        """Takes in one row; `number` is its line, for messages."""
        place = f"{self.path}:{number}"
        _check_columns(row, place)
        query = _filled(text_field(row, "query", place).strip(), "query", place)
        document = _filled(text_field(row, "document", place).strip(), "document", place)
        document = join_title(text_field(row, "title", place) if "title" in row else "", document)
        query_id = self._record(self.queries, "query_id", query, row, place)
        document_id = self._record(self.documents, "document_id", document, row, place)
        negatives = _negatives(row, place)
        row_split = text_field(row, "split", place).strip() if "split" in row else None
        self.splits.setdefault(row_split, number)
        self.num_rows += 1
        if row_split in (None, split):
            judged = self.qrels.setdefault(query_id, {})
            self.num_repeated += document_id in judged
            judged[document_id] = 1
            self.negative_texts.setdefault(query_id, {}).update(dict.fromkeys(negatives))
        for text in negatives:
            self.negative_places.setdefault(text, place)

    def _record(
        self, records: dict[str, str], column: str, text: str, row: dict, place: str
    ) -> str:
        if row.get(column) in (None, ""):
            record_id = f"{column[0]}{fingerprint(text):016x}"
        else:
            record_id = id_field(row, column, place)
        if records.setdefault(record_id, text) != text:
            raise ValueError(
                f"{place}: one `{column}` must have one text. Received: {record_id!r} with "
                f"{shorten(text)} after {shorten(records[record_id])}. Give them different ids."
            )
        return record_id

    def finish(self, split: str) -> RetrievalData:
        """The data set, once every row is in: negatives may name any of its documents."""
        self._check_splits(split)
        notes = []
        if None in self.splits and split != "train":
            notes.append(
                f"the file has no split column: all {self.num_rows} rows are judged, and if the "
                "model was trained on this file the numbers are not held out; add a split column"
            )
        if self.num_repeated:
            notes.append(f"{self.num_repeated} rows repeat an earlier pair")
        id_of = self._negative_ids()
        negatives = {
            query_id: tuple(id_of[text] for text in texts)
            for query_id, texts in self.negative_texts.items()
            if texts
        }
        return RetrievalData(
            source=f"pairs:{self.path}",
            split=split,
            queries=self.queries,
            documents=self.documents,
            qrels=self.qrels,
            negatives=negatives,
            notes=tuple(notes),
        )

    def _negative_ids(self) -> dict[str, str]:
        """Text → document id of every negative; a text that no row answers with is added."""
        # Only now: the row that gives a text its id may come after those that deny it.
        known: dict[str, str] = {}
        for document_id, text in self.documents.items():
            known.setdefault(text, document_id)
        return {
            text: known.get(text) or self._record(self.documents, "document_id", text, {}, place)
            for text, place in self.negative_places.items()
        }

    def _check_splits(self, split: str) -> None:
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
        if None not in self.splits and split not in self.splits:
            raise ValueError(
                f"`split` must be one of those in {self.path}: {', '.join(sorted(self.splits))}. "
                f"Received: {split}. Choose one of them."
            )


def _rows(path: Path) -> Iterator[tuple[int, dict]]:
    name = path.name.removesuffix(".gz")
    if not name.endswith(ENDINGS):
        raise ValueError(
            f"`file` must end in {', '.join(ENDINGS)}, or one of these with .gz. "
            f"Received: {path}. Convert it, or give it the ending of its format."
        )
    if not path.is_file():
        raise FileNotFoundError(
            f"`file` must be an existing file of pairs. Received: {path}, "
            f"which {'is a folder' if path.is_dir() else 'does not exist'}. Check the spelling."
        )
    if name.endswith(".jsonl"):
        return read_json_lines(path)
    return _table_rows(path, is_csv=name.endswith(".csv"))


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
