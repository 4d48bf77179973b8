"""`open_source`: a kind and a place, as users type them → the reader of that kind."""

import importlib

from samtone_tf.checkpoints.source import Source

_READERS = {
    "hf": ("huggingface", "open_huggingface"),
    "keras_hub": ("keras_hub", "open_keras_hub"),
    "t5_tf": ("t5_tensorflow", "open_t5_tensorflow"),
    "st": ("sentence_transformers", "open_sentence_transformers"),
}
"""Kind → module of this package, and its function of a place and of the whole name."""


def open_source(name: str) -> Source:
    """A published checkpoint, opened: its numbers and tokenizer; tensors are read when asked for.

    Args:
        name: `hf:FOLDER`, `keras_hub:PRESET`, `t5_tf:PATH` or `st:FOLDER`.

    Raises:
        FileNotFoundError: nothing there.
        ValueError: an unknown kind, or what is there is no T5 encoder that can be read.
    """
    kind, _, place = name.partition(":")
    if kind not in _READERS or not place:
        raise ValueError(
            f"`source` must be KIND:PLACE, with a kind out of {', '.join(_READERS)}. "
            f"Received: source={name!r}."
        )
    module, function = _READERS[kind]
    reader = getattr(importlib.import_module(f"samtone_tf.checkpoints.{module}"), function)
    return reader(place, name)
