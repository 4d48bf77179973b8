"""Approximate search with ScaNN, through its pybind module.

Everything is checked before it goes into C++, where mistakes end in obscure
messages, and what comes out is cleaned of padding (id 0 with a NaN score).
"""

import math
import os
from collections.abc import Collection, Sequence
from dataclasses import replace
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
    check_unit_length,
    check_vectors,
    id_ranks,
)
from samtone_tf.index.conditions import Conditions, Crowding, search_deeper
from samtone_tf.index.exact import ExactIndex
from samtone_tf.index.folder import new_folder, read_description, write_description
from samtone_tf.index.scann_library import import_scann, train
from samtone_tf.index.scann_settings import ScannSettings, scann_settings
from samtone_tf.index.vectors import Part, StoredVectors, check_storage

DEEP = 250
"""Results from which a search reads more leaves than set, in proportion."""

ASSETS = "scann"
"""Subfolder with ScaNN's own files."""

FEW = 0.05
"""Share of the corpus up to which allowed documents are compared one by one."""


class ScannIndex:
    """Documents in a ScaNN searcher, scored by inner product of unit vectors: cosine.

    How the corpus is laid out follows from its size, see `scann_settings`. What is
    searched per query depends on `k`: deep searches (k > 250) read more leaves and
    score at least 4·k candidates again, so that a run of 1,000 documents is not cut
    short by settings made for 10. ScaNN's k-means takes no seed, so two builds
    with a tree may differ in a few neighbours. One index answers the same batch the
    same; where only some leaves are read, ScaNN rounds a query that is asked alone a
    little differently from one in a batch.

    Equal scores are ordered by document id, descending; which of several equal
    documents takes the last place is ScaNN's choice. Build one with `ScannIndex.build`.
    """

    kind = "scann"

    def __init__(
        self,
        searcher: Any,
        document_ids: list[str],
        dim: int,
        settings: ScannSettings,
        model: str = "",
        *,
        storage: str = "float32",
        vectors: StoredVectors | None = None,
    ) -> None:
        self.searcher = searcher
        self.dim = dim
        self.settings = settings
        self.model = model
        self.storage = storage
        self.vectors = vectors  # as ScaNN scores them in the end; None where it keeps none
        self._fill(document_ids)

    @classmethod
    def build(
        cls,
        vectors: Any,
        document_ids: Sequence[str],
        *,
        settings: ScannSettings | None = None,
        model: str = "",
        storage: str = "float32",
    ) -> "ScannIndex":
        """Train and fill a searcher.

        Args:
            vectors: unit vectors `(C, D)`, floats, one row per document, or a list of such
                arrays. ScaNN copies them; shards and float16 are copied once more. The index
                keeps a reference to them, for conditions.
            document_ids: C distinct strings, in the order of the rows.
            settings: what not to choose automatically.
            model: fingerprint of the model that made the vectors; kept in the folder.
            storage: `float32`, `bfloat16` or `int8`: the vectors behind the final scores.
        """
        check_storage(storage)
        checked = StoredVectors.of(vectors, "vectors")
        ids = check_document_ids(document_ids, len(checked))
        check_unit_length(checked.squares(), "vectors")
        filled = scann_settings(*checked.shape, settings)
        _check_kept(filled, storage)
        searcher = train(checked.array(), filled, storage)
        kept = checked if storage == "float32" and _keeps(filled) else None
        return cls(searcher, ids, checked.shape[1], filled, model, storage=storage, vectors=kept)

    def search(
        self,
        vectors: np.ndarray,
        k: int,
        *,
        allowed: Collection[str] | None = None,
        crowding: Crowding | None = None,
    ) -> SearchResult:
        """The `k` best documents found for each query.

        ScaNN's Python module takes no conditions. Up to a twentieth of the corpus, allowed
        documents are compared one by one, which is exact; beyond that, and for crowding, the
        search goes deeper until enough results meet the conditions.

        Args:
            vectors: queries, floats `(B, D)`; unit vectors, if scores are to be cosines.
            k: int ≥ 1, documents per query. A tree may find fewer.
            allowed: ids of the documents that may be found; None is all.
            crowding: at most so many results of one group.
        """
        queries = check_vectors(vectors, "vectors", self.dim)
        k = min(check_k(k), self.num_documents)
        if not len(queries):
            return SearchResult([], [])
        if allowed is None and crowding is None:
            return self._search(queries, k)
        conditions = Conditions(self.rows, allowed, crowding)
        positions = conditions.positions()
        if (
            positions is not None
            and self.vectors is not None
            and 0 < len(positions) <= FEW * self.num_documents
        ):
            ids = [self.document_ids[row] for row in positions.tolist()]
            part = StoredVectors.of(self.vectors.take(positions), "vectors")
            return ExactIndex(part, ids).search(queries, k, crowding=crowding)
        return search_deeper(self._search, self.num_documents, queries, k, conditions)

    @property
    def rows(self) -> dict[str, int]:
        """Document id → row; made when first asked for."""
        if self._rows is None:
            self._rows = {document_id: row for row, document_id in enumerate(self.document_ids)}
        return self._rows

    def with_effort(self, num_leaves_to_search: int | None, reorder: int | None) -> "ScannIndex":
        """The same searcher under other settings of a search.

        Args:
            num_leaves_to_search: partitions read per query, or None for what is set.
            reorder: candidates scored again, or None for what is set.
        """
        leaves = self.settings.num_leaves or 0
        if num_leaves_to_search is not None and num_leaves_to_search > leaves:
            raise ValueError(
                f"`num_leaves_to_search` must not exceed num_leaves={leaves}. Received: "
                f"num_leaves_to_search={num_leaves_to_search}. Lower it, or build the index again."
            )
        if reorder is not None and bool(reorder) != bool(self.settings.reorder):
            raise ValueError(
                "`reorder` can be changed where the index was built with it, never to or from 0. "
                f"Received: reorder={reorder}, and {self.settings.reorder} in the index. "
                "Build the index again."
            )
        given = {"num_leaves_to_search": num_leaves_to_search, "reorder": reorder}
        changes = {name: value for name, value in given.items() if value is not None}
        settings = replace(self.settings, **changes)
        return ScannIndex(
            self.searcher,
            self.document_ids,
            self.dim,
            settings,
            self.model,
            storage=self.storage,
            vectors=self.vectors,
        )

    def add(self, vectors: Any, document_ids: Sequence[str], *, model: str = "") -> None:
        """Add documents, without training again: codes and partitions stay as they are.

        Args:
            vectors: unit vectors `(N, D)`, floats, one row per new document.
            document_ids: N distinct strings that the index does not hold yet.
            model: fingerprint of the model that made them, if known; another one is refused.
        """
        check_model(self.model, model)
        new = StoredVectors.of(vectors, "vectors", self.dim)
        ids = check_new_ids(document_ids, len(new), self.rows)
        check_unit_length(new.squares(), "vectors")
        self.searcher.searcher.upsert([None] * len(ids), new.array(), 1)
        self.vectors = self.vectors and self.vectors.joined(new)
        self._fill([*self.document_ids, *ids])

    def delete(self, document_ids: Sequence[str]) -> None:
        """Remove documents by id; at least one must remain."""
        places = dict(self.rows)
        names, rows = list(self.document_ids), []
        for name in check_removed_ids(document_ids, places):
            # ScaNN moves its last document to the free place; so must its name.
            row, last = places.pop(name), names.pop()
            rows.append(row)
            if last != name:
                names[row], places[last] = last, row
        self.searcher.searcher.delete(rows)
        self.vectors = None  # they are in another order now; a saved index finds them again
        self._fill(names)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write a folder that `load_index` reads; all of it or nothing."""
        with new_folder(folder, overwrite=overwrite) as temporary:
            self.write(temporary)

    def write(self, folder: Path) -> None:
        """Write the index's files into an existing folder."""
        assets = folder / ASSETS
        assets.mkdir()
        self.searcher.serialize(str(assets), relative_path=True)  # the folder may be moved
        description = {
            "kind": self.kind,
            "dim": self.dim,
            "num_documents": self.num_documents,
            "model": self.model,
            "settings": self.settings.to_json(),
            "storage": self.storage,
        }
        write_description(folder, description, self.document_ids)

    @classmethod
    def load(cls, folder: str | Path) -> "ScannIndex":
        """Read what `save` wrote."""
        description, ids = read_description(folder)
        pybind = import_scann()
        assets = Path(folder) / ASSETS
        try:
            searcher = pybind.load_searcher(str(assets), assets_backcompat_shim=False)
            if searcher.size() != len(ids):
                raise ValueError(f"{searcher.size()} vectors for {len(ids)} ids")
        except (OSError, ValueError, RuntimeError) as error:
            raise ValueError(
                f"`folder` must hold ScaNN's files in {ASSETS}/. Received: {folder}, where they "
                "cannot be read. Build the index again."
            ) from error
        settings = ScannSettings(**description["settings"])
        return cls(
            searcher,
            ids,
            description["dim"],
            settings,
            description["model"],
            storage=description.get("storage", "float32"),
            vectors=stored_vectors(folder),
        )

    def _fill(self, document_ids: list[str]) -> None:
        self.document_ids = document_ids
        self.num_documents = len(document_ids)
        self._ranks = id_ranks(document_ids)
        self._rows: dict[str, int] | None = None

    def _search(self, queries: np.ndarray, k: int) -> SearchResult:
        depths = {
            "final_num_neighbors": k,
            "pre_reorder_num_neighbors": self._num_candidates(k),
            "leaves_to_search": self._num_leaves(k),
        }
        if len(queries) == 1:
            return self._clean(*self.searcher.search_batched(queries, **depths))
        # ScaNN gives each thread so many queries, 256 unless told otherwise.
        share = min(256, math.ceil(len(queries) / (os.cpu_count() or 1)))
        return self._clean(
            *self.searcher.search_batched_parallel(queries, batch_size=share, **depths)
        )

    def _num_candidates(self, k: int) -> int:
        if not self.settings.reorder:
            return k
        return min(self.num_documents, max(self.settings.reorder, 4 * k))

    def _num_leaves(self, k: int) -> int | None:
        leaves, searched = self.settings.num_leaves, self.settings.num_leaves_to_search
        if not leaves or not searched:
            return None
        return min(leaves, -(-searched * max(k, DEEP) // DEEP))

    def _clean(self, positions: np.ndarray, scores: np.ndarray) -> SearchResult:
        """Drop padding, order ties, turn rows into ids."""
        found = ~np.isnan(scores)
        # Padding sorts last. ScaNN gives positions as uint32, and ranks must be negated.
        order = np.lexsort((-self._ranks[positions], -np.where(found, scores, -np.inf)))
        result = SearchResult([], [])
        for row, keep in enumerate(found.sum(axis=1).tolist()):
            best = order[row, :keep]
            result.document_ids.append(
                [self.document_ids[place] for place in positions[row, best].tolist()]
            )
            result.scores.append(scores[row, best] + np.float32(0))  # ScaNN's zero is -0.0
        return result


def stored_vectors(folder: str | Path) -> StoredVectors | None:
    """The vectors behind the final scores of a saved ScaNN index, mapped from its files.

    None where it keeps only codes.
    """
    assets = Path(folder) / ASSETS
    for name in ("dataset.npy", "bfloat16_dataset.npy", "int8_dataset.npy"):
        if (assets / name).is_file():
            codes = np.load(assets / name, mmap_mode="r", allow_pickle=False)
            break
    else:
        return None
    scales = None
    if codes.dtype == np.int8:  # ScaNN's codes are rounded products with a number by dimension
        scales = 1 / np.load(assets / "int8_multipliers.npy", allow_pickle=False)[None]
    # The bits of a bfloat16 are an int16 to ScaNN.
    return StoredVectors(
        [Part(codes.view(np.uint16) if codes.dtype == np.int16 else codes, scales)]
    )


def _keeps(settings: ScannSettings) -> bool:
    """Whether vectors are stored beside the codes, or instead of them."""
    return bool(settings.reorder) or not settings.dims_per_block


def _check_kept(settings: ScannSettings, storage: str) -> None:
    if storage != "float32" and not _keeps(settings):
        raise ValueError(
            "`storage` needs vectors to store: those of `reorder`. "
            f"Received: storage={storage!r} with reorder=0. Leave one of the two out."
        )
    if storage == "bfloat16" and settings.num_leaves and not settings.dims_per_block:
        # Tried with ScaNN 1.4.2: it searches such an index, but writes it without its vectors.
        raise ValueError(
            "`storage` must be 'float32' or 'int8' for a tree without codes, which ScaNN cannot "
            f"save in bfloat16. Received: storage={storage!r} with dims_per_block=0. Use 'int8'."
        )
