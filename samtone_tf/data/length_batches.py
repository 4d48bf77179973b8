"""Which texts are encoded together: those of like length, in batches of few static shapes."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from samtone_tf.checks import check_at_least

CPU_TOKENS, ACCELERATOR_TOKENS = 2048, 16_384
"""Tokens to encode at a time. What a processor works on should fit into its caches, as
`benchmarks/encode.py` measures; the number for accelerators is an estimate."""

_FINEST = 16  # tokens between the first widths


class LengthBatch(NamedTuple):
    """Texts that are encoded together.

    Args:
        rows: int64 (n,), which texts, the longest first.
        num_rows: rows of the padded batch, at least n.
        width: tokens that each is padded to.
    """

    rows: np.ndarray
    num_rows: int
    width: int

    @property
    def padded_rows(self) -> np.ndarray:
        """int64 (num_rows,): the rows, and -1 where there is no text."""
        empty = self.num_rows - len(self.rows)
        return np.pad(self.rows, (0, empty), constant_values=-1)


def widths(longest: int) -> list[int]:
    """Lengths that texts are padded to: every 16 up to 128, then four for each doubling.

    At most a fifth of a wide batch is padding, and texts of up to 512 tokens need 16 graphs.

    Args:
        longest: the most tokens that a text can have; the last width.
    """
    found, width = [], _FINEST
    while width < longest:
        found.append(width)
        width += max(_FINEST, 2 ** (width.bit_length() - 1) // 4)
    return [*found, longest]


def length_batches(
    sizes: np.ndarray, longest: int, batch_tokens: int, multiple: int = 1
) -> Iterator[LengthBatch]:
    """Batches of all texts, the longest first: what does not fit in memory fails at once.

    A batch of short texts has more rows than one of long texts, and the same number of tokens.
    Each width has one number of rows, so that there are no more shapes than widths.

    Args:
        sizes: int (n,), tokens of each text.
        longest: the most there can be.
        batch_tokens: tokens of a batch, padding included; a single text may have more.
        multiple: what the number of rows must be a multiple of: replicas share them.
    """
    check_at_least("batch_tokens", batch_tokens, 1)
    ends = np.array(widths(longest))
    order = np.argsort(-sizes, kind="stable")
    start = 0
    while start < len(order):
        width = int(ends[np.searchsorted(ends, sizes[order[start]])])
        num_rows = max(1, batch_tokens // width // multiple) * multiple
        yield LengthBatch(order[start : start + num_rows], num_rows, width)
        start += num_rows


def row_batches(sizes: np.ndarray, num_rows: int) -> Iterator[LengthBatch]:
    """Batches of equally many texts, the longest first, each as wide as its longest text.

    Args:
        sizes: int (n,), tokens of each text.
        num_rows: of a batch; the last may have fewer.
    """
    check_at_least("num_rows", num_rows, 1)
    order = np.argsort(-sizes, kind="stable")
    for start in range(0, len(order), num_rows):
        rows = order[start : start + num_rows]
        yield LengthBatch(rows, len(rows), int(sizes[rows[0]]))
