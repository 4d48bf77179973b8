"""How long texts are in tokens, and what a limit cuts off."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tqdm import tqdm

from samtone_tf.data.columns import take
from samtone_tf.data.tokenizer import Tokenizer

_CHUNK = 1000  # texts that are tokenised at a time


@dataclass(frozen=True)
class Lengths:
    """Lengths of a side's texts, the end token counted.

    Args:
        counted: texts that were looked at.
        of: texts that there are.
        limit: tokens that are kept of a text.
        mean: of the lengths.
        median: of the lengths.
        percentile_95: the length that 95 in 100 texts do not exceed.
        longest: of the lengths.
        share_cut: of texts longer than `limit`.
        share_of_tokens_cut: of all tokens that lie beyond `limit`.
        share_cut_at_double: of texts longer than twice the limit.
        histogram: (from, to, texts), each bin twice as wide as the one before.
    """

    counted: int
    of: int
    limit: int
    mean: float
    median: float
    percentile_95: float
    longest: int
    share_cut: float
    share_of_tokens_cut: float
    share_cut_at_double: float
    histogram: tuple[tuple[int, int, int], ...]


def measure_lengths(
    texts: Sequence[str], tokenizer: Tokenizer, limit: int, most: int, name: str
) -> Lengths:
    """Return the lengths of texts.

    Args:
        texts: of one side; may be on disk.
        tokenizer: makes the tokens.
        limit: tokens that are kept of a text.
        most: texts that are looked at, evenly spread.
        name: for the progress bar.
    """
    rows = spread(len(texts), most)
    lengths = np.empty(len(rows), np.int64)
    with tqdm(total=len(rows), desc=name, unit=" texts", delay=3, leave=False, disable=None) as bar:
        for start in range(0, len(rows), _CHUNK):
            chunk = list(take(texts, rows[start : start + _CHUNK]))
            ids = tokenizer.tokenize(chunk)
            lengths[start : start + len(chunk)] = [len(one) + 1 for one in ids]
            bar.update(len(chunk))
    return summarise(lengths, limit, of=len(texts))


def summarise(lengths: np.ndarray, limit: int, of: int) -> Lengths:
    """Return what is said about lengths.

    Args:
        lengths: int64 (n,), at least one.
        limit: tokens that are kept.
        of: texts that there are, of which n were looked at.
    """
    cut = np.maximum(lengths - limit, 0)
    return Lengths(
        counted=len(lengths),
        of=of,
        limit=limit,
        mean=float(lengths.mean()),
        median=float(np.median(lengths)),
        percentile_95=float(np.percentile(lengths, 95)),
        longest=int(lengths.max()),
        share_cut=float((cut > 0).mean()),
        share_of_tokens_cut=float(cut.sum() / lengths.sum()),
        share_cut_at_double=float((lengths > 2 * limit).mean()),
        histogram=_histogram(lengths),
    )


def spread(num: int, most: int) -> np.ndarray:
    """Return int64, at most `most` rows of `num`, evenly spread."""
    if num <= most:
        return np.arange(num)
    return (np.arange(most) * num) // most


def _histogram(lengths: np.ndarray) -> tuple[tuple[int, int, int], ...]:
    bins, first, last = [], 1, 8
    while first <= lengths.max():
        bins.append((first, last, int(((lengths >= first) & (lengths <= last)).sum())))
        first, last = last + 1, 2 * last
    while bins and not bins[0][2]:
        bins.pop(0)
    return tuple(bins)
