"""The best documents of a few queries so far: candidates by rough scores, then exact ones.

A document is dropped only when k others are surely better: its rough score is below the
k-th best rough score by more than twice the margin of error, or k exact scores beat it.
"""

import numpy as np

from samtone_tf.index.vectors import StoredVectors


class Pool:
    """Candidates of the queries of one tile.

    Args:
        queries: float32 `(B, D)`.
        margins: float64 `(B,)`, how far a rough and an exact score may differ.
        k: int ≥ 0, documents wanted per query.
    """

    def __init__(self, queries: np.ndarray, margins: np.ndarray, k: int) -> None:
        self.queries, self.k = queries, k
        self._margins = 2 * margins
        # A document below its query's floor is out.
        self._floors = np.full(len(queries), -np.inf, np.float32)
        self._rows = np.empty(0, np.int32)  # which query, (P,)
        self._positions = np.empty(0, np.int64)  # which document
        self._scores = np.empty(0, np.float32)  # roughly
        self._limit = 2 * len(queries) * k + 4096

    @property
    def is_full(self) -> bool:
        """Whether more candidates have the same score than a pool should hold."""
        return len(self._rows) > 2 * self._limit

    def add(self, block: np.ndarray, positions: np.ndarray) -> None:
        """Compare with the documents `block` `(c, D)` at `positions` `(c,)`."""
        if len(self.queries) == 1:  # bound by reading the block: threads would not help
            rough = np.vecdot(block, self.queries[0])[None]
        else:
            rough = self.queries @ block.T  # (B, c)
        if np.isneginf(self._floors).any() and self.k <= rough.shape[1]:
            at = rough.shape[1] - self.k
            self._raise_floors(np.partition(rough, at, axis=1)[:, at])
        rows, columns = np.nonzero(rough >= self._floors[:, None])
        self._rows = np.concatenate([self._rows, rows.astype(np.int32)])
        self._positions = np.concatenate([self._positions, positions[columns]])
        self._scores = np.concatenate([self._scores, rough[rows, columns]])
        if len(self._rows) > self._limit:
            self._drop()

    def settle(self, vectors: StoredVectors, ranks: np.ndarray, at_once: int) -> None:
        """Keep k candidates by their exact scores: for many that are all but equal."""
        scores = self._exact(vectors, at_once)
        keep = self._order(scores, ranks)[0]
        self._rows, self._positions = self._rows[keep], self._positions[keep]
        self._scores = self._scores[keep]

    def best(
        self, vectors: StoredVectors, ranks: np.ndarray, at_once: int
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """(positions, exact scores) of the k best of each query, in ranking order.

        Args:
            vectors: of the documents.
            ranks: `(C,)`, of equal scores the one of higher rank comes first.
            at_once: numbers of decoded rows held together.
        """
        if self.k:
            self._drop()
        scores = self._exact(vectors, at_once)
        keep, ends = self._order(scores, ranks)
        positions, scores = self._positions[keep], scores[keep]
        return list(zip(np.split(positions, ends[:-1]), np.split(scores, ends[:-1]), strict=True))

    def _raise_floors(self, kth: np.ndarray) -> None:
        floors = (kth - self._margins).astype(np.float32)
        # Rounding to float32 must not lift a floor.
        np.maximum(self._floors, np.nextafter(floors, np.float32(-np.inf)), out=self._floors)

    def _drop(self) -> None:
        """Lift each floor to what its query's k-th best candidate allows, and drop below it."""
        order = np.lexsort((-self._scores, self._rows))
        places, _ = _places(self._rows[order], len(self.queries))
        at = order[places == self.k - 1]
        kth = np.full(len(self.queries), -np.inf, np.float32)
        kth[self._rows[at]] = self._scores[at]
        self._raise_floors(kth)
        keep = self._scores >= self._floors[self._rows]
        self._rows, self._positions = self._rows[keep], self._positions[keep]
        self._scores = self._scores[keep]

    def _exact(self, vectors: StoredVectors, at_once: int) -> np.ndarray:
        """A dot product of its own for every candidate, so that equal documents score equally."""
        out = np.empty(len(self._rows), np.float32)
        step = max(1, at_once // vectors.shape[1])
        for start in range(0, len(out), step):
            part = slice(start, start + step)
            rows = vectors.take(self._positions[part])
            out[part] = np.vecdot(rows, self.queries[self._rows[part]])
        return out

    def _order(self, scores: np.ndarray, ranks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Candidates in ranking order, k a query; and where each query's end."""
        order = np.lexsort((-ranks[self._positions], -scores, self._rows))
        places, counts = _places(self._rows[order], len(self.queries))
        return order[places < self.k], np.cumsum(np.minimum(counts, self.k))


def _places(rows: np.ndarray, num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Of ascending rows: the place of each entry within its row, and entries per row."""
    counts = np.bincount(rows, minlength=num_rows)
    starts = np.cumsum(counts) - counts
    return np.arange(len(rows)) - starts[rows], counts
