"""Columns that grow value by value while a file is read: in memory, or into a folder.

With a folder, what was read does not stay in memory: columns are .npy files, appended to,
and come back memory-mapped.
"""

from array import array
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np

_FLUSH = 1 << 20  # bytes that wait before they are written
_CHUNK = 1 << 16  # texts that are looked up at a time


class Strings(Sequence[str]):
    """Texts in one array of UTF-8 bytes; text number `row` is `data[starts[row]:ends[row]]`.

    Args:
        data: uint8, all bytes.
        starts: int64 (n,).
        ends: int64 (n,).
    """

    def __init__(self, data: np.ndarray, starts: np.ndarray, ends: np.ndarray):
        self.data, self.starts, self.ends = data, starts, ends
        self._view = memoryview(data)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, row: int) -> str:
        return self._text(int(self.starts[row]), int(self.ends[row]))

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), _CHUNK):
            chunk = slice(first, first + _CHUNK)
            yield from map(self._text, self.starts[chunk].tolist(), self.ends[chunk].tolist())

    def _text(self, start: int, end: int) -> str:
        # A text read from JSON can hold half of a surrogate pair.
        return str(self._view[start:end], "utf-8", "surrogatepass")


class Joined(Sequence[str]):
    """Two sequences of texts as one, without copying any."""

    def __init__(self, first: Sequence[str], second: Sequence[str]):
        self.first, self.second = first, second

    def __len__(self) -> int:
        return len(self.first) + len(self.second)

    def __getitem__(self, row: int) -> str:
        num = len(self.first)
        return self.first[row] if row < num else self.second[row - num]

    def __iter__(self) -> Iterator[str]:
        return chain(self.first, self.second)


def take(texts: Sequence[str], rows: np.ndarray) -> Sequence[str]:
    """Return the texts at `rows`, without copying any."""
    if isinstance(texts, Strings):
        return Strings(texts.data, texts.starts[rows], texts.ends[rows])
    return [texts[row] for row in rows.tolist()]


class Numbers:
    """A column of numbers.

    Args:
        folder: where to write; None keeps them in memory.
        name: of the file, without its ending.
        dtype: of the numbers.
    """

    def __init__(self, folder: Path | None = None, name: str = "", dtype: type = np.int64):
        self._dtype = np.dtype(dtype)
        self._code = "B" if dtype is np.bool_ else self._dtype.char
        self._buffer = array(self._code)
        self._most = _FLUSH // self._dtype.itemsize
        self._file = folder and _NpyFile(folder / f"{name}.npy", self._dtype)

    def append(self, value: int) -> None:
        """Add one number."""
        self._buffer.append(value)
        if self._file and len(self._buffer) >= self._most:
            self._flush()

    def extend(self, values: np.ndarray | bytes) -> None:
        """Add many numbers, or the bytes of them."""
        if not isinstance(values, bytes):
            values = np.asarray(values, self._dtype).tobytes()
        self._buffer.frombytes(values)
        if self._file and len(self._buffer) >= self._most:
            self._flush()

    def finish(self) -> np.ndarray:
        """Return all of them; nothing can be added any more."""
        if not self._file:
            return np.frombuffer(self._buffer, self._dtype)
        self._flush()
        return self._file.finish()

    def _flush(self) -> None:
        self._file.write(self._buffer)
        self._buffer = array(self._code)


class Texts:
    """A column of texts.

    Args:
        folder: where to write its files; None keeps them in memory.
        name: what its files begin with.
    """

    def __init__(self, folder: Path | None = None, name: str = ""):
        self._texts: list[str] = []
        self._size = 0
        self._data = self._offsets = None
        if folder:
            self._data = Numbers(folder, f"{name}.bytes", np.uint8)
            self._offsets = Numbers(folder, f"{name}.offsets")
            self._offsets.append(0)

    def append(self, text: str) -> None:
        """Add one text."""
        if not self._data:
            self._texts.append(text)
            return
        raw = text.encode("utf-8", "surrogatepass")
        self._size += len(raw)
        self._data.extend(raw)
        self._offsets.append(self._size)

    def finish(self) -> Sequence[str]:
        """Return all of them; nothing can be added any more."""
        if not self._data:
            return self._texts
        data, offsets = self._data.finish(), self._offsets.finish()
        return Strings(data, offsets[:-1], offsets[1:])


def load_texts(folder: Path, name: str) -> Strings:
    """Return the texts that `Texts(folder, name)` wrote, memory-mapped."""
    offsets = load_array(folder / f"{name}.offsets.npy")
    return Strings(load_array(folder / f"{name}.bytes.npy"), offsets[:-1], offsets[1:])


def load_array(path: Path) -> np.ndarray:
    """Return the array of an .npy file, memory-mapped."""
    # As a plain ndarray: slices of np.memmap are slow.
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


class _NpyFile:
    """An .npy file of one axis whose length is known only at the end."""

    def __init__(self, path: Path, dtype: np.dtype):
        self._path, self._dtype, self._size = path, dtype, 0
        self._write_header("wb")

    def write(self, values: array) -> None:
        # Opened anew each time: a reader that raises leaves no open file behind.
        with open(self._path, "ab") as file:
            file.write(values)
        self._size += len(values)

    def finish(self) -> np.ndarray:
        # NumPy leaves room in the header for a longer first axis.
        self._write_header("r+b")
        return load_array(self._path)

    def _write_header(self, mode: str) -> None:
        header = {"descr": self._dtype.str, "fortran_order": False, "shape": (self._size,)}
        with open(self._path, mode) as file:
            np.lib.format.write_array_header_1_0(file, header)
