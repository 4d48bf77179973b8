"""A data set as columns: records by row, and who was judged with what, by row numbers.

Every reader of files fills one, in memory or in a folder of memory-mapped files, and
training reads nothing else. `RetrievalData` is the same with dictionaries, for people.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from tqdm import tqdm

from samtone_tf.data.columns import Numbers, Strings, Texts, load_array, load_texts, take
from samtone_tf.data.fingerprints import fingerprint, normalise
from samtone_tf.data.records import RetrievalData


@dataclass(frozen=True)
class Records:
    """Queries or documents, each once.

    Args:
        texts: by row.
        id_fingerprints: int64, `fingerprint` of each id, by row. Rows from `len(texts)` on
            are records that judgements name and the data set lacks.
        ids: by row; None in a folder, since training needs none.
        text_fingerprints: int64 (len(texts),), of the normalised texts; None until needed.
    """

    texts: Sequence[str]
    id_fingerprints: np.ndarray
    ids: Sequence[str] | None = None
    text_fingerprints: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def is_empty(self) -> np.ndarray:
        """Bool (len(texts),): true where a text is blank."""
        if isinstance(self.texts, Strings):  # the readers strip what they store
            return self.texts.starts == self.texts.ends
        return np.fromiter((not text.strip() for text in self.texts), bool, len(self.texts))

    def at(self, rows: np.ndarray) -> "Records":
        """Return the records at `rows`."""
        ids = None if self.ids is None else take(self.ids, rows)
        return Records(take(self.texts, rows), self.id_fingerprints[rows], ids)

    def fingerprints(self, rows: np.ndarray, by_text: bool) -> np.ndarray:
        """Return the numbers of the records at `rows`: of their normalised texts, or ids."""
        if not by_text:
            return self.id_fingerprints[rows]
        if self.text_fingerprints is not None:
            return self.text_fingerprints[rows]
        used, place = np.unique(rows, return_inverse=True)
        return fingerprints_of(take(self.texts, used))[place]


@dataclass(frozen=True)
class Table:
    """Queries, documents, and the judgements of one split.

    Args:
        source: how it was named, such as `beir:scifact`; used in messages.
        split: which judgements these are, such as `train`.
        queries: all of the set.
        documents: the whole corpus.
        judged_queries: int64 (m,), row of the query of each judgement. Judgements of one
            query follow one another; queries are in the order in which they first appear.
        judged_documents: int64 (m,), row of its document.
        grades: int64 (m,), above 0 for a relevant document.
        negative_queries: int64 (k,), row of a query, once per hard negative of it.
        negative_documents: int64 (k,), row of the negative; -1 where the corpus lacks it.
        notes: one line per oddity found while reading.
        content_hash: of the files that it was read from; empty when there were none.
    """

    source: str
    split: str
    queries: Records
    documents: Records
    judged_queries: np.ndarray
    judged_documents: np.ndarray
    grades: np.ndarray
    negative_queries: np.ndarray
    negative_documents: np.ndarray
    notes: tuple[str, ...] = ()
    content_hash: str = ""

    def hash_texts(self, side: str, rows: np.ndarray) -> str:
        """Return a hash of the texts at `rows`.

        Args:
            side: `queries` or `documents`.
            rows: int64, which of them, and in which order.
        """
        digest = hashlib.blake2b(digest_size=16)
        if self.content_hash:  # of the files that they came from
            digest.update(f"{self.content_hash} {side} ".encode() + rows.tobytes())
            return digest.hexdigest()
        for text in take(getattr(self, side).texts, rows):
            raw = text.encode("utf-8", "surrogatepass")
            digest.update(len(raw).to_bytes(8, "big") + raw)
        return digest.hexdigest()

    def relevant(self) -> np.ndarray:
        """Return the places of judgements that make a pair: above 0, with both texts there."""
        is_there = self.judged_documents < len(self.documents)
        return np.flatnonzero((self.grades > 0) & is_there)

    def judged_texts(self) -> Sequence[str]:
        """Return the texts of the judged queries, each once, in the order of judgements."""
        is_first = np.diff(self.judged_queries, prepend=-1) != 0
        return take(self.queries.texts, self.judged_queries[is_first])


class RecordColumns:
    """Records as they occur in a file, repeats included.

    Args:
        folder: where the columns are written; None keeps all in memory.
        name: what their files begin with.
        keep_ids: write the ids, too; in memory they are always kept.
    """

    def __init__(self, folder: Path | None, name: str, keep_ids: bool = False):
        self._texts = Texts(folder, name)
        self._numbers = Numbers(folder, f"{name}.ids")
        keep_ids = keep_ids or folder is None
        self._ids = Texts(folder, f"{name}.id_texts") if keep_ids else None

    def append(self, record_id: str, text: str) -> None:
        """Add one occurrence."""
        self._texts.append(text)
        self._numbers.append(fingerprint(record_id))
        if self._ids is not None:
            self._ids.append(record_id)

    def finish(self) -> Records:
        """Return the occurrences."""
        ids = None if self._ids is None else self._ids.finish()
        return Records(self._texts.finish(), self._numbers.finish(), ids)


def fingerprints_of(texts: Sequence[str]) -> np.ndarray:
    """Return the fingerprint of each normalised text, int64 (len(texts),)."""
    bar = tqdm(texts, desc="fingerprints", unit=" texts", delay=3, leave=False)
    return np.fromiter((fingerprint(normalise(text)) for text in bar), np.int64, len(texts))


def as_table(data: "RetrievalData | Table") -> Table:
    """Return the columns of `data`; no text is copied."""
    if isinstance(data, Table):
        return data
    query_row = {query_id: row for row, query_id in enumerate(data.queries)}
    document_row = {document_id: row for row, document_id in enumerate(data.documents)}
    num_documents = len(document_row)
    judged_queries, judged_documents, grades = [], [], []
    for query_id, judged in data.qrels.items():
        if query_id not in query_row:
            continue
        for document_id, grade in judged.items():
            judged_queries.append(query_row[query_id])
            judged_documents.append(document_row.setdefault(document_id, len(document_row)))
            grades.append(grade)
    negatives = [
        (query_row[query_id], document_row.get(document_id, -1))
        for query_id, ids in data.negatives.items()
        if query_id in query_row
        for document_id in ids
    ]
    negatives = np.array(negatives, np.int64).reshape(-1, 2)
    negatives[negatives[:, 1] >= num_documents, 1] = -1
    return Table(
        source=data.source,
        split=data.split,
        queries=_records(list(query_row), list(data.queries.values())),
        documents=_records(list(document_row), list(data.documents.values())),
        judged_queries=np.array(judged_queries, np.int64),
        judged_documents=np.array(judged_documents, np.int64),
        grades=np.array(grades, np.int64),
        negative_queries=negatives[:, 0],
        negative_documents=negatives[:, 1],
        notes=data.notes,
    )


def _records(ids: list[str], texts: list[str]) -> Records:
    return Records(texts, np.fromiter(map(fingerprint, ids), np.int64, len(ids)), ids)


def as_data(table: Table) -> RetrievalData:
    """Return the dictionaries of a table that is in memory, less negatives that have no row."""
    query_ids, document_ids = table.queries.ids, table.documents.ids
    qrels: dict[str, dict[str, int]] = {}
    rows = zip(table.judged_queries.tolist(), table.judged_documents.tolist(), strict=True)
    for (query, document), grade in zip(rows, table.grades.tolist(), strict=True):
        qrels.setdefault(query_ids[query], {})[document_ids[document]] = grade
    negatives: dict[str, list[str]] = {}
    rows = zip(table.negative_queries.tolist(), table.negative_documents.tolist(), strict=True)
    for query, document in rows:
        if document >= 0:
            negatives.setdefault(query_ids[query], []).append(document_ids[document])
    return RetrievalData(
        source=table.source,
        split=table.split,
        queries=dict(zip(query_ids, table.queries.texts, strict=True)),
        documents=dict(zip(document_ids, table.documents.texts, strict=False)),  # less the absent
        qrels=qrels,
        negatives={query_id: tuple(ids) for query_id, ids in negatives.items()},
        notes=table.notes,
    )


_NUMBERS = (
    "judged_queries",
    "judged_documents",
    "grades",
    "negative_queries",
    "negative_documents",
)


def save_table(table: Table, folder: Path) -> None:
    """Write `table` to files in `folder`, with the fingerprints of its texts and without ids."""
    for side in ("queries", "documents"):
        records = getattr(table, side)
        texts = Texts(folder, side)
        numbers = Numbers(folder, f"{side}.text_fingerprints")
        for text in tqdm(records.texts, desc=side, unit=" texts", delay=3, leave=False):
            texts.append(text)
            numbers.append(fingerprint(normalise(text)))
        texts.finish()
        numbers.finish()
        np.save(folder / f"{side}.id_fingerprints.npy", records.id_fingerprints)
    for name in _NUMBERS:
        np.save(folder / f"{name}.npy", getattr(table, name))
    names = {"source": table.source, "split": table.split, "notes": table.notes}
    (folder / "names.json").write_text(json.dumps(names), encoding="utf-8")


def load_table(folder: Path, content_hash: str) -> Table:
    """Return the table that `save_table` wrote, memory-mapped."""
    names = json.loads((folder / "names.json").read_text(encoding="utf-8"))
    sides = {
        side: Records(
            load_texts(folder, side),
            load_array(folder / f"{side}.id_fingerprints.npy"),
            text_fingerprints=load_array(folder / f"{side}.text_fingerprints.npy"),
        )
        for side in ("queries", "documents")
    }
    return Table(
        source=names["source"],
        split=names["split"],
        notes=tuple(names["notes"]),
        content_hash=content_hash,
        **sides,
        **{name: load_array(folder / f"{name}.npy") for name in _NUMBERS},
    )
