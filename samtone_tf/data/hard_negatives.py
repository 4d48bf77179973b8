"""Hard negatives by query, kept flat, and the draw of a few of them for each pair of a batch.

Neither memory nor time depends on how long the longest list is. Knows rows, not texts.
"""

import numpy as np


class HardNegatives:
    """The rows of every query's hard negatives.

    Args:
        counts: int64, how many each query has.
        rows: int64, the rows of them, query after query, without repeats.
    """

    def __init__(self, counts: np.ndarray, rows: np.ndarray):
        self.counts = counts
        self.rows = rows
        self._starts = np.cumsum(counts) - counts
        self._rows = np.append(rows, -1)  # the last one is what place -1 finds

    def renumbered(self, queries: np.ndarray, place: np.ndarray) -> "HardNegatives":
        """Return those of `queries`, which are then 0, 1, …, with row r as `place[r]`.

        Args:
            queries: int64, rising; all that have hard negatives are among them.
            place: int64, by row.
        """
        return HardNegatives(self.counts[queries], place[self.rows])

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
