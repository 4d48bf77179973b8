"""`Vectors`: reads a folder of vectors without loading it into memory."""

import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from samtone_tf.checks import check_at_least
from samtone_tf.encoding.description import Description, as_ranges, done_shards, shard_names
from samtone_tf.encoding.number_formats import Loss, to_float32


class Vectors:
    """Vectors of a corpus and their ids, in the order of the corpus.

    Files are memory-mapped: what is read of them is float32, and all else stays on the disk.
    `np.asarray(vectors)` is all of them in memory.

    Args:
        folder: what `samtone encode` wrote; it may have been moved.

    Attributes:
        description: model, side, dtype and more.
        loss: what a dtype shorter than float32 lost, measured when it was written.

    Raises:
        FileNotFoundError: no vectors there.
        ValueError: shards are missing or damaged.

    Example:

    >>> vectors = Vectors("vectors/faq")
    >>> vectors[10:20].shape, vectors.ids[10]
    ((10, 256), 'd10')
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.description = Description.read(self.folder)
        wanted = set(range(self.description.num_shards))
        missing = sorted(wanted - set(done_shards(self.folder)))
        if missing:
            raise ValueError(
                f"`folder` must hold all {len(wanted)} shards. Received: {self.folder}, without "
                f"shards {as_ranges(missing)}. Run `samtone encode` again to go on with it."
            )
        about = [_read_shard(self.folder, shard) for shard in sorted(wanted)]
        self.loss = sum((loss for _, loss in about), Loss())
        self._ends = np.cumsum([num_rows for num_rows, _ in about])
        if self._ends[-1] != self.description.num_texts:
            raise ValueError(
                f"`folder` must hold one row per text. Received: {self.folder}, with "
                f"{self._ends[-1]} rows for {self.description.num_texts} texts. Encode them again."
            )

    @property
    def shape(self) -> tuple[int, int]:
        """(C, D)."""
        return self.description.num_texts, self.description.dim

    def __len__(self) -> int:
        return self.description.num_texts

    def __getitem__(self, rows: int | slice | np.ndarray) -> np.ndarray:
        """Float32 `(D,)` for a number, `(n, D)` for a slice or an array of numbers."""
        if isinstance(rows, int | np.integer):
            return self._rows(np.array([range(len(self))[rows]]))[0]
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self)))
        rows = np.asarray(rows)
        if rows.dtype == bool or not np.issubdtype(rows.dtype, np.integer):
            if rows.size:
                raise TypeError(
                    "`rows` must be whole numbers or a slice. "
                    f"Received: an array of {rows.dtype}. Use np.flatnonzero for a mask."
                )
            rows = rows.astype(np.int64)
        if rows.size and not -len(self) <= rows.min() <= rows.max() < len(self):
            raise IndexError(
                f"`rows` must be from {-len(self)} to {len(self) - 1}. "
                f"Received: rows from {rows.min()} to {rows.max()}."
            )
        return self._rows(np.where(rows < 0, rows + len(self), rows))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:].astype(dtype or "float32", copy=False)

    def __iter__(self) -> Iterator[np.ndarray]:
        for _, block in self.blocks():
            yield from block

    @cached_property
    def ids(self) -> list[str]:
        """Ids of all rows."""
        return [name for shard in range(len(self._ends)) for name in self._shard_ids(shard)]

    def matrices(self) -> list[np.ndarray]:
        """All rows as float matrices `(n, D)`, a shard each: mapped, but for int8 in memory."""
        if self.description.dtype == "int8":
            return [np.asarray(self)]
        return [self._shard(shard)[0] for shard in range(len(self._ends))]

    def blocks(self, num_rows: int = 8192) -> Iterator[tuple[list[str], np.ndarray]]:
        """All rows, some at a time: their ids, and float32 `(n, D)`.

        Args:
            num_rows: the most of a block; the last of each shard may have fewer.
        """
        check_at_least("num_rows", num_rows, 1)
        for shard in range(len(self._ends)):
            ids, stored, scales = self._shard_ids(shard), *self._shard(shard)
            for start in range(0, len(ids), num_rows):
                part = slice(start, start + num_rows)
                scale = None if scales is None else scales[part]
                yield ids[part], to_float32(stored[part], scale)

    def _rows(self, rows: np.ndarray) -> np.ndarray:
        found = np.empty((len(rows), self.shape[1]), "float32")
        shards = np.searchsorted(self._ends, rows, side="right")
        for shard in np.unique(shards).tolist():
            here = np.flatnonzero(shards == shard)
            inside = rows[here] - (self._ends[shard - 1] if shard else 0)
            stored, scales = self._shard(shard)
            found[here] = to_float32(stored[inside], None if scales is None else scales[inside])
        return found

    def _shard(self, shard: int) -> tuple[np.ndarray, np.ndarray | None]:
        num_rows = self._num_rows(shard)
        stored = self._load(f"vectors-{shard:05d}.npy", (num_rows, self.shape[1]))
        if self.description.dtype != "int8":
            return stored, None
        return stored, self._load(f"scales-{shard:05d}.npy", (num_rows,))

    def _load(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        try:
            array = np.load(self.folder / name, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise self._damaged(name, str(error)) from error
        if array.shape != shape:
            raise self._damaged(name, f"it has shape {array.shape} and not {shape}")
        return np.asarray(array)  # slices of np.memmap are slow

    def _shard_ids(self, shard: int) -> list[str]:
        name = f"ids-{shard:05d}.txt"
        try:
            content = (self.folder / name).read_bytes().decode("utf-8", "surrogatepass")
        except (OSError, UnicodeDecodeError) as error:
            raise self._damaged(name, str(error)) from error
        ids = content.split("\n")[:-1]
        if len(ids) != self._num_rows(shard):
            raise self._damaged(name, f"it has {len(ids)} lines for {self._num_rows(shard)} rows")
        return ids

    def _num_rows(self, shard: int) -> int:
        return int(self._ends[shard] - (self._ends[shard - 1] if shard else 0))

    def _damaged(self, name: str, reason: str) -> ValueError:
        shard = name.split("-")[1].split(".")[0]
        marker = shard_names(int(shard), "")[-1]
        return ValueError(
            f"`folder` must hold whole files. Received: {self.folder / name}, which cannot be "
            f"used: {reason}. Remove {marker} and run `samtone encode` again: it makes that shard "
            "anew."
        )


def _read_shard(folder: Path, shard: int) -> tuple[int, Loss]:
    path = folder / shard_names(shard, "")[-1]
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return int(content["num_rows"]), Loss(**content["loss"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"`folder` must hold whole files. Received: {path}, which cannot be read "
            f"({error!r}). Remove it and run `samtone encode` again: it makes that shard anew."
        ) from error
