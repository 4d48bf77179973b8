"""Opens a data set by the one string that names it, such as `beir:scifact`."""

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from samtone_tf.data.beir import beir_files, beir_splits, read_beir, tabulate_beir
from samtone_tf.data.cache import FORMAT, Cache
from samtone_tf.data.docstrings import SPLITS, read_docstrings
from samtone_tf.data.pairs import pairs_files, pairs_splits, read_pairs, tabulate_pairs
from samtone_tf.data.records import RetrievalData
from samtone_tf.data.table import Table, as_table, load_table, save_table


class Source(NamedTuple):
    """One kind of source: how to read it, which splits it has, and how it is written."""

    read: Callable[[str, str], RetrievalData]  # (what follows the colon, split)
    splits: Callable[[str], tuple[str, ...]]
    example: str
    # The same without holding any text, for sources that are files:
    files: Callable[[str, str], tuple[Path, ...]] | None = None  # those that it is read from
    tabulate: Callable[[str, str, Path], Table] | None = None  # (…, a folder for the columns)


SOURCES = {
    "beir": Source(read_beir, beir_splits, "beir:FOLDER", beir_files, tabulate_beir),
    "pairs": Source(read_pairs, pairs_splits, "pairs:FILE.jsonl", pairs_files, tabulate_pairs),
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


def load_training_table(source: str, split: str = "train", cache: Cache | None = None) -> Table:
    """Read the same as columns for training.

    With a cache, files are read once, front to back, and no text stays in memory; later
    calls find the columns by the files' contents.

    Args:
        source: as for `load_data`.
        split: as for `load_data`.
        cache: where the columns are kept; None keeps all in memory.
    """
    known, place = _find(source)
    if cache is None or known.files is None:
        return as_table(known.read(place, split))
    files = known.files(place, split)
    key = _hash_files(files, split)

    def build(folder: Path) -> None:
        columns = folder / "columns"
        columns.mkdir()
        save_table(known.tabulate(place, split, columns), folder)
        shutil.rmtree(columns)

    # While they are built, the columns hold every text twice and some numbers beside it.
    num_bytes = sum(file.stat().st_size * (12 if file.suffix == ".gz" else 3) for file in files)
    table = load_table(cache.get("pairs", key, build, num_bytes), key)
    return replace(table, source=source)  # the files may have been elsewhere when it was built


def list_splits(source: str) -> tuple[str, ...]:
    """Names of the splits that a data set has.

    Args:
        source: as for `load_data`. A pairs file is read for its column `split`.
    """
    known, place = _find(source)
    return known.splits(place)


def check_data(source: str, split: str) -> None:
    """Raise what `load_data` would for a data set that is not there, without reading it.

    Args:
        source: as for `load_data`. What is no file is only checked for its name.
        split: as for `load_data`.
    """
    known, place = _find(source)
    if known.files is not None:
        known.files(place, split)


def _hash_files(files: tuple[Path, ...], split: str) -> str:
    """Hash of the contents of files, whatever their folder."""
    digest = hashlib.blake2b(f"{FORMAT} {split}".encode(), digest_size=16)
    for file in files:
        # The ending decides how it is read.
        digest.update(f" {file.name} {file.stat().st_size} ".encode())
        with open(file, "rb") as content:
            while block := content.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def _find(source: str) -> tuple[Source, str]:
    """The kind of a source, and what follows its colon."""
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
