"""Opens a data set by the one string that names it, such as `beir:scifact`."""

from collections.abc import Callable
from typing import NamedTuple

from samtone_tf.data.beir import beir_splits, read_beir
from samtone_tf.data.docstrings import SPLITS, read_docstrings
from samtone_tf.data.pairs import pairs_splits, read_pairs
from samtone_tf.data.records import RetrievalData


class Source(NamedTuple):
    """One kind of source: how to read it, which splits it has, and how it is written."""

    read: Callable[[str, str], RetrievalData]  # (what follows the colon, split)
    splits: Callable[[str], tuple[str, ...]]
    example: str


SOURCES = {
    "beir": Source(read_beir, beir_splits, "beir:FOLDER"),
    "pairs": Source(read_pairs, pairs_splits, "pairs:FILE.jsonl"),
    "docstrings": Source(lambda _, split: read_docstrings(split), lambda _: SPLITS, "docstrings"),
}


def load_data(source: str, split: str = "train") -> RetrievalData:
    """Read the judgements of `split`, and the texts, of the data set that `source` names.

    Args:
        source: a kind from `SOURCES`, and for most a colon and where it is.
        split: which judgements, such as `train` or `test`.
    """
    known, place = _find(source)
    return known.read(place, split)


def list_splits(source: str) -> tuple[str, ...]:
    """Names of the splits that a data set has.

    Args:
        source: as for `load_data`. A pairs file is read for its column `split`.
    """
    known, place = _find(source)
    return known.splits(place)


def _find(source: str) -> tuple[Source, str]:
    """The kind of a source, and what follows the colon."""
    kind, _, place = source.partition(":")
    known = SOURCES.get(kind)
    if known is None:
        raise ValueError(
            f"`source` must be one of: {', '.join(s.example for s in SOURCES.values())}. "
            f"Received: {source!r}. Put the kind and a colon before the path."
        )
    if bool(place) != (":" in known.example) or source.endswith(":"):
        raise ValueError(
            f"`source` of kind {kind} is written as {known.example}. "
            f"Received: {source!r}. Write it like that."
        )
    return known, place
