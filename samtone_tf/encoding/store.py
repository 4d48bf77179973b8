"""`Store`: a folder of vectors on this machine, or where Beam's file systems reach (`gs://…`).

A remote shard is written to a folder of this machine first and then copied, its marker last.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from samtone_tf.encoding.description import FILE, Description, shard_names
from samtone_tf.encoding.encode import check_out, start_folder


def is_remote(path: str) -> bool:
    """Whether a path has a scheme, such as `gs://`."""
    return "://" in path


class Store:
    """A folder that shards are written to.

    Args:
        out: its path.
    """

    def __init__(self, out: str):
        self.out = out.rstrip("/") if is_remote(out) else out

    def check_usable(self) -> None:
        """Raises FileExistsError when something else is in a folder of this machine."""
        if not is_remote(self.out):
            check_out(self.out)

    def start(self, description: Description) -> None:
        """Writes `vectors.json`, or compares it with the one that is there.

        Raises:
            ValueError: it is of another model, other data or other settings.
        """
        if not is_remote(self.out):
            Path(self.out).mkdir(parents=True, exist_ok=True)
            start_folder(Path(self.out), description)
            return
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            there = _read(f"{self.out}/{FILE}")
            if there is not None:
                (folder / FILE).write_bytes(there)
            start_folder(folder, description)
            if there is None:
                self._upload(folder / FILE)

    def describe(self, description: Description, more: dict[str, Any]) -> None:
        """Writes `vectors.json` anew."""
        with self.writing() as folder:
            description.write(folder, more)

    def read_marker(self, shard: int) -> dict[str, Any] | None:
        """What is said of a shard that is done; None if it is not."""
        name = shard_names(shard, "")[-1]
        if is_remote(self.out):
            content = _read(f"{self.out}/{name}")
        else:
            path = Path(self.out) / name
            content = path.read_bytes() if path.is_file() else None
        return None if content is None else json.loads(content)

    @contextmanager
    def writing(self) -> Iterator[Path]:
        """The folder itself; or one of this machine, whose files are copied at the end."""
        if not is_remote(self.out):
            yield Path(self.out)
            return
        with tempfile.TemporaryDirectory() as name:
            yield Path(name)
            # A marker says that the others are there, so it comes last.
            for path in sorted(Path(name).iterdir(), key=lambda path: path.suffix == ".json"):
                self._upload(path)

    def _upload(self, path: Path) -> None:
        from apache_beam.io.filesystems import FileSystems

        with path.open("rb") as source, FileSystems.create(f"{self.out}/{path.name}") as target:
            shutil.copyfileobj(source, target, 1 << 20)


@contextmanager
def local_copy(folder: str) -> Iterator[str]:
    """A folder as this machine can open it: itself, or a copy that goes when the block ends."""
    if not is_remote(folder):
        yield folder
        return
    from apache_beam.io.filesystems import FileSystems

    top = folder.rstrip("/") + "/"
    with tempfile.TemporaryDirectory() as name:
        for found in FileSystems.match([f"{top}**"])[0].metadata_list:
            target = Path(name) / found.path.removeprefix(top)
            target.parent.mkdir(parents=True, exist_ok=True)
            with FileSystems.open(found.path) as source, target.open("wb") as copy:
                shutil.copyfileobj(source, copy, 1 << 20)
        yield name


def _read(path: str) -> bytes | None:
    from apache_beam.io.filesystems import FileSystems

    if not FileSystems.exists(path):
        return None
    with FileSystems.open(path) as file:
        return file.read()
