"""The texts of a data set one after another, as (id, text), so that it may be larger than memory.

Judgements are not read: a corpus without any can be encoded. Order and texts are those
of `load_data`, with which the rows of anything made from them line up.
"""

import glob
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from samtone_tf.checks import check_choice
from samtone_tf.data.beir import beir_texts, read_texts
from samtone_tf.data.cache import default_folder
from samtone_tf.data.pairs import pairs_files, pairs_splits, tabulate_pairs
from samtone_tf.data.records import RetrievalData
from samtone_tf.data.sources import SOURCES, list_splits, load_data
from samtone_tf.data.table import Records

SIDES = ("query", "document")

Text = tuple[str, str | bytes]
"""An id and its text; bytes go to the tokenizer as they are."""


class Corpus(NamedTuple):
    """Texts that can be read from the start as often as need be.

    Args:
        source: how it was named; used in messages.
        read: gives an iterator from the first text on.
        files: BEIR's JSON lines that they stand in, for readers of their own; often none.
    """

    source: str
    read: Callable[[], Iterator[Text]]
    files: tuple[Path, ...] = ()


def open_corpus(data: str | RetrievalData | Mapping[str, str | bytes], side: str) -> Corpus:
    """The documents, or the queries, of a data set, without reading them yet.

    `beir:` and `corpus:` are read line by line. `pairs:` needs columns on disk, in the folder
    of caches, to find repeats. Other kinds of source are read into memory.

    Args:
        data: a source as for `load_data`; or `corpus:FILES`, a path of files in the layout of
            BEIR's corpus.jsonl, which may have `*` in it, in the order of their names; or
            what `load_data` returned; or id → text.
        side: `"document"` or `"query"`; of no account for `corpus:` and a mapping.

    Raises:
        ValueError, FileNotFoundError: no such source.
        TypeError: data of another type.
    """
    check_choice("side", side, SIDES)
    if isinstance(data, RetrievalData):
        texts = data.queries if side == "query" else data.documents
        return Corpus(data.source, lambda: iter(texts.items()))
    if isinstance(data, Mapping):
        return Corpus("texts", lambda: iter(data.items()))
    if not isinstance(data, str):
        raise TypeError(
            "`data` must be a source such as 'beir:FOLDER', a RetrievalData, or a dict of id → "
            f"text. Received: {type(data).__name__}."
        )
    kind, _, place = data.partition(":")
    if kind == "beir" and place:
        return _lines(data, (beir_texts(place, side),), side)
    if kind == "corpus" and place:
        return _lines(data, _find_files(place), "document")
    if kind == "pairs" and place:
        return Corpus(data, _pairs(place, side))
    if kind not in SOURCES:
        examples = ["corpus:FILES.jsonl", *(source.example for source in SOURCES.values())]
        raise ValueError(
            f"`data` must be one of: {', '.join(examples)}. Received: {data!r}. Put the kind and a "
            "colon before the path."
        )
    load = cache(lambda: _load(data, side))
    return Corpus(data, lambda: iter(load().items()))


def _lines(source: str, files: tuple[Path, ...], side: str) -> Corpus:
    def read() -> Iterator[Text]:
        for file in files:
            yield from read_texts(file, side, quiet=True)

    return Corpus(source, read, files)


def _find_files(pattern: str) -> tuple[Path, ...]:
    files = tuple(Path(name) for name in sorted(glob.glob(pattern)))
    if not files or not all(file.is_file() for file in files):
        raise FileNotFoundError(
            "`data` of kind corpus must name files of JSON lines. "
            f"Received: {pattern!r}, which matches {'no file' if not files else 'a folder'}. "
            "Write corpus:FOLDER/*.jsonl, or name one file."
        )
    return files


def _pairs(file: str, side: str) -> Callable[[], Iterator[Text]]:
    pairs_files(file)  # says so now if it is not there

    @cache
    def tabulate() -> Records:
        split = next(iter(pairs_splits(file)), "train")
        default_folder().mkdir(parents=True, exist_ok=True)
        folder = tempfile.mkdtemp(prefix="texts-", dir=default_folder())
        try:
            table = tabulate_pairs(file, split, Path(folder), keep_ids=True)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        records = table.queries if side == "query" else table.documents
        weakref.finalize(records, shutil.rmtree, folder, ignore_errors=True)
        return records

    def read() -> Iterator[Text]:
        records = tabulate()
        yield from zip(records.ids, records.texts, strict=True)

    return read


def _load(source: str, side: str) -> Mapping[str, str]:
    split = next(iter(list_splits(source)), "train")
    data = load_data(source, split)
    return data.queries if side == "query" else data.documents
