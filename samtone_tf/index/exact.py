"""Exact search by inner product in NumPy: the oracle of other indexes, and their fallback."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samtone_tf.index.base import (
    SearchResult,
    check_document_ids,
    check_k,
    check_vectors,
    id_ranks,
    row_squares,
)
from samtone_tf.index.folder import new_folder, read_description, write_description

QUERIES_AT_ONCE = 128
"""Rows of one matrix product; bounds memory together with `chunk_size`."""


class _Best(NamedTuple):
    """The best documents of one query so far, in ranking order."""

    positions: np.ndarray
    scores: np.ndarray


class ExactIndex:
    """All documents, compared with every query by float32 inner product.

    The ranking is the same whatever `chunk_size` and whichever queries are
    searched together. A matrix product alone does not give that: its rounding
    depends on its shape, so equal documents may get unequal scores. Here it only
    picks candidates, with a margin for its error, and the score of each candidate
    is a dot product of its own. Equal scores are ordered by document id,
    descending, as trec_eval does.

    Vectors may have any length; on unit vectors the score is the cosine. Build
    one with `ExactIndex.build`.
    """

    kind = "exact"

    def __init__(self, vectors: np.ndarray, document_ids: list[str], model: str = "") -> None:
        self.vectors = vectors  # (C, D)
        self.document_ids = document_ids
        self.model = model
        self.num_documents, self.dim = vectors.shape
        self._ranks = id_ranks(document_ids)
        self._longest = float(np.sqrt(row_squares(vectors).max()))
        self._rows = {document_id: row for row, document_id in enumerate(document_ids)}

    @classmethod
    def build(
        cls, vectors: np.ndarray, document_ids: Sequence[str], *, model: str = ""
    ) -> "ExactIndex":
        """Make an index.

        Args:
            vectors: floats `(C, D)`, one row per document.
            document_ids: C distinct strings, in the order of the rows.
            model: fingerprint of the model that made the vectors; kept in the folder.
        """
        checked = check_vectors(vectors, "vectors")
        return cls(checked, check_document_ids(document_ids, len(checked)), model)

    def search(self, vectors: np.ndarray, k: int, *, chunk_size: int = 8192) -> SearchResult:
        """The `k` best documents of each query (all of them, if there are fewer).

        Args:
            vectors: queries, floats `(B, D)`.
            k: int ≥ 1, documents per query.
            chunk_size: documents compared at once; changes memory, never the result.
        """
        queries = check_vectors(vectors, "vectors", self.dim)
        k = min(check_k(k), self.num_documents)
        chunk_size = check_k(chunk_size, "chunk_size")
        best: list[_Best] = []
        for start in range(0, len(queries), QUERIES_AT_ONCE):
            best += self._search_tile(queries[start : start + QUERIES_AT_ONCE], k, chunk_size)
        ids = self.document_ids
        return SearchResult(
            [[ids[position] for position in row.positions.tolist()] for row in best],
            [row.scores for row in best],
        )

    def score(self, vector: np.ndarray, document_ids: Sequence[str]) -> np.ndarray:
        """Scores of one query `(D,)` with the named documents, float32."""
        rows = [self._rows[document_id] for document_id in document_ids]
        return np.vecdot(self.vectors[rows], vector)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write a folder that `load_index` reads; all of it or nothing."""
        with new_folder(folder, overwrite=overwrite) as temporary:
            self.write(temporary)

    def write(self, folder: Path) -> None:
        """Write the index's files into an existing folder."""
        np.save(folder / "vectors.npy", self.vectors)
        description = {
            "kind": self.kind,
            "dim": self.dim,
            "num_documents": self.num_documents,
            "model": self.model,
            "settings": {},
        }
        write_description(folder, description, self.document_ids)

    @classmethod
    def load(cls, folder: str | Path) -> "ExactIndex":
        """Read what `save` wrote."""
        description, ids = read_description(folder)
        try:
            vectors = np.load(Path(folder) / "vectors.npy", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"`folder` must hold vectors.npy. Received: {folder}, where it cannot be read. "
                "Build the index again."
            ) from error
        if vectors.shape != (description["num_documents"], description["dim"]):
            raise ValueError(
                f"`folder` must hold one vector per document. Received: shape={vectors.shape} in "
                f"{folder}, against index.json. Build the index again."
            )
        return cls(check_vectors(vectors, "vectors"), ids, description["model"])

    def _search_tile(self, queries: np.ndarray, k: int, chunk_size: int) -> list[_Best]:
        lengths = np.sqrt(row_squares(queries).astype(np.float64))
        # Bound of the rounding error of a dot product of D terms, in any order of summation.
        margins = 2 * self.dim * 2.0**-24 * lengths * self._longest
        nothing = _Best(np.empty(0, np.int64), np.empty(0, np.float32))
        best = [nothing] * len(queries)
        for start in range(0, self.num_documents, chunk_size):
            rough = queries @ self.vectors[start : start + chunk_size].T  # (B, chunk)
            for row, query in enumerate(queries):
                near = _candidates(rough[row], best[row], k, float(margins[row]))
                if near.size:
                    best[row] = self._merge(best[row], near + start, query, k)
        return best

    def _merge(self, best: _Best, positions: np.ndarray, query: np.ndarray, k: int) -> _Best:
        scores = np.concatenate([best.scores, np.vecdot(self.vectors[positions], query)])
        positions = np.concatenate([best.positions, positions])
        order = np.lexsort((-self._ranks[positions], -scores))[:k]
        return _Best(positions[order], scores[order])


def _candidates(rough: np.ndarray, best: _Best, k: int, margin: float) -> np.ndarray:
    """Places in a chunk that may be among the k best, given rough scores."""
    near = np.arange(rough.size)
    if best.scores.size == k:
        near = np.flatnonzero(rough >= float(best.scores[-1]) - margin)
    if near.size > k:
        kth = np.partition(rough[near], near.size - k)[near.size - k]
        near = near[rough[near] >= float(kth) - 2 * margin]
    return near
