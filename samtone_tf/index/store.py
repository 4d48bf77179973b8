"""One door to indexes of any kind: build them, with a report, and load their folders."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from samtone_tf.index.base import Index, check_vectors
from samtone_tf.index.exact import ExactIndex
from samtone_tf.index.folder import (
    check_new_folder,
    folder_bytes,
    new_folder,
    read_description,
    vector_bytes,
    write_json,
)
from samtone_tf.index.report import IndexReport, index_report
from samtone_tf.index.scann import ScannIndex
from samtone_tf.index.scann_library import import_scann, scann_available
from samtone_tf.index.scann_settings import ScannSettings
from samtone_tf.index.vectors import check_storage

KINDS = ("auto", "scann", "exact")
"""What can be asked for. `auto` is `scann` where ScaNN can be imported, else `exact`."""


class BuiltIndex(NamedTuple):
    """An index and what was measured on it.

    Args:
        index: ready to search.
        report: recall against exact search, times and sizes.
        exact: exact search over the same documents in float32; `index` itself if that is its
            kind and storage.
    """

    index: Index
    report: IndexReport
    exact: ExactIndex


def build_index(
    kind: str,
    vectors: Any,
    document_ids: Sequence[str],
    folder: str | Path | None = None,
    *,
    queries: np.ndarray | None = None,
    settings: ScannSettings | None = None,
    storage: str = "float32",
    model: str = "",
    extra_files: Mapping[str, bytes] | None = None,
    overwrite: bool = False,
) -> BuiltIndex:
    """Build an index, measure it against exact search, and save it.

    Args:
        kind: `auto`, `scann` or `exact`; `auto` is resolved, see `resolve_kind`.
        vectors: floats `(C, D)`, one row per document, or a list of such arrays, which may be
            memory-mapped; unit vectors for ScaNN.
        document_ids: C distinct strings, in the order of the rows.
        folder: where to save; None keeps the index in memory.
        queries: floats `(B, D)` to measure recall with; None samples documents.
        settings: of ScaNN; fields that are left out follow from the corpus's size. Unused
            where `auto` becomes `exact`.
        storage: `float32`, `bfloat16` or `int8`: the vectors behind the scores of either kind.
            The report's recall says what that loses.
        model: fingerprint of the model that made the vectors; kept in the folder.
        extra_files: name → content of further files for the folder, written with it.
        overwrite: replace an index that `folder` already holds.
    """
    _check_kind(kind, KINDS)
    check_storage(storage)
    check_settings(kind, settings)
    if folder is not None:
        check_new_folder(folder, overwrite=overwrite)
    kind = resolve_kind(kind)
    start = time.perf_counter()
    exact = ExactIndex.build(vectors, document_ids, model=model)
    if queries is not None:
        queries = check_vectors(queries, "queries", exact.dim)
    index: ExactIndex | ScannIndex = exact
    if kind == "scann":
        start = time.perf_counter()
        index = ScannIndex.build(
            exact.vectors, exact.document_ids, settings=settings, model=model, storage=storage
        )
    elif storage != "float32":
        index = ExactIndex(exact.vectors.stored(storage), exact.document_ids, model)
    seconds = time.perf_counter() - start
    report = index_report(index, exact, queries, build_seconds=seconds)
    if folder is not None:
        report = _save(index, report, folder, extra_files or {}, overwrite)
    return BuiltIndex(index, report, exact)


def resolve_kind(kind: str) -> str:
    """The kind of index that `build_index` would build here: `scann` or `exact`.

    Call it before work worth losing, such as encoding a corpus. It imports ScaNN
    to find out, without TensorFlow.

    Args:
        kind: `auto`, `scann` or `exact`.

    Raises:
        ImportError: `scann` is asked for and cannot be imported.
        ValueError: another kind is asked for.
    """
    _check_kind(kind, KINDS)
    if kind == "exact" or (kind == "auto" and not scann_available()):
        return "exact"
    try:
        import_scann()
    except ImportError:
        if kind == "auto":
            return "exact"
        raise
    return "scann"


def check_settings(kind: str, settings: ScannSettings | None) -> None:
    """Raises where ScaNN's settings are given for exact search."""
    if kind == "exact" and settings is not None:
        raise ValueError(
            "`settings` must be left out for kind='exact', which has none. "
            f"Received: {settings}. Use kind='scann'."
        )


def load_index(folder: str | Path) -> Index:
    """Read an index of either kind from its folder."""
    description, _ = read_description(folder)
    kind = description.get("kind", "")
    _check_kind(kind, KINDS[1:])  # a folder holds what was built, never `auto`
    return ExactIndex.load(folder) if kind == "exact" else ScannIndex.load(folder)


def _save(
    index: ExactIndex | ScannIndex,
    report: IndexReport,
    folder: str | Path,
    extra_files: Mapping[str, bytes],
    overwrite: bool,
) -> IndexReport:
    """Write the index and its report together; return the report with its size."""
    with new_folder(folder, overwrite=overwrite) as temporary:
        index.write(temporary)
        report = replace(report, bytes_per_vector=vector_bytes(temporary) / index.num_documents)
        for name, content in extra_files.items():
            (temporary / name).write_bytes(content)
        report = replace(report, bytes_on_disk=folder_bytes(temporary))
        write_json(temporary / "report.json", report.to_json())
    return report


def _check_kind(kind: str, kinds: Sequence[str]) -> None:
    if kind not in kinds:
        raise ValueError(
            f"`kind` must be one of {', '.join(kinds)}. Received: kind={kind!r}. "
            "Use 'exact' where ScaNN has no wheel."
        )
