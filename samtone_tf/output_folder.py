"""Folders that a command writes: never over something else, and whole or not at all."""

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def check_new(folder: str | Path, name: str, advice: str) -> Path:
    """The folder as a path, if it does not exist or is empty; cheap, so ask before the work.

    Args:
        folder: to be written.
        name: of the argument, for the message.
        advice: what to do, for the message.

    Raises:
        FileExistsError: there is something.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(
            f"`{name}` must be a new or empty folder: nothing is overwritten. "
            f"Received: {folder}. {advice}"
        )
    return folder


@contextmanager
def written_whole(folder: Path) -> Iterator[Path]:
    """A folder beside `folder` to write into; it gets that name when all of it is written.

    Where the writing fails, nothing stays.
    """
    folder.absolute().parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    temporary.mkdir()
    try:
        yield temporary
        temporary.replace(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
