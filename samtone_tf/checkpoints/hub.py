"""The folder of a checkpoint: one on this machine, or a repository of the Hugging Face hub."""

import re
from pathlib import Path

_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_SMALL = ("*.json", "spiece.model")


def find_folder(place: str, subfolders: bool = False) -> Path:
    """The folder that `place` names; a repository is downloaded into the hub's cache.

    Of a repository only JSON, the vocabulary and the weights are taken: safetensors, or
    `pytorch_model*.bin` where it has none.

    Args:
        place: a folder, or owner and name such as `google/t5-v1_1-base` where no folder is
            called so.
        subfolders: take those of a repository too, as sentence-transformers needs.

    Raises:
        FileNotFoundError: there is no such folder, and no such repository that can be reached.
    """
    folder = Path(place).expanduser()
    if folder.is_dir():
        return folder
    if folder.exists() or not _REPOSITORY.fullmatch(place):
        what = "which is a file" if folder.exists() else "which does not exist"
        raise FileNotFoundError(
            "A checkpoint must be a folder, or a repository of the Hugging Face hub such as "
            f"google/t5-v1_1-base. Received: {place!r}, {what}. Check the spelling."
        )
    ignored = [] if subfolders else ["*/*"]
    # A projection may be PyTorch's own file beside an encoder in safetensors; it is small.
    found = download(place, [*_SMALL, "*.safetensors", "*_Dense/pytorch_model.bin"], ignored)
    if not any(found.rglob("*.safetensors") if subfolders else found.glob("*.safetensors")):
        found = download(place, [*_SMALL, "*pytorch_model*.bin*"], ignored)
    return found


def download(repository: str, patterns: list[str], ignored: list[str]) -> Path:
    """The folder of a repository of the hub in the hub's cache, brought up to date.

    Args:
        repository: owner and name.
        patterns: of the files wanted.
        ignored: of files that are not wanted all the same.

    Raises:
        FileNotFoundError: it cannot be reached, and is not in the cache either.
    """
    import huggingface_hub

    try:
        return Path(
            huggingface_hub.snapshot_download(
                repository, allow_patterns=patterns, ignore_patterns=ignored
            )
        )
    # Without network, without the right to read, or of a name that is no repository's, the
    # library raises errors of its own, of the operating system and of its HTTP client.
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise FileNotFoundError(
            f"There is no folder {repository!r} here, and the repository of that name at the "
            f"Hugging Face hub could not be downloaded ({type(error).__name__}: {reason}). "
            "Without network, give the path of a local folder that holds its files."
        ) from error
