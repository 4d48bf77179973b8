"""Where the vectors of an index lie: one array or several shards, in memory or in a mapped file.

Rows come out as float32 whatever they are stored as:

    float32   4 bytes a number, as given
    bfloat16  2 bytes: the upper half of a float32, rounded to nearest even
    int8      1 byte: round(127 · v / max|v|), and one float32 scale a row
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from samtone_tf.index.base import check_floats, check_matrix, refuse_bad_squares, row_squares

STORAGES = ("float32", "bfloat16", "int8")
"""What vectors can be stored as."""

_NAMES = {"float32": "float32", "float16": "float16", "uint16": "bfloat16", "int8": "int8"}
_BLOCK = 1 << 24  # numbers looked at together when all rows are read once


class Part(NamedTuple):
    """Rows of one shard: codes `(n, D)`, and what int8 codes are multiplied with."""

    codes: np.ndarray
    scales: np.ndarray | None = None  # (n, 1) by row, or (1, D) by dimension

    def decode(self, rows: Any) -> np.ndarray:
        """The rows of a slice or of positions, float32."""
        return decode(self.codes[rows], self._scales(rows))

    def pick(self, rows: Any) -> "Part":
        """The same codes of fewer rows."""
        return Part(self.codes[rows], self._scales(rows))

    def _scales(self, rows: Any) -> np.ndarray | None:
        by_row = self.scales is not None and len(self.scales) == len(self.codes)
        return self.scales[rows] if by_row and self.scales is not None else self.scales


class StoredVectors:
    """A matrix `(C, D)` that is read a block or a handful of rows at a time.

    Make one with `StoredVectors.of` (arrays), `StoredVectors.open` (files), `.stored` (smaller).
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = list(parts)
        self._starts = np.cumsum([0, *(len(part.codes) for part in self.parts)])
        self.shape = (int(self._starts[-1]), self.parts[0].codes.shape[1])

    @classmethod
    def of(cls, value: Any, name: str, dim: int | None = None) -> "StoredVectors":
        """Checks arrays and wraps them; float32 and float16 are not copied, nor read into memory.

        Args:
            value: floats `(C, D)`, or a list of such arrays: shards, in order. Memory-mapped
                ones (`np.load(path, mmap_mode="r")`) stay on disk.
            name: what the caller calls the argument; used in messages.
            dim: D that is expected, or None for any.
        """
        if isinstance(value, StoredVectors):
            shards: list[Any] = []
            vectors = value
        else:
            several = isinstance(value, list | tuple) and value and _all_matrices(value)
            shards = list(value) if several else [value]
            vectors = cls([Part(_as_stored(shard, name)) for shard in shards])
        for part in vectors.parts:
            check_matrix(part.codes, name, dim or vectors.shape[1])
        refuse_bad_squares(vectors.squares(), name)
        return vectors

    @classmethod
    def open(cls, codes: str | Path, scales: str | Path | None = None) -> "StoredVectors":
        """Maps a `.npy` file of rows, and reads the scales beside it.

        Args:
            codes: float32, float16, int8, or uint16: the bits of bfloat16.
            scales: of int8, one a row: `(n,)` or `(n, 1)`.

        Raises:
            OSError, ValueError: a file is missing, or is none that this class writes.
        """
        array = np.load(codes, mmap_mode="r", allow_pickle=False)
        if array.ndim != 2 or array.dtype.name not in _NAMES:
            raise ValueError(f"{codes} holds {array.dtype} of shape {array.shape}")
        if (array.dtype == np.int8) != (scales is not None):
            raise ValueError(f"{codes} holds {array.dtype}; int8 needs scales, and nothing else")
        if scales is None:
            return cls([Part(np.asarray(array))])
        by_row = np.load(scales, allow_pickle=False).astype(np.float32)
        return cls([Part(np.asarray(array), by_row.reshape(len(array), 1))])

    @property
    def storage(self) -> str:
        """float32, float16, bfloat16 or int8; `mixed` where shards differ."""
        names = {_NAMES[part.codes.dtype.name] for part in self.parts}
        return names.pop() if len(names) == 1 else "mixed"

    @property
    def bytes_per_vector(self) -> float:
        """Bytes of a row, its scale included."""
        sizes = [part.codes.nbytes for part in self.parts]
        sizes += [part.scales.nbytes for part in self.parts if part.scales is not None]
        return sum(sizes) / max(1, len(self))

    def __len__(self) -> int:
        return self.shape[0]

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Rows `start` to `stop`, float32; a view, where one float32 shard holds them."""
        stop = min(stop, len(self))
        found = []
        for part, first in zip(self.parts, self._starts, strict=False):
            low, high = max(start - first, 0), min(stop - first, len(part.codes))
            if low < high:
                found.append(part.decode(slice(low, high)))
        if len(found) == 1:
            return found[0]
        return np.concatenate(found) if found else np.empty((0, self.shape[1]), np.float32)

    def take(self, positions: np.ndarray) -> np.ndarray:
        """Rows at `positions`, float32 `(len(positions), D)`, in that order."""
        if len(self.parts) == 1:
            return self.parts[0].decode(positions)
        out = np.empty((len(positions), self.shape[1]), np.float32)
        owner = np.searchsorted(self._starts, positions, side="right") - 1
        for number in np.unique(owner):
            mine = owner == number
            out[mine] = self.parts[number].decode(positions[mine] - self._starts[number])
        return out

    def array(self) -> np.ndarray:
        """All rows, float32 and contiguous; not copied if they lie like that."""
        return np.ascontiguousarray(self.rows(0, len(self)))

    def squares(self) -> np.ndarray:
        """Squared length of every row, `(C,)`, reading a block at a time."""
        out = np.empty(len(self), np.float32)
        step = max(1, _BLOCK // self.shape[1])
        for start in range(0, len(self), step):
            out[start : start + step] = row_squares(self.rows(start, start + step))
        return out

    def stored(self, storage: str) -> "StoredVectors":
        """The same rows in another storage, one part per part."""
        if storage == self.storage:
            return self
        return StoredVectors([encode(part.decode(slice(None)), storage) for part in self.parts])

    def joined(self, other: "StoredVectors") -> "StoredVectors":
        """These rows, then the others."""
        return StoredVectors([*self.parts, *other.parts])

    def kept(self, keep: np.ndarray) -> "StoredVectors":
        """The rows where `keep`, booleans `(C,)`, is true; whole shards are not copied."""
        parts = []
        for part, first in zip(self.parts, self._starts, strict=False):
            mine = keep[first : first + len(part.codes)]
            if mine.all():
                parts.append(part)
            elif mine.any():
                parts.append(part.pick(np.flatnonzero(mine)))
        return StoredVectors(parts)

    def write(self, folder: Path) -> None:
        """Writes `vectors.npy` (and `scales.npy` for int8), a block at a time."""
        storage = self.storage if self.storage != "mixed" else "float32"
        dtype = next(dtype for dtype, name in _NAMES.items() if name == storage)
        out = np.lib.format.open_memmap(folder / "vectors.npy", "w+", dtype, self.shape)
        scales = np.empty((len(self), 1), np.float32)
        for part, first in zip(self.parts, self._starts, strict=False):
            step = max(1, _BLOCK // self.shape[1])
            for start in range(0, len(part.codes), step):
                place = slice(first + start, min(first + start + step, first + len(part.codes)))
                piece = part.pick(slice(start, start + step))
                if self.storage == "mixed":
                    piece = Part(piece.decode(slice(None)))
                out[place] = piece.codes
                if piece.scales is not None:
                    scales[place] = piece.scales
        out.flush()
        if storage == "int8":
            np.save(folder / "scales.npy", scales)


def encode(rows: np.ndarray, storage: str) -> Part:
    """Stores float32 rows `(n, D)` as one of `STORAGES`."""
    if storage == "bfloat16":
        bits = np.ascontiguousarray(rows, np.float32).view(np.uint32)
        half = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
        return Part(((bits + half) >> np.uint32(16)).astype(np.uint16))
    if storage == "int8":
        scales = np.abs(rows).max(axis=1, keepdims=True).astype(np.float32) / np.float32(127)
        scales = np.maximum(scales, np.finfo(np.float32).tiny)
        return Part(np.rint(rows / scales).astype(np.int8), scales)
    return Part(np.ascontiguousarray(rows, np.float32))


def decode(codes: np.ndarray, scales: np.ndarray | None = None) -> np.ndarray:
    """Float32 rows of what `encode` made; float32 codes are returned as they are."""
    if codes.dtype == np.uint16:
        return (codes.astype(np.uint32) << np.uint32(16)).view(np.float32)
    rows = codes.astype(np.float32, copy=False)
    return rows if scales is None else rows * scales


def check_storage(storage: str) -> None:
    """Raises unless `storage` is one of `STORAGES`."""
    if storage not in STORAGES:
        raise ValueError(
            f"`storage` must be one of {', '.join(STORAGES)}. Received: storage={storage!r}. "
            "Use 'float32' to lose nothing."
        )


def _all_matrices(values: Sequence[Any]) -> bool:
    return all(isinstance(value, np.ndarray) and value.ndim == 2 for value in values)


def _as_stored(value: Any, name: str) -> np.ndarray:
    """An array of floats as it is kept: float32 or float16, C order."""
    array = check_floats(value, name)
    check_matrix(array, name)
    kept = array.dtype if array.dtype in (np.float32, np.float16) else np.dtype(np.float32)
    with np.errstate(over="ignore"):  # too large for float32 becomes inf, and is refused
        return np.ascontiguousarray(array, dtype=kept)
