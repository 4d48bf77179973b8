"""Opens a data set by the one string that names it, such as `beir:scifact`."""

from collections.abc import Callable
from typing import NamedTuple

from samtone_tf.data.beir import read_beir
from samtone_tf.data.docstrings import read_docstrings
from samtone_tf.data.pairs import read_pairs
from samtone_tf.data.records import RetrievalData


class Source(NamedTuple):
    """One kind of source: how to read it, and how it is written."""

    read: Callable[[str, str], RetrievalData]  # (what follows the colon, split)
    example: str


SOURCES = {
    "beir": Source(read_beir, "beir:FOLDER"),
    "pairs": Source(read_pairs, "pairs:FILE.jsonl"),
    "docstrings": Source(lambda _, split: read_docstrings(split), "docstrings"),
}


def load_data(source: str, split: str = "train") -> RetrievalData:
    """Read the judgements of `split`, and the texts, of the data set that `source` names.

    Args:
        source: a kind from `SOURCES`, and for most a colon and where it is.
        split: which judgements, such as `train` or `test`.
    """
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
    return known.read(place, split)
