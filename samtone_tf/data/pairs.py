"""Reads (query, document) rows: .jsonl, .tsv, .csv (each also with .gz), .parquet, or a folder.

A folder is one of Hugging Face `datasets`. There is no separate corpus: the corpus is every
document and negative in the rows.
"""

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from samtone_tf.data import arrow
from samtone_tf.data.lines import read_json_lines, read_lines, shorten
from samtone_tf.data.pair_columns import COLUMNS, PairColumns
from samtone_tf.data.pair_table import PairRows
from samtone_tf.data.place import split_place
from samtone_tf.data.records import RetrievalData
from samtone_tf.data.table import Table

ENDINGS = (".jsonl", ".tsv", ".csv", ".parquet")
_OPTIONS = tuple(name for name in COLUMNS if name != "negatives")


def read_pairs(file: str | Path, split: str) -> RetrievalData:
    """Read a file of pairs; each row says that a document answers a query.

    Columns: `query` and `document`; optional are `title` (put before the document's
    text), `negatives` (a list of texts; in .tsv and .csv a JSON list in one column),
    `query_id`, `document_id` and `split`. Names that others use are understood, and a note
    says so: question or anchor for the query; positive, answer, passage or context for the
    document, pos or positives for a list of them; negative, negative_1, hard_negatives or
    neg. Where two columns could be one, `FILE?document=context` says which.

    Without ids, a text's fingerprint is its id, so rows with the same text share one record;
    a negative is the first document with its text, if there is one. With a `split` column
    only the rows of `split` are judged; without one, all are, so what was trained on the
    file cannot be judged with it.

    A .csv needs a header and follows the usual quoting. A .tsv is split at tabs and
    nothing is a quote. Its first line is a header if any field of it is a column's name;
    without a header it must have exactly two columns, query and document. A .parquet file
    may have columns of other names; they are left out.

    Args:
        file: path of the file, or of a folder of Hugging Face `datasets` (see `data.arrow`),
            whose splits are those of the folder.
        split: which rows are judged, such as `train`.
    """
    with _long_csv_fields():
        return _pair_rows(file).data(split)


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
    with _long_csv_fields():
        return _pair_rows(file).tabulate(split, folder, keep_ids)


def pairs_splits(file: str | Path) -> tuple[str, ...]:
    """The splits of a folder, or values of the column `split`; none if there is no such column."""
    path, _ = _place(file)
    if path.is_dir():
        named = {shard.split for shard in arrow.find_shards(path)}
        if None not in named:
            return tuple(sorted(named))
    with _long_csv_fields():
        return _pair_rows(file).splits()


def pairs_files(file: str | Path, split: str = "") -> tuple[Path, ...]:
    """Return the files of a source of pairs, once their names and their being there are checked."""
    path, _ = _place(file)
    if path.is_dir():
        return tuple(shard.path for shard in arrow.find_shards(path))
    if not path.name.removesuffix(".gz").endswith(ENDINGS) or path.name.endswith(".parquet.gz"):
        raise ValueError(
            f"`file` must end in {', '.join(ENDINGS)}, or one of the first three with .gz, or be a "
            f"folder of Hugging Face datasets. Received: {path}. Convert it, or give it the ending "
            "of its format."
        )
    if not path.is_file():
        raise FileNotFoundError(
            f"`file` must be an existing file of pairs. Received: {path}, which does not exist. "
            "Check the spelling."
        )
    return (path,)


def _place(file: str | Path) -> tuple[Path, dict[str, str]]:
    path, chosen = split_place(str(file), _OPTIONS, "pairs")
    return Path(path), chosen


def _pair_rows(file: str | Path) -> PairRows:
    path, chosen = _place(file)
    files = pairs_files(file)
    is_arrow = path.is_dir() or path.suffix == ".parquet"
    columns = PairColumns(chosen, extra=is_arrow)

    def read() -> Iterator[tuple[str, dict]]:
        if path.is_dir():
            return arrow.arrow_rows(arrow.find_shards(path), columns)
        if is_arrow:
            return arrow.arrow_rows([arrow.Shard(path)], columns)
        return _lines(files[0], columns)

    return PairRows(f"pairs:{file}", str(path), read, columns)


def _lines(path: Path, columns: PairColumns) -> Iterator[tuple[str, dict]]:
    is_json = path.name.removesuffix(".gz").endswith(".jsonl")
    for number, row in read_json_lines(path) if is_json else _table_rows(path, columns):
        yield f"{path}:{number}", row


def _table_rows(path: Path, columns: PairColumns) -> Iterator[tuple[int, dict]]:
    header: list[str] = []
    is_csv = path.name.removesuffix(".gz").endswith(".csv")
    for number, fields in _csv_fields(path) if is_csv else _tsv_fields(path):
        place = f"{path}:{number}"
        if not header:
            header = _header(fields, place, is_csv, columns)
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


def _header(fields: list[str], place: str, is_csv: bool, columns: PairColumns) -> list[str]:
    if columns.is_header(fields):
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
