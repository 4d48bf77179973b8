"""Opens a checkpoint by the one string that names it, such as `hf:google/t5-v1_1-base`."""

from collections.abc import Callable

from samtone_tf.checkpoints.source import Source


def _open_huggingface(place: str, name: str) -> Source:
    from samtone_tf.checkpoints.hub import find_folder
    from samtone_tf.checkpoints.huggingface import open_huggingface

    return open_huggingface(find_folder(place), name)


def _open_keras_hub(place: str, name: str) -> Source:
    from samtone_tf.checkpoints.keras_hub import open_keras_hub

    return open_keras_hub(place, name)


def _open_t5_tensorflow(place: str, name: str) -> Source:
    from samtone_tf.checkpoints.t5_tensorflow import open_t5_tensorflow

    return open_t5_tensorflow(place, name)


def _open_sentence_transformers(place: str, name: str) -> Source:
    from samtone_tf.checkpoints.hub import find_folder
    from samtone_tf.checkpoints.sentence_transformers import open_sentence_transformers

    return open_sentence_transformers(find_folder(place, subfolders=True), name)


KINDS: dict[str, tuple[Callable[[str, str], Source], str]] = {
    "hf": (_open_huggingface, "hf:FOLDER or hf:OWNER/NAME"),
    "keras_hub": (_open_keras_hub, "keras_hub:PRESET"),
    "t5_tf": (_open_t5_tensorflow, "t5_tf:PATH"),
    "st": (_open_sentence_transformers, "st:FOLDER or st:OWNER/NAME"),
}
"""Kind → what opens it, and how it is written."""


def open_source(name: str) -> Source:
    """Opens a published checkpoint; its tensors are read when a variable asks for them.

    Example:

    >>> open_source("hf:google/t5-v1_1-base").query.encoder.num_layers  # doctest: +SKIP
    12

    Args:
        name: a kind from `KINDS`, a colon, and where it is.

    Raises:
        ValueError: there is no such kind, or the checkpoint is not what the kind asks for.
        FileNotFoundError: there is nothing at that place.
    """
    kind, _, place = name.partition(":")
    if kind not in KINDS or not place:
        written = ", ".join(example for _, example in KINDS.values())
        raise ValueError(f"A checkpoint must be written as {written}. Received: {name!r}.")
    return KINDS[kind][0](place, name)
