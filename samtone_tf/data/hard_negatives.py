"""Hard negatives by query, kept flat, and the draw of a few of them for each pair of a batch.

Neither memory nor time depends on how long the longest list is. Knows rows, not texts.
"""

from collections.abc import Sequence

import numpy as np


class HardNegatives:
    """The rows of every query's hard negatives.

    Args:
        rows_of_query: for every query, the rows of its hard negatives, without repeats.

    Attributes:
        counts: int64, how many each query has.
    """

    def __init__(self, rows_of_query: Sequence[Sequence[int]]):
        self.counts = np.array([len(rows) for rows in rows_of_query], dtype=np.int64)
        self._starts = np.cumsum(self.counts) - self.counts
        flat = [row for rows in rows_of_query for row in rows]
        self._rows = np.array([*flat, -1], dtype=np.int64)  # the last one is what place -1 finds

    def draw(self, queries: np.ndarray, num: int, random: np.random.Generator) -> np.ndarray:
        """Draw `num` different hard negatives of each query, every choice equally likely.

        Args:
            queries: int (B,), numbers of queries.
            num: N, slots to fill; those that a query cannot fill are -1 and come last.
            random: makes the draws.

        Returns:
            int64 (B, N), rows.
        """
        counts = self.counts[queries]
        wanted = np.minimum(counts, num)
        drawn = np.full((len(queries), num), -1, dtype=np.int64)
        for slot in range(num):
            # Floyd's sampling without replacement (Bentley and Floyd 1987): draw from one
            # more place each time, and take the newest place when the draw is a repeat.
            newest = counts - wanted + slot  # (B,)
            place = random.integers(0, newest, endpoint=True)
            is_repeat = (drawn[:, :slot] == place[:, None]).any(axis=1)
            drawn[:, slot] = np.where(is_repeat, newest, place)
            drawn[slot >= wanted, slot] = -1
        places = np.where(drawn < 0, -1, self._starts[queries, None] + drawn)
        return self._rows[places]  # (B, N)
