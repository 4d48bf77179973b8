"""Reads the TSV files of MS MARCO passages as they are published, each also as .gz.

collection.tsv                        passage id, text
queries.SPLIT.tsv                     query id, text
qrels.SPLIT.tsv                       query id, 0, passage id, grade
qidpidtriples.SPLIT….tsv              query id, id of its passage, id of a hard negative
triples.SPLIT….tsv                    the same as texts, such as triples.train.small.tsv
2019qrels-pass.txt, msmarco-test2019-queries.tsv      TREC's judgements: the split test2019
"""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samtone_tf.data.collection import Collection, NegativeRows, Stream, negative_rows
from samtone_tf.data.fingerprints import fingerprint
from samtone_tf.data.folders import check_is_folder, what_is_in
from samtone_tf.data.lines import read_lines, shorten
from samtone_tf.data.qrels import read_qrels
from samtone_tf.data.records import RetrievalData
from samtone_tf.data.table import Records, Table

_QRELS = re.compile(r"qrels\.(.+)\.tsv(?:\.gz)?")
_TREC_QRELS = re.compile(r"(20\d\d)qrels-pass\.txt(?:\.gz)?")
_TRIPLES = "*triples.{split}.*tsv*"
_CHUNK = 1 << 16  # triples that are looked up at a time


class _Files(NamedTuple):
    collection: Path
    queries: Path
    qrels: Path
    triples: tuple[Path, ...]


def read_msmarco(folder: str | Path, split: str) -> RetrievalData:
    """Read one split of a folder of MS MARCO files.

    Hard negatives are those of all files of triples that name the split. Triples of texts
    are found in the collection by their texts.

    Args:
        folder: where the files are.
        split: the middle of the name of a file of judgements, such as `train`, `dev.small`
            or `test2019`.
    """
    return _collection(folder, split, None).read()


def tabulate_msmarco(folder: str | Path, split: str, into: Path | None = None) -> Table:
    """Read one split as `read_msmarco` does, into columns.

    Args:
        folder: where the files are.
        split: as for `read_msmarco`.
        into: the folder where the columns are written; None keeps them in memory.
    """
    return _collection(folder, split, into).tabulate(into)


def msmarco_splits(folder: str | Path) -> tuple[str, ...]:
    """Names of the judgements that a folder holds."""
    return tuple(_qrels(Path(folder)))


def msmarco_files(folder: str | Path, split: str) -> tuple[Path, ...]:
    """Return the files of one split: collection, queries, judgements, triples."""
    files = _files(Path(folder), split)
    return (files.collection, files.queries, files.qrels, *files.triples)


def _qrels(folder: Path) -> dict[str, Path]:
    found = {}
    for path in sorted(folder.glob("*qrels*"), reverse=True):  # the plain file wins
        if name := _QRELS.fullmatch(path.name):
            found[name[1]] = path
        elif year := _TREC_QRELS.fullmatch(path.name):
            found[f"test{year[1]}"] = path
    return dict(sorted(found.items()))


def _find(folder: Path, *names: str) -> Path | None:
    there = (folder / f"{name}{ending}" for name in names for ending in ("", ".gz"))
    return next((path for path in there if path.is_file()), None)


def _files(folder: Path, split: str) -> _Files:
    check_is_folder(folder, "a folder of MS MARCO files", "collection.tsv")
    collection, qrels = _find(folder, "collection.tsv"), _qrels(folder)
    missing = [
        name
        for name, found in {"collection.tsv": collection, "qrels.SPLIT.tsv": qrels}.items()
        if not found
    ]
    if missing:
        raise FileNotFoundError(
            "`folder` must hold collection.tsv, queries.SPLIT.tsv and qrels.SPLIT.tsv (each may "
            f"end in .gz). Received: {folder}, which lacks {', '.join(missing)} and holds "
            f"{what_is_in(folder)}. Name the folder of the MS MARCO files."
        )
    if split not in qrels:
        raise ValueError(
            f"`split` must be one of those that {folder} has qrels of: {', '.join(qrels)}. "
            f"Received: {split}. Choose one of them."
        )
    # The queries of dev.small may be among those of dev.
    names = [f"queries.{split}.tsv", f"queries.{split.partition('.')[0]}.tsv"]
    queries = _find(folder, *names, f"msmarco-{split}-queries.tsv")
    if queries is None:
        raise FileNotFoundError(
            f"`folder` must hold the queries of {split}, {names[0]}. Received: {folder}, which "
            f"holds {what_is_in(folder)}. Put the file there."
        )
    triples = sorted(folder.glob(_TRIPLES.format(split=split)))
    return _Files(collection, queries, qrels[split], tuple(triples))


def _collection(folder: str | Path, split: str, into: Path | None) -> Collection:
    files = _files(Path(folder), split)

    def negatives(queries: Records, documents: Records) -> NegativeRows:
        are_ids = all(_has_ids(path) for path in files.triples)
        texts = None if are_ids else _Texts(queries, documents)
        rows = negative_rows(_triple_ids(files.triples, texts), queries, documents, into)
        return rows._replace(notes=texts.notes() if texts else [])

    return Collection(
        source=f"msmarco:{Path(folder)}",
        split=split,
        documents=Stream(
            str(files.collection), lambda: _records(files.collection), files.collection.name
        ),
        queries=Stream(str(files.queries), lambda: _records(files.queries), files.queries.name),
        judgements=Stream(str(files.qrels), lambda: read_qrels(files.qrels), files.qrels.name),
        negatives=negatives if files.triples else None,
    )


def _records(path: Path) -> Iterator[tuple[int, str, str]]:
    for number, line in read_lines(path):
        if not line.strip():
            continue
        record_id, tab, text = line.partition("\t")
        if not tab or not record_id.strip() or "\t" in text:
            raise ValueError(
                f"{path}:{number}: expected an id, a tab and a text. Received: {shorten(line)}. "
                "Correct or remove the line."
            )
        yield number, record_id.strip(), text.strip()


def _has_ids(path: Path) -> bool:
    return path.name.startswith("qidpid")


def _triples(path: Path) -> Iterator[tuple[str, str]]:
    """Query and negative, as ids or as texts."""
    for number, line in read_lines(path):
        fields = line.split("\t") if "\t" in line or not _has_ids(path) else line.split()
        if len(fields) == 3 and all(field.strip() for field in fields):
            yield fields[0].strip(), fields[2].strip()
        elif line.strip():
            raise ValueError(
                f"{path}:{number}: expected a query, its passage and a negative, separated by "
                f"tabs. Received: {shorten(line)}. Correct or remove the line."
            )


def _triple_ids(paths: tuple[Path, ...], texts: "_Texts | None") -> Iterator[tuple[int, int]]:
    for path in paths:
        if _has_ids(path):
            for pair in _triples(path):
                yield fingerprint(pair[0]), fingerprint(pair[1])
        else:
            yield from texts.ids(_triples(path))


class _Texts:
    """Finds the ids of queries and passages by their texts; keeps two numbers of each.

    Args:
        queries: where the queries are.
        documents: where the passages are.
    """

    def __init__(self, queries: Records, documents: Records):
        self._known = [_by_text(queries), _by_text(documents)]
        self._num_unknown = 0

    def ids(self, pairs: Iterator[tuple[str, str]]) -> Iterator[tuple[int, int]]:
        """Yield the fingerprints of the ids of pairs whose texts are both known."""
        while chunk := list(islice(pairs, _CHUNK)):
            numbers = [[fingerprint(text) for text in texts] for texts in zip(*chunk, strict=True)]
            found = []
            for (texts, ids), wanted in zip(self._known, np.array(numbers), strict=True):
                place = np.minimum(np.searchsorted(texts, wanted), len(texts) - 1)
                found.append(np.where(texts[place] == wanted, ids[place], -1))
            is_known = (found[0] >= 0) & (found[1] >= 0)
            self._num_unknown += int((~is_known).sum())
            yield from zip(*(ids[is_known].tolist() for ids in found), strict=True)

    def notes(self) -> list[str]:
        """What was not found, if anything."""
        if not self._num_unknown:
            return []
        return [f"{self._num_unknown} triples have a text that is not in the files; left out"]


def _by_text(records: Records) -> tuple[np.ndarray, np.ndarray]:
    """Fingerprints of the texts as they are, in rising order, and of the ids."""
    numbers = (fingerprint(text) for text in records.texts)
    texts = np.fromiter(numbers, np.int64, len(records))
    order = np.argsort(texts, kind="stable")
    return texts[order], records.id_fingerprints[order]
