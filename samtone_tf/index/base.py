"""What an index is: the protocol, what a search returns, and the checks of what goes in.

Scores follow one convention everywhere: higher is better. Nothing here knows an
index library, Keras or TensorFlow; arrays in, ids and scores out.
"""

from collections.abc import Collection, Sequence
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
    array = check_floats(vectors, name)
    check_matrix(array, name, dim)
    with np.errstate(over="ignore"):  # too large for float32 becomes inf, and is refused below
        array = np.ascontiguousarray(array, dtype=np.float32)
    refuse_bad_squares(row_squares(array), name)
    return array


def check_floats(values: Any, name: str) -> np.ndarray:
    """Return `values` as an array of floats of any width, or raise."""
    array = np.asarray(values)
    if not (np.issubdtype(array.dtype, np.floating) or array.dtype.name == "bfloat16"):
        raise TypeError(
            f"`{name}` must hold floats. Received: dtype={array.dtype}. Pass float32 embeddings."
        )
    return array


def check_matrix(array: np.ndarray, name: str, dim: int | None = None) -> None:
    """Raise unless `array` has the shape `(N, dim)`, or `(N, D)` where `dim` is None."""
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


def check_unit_length(squares: np.ndarray, name: str, tolerance: float = 1e-3) -> None:
    """Raise unless every row has length 1, given the squared lengths of the rows."""
    _refuse_rows(
        np.flatnonzero(~(np.abs(np.sqrt(squares) - 1) <= tolerance)),
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


def check_new_ids(
    document_ids: Sequence[str], num_vectors: int, held: Collection[str]
) -> list[str]:
    """Return the ids of documents to add to an index that holds `held`, or raise."""
    ids = check_document_ids(document_ids, num_vectors)
    twice = next((name for name in ids if name in held), None)
    if twice is not None:
        raise ValueError(
            f"`document_ids` must be new to the index. Received: {twice!r}, which it holds. "
            "Delete the old document first."
        )
    return ids


def check_removed_ids(document_ids: Sequence[str], held: Collection[str]) -> list[str]:
    """Return the distinct ids of documents to delete from an index that holds `held`, or raise."""
    if isinstance(document_ids, str | bytes):
        raise TypeError(
            f"`document_ids` must be a list of ids. Received: {document_ids!r}. Pass [id]."
        )
    ids = list(dict.fromkeys(document_ids))
    unknown = next((name for name in ids if name not in held), None)
    if unknown is not None:
        raise ValueError(
            f"`document_ids` must be in the index. Received: {unknown!r}, which is not. "
            "Look into its `document_ids`."
        )
    if len(ids) == len(held):
        raise ValueError(
            f"`document_ids` must leave a document in the index. Received: all {len(ids)}. "
            "Remove the index's folder instead."
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


def check_model(index_model: str, model: str, name: str = "vectors") -> None:
    """Raise when vectors are known to come from another model than an index's.

    Args:
        index_model: fingerprint that the index keeps; empty if it knows none.
        model: fingerprint of the model that made the new vectors; empty if unknown.
        name: what the caller calls them.
    """
    if index_model and model and index_model != model:
        raise ValueError(
            f"`{name}` must come from the index's own model. Received: fingerprint {model}; the "
            f"index has {index_model}. Encode with that model, or build the index again."
        )


def id_ranks(document_ids: Sequence[str]) -> np.ndarray:
    """Place of each id in ascending order: equal scores are ordered by it, highest first.

    trec_eval breaks ties that way, so rankings here and measures there agree.
    Python compares code points, which is the byte order of UTF-8.
    """
    order = sorted(range(len(document_ids)), key=document_ids.__getitem__)
    ranks = np.empty(len(document_ids), np.int64)
    ranks[order] = np.arange(len(document_ids))
    return ranks


def refuse_bad_squares(squares: np.ndarray, name: str) -> None:
    """Raise where a row's squared length says that it holds NaN or inf, or is zero."""
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
