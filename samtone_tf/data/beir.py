"""Reads a folder in BEIR layout: corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv, each also as .gz.

What cannot be judged at all is an error with file and line; what real sets are known to
hold (judgements of absent documents, empty documents, lines twice) is counted in `notes`.
"""

from pathlib import Path

from samtone_tf.data.lines import (
    first_few,
    id_field,
    join_title,
    read_json_lines,
    read_lines,
    shorten,
    text_field,
)
from samtone_tf.data.records import Qrels, RetrievalData

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
    folder = Path(folder)
    corpus, queries_file = _find(folder, "corpus.jsonl"), _find(folder, "queries.jsonl")
    judgements = _splits(folder)
    _check_folder(folder, corpus, queries_file, judgements)
    if split not in judgements:
        raise ValueError(
            f"`split` must be one of those in {folder / 'qrels'}: {', '.join(judgements)}. "
            f"Received: {split}. Choose one of them."
        )
    documents, notes = _read_corpus(corpus)
    queries = _read_queries(queries_file)
    qrels, more_notes = _read_qrels(judgements[split])
    qrels, absent_notes = _drop_absent(qrels, queries, documents)
    data = RetrievalData(
        source=f"beir:{folder}",
        split=split,
        queries=queries,
        documents=documents,
        qrels=qrels,
        notes=tuple(notes + more_notes + absent_notes),
    )
    if next(data.pairs(), None) is None:
        raise ValueError(
            f"{judgements[split]}: no relevant pair is left. "
            f"Received: {'; '.join(data.notes) or 'no grade above 0'}. "
            "Check that its ids are those of queries.jsonl and corpus.jsonl."
        )
    return data


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


def _read_corpus(path: Path) -> tuple[dict[str, str], list[str]]:
    documents: dict[str, str] = {}
    empty = []
    for number, record in read_json_lines(path):
        place = f"{path}:{number}"
        document_id = id_field(record, "_id", place)
        _check_new(document_id, documents, path, number)
        text = text_field(record, "text", place)
        has_title = record.get("title") is not None
        title = text_field(record, "title", place) if has_title else ""
        documents[document_id] = join_title(title, text)
        if not documents[document_id]:
            empty.append(document_id)
    if len(empty) == len(documents):
        raise ValueError(
            f"{path}: every document is empty. Received: {len(documents)} documents without "
            "text. Put their texts in the fields `title` and `text`."
        )
    notes = [f"{len(empty)} documents are empty: {first_few(empty)}"] if empty else []
    return documents, notes


def _read_queries(path: Path) -> dict[str, str]:
    queries: dict[str, str] = {}
    for number, record in read_json_lines(path):
        place = f"{path}:{number}"
        query_id = id_field(record, "_id", place)
        _check_new(query_id, queries, path, number)
        queries[query_id] = text_field(record, "text", place).strip()
        if not queries[query_id]:
            raise ValueError(
                f"{place}: query {query_id!r} must have a text. Received: an empty `text`. "
                "Fill it in or remove the query and its judgements."
            )
    return queries


def _check_new(record_id: str, seen: dict[str, str], path: Path, number: int) -> None:
    if record_id not in seen:
        return
    # Reading again is cheaper than keeping a line number for each of millions of records.
    first = next(n for n, record in read_json_lines(path) if str(record["_id"]) == record_id)
    raise ValueError(
        f"{path}:{number}: `_id` must be unique. Received: {record_id!r}, which is also on "
        f"line {first}. Remove one of the two."
    )


def _read_qrels(path: Path) -> tuple[Qrels, list[str]]:
    qrels: Qrels = {}
    repeated = 0
    is_first = True
    for number, line in read_lines(path):
        fields = [field.strip() for field in line.split("\t")] if "\t" in line else line.split()
        if not any(fields):
            continue
        was_first, is_first = is_first, False
        if was_first and _is_header(fields):
            continue
        query_id, document_id, grade = _judgement(fields, line, f"{path}:{number}")
        judged = qrels.setdefault(query_id, {})
        if judged.setdefault(document_id, grade) != grade:
            raise ValueError(
                f"{path}:{number}: a pair must have one grade. Received: query {query_id!r}, "
                f"document {document_id!r} with grade {grade} after {judged[document_id]}. "
                "Remove one of the two lines."
            )
        repeated += 1
    repeated -= sum(map(len, qrels.values()))
    return qrels, [f"{repeated} judgements are repeated in {path.name}"] if repeated else []


def _is_header(fields: list[str]) -> bool:
    # An id may be a header's word by chance, a grade never is: both ends must agree.
    return fields[0].lower() in _HEADER_WORDS and fields[-1].lower() in _HEADER_WORDS


def _judgement(fields: list[str], line: str, place: str) -> tuple[str, str, int]:
    try:
        if len(fields) not in (3, 4) or not all(fields):
            raise ValueError
        grade = float(fields[-1])
        if not grade.is_integer():
            raise ValueError
    except ValueError:
        raise ValueError(
            f"{place}: expected query id, document id and a whole grade (or TREC's four columns). "
            f"Received: {shorten(line)}. Correct or remove the line."
        ) from None
    return fields[0], fields[-2], int(grade)


def _drop_absent(
    qrels: Qrels, queries: dict[str, str], documents: dict[str, str]
) -> tuple[Qrels, list[str]]:
    kept = {query_id: judged for query_id, judged in qrels.items() if query_id in queries}
    unknown = [query_id for query_id in qrels if query_id not in queries]
    absent = list(
        dict.fromkeys(
            document_id
            for judged in kept.values()
            for document_id in judged
            if document_id not in documents
        )
    )
    notes = []
    if unknown:
        notes.append(
            f"{len(unknown)} judged queries are not in the queries file and were dropped: "
            f"{first_few(unknown)}"
        )
    if absent:
        notes.append(
            f"{len(absent)} judged documents are not in the corpus (they stay in the ideal "
            f"ranking): {first_few(absent)}"
        )
    return kept, notes
