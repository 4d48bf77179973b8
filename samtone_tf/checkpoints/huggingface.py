"""Reads the encoder of a T5 folder in Hugging Face's format: v1.0, v1.1, Flan, mT5.

The folder holds `config.json`, the weights (`tensor_files`) of an encoder or of a whole T5, whose
decoder is left alone, and the vocabulary: `spiece.model`, or `tokenizer.json` alone.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from samtone_tf.checkpoints.folder_files import find_file, read_settings
from samtone_tf.checkpoints.hub import find_folder
from samtone_tf.checkpoints.source import LazyTensor, Source, TowerSource, encoder_shapes, match
from samtone_tf.checkpoints.t5_names import HUGGINGFACE_TABLES, huggingface_names, is_transposed
from samtone_tf.checkpoints.tensor_files import StoredTensor, is_equal, open_tensors
from samtone_tf.checks import check_vocabulary
from samtone_tf.data.tokenizer import Tokenizer
from samtone_tf.encoder_config import EncoderConfig

_CONFIG = "config.json"
_MODEL_TYPES = ("t5", "mt5")
# Theirs → (gated, what transformers calls the function, ours). "gated-gelu" means tanh there.
_FEED_FORWARD = {
    "relu": (False, "relu", "relu"),
    "gated-relu": (True, "relu", "relu"),
    "gelu_new": (False, "gelu_new", "gelu"),
    "gated-gelu": (True, "gelu_new", "gelu"),
    "gated-gelu_new": (True, "gelu_new", "gelu"),
    "gelu_pytorch_tanh": (False, "gelu_pytorch_tanh", "gelu"),
    "gated-gelu_pytorch_tanh": (True, "gelu_pytorch_tanh", "gelu"),
}
_NUMBERS = {
    "num_layers": "num_layers",
    "hidden_dim": "d_model",
    "num_heads": "num_heads",
    "head_dim": "d_kv",
    "feedforward_dim": "d_ff",
    "vocabulary_size": "vocab_size",
    "num_buckets": "relative_attention_num_buckets",
    "max_distance": "relative_attention_max_distance",
}
_DEFAULTS = {"relative_attention_num_buckets": 32, "relative_attention_max_distance": 128}
_IGNORED = (r"decoder\..*", r"lm_head\..*")


def open_huggingface(place: str, name: str) -> Source:
    """Opens a T5 checkpoint in Hugging Face's format; no tensor is read yet.

    Args:
        place: a folder with `config.json`, weights and vocabulary, or a repository of the hub
            such as `google/t5-v1_1-base`.
        name: what the user typed, such as `hf:FOLDER`.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: the configuration is of another model or of a variant that the encoder here
            does not have, or tensors are missing, left over or of another shape; names them.
        ImportError: the weights are PyTorch's own files and PyTorch is not installed.
    """
    folder = find_folder(place)
    tower = read_tower(folder)
    tokenizer = read_tokenizer(folder)
    if tokenizer is not None:
        check_vocabulary(tokenizer.vocabulary_size, tower.encoder.vocabulary_size)
    return Source(name, tower, tower, tokenizer=tokenizer)


def read_tower(folder: str | Path) -> TowerSource:
    """The encoder of a folder; errors as `open_huggingface`."""
    config = read_encoder_config(folder)
    stored = _with_one_table(folder, open_tensors(folder))
    names = huggingface_names(config)
    turned = {theirs for ours, theirs in names.items() if is_transposed(ours)}
    found: dict[str, LazyTensor] = {
        theirs: tensor.lazy(theirs in turned) for theirs, tensor in stored.items()
    }
    return TowerSource(config, match(str(folder), encoder_shapes(config), names, found, _IGNORED))


def read_encoder_config(folder: str | Path) -> EncoderConfig:
    """The numbers in `config.json`; dropout is 0.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it describes something that the encoder here cannot be.
    """
    settings = read_settings(folder, _CONFIG)
    where = Path(folder) / _CONFIG
    model_type = settings.get("model_type")
    if model_type not in _MODEL_TYPES:
        raise ValueError(
            f"`model_type` must be t5 or mt5. Received: {model_type!r} in {where}. "
            "Other models cannot be loaded here."
        )
    for key in ("auto_map", "quantization_config"):
        if settings.get(key):
            raise ValueError(
                f"`{key}` must not be set: neither code from a checkpoint nor quantised weights "
                f"are loaded. Received: {settings[key]!r:.80} in {where}. Use plain T5 weights."
            )
    epsilon = settings.get("layer_norm_epsilon", 1e-6)
    if epsilon != 1e-6:
        raise ValueError(
            "`layer_norm_epsilon` must be 1e-06, as in every published T5. "
            f"Received: {epsilon!r} in {where}."
        )
    numbers = {ours: _number(settings, key, where) for ours, key in _NUMBERS.items()}
    gated, activation = _feed_forward(settings, where)
    return EncoderConfig(**numbers, gated=gated, activation=activation)


def read_tokenizer(folder: str | Path) -> Tokenizer | None:
    """The vocabulary: `spiece.model`, else `tokenizer.json`, else None."""
    model = find_file(folder, "spiece.model")
    if model:
        return Tokenizer.from_file(model)
    if find_file(folder, "tokenizer.json"):
        from samtone_tf.checkpoints.tokenizer_json import read_tokenizer_json

        return read_tokenizer_json(folder)
    return None


def _number(settings: Mapping[str, Any], key: str, where: Path) -> int:
    value = settings.get(key, _DEFAULTS.get(key))
    if type(value) is not int or value < 1:
        raise ValueError(f"`{key}` must be a positive integer. Received: {value!r} in {where}.")
    return value


def _feed_forward(settings: Mapping[str, Any], where: Path) -> tuple[bool, str]:
    """(gated, activation), which the file may say twice."""
    said = settings.get("feed_forward_proj", "relu")  # v1.0 came before the key
    if said not in _FEED_FORWARD:
        raise ValueError(
            f"`feed_forward_proj` must be one of {', '.join(_FEED_FORWARD)}. "
            f"Received: {said!r} in {where}. "
            "The encoder has ReLU and the tanh form of GELU, gated or not."
        )
    gated, function, activation = _FEED_FORWARD[said]
    for key, expected in (("is_gated_act", gated), ("dense_act_fn", function)):
        if settings.get(key, expected) != expected:
            raise ValueError(
                f"`feed_forward_proj` and `{key}` must say the same. Received: "
                f"feed_forward_proj={said!r} and {key}={settings[key]!r} in {where}. "
                "Ask whoever made the checkpoint."
            )
    return gated, activation


def _with_one_table(folder: str | Path, stored: dict[str, StoredTensor]) -> dict[str, StoredTensor]:
    """The same with the token table under its first name alone."""
    first, second = HUGGINGFACE_TABLES
    if first in stored and second in stored and not is_equal(stored[first], stored[second]):
        raise ValueError(
            f"{first} and {second} must be equal: T5 has one token table. "
            f"Received: {folder}, where they differ."
        )
    table = stored.get(first) or stored.get(second)
    rest = {name: tensor for name, tensor in stored.items() if name not in HUGGINGFACE_TABLES}
    return {first: table, **rest} if table else rest
