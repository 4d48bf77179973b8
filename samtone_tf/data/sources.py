"""Opens a data set by the one string that names it, such as `beir:scifact`."""

import hashlib
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from samtone_tf.data.beir import beir_files, beir_splits, read_beir, tabulate_beir
from samtone_tf.data.cache import FORMAT, Cache
from samtone_tf.data.docstrings import SPLITS, read_docstrings
from samtone_tf.data.ir_datasets import (
    ir_datasets_splits,
    ir_datasets_stamp,
    read_ir_datasets,
    tabulate_ir_datasets,
)
from samtone_tf.data.msmarco import msmarco_files, msmarco_splits, read_msmarco, tabulate_msmarco
from samtone_tf.data.multireqa import (
    multireqa_files,
    multireqa_splits,
    read_multireqa,
    tabulate_multireqa,
)
from samtone_tf.data.pairs import pairs_files, pairs_splits, read_pairs, tabulate_pairs
from samtone_tf.data.records import RetrievalData
from samtone_tf.data.table import Table, as_table, load_table, save_table
from samtone_tf.data.tfds import read_tfds, tabulate_tfds, tfds_splits, tfds_stamp

_MORE = {".gz": 12, ".parquet": 12}  # bytes of columns for each byte of a compressed file


class Source(NamedTuple):
    """One kind of source: how to read it, which splits it has, and how it is written."""

    read: Callable[[str, str], RetrievalData]  # (what follows the colon, split)
    splits: Callable[[str], tuple[str, ...]]
    example: str
    # The same without holding any text: (…, a folder for the columns).
    tabulate: Callable[[str, str, Path], Table] | None = None
    # What the columns are found again by: the contents of files, or a text that changes when
    # the data does, with the bytes that the columns take; None where nothing says so.
    files: Callable[[str, str], tuple[Path, ...]] | None = None
    stamp: Callable[[str, str], tuple[str, int] | None] | None = None


SOURCES = {
    "beir": Source(read_beir, beir_splits, "beir:FOLDER", tabulate_beir, beir_files),
    "pairs": Source(read_pairs, pairs_splits, "pairs:FILE", tabulate_pairs, pairs_files),
    "tfds": Source(read_tfds, tfds_splits, "tfds:NAME", tabulate_tfds, stamp=tfds_stamp),
    "ir_datasets": Source(
        read_ir_datasets,
        ir_datasets_splits,
        "ir_datasets:ID",
        tabulate_ir_datasets,
        stamp=ir_datasets_stamp,
    ),
    "multireqa": Source(
        read_multireqa, multireqa_splits, "multireqa:FOLDER", tabulate_multireqa, multireqa_files
    ),
    "msmarco": Source(
        read_msmarco, msmarco_splits, "msmarco:FOLDER", tabulate_msmarco, msmarco_files
    ),
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
    found = None if cache is None else _key(known, place, split)
    if found is None:
        return as_table(known.read(place, split))
    key, num_bytes = found

    def build(folder: Path) -> None:
        columns = folder / "columns"
        columns.mkdir()
        save_table(known.tabulate(place, split, columns), folder)
        shutil.rmtree(columns)

    table = load_table(cache.get("pairs", key, build, num_bytes), key)
    return replace(table, source=source)  # the files may have been elsewhere when it was built


def _key(known: Source, place: str, split: str) -> tuple[str, int] | None:
    """Hash of what decides what the columns hold, and about how many bytes they take."""
    if known.files:
        files = known.files(place, split)
        # While they are built, the columns hold every text twice and some numbers beside it.
        size = sum(_MORE.get(file.suffix, 3) * file.stat().st_size for file in files)
        return _hash_files(files, split, place.partition("?")[2]), size
    stamp = known.stamp(place, split) if known.stamp else None
    if stamp is None:
        return None
    text = f"{FORMAT} {split} {stamp[0]}"
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest(), stamp[1]


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


def _hash_files(files: tuple[Path, ...], split: str, options: str) -> str:
    """Hash of the contents of files, wherever their folder is, and of how they are read."""
    digest = hashlib.blake2b(f"{FORMAT} {split} {options}".encode(), digest_size=16)
    root = Path(os.path.commonpath([file.absolute().parent for file in files]))
    for file in files:
        # The name decides how it is read, and for some the folder which split it is.
        name = file.absolute().relative_to(root).as_posix()
        digest.update(f" {name} {file.stat().st_size} ".encode())
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
