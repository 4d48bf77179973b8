"""Reads a folder in BEIR layout: corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv, each also as .gz.

What cannot be judged at all is an error with file and line; what real sets are known to
hold (judgements of absent documents, empty documents, lines twice) is counted in `notes`.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samtone_tf.data import grouping
from samtone_tf.data.columns import Numbers
from samtone_tf.data.fingerprints import fingerprint
from samtone_tf.data.lines import (
    first_few,
    id_field,
    join_title,
    read_json_lines,
    read_lines,
    shorten,
    text_field,
)
from samtone_tf.data.records import RetrievalData
from samtone_tf.data.table import RecordColumns, Records, Table, as_data

_HEADER_WORDS = {
    "query-id", "query_id", "queryid", "qid", "query", "topic",
    "corpus-id", "corpus_id", "document_id", "docid", "doc_id", "did",
    "score", "grade", "relevance", "rel", "label",
}  # fmt: skip


def read_beir(folder: str | Path, split: str) -> RetrievalData:
    """Read one split of a BEIR folder.

    A document's text is title, one space, text. Judgements may have a header line or
    none, and 3 columns (query, document, grade) or TREC's 4 (query, anything, document,
    grade). Grades are whole numbers; below 0 they are kept and count as not relevant.
    Judged documents that are not in the corpus stay in `qrels`, since the ideal ranking
    holds them; judged queries that are not in the queries file are dropped.

    Args:
        folder: where the files are.
        split: name of a file in `qrels`, without its ending.
    """
    return as_data(tabulate_beir(folder, split))


def tabulate_beir(folder: str | Path, split: str, into: Path | None = None) -> Table:
    """Read one split of a BEIR folder as `read_beir` does, into columns.

    Args:
        folder: where the files are.
        split: name of a file in `qrels`, without its ending.
        into: the folder where the columns are written; None keeps them in memory.
    """
    corpus, queries_file, judgements = beir_files(folder, split)
    documents, notes = _read_corpus(corpus, into)
    queries = _read_queries(queries_file, into)
    judged, repeat_notes = _read_qrels(judgements, into)
    judged, documents, absent_notes = _find_records(judged, queries, documents, judgements)
    nothing = np.zeros(0, np.int64)
    table = Table(
        source=f"beir:{Path(folder)}",
        split=split,
        queries=queries,
        documents=documents,
        judged_queries=judged.queries,
        judged_documents=judged.documents,
        grades=judged.grades,
        negative_queries=nothing,
        negative_documents=nothing,
        notes=tuple(notes + repeat_notes + absent_notes),
    )
    if not len(table.relevant()):
        raise ValueError(
            f"{judgements}: no relevant pair is left. "
            f"Received: {'; '.join(table.notes) or 'no grade above 0'}. "
            "Check that its ids are those of queries.jsonl and corpus.jsonl."
        )
    return table


def beir_files(folder: str | Path, split: str) -> tuple[Path, Path, Path]:
    """Return the files of one split: corpus, queries, judgements."""
    folder = Path(folder)
    corpus, queries = _find(folder, "corpus.jsonl"), _find(folder, "queries.jsonl")
    judgements = _splits(folder)
    _check_folder(folder, corpus, queries, judgements)
    if split not in judgements:
        raise ValueError(
            f"`split` must be one of those in {folder / 'qrels'}: {', '.join(judgements)}. "
            f"Received: {split}. Choose one of them."
        )
    return corpus, queries, judgements[split]


def beir_splits(folder: str | Path) -> tuple[str, ...]:
    """Names of the judgements that a folder holds."""
    return tuple(_splits(Path(folder)))


def _find(folder: Path, name: str) -> Path | None:
    for candidate in (folder / name, folder / f"{name}.gz"):
        if candidate.is_file():
            return candidate
    return None


def _splits(folder: Path) -> dict[str, Path]:
    found = {}
    for ending in (".tsv.gz", ".tsv"):  # the plain file wins
        for path in (folder / "qrels").glob(f"*{ending}"):
            found[path.name.removesuffix(ending)] = path
    return dict(sorted(found.items()))


def _check_folder(
    folder: Path, corpus: Path | None, queries: Path | None, judgements: dict[str, Path]
) -> None:
    if not folder.exists():
        raise FileNotFoundError(
            f"`folder` must be an existing BEIR folder. Received: {folder}, which does not exist. "
            "Check the spelling."
        )
    if not folder.is_dir():
        raise ValueError(
            f"`folder` must be a BEIR folder. Received: {folder}, which is a file. "
            "Name the folder that holds corpus.jsonl."
        )
    wanted = {"corpus.jsonl": corpus, "queries.jsonl": queries, "qrels/*.tsv": judgements}
    missing = [name for name, found in wanted.items() if not found]
    if missing:
        there = sorted(path.name + "/" * path.is_dir() for path in folder.iterdir())
        raise FileNotFoundError(
            f"`folder` must hold {', '.join(wanted)} (each may end in .gz). "
            f"Received: {folder}, which lacks {', '.join(missing)} and holds "
            f"{first_few(there, 8) or 'nothing'}. Name the folder of a BEIR data set."
        )


def beir_texts(folder: str | Path, side: str) -> Path:
    """Return the file of a folder's documents or queries; judgements need not be there."""
    folder = Path(folder)
    name = "queries.jsonl" if side == "query" else "corpus.jsonl"
    file = _find(folder, name)
    if file is None:
        state = "which lacks it" if folder.is_dir() else "which is no folder"
        raise FileNotFoundError(
            f"`folder` must hold {name} (or {name}.gz). Received: {folder}, {state}. "
            "Name the folder of a BEIR data set."
        )
    return file


def read_texts(path: Path, side: str, quiet: bool = False) -> Iterator[tuple[str, str]]:
    """Yield id and text of every record of a corpus or queries file.

    Args:
        path: of the file.
        side: `query` or `document`; a document may be empty, and has its title before it.
        quiet: show no progress bar.
    """
    for number, record in read_json_lines(path, quiet):
        yield text_of(record, side, f"{path}:{number}")


def text_of(record: dict, side: str, place: str) -> tuple[str, str]:
    """Return id and text of one record; `place` is for messages."""
    text_id = id_field(record, "_id", place)
    text = text_field(record, "text", place)
    if side == "document":
        has_title = record.get("title") is not None
        return text_id, join_title(text_field(record, "title", place) if has_title else "", text)
    if not text.strip():
        raise ValueError(
            f"{place}: query {text_id!r} must have a text. Received: an empty `text`. "
            "Fill it in or remove the query and its judgements."
        )
    return text_id, text.strip()


def _read_corpus(path: Path, into: Path | None) -> tuple[Records, list[str]]:
    columns = RecordColumns(into, "documents")
    num = num_empty = 0
    empty: list[str] = []
    for document_id, document in read_texts(path, "document"):
        columns.append(document_id, document)
        num += 1
        if not document:
            num_empty += 1
            empty = [*empty, document_id][:4]  # enough for the message
    documents = columns.finish()
    _check_unique(documents, path)
    if num_empty == num:
        raise ValueError(
            f"{path}: every document is empty. Received: {num} documents without "
            "text. Put their texts in the fields `title` and `text`."
        )
    notes = [f"{num_empty} documents are empty: {first_few(empty)}"] if empty else []
    return documents, notes


def _read_queries(path: Path, into: Path | None) -> Records:
    columns = RecordColumns(into, "queries")
    for query_id, query in read_texts(path, "query"):
        columns.append(query_id, query)
    queries = columns.finish()
    _check_unique(queries, path)
    return queries


def _check_unique(records: Records, path: Path) -> None:
    number_of, first = grouping.number(records.id_fingerprints)
    if len(first) == len(number_of):
        return
    repeat = int(np.flatnonzero(first[number_of] != np.arange(len(number_of)))[0])
    places = (int(first[number_of[repeat]]), repeat)
    # Reading again is cheaper than keeping a line number for each of millions of records.
    lines = [line for i, line in enumerate(read_json_lines(path)) if i in places]
    (before, _), (number, record) = lines
    raise ValueError(
        f"{path}:{number}: `_id` must be unique. Received: {str(record['_id'])!r}, which is also "
        f"on line {before}. Remove one of the two."
    )


class _Judged(NamedTuple):
    """Judgements, each pair once, by query: fingerprints of ids, and later rows."""

    queries: np.ndarray
    documents: np.ndarray
    grades: np.ndarray
    places: np.ndarray  # int64, which judgement of the file each is


def _read_qrels(path: Path, into: Path | None) -> tuple[_Judged, list[str]]:
    columns = [Numbers(into, f"judged_{name}") for name in ("queries", "documents", "grades")]
    for _, *judgement in _judgements(path):
        query_id, document_id, grade = judgement
        values = (fingerprint(query_id), fingerprint(document_id), grade)
        for column, value in zip(columns, values, strict=True):
            column.append(value)
    queries, documents, grades = (column.finish() for column in columns)
    query_of, _ = grouping.number(queries)
    document_of, _ = grouping.number(documents)
    pair_of, first = grouping.number(query_of * (document_of.max(initial=0) + 1) + document_of)
    conflicts = np.flatnonzero(grades != grades[first[pair_of]])
    if len(conflicts):
        raise _two_grades(path, int(conflicts[0]), int(grades[first[pair_of[conflicts[0]]]]))
    num_repeated = len(grades) - len(first)
    notes = [f"{num_repeated} judgements are repeated in {path.name}"] if num_repeated else []
    first = first[np.argsort(query_of[first], kind="stable")]
    return _Judged(queries[first], documents[first], grades[first], first), notes


def _two_grades(path: Path, place: int, before: int) -> ValueError:
    number, query_id, document_id, grade = next(islice(_judgements(path), place, None))
    return ValueError(
        f"{path}:{number}: a pair must have one grade. Received: query {query_id!r}, "
        f"document {document_id!r} with grade {grade} after {before}. "
        "Remove one of the two lines."
    )


def _judgements(path: Path) -> Iterator[tuple[int, str, str, int]]:
    """Yield (line number, query id, document id, grade) of every judgement."""
    is_first = True
    for number, line in read_lines(path):
        fields = [field.strip() for field in line.split("\t")] if "\t" in line else line.split()
        if not any(fields):
            continue
        was_first, is_first = is_first, False
        if was_first and _is_header(fields):
            continue
        yield number, *_judgement(fields, line, f"{path}:{number}")


def _is_header(fields: list[str]) -> bool:
    # An id may be a header's word by chance, a grade never is: both ends must agree.
    return fields[0].lower() in _HEADER_WORDS and fields[-1].lower() in _HEADER_WORDS


def _judgement(fields: list[str], line: str, place: str) -> tuple[str, str, int]:
    try:
        if len(fields) not in (3, 4) or not all(fields):
            raise ValueError
        grade = float(fields[-1])
        if not grade.is_integer() or abs(grade) >= 2**31:
            raise ValueError
    except ValueError:
        raise ValueError(
            f"{place}: expected query id, document id and a whole grade (or TREC's four columns). "
            f"Received: {shorten(line)}. Correct or remove the line."
        ) from None
    return fields[0], fields[-2], int(grade)


def _find_records(
    judged: _Judged, queries: Records, documents: Records, path: Path
) -> tuple[_Judged, Records, list[str]]:
    """Rows for ids: unknown queries are dropped, unknown documents added to the records."""
    notes = []
    query = grouping.find(judged.queries, queries.id_fingerprints)
    unknown = np.flatnonzero(query < 0)
    if len(unknown):
        _, first = grouping.number(judged.queries[unknown])
        names = _names(path, judged.places[unknown[first[:4]]])
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
        names = [document_id for _, document_id in _names(path, judged.places[named])]
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


def _names(path: Path, places: np.ndarray) -> list[tuple[str, str]]:
    """Query id and document id of the judgements at `places`; the file is read again."""
    wanted = set(places.tolist())
    found = {
        place: (query_id, document_id)
        for place, (_, query_id, document_id, _) in enumerate(_judgements(path))
        if place in wanted
    }
    return [found[place] for place in places.tolist()]
