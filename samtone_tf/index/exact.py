"""Exact search by inner product in NumPy: the oracle of other indexes, and their fallback."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from samtone_tf.index.base import (
    SearchResult,
    check_document_ids,
    check_k,
    check_model,
    check_new_ids,
    check_removed_ids,
    check_vectors,
    id_ranks,
)
from samtone_tf.index.best import Pool
from samtone_tf.index.conditions import Conditions, Crowding, search_deeper
from samtone_tf.index.folder import new_folder, read_description, write_description
from samtone_tf.index.vectors import StoredVectors, check_storage

MEMORY = 256
"""Megabytes that a search may use for what it computes, if nothing else is said."""

MOST_QUERIES, MOST_DOCUMENTS = 256, 16_384
"""Sides of the largest matrix product: larger ones are no faster, their results leave the cache."""


class ExactIndex:
    """All documents, compared with every query by float32 inner product.

    The corpus is read once per search, a block at a time, and may be larger than
    memory (`StoredVectors`). The ranking is the same whatever the block size and whichever
    queries are searched together. A matrix product alone does not give that: its
    rounding depends on its shape, so equal documents may get unequal scores. Here it
    only picks candidates, with a margin for its error, and the score of each candidate
    is a dot product of its own. Equal scores are ordered by document id, descending,
    as trec_eval does.

    StoredVectors may have any length; on unit vectors the score is the cosine. Build
    one with `ExactIndex.build`.
    """

    kind = "exact"

    def __init__(self, vectors: StoredVectors, document_ids: list[str], model: str = "") -> None:
        self.model = model
        self._fill(vectors, document_ids)

    @classmethod
    def build(
        cls,
        vectors: Any,
        document_ids: Sequence[str],
        *,
        model: str = "",
        storage: str | None = None,
    ) -> "ExactIndex":
        """Make an index.

        Args:
            vectors: floats `(C, D)`, one row per document, or a list of such arrays: shards.
                What is memory-mapped stays on disk.
            document_ids: C distinct strings, in the order of the rows.
            model: fingerprint of the model that made the vectors; kept in the folder.
            storage: `float32`, `bfloat16` or `int8`: what the vectors are kept as. None keeps
                them as they came (float64 becomes float32).
        """
        checked = StoredVectors.of(vectors, "vectors")
        ids = check_document_ids(document_ids, len(checked))
        if storage is not None:
            check_storage(storage)
            checked = checked.stored(storage)
        return cls(checked, ids, model)

    @property
    def storage(self) -> str:
        """What the vectors are kept as."""
        return self.vectors.storage

    @property
    def bytes_per_vector(self) -> float:
        """Bytes of one stored vector."""
        return self.vectors.bytes_per_vector

    def search(
        self,
        vectors: np.ndarray,
        k: int,
        *,
        allowed: Collection[str] | None = None,
        crowding: Crowding | None = None,
        memory: float = MEMORY,
        chunk_size: int | None = None,
    ) -> SearchResult:
        """The `k` best documents of each query (all of them, if there are fewer).

        Args:
            vectors: queries, floats `(B, D)`.
            k: int ≥ 1, documents per query.
            allowed: ids of the documents that may be found; None is all. Only these are read.
            crowding: at most so many results of one group.
            memory: megabytes (10⁶ bytes) for blocks of scores and of decoded vectors; beside
                them, up to three times the results themselves are kept. Never changes results.
            chunk_size: documents compared at once, if not what fits into `memory`.
        """
        queries = check_vectors(vectors, "vectors", self.dim)
        k = min(check_k(k), self.num_documents)
        tile, chunk = _block_sides(memory, self.dim)
        chunk = chunk if chunk_size is None else check_k(chunk_size, "chunk_size")
        if allowed is None and crowding is None:
            return self._search(queries, k, None, (tile, chunk))
        conditions = Conditions(self.rows, allowed, crowding)
        rows = conditions.positions()
        if crowding is None:
            return self._search(queries, k, rows, (tile, chunk))
        most = self.num_documents if rows is None else max(1, len(rows))
        return search_deeper(
            lambda some, depth: self._search(some, depth, rows, (tile, chunk)),
            most,
            queries,
            k,
            conditions,
        )

    def score(self, vector: np.ndarray, document_ids: Sequence[str]) -> np.ndarray:
        """Scores of one query `(D,)` with the named documents, float32."""
        rows = np.array([self.rows[document_id] for document_id in document_ids], np.int64)
        return np.vecdot(self.vectors.take(rows), vector)

    @property
    def rows(self) -> dict[str, int]:
        """Document id → row; made when first asked for."""
        if self._rows is None:
            self._rows = {document_id: row for row, document_id in enumerate(self.document_ids)}
        return self._rows

    def add(self, vectors: Any, document_ids: Sequence[str], *, model: str = "") -> None:
        """Add documents.

        Args:
            vectors: floats `(N, D)`, one row per new document; kept in the index's storage.
            document_ids: N distinct strings that the index does not hold yet.
            model: fingerprint of the model that made them, if known; another one is refused.
        """
        check_model(self.model, model)
        new = StoredVectors.of(vectors, "vectors", self.dim)
        ids = check_new_ids(document_ids, len(new), self.rows)
        if self.storage in ("bfloat16", "int8"):
            new = new.stored(self.storage)
        self._fill(self.vectors.joined(new), [*self.document_ids, *ids])

    def delete(self, document_ids: Sequence[str]) -> None:
        """Remove documents by id; at least one must remain."""
        removed = set(check_removed_ids(document_ids, self.rows))
        keep = np.array([name not in removed for name in self.document_ids])
        left = [name for name in self.document_ids if name not in removed]
        self._fill(self.vectors.kept(keep), left)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write a folder that `load_index` reads; all of it or nothing."""
        with new_folder(folder, overwrite=overwrite) as temporary:
            self.write(temporary)

    def write(self, folder: Path) -> None:
        """Write the index's files into an existing folder."""
        self.vectors.write(folder)
        description = {
            "kind": self.kind,
            "dim": self.dim,
            "num_documents": self.num_documents,
            "model": self.model,
            "settings": {},
            "storage": self.storage,
        }
        write_description(folder, description, self.document_ids)

    @classmethod
    def load(cls, folder: str | Path) -> "ExactIndex":
        """Read what `save` wrote; the vectors stay on disk until a search reads them."""
        description, ids = read_description(folder)
        scales = Path(folder) / "scales.npy"
        try:
            vectors = StoredVectors.open(
                Path(folder) / "vectors.npy",
                scales if description.get("storage") == "int8" else None,
            )
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
        return cls(StoredVectors.of(vectors, "vectors"), ids, description["model"])

    def _fill(self, vectors: StoredVectors, document_ids: list[str]) -> None:
        self.vectors = vectors  # (C, D)
        self.document_ids = document_ids
        self.num_documents, self.dim = vectors.shape
        self._ranks = id_ranks(document_ids)
        self._longest = float(np.sqrt(vectors.squares().max()))
        self._rows: dict[str, int] | None = None

    def _search(
        self, queries: np.ndarray, k: int, rows: np.ndarray | None, sides: tuple[int, int]
    ) -> SearchResult:
        """Search all documents, or those at `rows` (ascending)."""
        tile, chunk = sides
        total = self.num_documents if rows is None else len(rows)
        lengths = np.sqrt(np.vecdot(queries, queries).astype(np.float64))
        # Twice the bound of the rounding error of a dot product of D terms, in any order of
        # summation: both the rough score and the one it stands for may be off.
        margins = 2 * (self.dim + 2) * 2.0**-24 * lengths * self._longest
        pools = [
            Pool(queries[start : start + tile], margins[start : start + tile], min(k, total))
            for start in range(0, len(queries), tile)
        ]
        for start in range(0, total, chunk):
            stop = min(start + chunk, total)
            positions = np.arange(start, stop) if rows is None else rows[start:stop]
            block = self.vectors.rows(start, stop) if rows is None else self.vectors.take(positions)
            for pool in pools:
                pool.add(block, positions)
                if pool.is_full:
                    pool.settle(self.vectors, self._ranks, tile * chunk)
        result = SearchResult([], [])
        for pool in pools:
            for found, scores in pool.best(self.vectors, self._ranks, tile * chunk):
                result.document_ids.append([self.document_ids[row] for row in found.tolist()])
                result.scores.append(scores)
        return result


def _block_sides(memory: float, dim: int) -> tuple[int, int]:
    """(queries, documents) of a block that `memory` megabytes hold."""
    if isinstance(memory, bool) or not isinstance(memory, int | float | np.number):
        raise TypeError(f"`memory` must be a number of megabytes. Received: memory={memory!r}.")
    if not memory >= 1:
        raise ValueError(
            f"`memory` must be at least 1 megabyte. Received: memory={memory}. Pass 256 or so."
        )
    num_bytes = memory * 1e6
    # Of every score: the float, its copy while the k-th is sought, and whether it is kept.
    per_score = 9
    tile = int(max(1, min(MOST_QUERIES, num_bytes / (2 * per_score * 1024))))
    # Of every document, its decoded row, and what decoding takes.
    return tile, int(max(1, min(MOST_DOCUMENTS, num_bytes / (8 * dim + per_score * tile))))
