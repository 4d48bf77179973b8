"""The folder of an index: written whole or not at all, and recognised when read.

A folder holds `index.json` (what it is), `ids.json` (document ids in row order),
the index's own files, and `report.json` when it was built with one.
"""

import json
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FORMAT = 1
"""Version of the folder's layout; a reader refuses versions it does not know."""


DESCRIBED = ("kind", "dim", "num_documents", "model", "settings")
"""What `index.json` says of an index, besides its format."""


@contextmanager
def new_folder(folder: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a temporary sibling of `folder` that becomes `folder` when the block ends well."""
    target = Path(folder)
    check_new_folder(target, overwrite=overwrite)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = _sibling(target)
    temporary.mkdir()
    try:
        yield temporary
        _replace(temporary, target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def check_new_folder(folder: str | Path, *, overwrite: bool = False) -> None:
    """Raise if an index cannot be written to `folder`; call it before work worth losing."""
    target = Path(folder)
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not overwrite:
        raise FileExistsError(
            f"`folder` must not exist yet. Received: {target}. "
            "Choose another folder, or allow overwriting."
        )
    # Overwriting removes a whole folder: only ever one that is an index.
    fault = _why_no_index(target)
    if fault:
        raise FileExistsError(
            f"`folder` must be an index to be overwritten. Received: {target}, {fault}. "
            "Remove it yourself, or choose another folder."
        )


def write_description(folder: Path, description: dict[str, Any], document_ids: list[str]) -> None:
    """Write `index.json` and `ids.json`."""
    write_json(folder / "index.json", {"format": FORMAT, **description})
    # JSON, not lines: an id may hold any character.
    (folder / "ids.json").write_text(json.dumps(document_ids), encoding="utf-8")


def read_description(folder: str | Path) -> tuple[dict[str, Any], list[str]]:
    """Read `index.json` and `ids.json`, or raise with one clear line."""
    path = Path(folder) / "index.json"
    if not path.is_file():
        raise FileNotFoundError(
            f"`folder` must be an index. Received: {folder}, which has no index.json. "
            "Build an index there first."
        )
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
        version, _ = description["format"], [description[key] for key in DESCRIBED]
        ids = json.loads((path.parent / "ids.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"`folder` must hold a complete index. Received: {folder}, where index.json or "
            "ids.json cannot be read. Build the index again."
        ) from error
    if version != FORMAT:
        raise ValueError(
            f"`folder` must have index format {FORMAT}. Received: format {version} in {folder}. "
            "Build the index again with this version."
        )
    if not isinstance(ids, list) or len(ids) != description.get("num_documents"):
        raise ValueError(
            f"`folder` must hold one id per document. Received: {folder}, where ids.json and "
            "index.json disagree. Build the index again."
        )
    return description, ids


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write one JSON object, indented, ending in a newline."""
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def folder_bytes(folder: str | Path) -> int:
    """Bytes of all files below `folder`."""
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


def vector_bytes(folder: str | Path) -> int:
    """Bytes of an index's own files, if nothing but these and its description is there yet."""
    described = sum((Path(folder) / name).stat().st_size for name in ("index.json", "ids.json"))
    return folder_bytes(folder) - described


def _why_no_index(folder: Path) -> str:
    """What keeps a folder from being an index, of any version; empty if it is one."""
    for name in ("index.json", "ids.json"):
        if not (folder / name).is_file():
            return f"which has no {name}"
    try:
        description = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return "whose index.json cannot be read"
    if not isinstance(description, dict) or not {"format", *DESCRIBED} <= description.keys():
        return "whose index.json does not describe an index"
    return ""


def _replace(temporary: Path, target: Path) -> None:
    if not target.exists():
        temporary.rename(target)
        return
    old = _sibling(target)
    target.rename(old)
    try:
        temporary.rename(target)
    except BaseException:
        old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _sibling(target: Path) -> Path:
    # Same file system, so that a rename is all it takes; `tempfile` would make it private.
    return target.parent / f".{target.name}.{secrets.token_hex(4)}"
