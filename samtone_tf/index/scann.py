"""Approximate search with ScaNN, through its pybind module; the only file that names ScaNN.

Everything is checked before it goes into C++, where mistakes end in obscure
messages, and what comes out is cleaned of padding (id 0 with a NaN score).
"""

import importlib
import importlib.util
import platform
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from samtone_tf.index.base import (
    SearchResult,
    check_document_ids,
    check_k,
    check_unit_length,
    check_vectors,
    id_ranks,
)
from samtone_tf.index.folder import new_folder, read_description, write_description
from samtone_tf.index.scann_settings import ScannSettings, scann_settings

DEEP = 250
"""Results from which a search reads more leaves than set, in proportion."""

ASSETS = "scann"
"""Subfolder with ScaNN's own files."""


class ScannIndex:
    """Documents in a ScaNN searcher, scored by inner product of unit vectors: cosine.

    How the corpus is laid out follows from its size, see `scann_settings`. What is
    searched per query depends on `k`: deep searches (k > 250) read more leaves and
    score at least 4·k candidates again, so that a run of 1,000 documents is not cut
    short by settings made for 10. ScaNN's k-means takes no seed, so two builds
    with a tree may differ in a few neighbours; one index always answers the same.

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
    ) -> None:
        self.searcher = searcher
        self.document_ids = document_ids
        self.num_documents = len(document_ids)
        self.dim = dim
        self.settings = settings
        self.model = model
        self._ranks = id_ranks(document_ids)

    @classmethod
    def build(
        cls,
        vectors: np.ndarray,
        document_ids: Sequence[str],
        *,
        settings: ScannSettings | None = None,
        model: str = "",
    ) -> "ScannIndex":
        """Train and fill a searcher.

        Args:
            vectors: unit vectors `(C, D)`, floats, one row per document.
            document_ids: C distinct strings, in the order of the rows.
            settings: what not to choose automatically.
            model: fingerprint of the model that made the vectors; kept in the folder.
        """
        vectors = check_vectors(vectors, "vectors")
        ids = check_document_ids(document_ids, len(vectors))
        check_unit_length(vectors, "vectors")
        filled = scann_settings(*vectors.shape, settings)
        return cls(_train(vectors, filled), ids, vectors.shape[1], filled, model)

    def search(self, vectors: np.ndarray, k: int) -> SearchResult:
        """The `k` best documents found for each query.

        Args:
            vectors: queries, floats `(B, D)`; unit vectors, if scores are to be cosines.
            k: int ≥ 1, documents per query. A tree may find fewer.
        """
        queries = check_vectors(vectors, "vectors", self.dim)
        k = min(check_k(k), self.num_documents)
        if not len(queries):
            return SearchResult([], [])
        positions, scores = self.searcher.search_batched_parallel(
            queries,
            final_num_neighbors=k,
            pre_reorder_num_neighbors=self._num_candidates(k),
            leaves_to_search=self._num_leaves(k),
        )
        return self._clean(positions, scores)

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
        return cls(searcher, ids, description["dim"], settings, description["model"])

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


def scann_available() -> bool:
    """Whether ScaNN is installed on a system it has wheels for; imports nothing.

    An installed ScaNN may still fail to load, which `import_scann` then says.
    """
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
        return False
    try:
        return importlib.util.find_spec("scann") is not None
    except ValueError:  # a module of that name without a spec
        return False


def import_scann() -> Any:
    """ScaNN's pybind module, without TensorFlow.

    `import scann` imports TensorFlow for its graph ops, which costs seconds, and
    fails beside a release it was not built for. Nothing here needs them, so a
    bare stand-in package keeps `scann/__init__.py` from running; it is taken
    away again, and a later `import scann` works as ever.
    """
    name = "scann.scann_ops.py.scann_ops_pybind"
    if name in sys.modules:
        return sys.modules[name]
    try:
        spec = importlib.util.find_spec("scann")
        if spec is None or spec.submodule_search_locations is None:
            raise ModuleNotFoundError("No module named 'scann'", name="scann")
        if "scann" in sys.modules:
            return importlib.import_module(name)
        stand_in = types.ModuleType("scann")
        stand_in.__path__ = list(spec.submodule_search_locations)
        sys.modules["scann"] = stand_in
        try:
            return importlib.import_module(name)
        finally:
            del sys.modules["scann"]
    except (ImportError, ValueError) as error:
        raise ImportError(
            "`scann` must be importable for this index; it has wheels for Linux x86-64 only. "
            f"Received: {error} on {sys.platform} {platform.machine()}. "
            "Use exact search instead: --search exact, or kind='exact'."
        ) from error


def _train(vectors: np.ndarray, settings: ScannSettings) -> Any:
    builder = import_scann().builder(vectors, min(10, len(vectors)), "dot_product")
    if settings.num_leaves:
        builder = builder.tree(
            num_leaves=settings.num_leaves,
            num_leaves_to_search=settings.num_leaves_to_search,
            # ScaNN refuses a sample smaller than the number of leaves.
            training_sample_size=min(len(vectors), max(100_000, 50 * settings.num_leaves)),
        )
    if settings.dims_per_block:
        builder = builder.score_ah(
            settings.dims_per_block,
            anisotropic_quantization_threshold=settings.anisotropic_threshold,
        )
    else:
        builder = builder.score_brute_force()
    if settings.reorder:
        builder = builder.reorder(min(settings.reorder, len(vectors)))
    try:
        return builder.build()
    except (RuntimeError, ValueError) as error:
        raise ValueError(
            f"`settings` must suit the corpus. Received: {settings} for {len(vectors)} documents; "
            f"ScaNN said: {' '.join(str(error).split())}. Leave fields out for automatic ones."
        ) from error
