"""What every reader of a folder says when the folder is not what it should be."""

from pathlib import Path

from samtone_tf.data.lines import first_few


def check_is_folder(folder: Path, what: str, holds: str) -> None:
    """Raise unless `folder` is one.

    Args:
        folder: what was named.
        what: it should be, such as `a BEIR folder`.
        holds: a file that is in such a folder.
    """
    if not folder.exists():
        raise FileNotFoundError(
            f"`folder` must be {what}. Received: {folder}, which does not exist. "
            "Check the spelling."
        )
    if not folder.is_dir():
        raise ValueError(
            f"`folder` must be {what}. Received: {folder}, which is a file. "
            f"Name the folder that holds {holds}."
        )


def what_is_in(folder: Path) -> str:
    """Return the first names in a folder, for a message."""
    there = sorted(path.name + "/" * path.is_dir() for path in folder.iterdir())
    return first_few(there, 8) or "nothing"
