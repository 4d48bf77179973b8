"""A first reading of a corpus: how many texts, whether their ids will do, and a hash of them all.

The hash is noted at the end of each shard, so that a later reading can tell before a shard
is written whether it is still the corpus that was counted.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
from tqdm import tqdm

from samtone_tf.data import grouping
from samtone_tf.data.columns import Numbers
from samtone_tf.data.corpus import Corpus
from samtone_tf.data.fingerprints import fingerprint
from samtone_tf.data.lines import shorten


@dataclass(frozen=True)
class Scan:
    """What a corpus holds.

    Args:
        num_texts: how many.
        num_empty: of them without a letter.
        marks: hash of all texts up to the end of each shard.
    """

    num_texts: int
    num_empty: int
    marks: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """Hash of all ids and texts in their order."""
        return self.marks[-1]

    @property
    def num_shards(self) -> int:
        """Shards that the texts fill."""
        return len(self.marks)


class TextHash:
    """A hash of ids and texts in their order."""

    def __init__(self):
        self._digest = hashlib.blake2b(digest_size=16)

    def add(self, text_id: str, text: str | bytes) -> None:
        """Takes in one text."""
        for part in (text_id, text):
            raw = part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
            self._digest.update(len(raw).to_bytes(8, "big") + raw)

    def mark(self) -> str:
        """The hash of what came so far."""
        return self._digest.copy().hexdigest()


def scan(corpus: Corpus, shard_size: int) -> Scan:
    """Reads a corpus once.

    Memory: 8 bytes a text, to find an id that comes twice.

    Raises:
        TypeError: an id that is no string, or a text that is neither string nor bytes.
        ValueError: no text, only empty ones, or an id that is empty, has a line end or comes twice.
    """
    digest, ids, marks = TextHash(), Numbers(), []
    num = num_empty = 0
    bar = tqdm(corpus.read(), desc="count texts", unit=" texts", delay=3, leave=False)
    for text_id, text in bar:
        check_text(text_id, text, corpus.source)
        digest.add(text_id, text)
        ids.append(fingerprint(text_id))
        num += 1
        num_empty += not text.strip()
        if num % shard_size == 0:
            marks.append(digest.mark())
    if num_empty == num:
        raise ValueError(
            "`data` must hold a text that is not empty. "
            f"Received: {corpus.source} with {f'{num} empty texts' if num else 'no text'}."
        )
    if num % shard_size:
        marks.append(digest.mark())
    _check_unique(ids.finish(), corpus)
    return Scan(num, num_empty, tuple(marks))


def check_text(text_id: str, text: str | bytes, source: str) -> None:
    """Raises unless an id fits a line and a text is one."""
    if not isinstance(text_id, str):
        raise TypeError(
            f"`data` must have strings as ids. Received: {text_id!r} of type "
            f"{type(text_id).__name__} in {source}. Use str(id)."
        )
    if not isinstance(text, str | bytes):
        raise TypeError(
            f"`data` must have strings or bytes as texts. Received: {type(text).__name__} for id "
            f"{text_id!r} in {source}."
        )
    if not text_id or "\n" in text_id:
        raise ValueError(
            "`data` must have ids that fill one line. "
            f"Received: {shorten(text_id)} in {source}. Give the text another id."
        )


def _check_unique(ids: np.ndarray, corpus: Corpus) -> None:
    number_of, first = grouping.number(ids)
    if len(first) == len(ids):
        return
    repeat = int(np.flatnonzero(first[number_of] != np.arange(len(ids)))[0])
    text_id = next(text_id for row, (text_id, _) in enumerate(corpus.read()) if row == repeat)
    before = int(first[number_of[repeat]])
    raise ValueError(
        f"`data` must name every text once. Received: id {text_id!r} of texts {before + 1} and "
        f"{repeat + 1} in {corpus.source}. Remove one of them."
    )
