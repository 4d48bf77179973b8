"""`vectors.json`: what a folder of vectors holds, and whether work on it may go on.

VECTORS/vectors.json         what all of them are (`Description`), and which shards are done
VECTORS/vectors-00000.npy    (rows of the shard, D), of the folder's dtype
VECTORS/scales-00000.npy     int8 only: float32 (rows,), what a row is multiplied with
VECTORS/ids-00000.txt        ids of the rows, UTF-8, one a line
VECTORS/shard-00000.json     rows and loss of the shard; written last: with it, the shard is done
"""

import json
import os
import secrets
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FORMAT = 1
FILE = "vectors.json"
TEMPORARY = ".writing"
"""Ending of files that are being written; what is left of them may be removed."""

_FREE = ("model_path", "source")  # may change: models and data can be moved


@dataclass(frozen=True)
class Description:
    """What a folder of vectors holds.

    Args:
        model: fingerprint of the model.
        model_path: where it was.
        side: `"query"` or `"document"`.
        length: the most tokens of a text.
        dim: D.
        dtype: of the files.
        source: name of the data.
        data: fingerprint of all ids and texts.
        num_texts: how many there are.
        order: `"corpus"`, or `"hash"` where a shard holds the texts whose id falls to it.
        shard_size: rows of a shard but the last; with order `"hash"`, about how many.
        num_shards: how many there are.
    """

    model: str
    model_path: str
    side: str
    length: int
    dim: int
    dtype: str
    source: str
    data: str
    num_texts: int
    order: str
    shard_size: int
    num_shards: int

    @classmethod
    def read(cls, folder: str | Path) -> "Description":
        """What the folder's `vectors.json` says.

        Raises:
            FileNotFoundError: there is none.
            ValueError: it cannot be read, or is of another version.
        """
        path = Path(folder) / FILE
        if not path.is_file():
            raise FileNotFoundError(
                f"`folder` must hold vectors that `samtone encode` wrote. Received: {folder}, "
                f"which has no {FILE}."
            )
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            version = content["format"]
            if version == FORMAT:
                return cls(**{name: content[name] for name in cls.__dataclass_fields__})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"`folder` must hold a {FILE} that can be read. Received: {path} ({error!r}). "
                "Encode into a new folder."
            ) from error
        raise ValueError(
            f"`folder` must have format {FORMAT} of vectors. Received: format {version} in "
            f"{folder}. Encode the texts again with this version."
        )

    def write(self, folder: Path, more: dict[str, Any] | None = None) -> None:
        """Writes `vectors.json`, whole or not at all.

        Args:
            folder: where.
            more: entries besides; for people, since `read` leaves them out.
        """
        content = {"format": FORMAT, **asdict(self), **(more or {})}
        write_whole(folder / FILE, (json.dumps(content, indent=2) + "\n").encode())

    def check_same(self, now: "Description", folder: Path) -> None:
        """Raises ValueError, and says what differs, unless `now` may add to these vectors."""
        before, now = asdict(self), asdict(now)
        differs = [name for name in before if before[name] != now[name] and name not in _FREE]
        if differs:
            changes = ", ".join(
                f"{name} {before[name]!r} and not {now[name]!r}" for name in differs
            )
            raise ValueError(
                "`out` must hold vectors of the same model, data and settings to go on with them. "
                f"Received: {folder}, which has {changes}. Choose another folder, or repeat what "
                "these were made with."
            )


def shard_names(shard: int, dtype: str) -> list[str]:
    """The files of a shard, in the order in which they get their names."""
    scales = [f"scales-{shard:05d}.npy"] if dtype == "int8" else []
    return [f"ids-{shard:05d}.txt", *scales, f"vectors-{shard:05d}.npy", f"shard-{shard:05d}.json"]


def done_shards(folder: Path) -> list[int]:
    """Numbers of the shards that are done, in order."""
    names = (path.stem.removeprefix("shard-") for path in folder.glob("shard-*.json"))
    return sorted(int(name) for name in names if name.isdecimal())


def as_ranges(numbers: Iterable[int]) -> str:
    """Whole numbers in rising order for a person, such as `0-4, 7`."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(f"{a}-{b}" if a < b else f"{a}" for a, b in ranges) or "none"


def temporary_path(path: Path) -> Path:
    """A name beside `path` that no other process uses."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}{TEMPORARY}")


def remove_temporary(folder: Path, pattern: str) -> None:
    """Removes what a killed process left of files whose name begins like `pattern`."""
    for path in folder.glob(f".{pattern}*{TEMPORARY}"):
        path.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file under another name, waits for the disk, and renames it."""
    temporary = temporary_path(path)
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
