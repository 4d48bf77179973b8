"""What an index is: the protocol, what a search returns, and the checks of what goes in.

Scores follow one convention everywhere: higher is better. Nothing here knows an
index library, Keras or TensorFlow; arrays in, ids and scores out.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np


class SearchResult(NamedTuple):
    """The neighbours of each query, best first.

    Rows may differ in length: an index that found fewer than `k` neighbours says
    so by a shorter row, never by padding.

    Args:
        document_ids: one list of ids per query.
        scores: one float32 array per query, as long as its list of ids.
    """

    document_ids: list[list[str]]
    scores: list[np.ndarray]


class Index(Protocol):
    """A searchable set of document embeddings."""

    kind: str
    dim: int
    num_documents: int
    document_ids: list[str]
    model: str

    def search(self, vectors: np.ndarray, k: int) -> SearchResult:
        """The `k` best documents of each row of `vectors`, shape `(B, D)`."""
        ...

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write a folder that `load_index` reads; all of it or nothing."""
        ...


def row_squares(vectors: np.ndarray) -> np.ndarray:
    """Squared length of every row, `(N,)`, without a temporary as large as `vectors`."""
    with np.errstate(all="ignore"):  # overflow is looked at by the caller
        return np.vecdot(vectors, vectors)


def check_vectors(vectors: Any, name: str, dim: int | None = None) -> np.ndarray:
    """Return `vectors` as a contiguous float32 matrix `(N, D)`, or raise.

    Args:
        vectors: array of floats; one row per text. Zero rows (N = 0) are fine here.
        name: what the caller calls the argument; used in messages.
        dim: D that is expected, or None for any.
    """
    array = np.asarray(vectors)
    if not (np.issubdtype(array.dtype, np.floating) or array.dtype.name == "bfloat16"):
        raise TypeError(
            f"`{name}` must hold floats. Received: dtype={array.dtype}. Pass float32 embeddings."
        )
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(
            f"`{name}` must be a matrix with one embedding per row. "
            f"Received: shape={array.shape}. For a single text pass `vector[None, :]`."
        )
    if dim is not None and array.shape[1] != dim:
        raise ValueError(
            f"`{name}` must have {dim} columns, as the index has. Received: shape={array.shape}. "
            "Encode queries and documents with the same model."
        )
    with np.errstate(over="ignore"):  # too large for float32 becomes inf, and is refused below
        array = np.ascontiguousarray(array, dtype=np.float32)
    _check_rows(array, name)
    return array


def check_unit_length(vectors: np.ndarray, name: str, tolerance: float = 1e-3) -> None:
    """Raise unless every row of a float32 matrix has length 1."""
    lengths = np.sqrt(row_squares(vectors))
    _refuse_rows(
        np.flatnonzero(~(np.abs(lengths - 1) <= tolerance)),
        name,
        "have unit length",
        "Divide each row by its norm, or use the exact index, which takes any length.",
    )


def check_document_ids(document_ids: Sequence[str], num_vectors: int) -> list[str]:
    """Return the ids as a list of distinct strings, one per vector, or raise."""
    ids = list(document_ids)
    if len(ids) != num_vectors:
        raise ValueError(
            f"`document_ids` must name every vector. Received: {len(ids)} ids for "
            f"{num_vectors} vectors. Pass one id per row."
        )
    if not ids:
        raise ValueError(
            "`vectors` must hold at least one document. Received: 0 documents. "
            "Check that the corpus is not empty."
        )
    for document_id in ids:
        if not isinstance(document_id, str):
            raise TypeError(
                "`document_ids` must be strings. "
                f"Received: {document_id!r} of type {type(document_id).__name__}. Use str(id)."
            )
    if len(set(ids)) != len(ids):
        seen: set[str] = set()
        twice = next(i for i in ids if i in seen or seen.add(i))  # type: ignore[func-returns-value]
        raise ValueError(
            f"`document_ids` must be distinct. Received: {twice!r} at least twice. "
            "Remove repeated documents first."
        )
    return ids


def check_k(k: Any, name: str = "k") -> int:
    """Return a count as an int of at least 1, or raise."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer):
        raise TypeError(
            f"`{name}` must be an integer. Received: {name}={k!r}. Pass a whole number, such as 10."
        )
    if k < 1:
        raise ValueError(f"`{name}` must be at least 1. Received: {name}={k}. Pass for example 10.")
    return int(k)


def id_ranks(document_ids: Sequence[str]) -> np.ndarray:
    """Place of each id in ascending order: equal scores are ordered by it, highest first.

    trec_eval breaks ties that way, so rankings here and measures there agree.
    Python compares code points, which is the byte order of UTF-8.
    """
    order = sorted(range(len(document_ids)), key=document_ids.__getitem__)
    ranks = np.empty(len(document_ids), np.int64)
    ranks[order] = np.arange(len(document_ids))
    return ranks


def _check_rows(vectors: np.ndarray, name: str) -> None:
    squares = row_squares(vectors)
    advice = "Look for NaN, inf or huge numbers in the model's output."
    _refuse_rows(np.flatnonzero(~np.isfinite(squares)), name, "be finite", advice)
    advice = "Drop those texts; an all-zero embedding has no direction."
    _refuse_rows(np.flatnonzero(squares == 0), name, "not be zero", advice)


def _refuse_rows(bad: np.ndarray, name: str, expected: str, advice: str) -> None:
    if bad.size:
        raise ValueError(
            f"`{name}` must {expected} in every row. Received: {bad.size} bad rows, "
            f"the first is row {bad[0]}. {advice}"
        )
