"""Files inside a checkpoint's folder: no name, and no link, leads out of it.

A folder from somebody else names further files (shards, modules). Whatever it says, only what lies
in it is read. A snapshot of the Hugging Face hub holds links into the store beside it, and those
count as inside.
"""

import json
from collections.abc import Iterator
from pathlib import Path, PureWindowsPath
from typing import Any


def inside(folder: str | Path, name: str) -> Path:
    """The path of `name` in `folder`; it need not exist.

    Args:
        folder: the checkpoint's own, or one in it.
        name: relative, as some file of the checkpoint gives it: of a file or of a folder.

    Raises:
        ValueError: it is absolute, holds `..`, or is a link out of the folder.
    """
    pure = PureWindowsPath(name)  # takes either slash for one, and knows drives
    path = Path(folder) / name
    if pure.anchor or ".." in pure.parts or not pure.parts:
        raise ValueError(_outside(folder, name))
    real = path.resolve()
    if not any(real.is_relative_to(root) for root in _roots(Path(folder).resolve())):
        raise ValueError(_outside(folder, f"{name}, a link to {real}"))
    return path


def find_file(folder: str | Path, name: str) -> Path | None:
    """The file `name` of `folder`, or None where there is none; `inside` says what is refused."""
    path = inside(folder, name)
    return path if path.is_file() else None


def need_file(folder: str | Path, name: str) -> Path:
    """The file `name` of `folder`.

    Raises:
        FileNotFoundError: there is none.
        ValueError: as `inside`.
    """
    path = find_file(folder, name)
    if path is None:
        raise FileNotFoundError(
            f"The checkpoint must hold the file {name}. Received: {folder}, which has none. "
            "Copy all files of the checkpoint."
        )
    return path


def read_json(folder: str | Path, name: str) -> Any:
    """What the JSON file `name` of `folder` says.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it is no JSON, or lies outside.
    """
    path = need_file(folder, name)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} must be JSON. Received: {error}.") from error


def read_settings(folder: str | Path, name: str) -> dict[str, Any]:
    """The same where it must be an object, as a configuration is."""
    found = read_json(folder, name)
    if not isinstance(found, dict):
        raise ValueError(
            f"{Path(folder) / name} must be a JSON object. Received: a {type(found).__name__}."
        )
    return found


def _roots(folder: Path) -> Iterator[Path]:
    """Where the files of `folder` may really lie; hub/models--NAME/snapshots/REVISION is one."""
    yield folder
    for path in (folder, *folder.parents):
        repository = path.parent.parent
        if path.parent.name == "snapshots" and repository.name.startswith("models--"):
            yield repository / "blobs"
            shared = repository.parent / "blobs"  # of all repositories in one cache
            if (shared / ".huggingface-shared-blobs").is_file():
                yield shared


def _outside(folder: str | Path, name: str) -> str:
    return (
        f"A checkpoint may only name files inside its folder. Received: {name!r} in {folder}. "
        "Do not load it unless you know why; a copy with real files instead of links is accepted."
    )
