"""Folders that a command writes: never over something else."""

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
