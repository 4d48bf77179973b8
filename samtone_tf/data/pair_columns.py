"""What the columns of a file of pairs are called: by their own names, or by those people use.

A row is told from its names: the first row with some names says what each becomes, and all
others with the same names follow.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import chain

from samtone_tf.data.lines import shorten

COLUMNS = ("query", "document", "title", "negatives", "query_id", "document_id", "split")
ALIASES = {
    "query": ("question", "anchor", "query_text", "question_text"),
    "document": ("positive", "answer", "passage", "context", "positives", "pos"),
    "negatives": ("negative", "hard_negatives", "neg"),
    "query_id": ("question_id", "qid", "query-id"),
    "document_id": ("passage_id", "doc_id", "docid", "pid", "corpus-id"),
}
_NUMBERED = re.compile(r"negative_\d+")  # one column for each negative
_LISTS = ("positives", "pos")  # of documents: a pair for each
_PLURAL = ("negatives", "hard_negatives", "neg")


class PairColumns:
    """The columns of one file or folder of pairs.

    Args:
        chosen: column → the name it has here, where the user says so.
        extra: whether names that mean nothing are left out (and noted), not refused.
    """

    def __init__(self, chosen: Mapping[str, str] | None = None, *, extra: bool = False):
        self.chosen = dict(chosen or {})
        self._extra = extra or bool(chosen)
        self._known: dict[tuple[str, ...], dict[str, list[str]] | None] = {}
        self._read_as: dict[str, str] = {}  # name → column, where they differ
        self._unused: dict[str, None] = {}
        self._notes: list[str] = []

    def add_note(self, note: str) -> None:
        """Add what a reader has to say about what it takes the columns from."""
        self._notes.append(note)

    def rows(self, row: dict, place: str) -> Iterator[dict]:
        """Yield `row` with the columns' own names, once for each document that it lists."""
        names = tuple(row)
        if names not in self._known:
            self._known[names] = self._map(names, place)
        mapping = self._known[names]
        if mapping is None:  # the names are the columns
            yield {name: value for name, value in row.items() if value is not None}
            return
        renamed = {}
        for column, found in mapping.items():
            values = {name: row[name] for name in found if row[name] is not None}
            if column == "negatives":
                texts = (_texts(name, value, place) for name, value in values.items())
                renamed[column] = list(chain.from_iterable(texts))
            elif values:
                renamed[column] = values[found[0]]
        documents = renamed.get("document")
        if mapping.get("document", [""])[0] not in _LISTS or not isinstance(documents, list):
            yield renamed
            return
        if not documents:
            raise ValueError(
                f"{place}: `{mapping['document'][0]}` must list a document. Received: none. "
                "Add one or remove the row."
            )
        yield renamed | {"document": documents[0]}
        for document in documents[1:]:  # the negatives are those of the query: once is enough
            yield {k: v for k, v in renamed.items() if k != "negatives"} | {"document": document}

    def wanted(self, names: tuple[str, ...], place: str) -> list[str]:
        """Which of `names` a reader has to read."""
        mapping = self._map(names, place)
        return list(names) if mapping is None else [n for found in mapping.values() for n in found]

    def notes(self) -> list[str]:
        """What was added, a line on names that were read as others, and one on those left out."""
        notes = list(self._notes)
        if self._read_as:
            pairs = ", ".join(f"{name} → {column}" for name, column in self._read_as.items())
            notes.append(f"columns read as: {pairs}")
        if self._unused:
            notes.append(f"columns not used: {', '.join(self._unused)}")
        return notes

    def is_header(self, fields: list[str]) -> bool:
        """Whether a line of a table names columns."""
        # A text may be the one word "answer": other names than the columns' own come in pairs.
        is_named = any(name in COLUMNS or name in self.chosen.values() for name in fields)
        return is_named or {"query", "document"} <= {self._column(name) for name in fields}

    def _column(self, name: str) -> str | None:
        for column, chosen in self.chosen.items():
            if name == chosen:
                return column
        if name in COLUMNS:
            return None if name in self.chosen else name
        column = next((column for column, names in ALIASES.items() if name in names), None)
        if _NUMBERED.fullmatch(name):
            column = "negatives"
        return None if column in self.chosen else column

    def _map(self, names: tuple[str, ...], place: str) -> dict[str, list[str]] | None:
        """Column → the names it is read from; None where that changes nothing."""
        self._check_chosen(names, place)
        mapping: dict[str, list[str]] = {}
        unused = []
        for name in names:
            column = self._column(name)
            stands_beside_it = name != column and column in names and column not in self.chosen
            if column is None or stands_beside_it:
                unused.append(name)
            else:
                mapping.setdefault(column, []).append(name)
        _check_filled(mapping, names, place)
        self._check_one_each(mapping, place)
        if unused and not self._extra:
            raise ValueError(
                f"{place}: columns must be among {', '.join(COLUMNS)}. "
                f"Received: {', '.join(map(repr, unused))}. Rename or remove it."
            )
        self._unused.update(dict.fromkeys(unused))
        read_as = {n: column for column, found in mapping.items() for n in found if n != column}
        self._read_as.update(read_as)
        return mapping if read_as or unused else None

    def _check_chosen(self, names: tuple[str, ...], place: str) -> None:
        for column, name in self.chosen.items():
            if name not in names:
                raise ValueError(
                    f"{place}: `{column}` was to be read from {name!r}. "
                    f"Received: columns {', '.join(names) or 'none'}. Name one of them."
                )

    def _check_one_each(self, mapping: dict[str, list[str]], place: str) -> None:
        for column, found in mapping.items():
            if len(found) > 1 and column != "negatives":
                raise ValueError(
                    f"{place}: one column must be the {column}. Received: {', '.join(found)}, "
                    f"each of which could be. Say which with ?{column}={found[0]} after the path, "
                    f"or rename it to {column}."
                )


def _check_filled(mapping: dict[str, list[str]], names: tuple[str, ...], place: str) -> None:
    for column in ("query", "document"):
        if column not in mapping:
            raise ValueError(
                f"{place}: `{column}` is missing. Received: columns {', '.join(names) or 'none'}. "
                f"Rename one of them, or name it with ?{column}=NAME after the path."
            )


def _texts(name: str, value: object, place: str) -> list:
    """The negatives in one column; those named for one of them may hold it as it is."""
    if name not in _PLURAL and isinstance(value, str):
        return [value] if value.strip() else []
    return negative_texts(value, place, name)


def negative_texts(value: object, place: str, name: str = "negatives") -> list[str]:
    """Return the texts in a column of negatives: a list, or the JSON of one."""
    try:
        texts = json.loads(value) if value and isinstance(value, str) else value or []
    except json.JSONDecodeError:
        texts = None
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError(
            f"{place}: `{name}` must be a list of strings (in .tsv and .csv as JSON). "
            f'Received: {shorten(str(value))}. Write it as ["one", "another"].'
        )
    return texts
