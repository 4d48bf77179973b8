"""A folder of tables that are built once and used again, named by a hash of what is in them.

A table appears whole or not at all: it is built in a folder beside its own and renamed when
it is complete. What was damaged since is found by its checksums and built again.
"""

import errno
import json
import os
import shutil
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

FORMAT = 1  # part of every key: raise it when the files or their meaning change
CONTENTS = "contents.json"  # size and checksum of every file; written last

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def default_folder() -> Path:
    """Return `SAMTONE_CACHE`, or `samtone-tf` where this user's caches are."""
    if os.environ.get("SAMTONE_CACHE"):
        return Path(os.environ["SAMTONE_CACHE"]).expanduser()
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "samtone-tf"


class Cache:
    """Tables in a folder.

    Args:
        folder: where they are; made when it is absent.

    Attributes:
        seen: table → whether it was `reused` or `built`, for those asked for so far.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder).expanduser()
        self.seen: dict[str, str] = {}

    def get(self, kind: str, key: str, build: Callable[[Path], object], num_bytes: int) -> Path:
        """Return the folder of a table, which is built if it is not there.

        Args:
            kind: of table, for people; the folder's name begins with it.
            key: hash of everything that decides what the table holds.
            build: writes the table into an empty folder.
            num_bytes: about how large it will be.

        Raises:
            OSError: the cache cannot be written, or there is no room.
        """
        target = self.folder / f"{kind}-{key}"
        self.seen[kind] = "reused"
        if _is_whole(target):
            return target
        with self._writing(target, num_bytes), _lock(target) as is_alone:
            if _is_whole(target):  # another process was faster
                return target
            if target.exists():
                warnings.warn(
                    f"{target} is damaged or incomplete and is built again.", stacklevel=3
                )
            if is_alone:  # what is left was left by a process that was killed
                for leftover in self.folder.glob(f"{target.name}.building-*"):
                    shutil.rmtree(leftover, ignore_errors=True)
            self._build(target, build, num_bytes)
        self.seen[kind] = "built"
        return target

    def report(self) -> str:
        """Return one line: where the tables are, and which were built."""
        return f"{self.folder} ({', '.join(f'{kind} {how}' for kind, how in self.seen.items())})"

    def _build(self, target: Path, build: Callable[[Path], object], num_bytes: int) -> None:
        if shutil.disk_usage(self.folder).free < num_bytes:
            raise OSError(errno.ENOSPC, "no room")
        building = target.with_name(f"{target.name}.building-{os.getpid()}-{time.time_ns()}")
        building.mkdir()
        try:
            build(building)
            _write_contents(building)
            self._place(building, target)
        finally:
            shutil.rmtree(building, ignore_errors=True)

    def _place(self, building: Path, target: Path) -> None:
        try:
            os.rename(building, target)
        except OSError:
            if not target.exists():
                raise
            if _is_whole(target):  # without locks, another process may be ready first
                return
            # Whoever still reads the damaged files keeps them until it closes them.
            damaged = target.with_name(f"{target.name}.building-old-{time.time_ns()}")
            os.rename(target, damaged)
            os.rename(building, target)
            shutil.rmtree(damaged, ignore_errors=True)

    @contextmanager
    def _writing(self, target: Path, num_bytes: int) -> Iterator[None]:
        """Turns errors of the file system into one that says what to do."""
        advice = "Choose another folder with --data.cache or SAMTONE_CACHE"
        needed = f"{num_bytes / 1e6:,.1f} MB ({num_bytes:,} bytes)"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            probe = self.folder / f".writable-{os.getpid()}"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise type(error)(
                f"`data.cache` must be a folder that can be written. Received: {self.folder} "
                f"({error.strerror}), for {target.name}, about {needed}. {advice}, or keep the "
                "tables in memory with --data.cache memory."
            ) from error
        try:
            yield
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            raise OSError(
                f"`data.cache` must have room for {target.name}, about {needed}. "
                f"Received: {self.folder}, which has "
                f"{shutil.disk_usage(self.folder).free:,} bytes free. {advice}, or make room."
            ) from error


def _is_whole(folder: Path) -> bool:
    """Whether every file is there with its size and checksum; about half a second per GB."""
    try:
        contents = json.loads((folder / CONTENTS).read_text(encoding="utf-8"))
        return bool(contents) and all(
            os.path.getsize(folder / name) == size and _checksum(folder / name) == checksum
            for name, (size, checksum) in contents.items()
        )
    except (OSError, ValueError, AttributeError, TypeError):
        return False


def _write_contents(folder: Path) -> None:
    names = sorted(path.name for path in folder.iterdir())
    contents = {name: (os.path.getsize(folder / name), _checksum(folder / name)) for name in names}
    with open(folder / CONTENTS, "w", encoding="utf-8") as file:
        json.dump(contents, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


def _checksum(path: Path) -> int:
    checksum = 0
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            checksum = zlib.crc32(block, checksum)
    return checksum


@contextmanager
def _lock(target: Path) -> Iterator[bool]:
    """One process at a time builds `target`; the others wait, and then find it.

    Yields false where the system has no locks: then two processes may build the same table,
    and the one that is ready first stays.
    """
    with open(target.with_name(f"{target.name}.lock"), "w", encoding="utf-8") as file:
        try:
            if fcntl:
                fcntl.flock(file, fcntl.LOCK_EX)
            is_alone = bool(fcntl)
        except OSError:  # some network file systems
            is_alone = False
        yield is_alone
