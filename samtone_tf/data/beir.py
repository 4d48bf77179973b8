"""Reads a folder in BEIR layout: corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv, each also as .gz.

What cannot be judged at all is an error with file and line; what real sets are known to
hold (judgements of absent documents, empty documents, lines twice) is counted in `notes`.
"""

from collections.abc import Iterator
from pathlib import Path

from samtone_tf.data.collection import Collection, Stream
from samtone_tf.data.folders import check_is_folder, what_is_in
from samtone_tf.data.lines import id_field, join_title, read_json_lines, text_field
from samtone_tf.data.qrels import read_qrels
from samtone_tf.data.records import RetrievalData
from samtone_tf.data.table import Table


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
    return _collection(folder, split).read()


def tabulate_beir(folder: str | Path, split: str, into: Path | None = None) -> Table:
    """Read one split of a BEIR folder as `read_beir` does, into columns.

    Args:
        folder: where the files are.
        split: name of a file in `qrels`, without its ending.
        into: the folder where the columns are written; None keeps them in memory.
    """
    return _collection(folder, split).tabulate(into)


def _collection(folder: str | Path, split: str) -> Collection:
    corpus, queries, judgements = beir_files(folder, split)
    return Collection(
        source=f"beir:{Path(folder)}",
        split=split,
        documents=Stream(str(corpus), lambda: _numbered(corpus, "document"), "corpus.jsonl"),
        queries=Stream(str(queries), lambda: _numbered(queries, "query"), "queries.jsonl"),
        judgements=Stream(str(judgements), lambda: read_qrels(judgements), judgements.name),
    )


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
    check_is_folder(folder, "a BEIR folder", "corpus.jsonl")
    wanted = {"corpus.jsonl": corpus, "queries.jsonl": queries, "qrels/*.tsv": judgements}
    missing = [name for name, found in wanted.items() if not found]
    if missing:
        raise FileNotFoundError(
            f"`folder` must hold {', '.join(wanted)} (each may end in .gz). "
            f"Received: {folder}, which lacks {', '.join(missing)} and holds "
            f"{what_is_in(folder)}. Name the folder of a BEIR data set."
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


def _numbered(path: Path, side: str) -> Iterator[tuple[int, str, str]]:
    for number, record in read_json_lines(path):
        yield number, *text_of(record, side, f"{path}:{number}")
