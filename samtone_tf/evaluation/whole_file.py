"""Writes a result file whole or not at all: to a temporary name beside, then renamed."""

import os
import secrets
from collections.abc import Iterable
from pathlib import Path


def write_lines(path: str | Path, lines: Iterable[str]) -> Path:
    """Write lines, each with its own newline, as UTF-8; the folder is made.

    Args:
        path: file to write; one of that name is replaced.
        lines: may be a generator. If it raises, nothing is left behind.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Same file system, so that a rename is all it takes.
    writing = path.parent / f".{path.name}.{secrets.token_hex(4)}"
    try:
        with open(writing, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(lines)
        os.replace(writing, path)
    except BaseException:
        writing.unlink(missing_ok=True)
        raise
    return path
