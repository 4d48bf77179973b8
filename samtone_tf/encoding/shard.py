"""`ShardWriter`: one shard of vectors, whole on the disk before it has its name."""

import errno
import json
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import numpy as np

from samtone_tf.encoding.description import (
    Description,
    remove_temporary,
    shard_names,
    temporary_path,
    write_whole,
)
from samtone_tf.encoding.number_formats import Loss, to_dtype, to_float32

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class ShardWriter:
    """Writes one shard block by block; use it in a `with`, and call `finish`.

    What was written without `finish` is removed. After a kill, other names than those of
    the folder's format are left, and the next writer of the shard removes them.

    Args:
        folder: of the vectors.
        shard: number of the shard.
        num_rows: that will be added.
        description: has D and the dtype.
    """

    def __init__(self, folder: Path, shard: int, num_rows: int, description: Description):
        self.folder, self.shard, self.num_rows = folder, shard, num_rows
        self.dim, self.dtype = description.dim, description.dtype
        self.loss = Loss()
        remove_temporary(folder, f"*-{shard:05d}")
        *names, marker = shard_names(shard, self.dtype)
        self._marker = folder / marker
        self._paths = {folder / name: temporary_path(folder / name) for name in names}
        self._files = [open(path, "wb") for path in self._paths.values()]  # noqa: SIM115
        self._ids, *self._scales, self._vectors = self._files
        self._write_headers()

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, *_) -> None:
        for file in self._files:
            with suppress(OSError):  # a full disk: what is left in a buffer is written here
                file.close()
        for temporary in self._paths.values():
            temporary.unlink(missing_ok=True)

    def add(self, ids: Sequence[str], vectors: np.ndarray) -> None:
        """Writes the next rows: their ids, and float32 `(n, D)`."""
        stored, scales = to_dtype(vectors, self.dtype)
        if self.dtype != "float32":
            self.loss += Loss.of(vectors, to_float32(stored, scales))
        else:
            self.loss += Loss(len(vectors))
        self._ids.write("".join(f"{i}\n" for i in ids).encode("utf-8", "surrogatepass"))
        self._vectors.write(np.ascontiguousarray(stored))
        for file in self._scales:
            file.write(scales)

    def finish(self) -> None:
        """Waits for the disk, gives the files their names, and marks the shard as done."""
        if self.loss.num_rows != self.num_rows:
            raise ValueError(
                f"`num_rows` must be that of what was added. Received: num_rows={self.num_rows}, "
                f"and {self.loss.num_rows} rows."
            )
        for file in self._files:
            file.flush()
            os.fsync(file.fileno())
        for path, temporary in self._paths.items():
            os.replace(temporary, path)
        flush_folder(self.folder)
        about = {"num_rows": self.num_rows, "loss": asdict(self.loss)}
        write_whole(self._marker, (json.dumps(about) + "\n").encode())
        flush_folder(self.folder)

    def _write_headers(self) -> None:
        shapes = [(self._vectors, self.dtype, (self.num_rows, self.dim))]
        shapes += [(file, "float32", (self.num_rows,)) for file in self._scales]
        for file, dtype, shape in shapes:
            header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)


def flush_folder(folder: Path) -> None:
    """Waits until the disk has a folder's names."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows cannot
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def num_bytes(num_rows: int, dim: int, dtype: str) -> int:
    """Bytes of rows without their ids."""
    return num_rows * (dim * np.dtype(dtype).itemsize + 4 * (dtype == "int8"))


def check_room(folder: Path, needed: int) -> None:
    """Raises OSError when the disk cannot hold so many bytes more."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise no_room(folder, f"{needed:,} bytes more are needed, and {free:,} are free")


def is_full(error: OSError) -> bool:
    """Whether it says that there is no room."""
    return error.errno in _NO_ROOM


def no_room(folder: Path, reason: str) -> OSError:
    """The error that says what to do."""
    return OSError(
        f"`out` must have room for the vectors. Received: {folder}: {reason}. Shards that are "
        "done stay: make room and run the same again to go on, or choose float16 or int8 in a "
        "new folder."
    )
