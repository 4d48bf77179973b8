"""Reads the encoder of a KerasHub T5 preset: a name, `kaggle://…`, `hf://…` or a local folder.

KerasHub's own loader would make whatever object the preset's `config.json` describes. Here that
file gives plain numbers only, which are checked; the model is always KerasHub's `T5Backbone`, and
the vocabulary is read as the bytes of a SentencePiece model.
"""

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from samtone_tf.checkpoints.folder_files import (
    find_file,
    need_file,
    read_settings,
)
from samtone_tf.checkpoints.hub import download
from samtone_tf.checkpoints.source import (
    TOKEN_TABLE,
    LazyTensor,
    Source,
    TowerSource,
    encoder_shapes,
    match,
)
from samtone_tf.checks import check_vocabulary
from samtone_tf.data.tokenizer import Tokenizer
from samtone_tf.encoder_config import EncoderConfig

_CONFIG = "config.json"
_WEIGHTS = "model.weights.h5"
_SHARDS = "model.weights.json"
_VOCABULARY = "assets/tokenizer/vocabulary.spm"
_CLASSES = ("keras_hub>T5Backbone", "keras_nlp>T5Backbone")
_FIELDS = {  # ours → theirs
    "num_layers": "num_layers",
    "hidden_dim": "hidden_dim",
    "num_heads": "num_heads",
    "feedforward_dim": "intermediate_dim",
    "vocabulary_size": "vocabulary_size",
}
_KNOWN = {
    *_FIELDS.values(),
    "key_value_dim",
    "use_gated_activation",
    "activation",
    "layer_norm_epsilon",
    "tie_embedding_weights",
    "dropout",
    "dtype",
    "name",
    "trainable",
}
_LAYER = re.compile(r"(?:^|/)t5_transformer_layer(?:_(\d+))?(?:/|$)")
_TANH_GELU = ("gelu_approximate", "keras_hub>gelu_approximate", "keras_nlp>gelu_approximate")


def open_keras_hub(preset: str, name: str) -> Source:
    """Opens a T5 preset of KerasHub.

    KerasHub builds a decoder, too, so this needs memory for the whole model.

    Args:
        preset: a preset's name such as `t5_1.1_base`, `kaggle://…`, `hf://OWNER/NAME`, or a
            folder that `save_to_preset` wrote.
        name: what the user typed, such as `keras_hub:t5_1.1_base`.

    Raises:
        FileNotFoundError: it cannot be downloaded, or a file is missing.
        ValueError: it is not a T5, or has settings that the encoder here does not have.
    """
    folder = _find(preset)
    settings = read_settings(folder, _CONFIG)
    config = _encoder_config(folder, settings)
    vocabulary = find_file(folder, _VOCABULARY)
    tokenizer = Tokenizer.from_file(vocabulary) if vocabulary else None
    if tokenizer is not None:
        check_vocabulary(tokenizer.vocabulary_size, config.vocabulary_size)
    backbone = _backbone(folder, config, settings["config"])
    found, names = {}, {}
    for ours, variable in _variables(backbone):
        names[ours] = variable.path
        if not np.isnan(variable.numpy()).all():  # else nothing was loaded into it
            tensor = LazyTensor(variable.path, tuple(variable.shape), _reader(variable))
            found[variable.path] = tensor
    tower = TowerSource(config, match(str(folder), encoder_shapes(config), names, found))
    return Source(name, tower, tower, tokenizer=tokenizer)


def _find(preset: str) -> Path:
    """The preset's folder, downloaded where it is not one."""
    if Path(preset).expanduser().is_dir():
        return Path(preset).expanduser()
    if "://" not in preset:
        from keras_hub.models import T5Backbone  # takes seconds

        known = T5Backbone.presets
        if preset not in known:
            raise ValueError(
                "A KerasHub preset must be a T5: a folder, kaggle://…, hf://…, or one of "
                f"{', '.join(sorted(known))}. Received: {preset!r}."
            )
        preset = known[preset]["kaggle_handle"]
    scheme, _, handle = preset.partition("://")
    if scheme == "hf":
        return download(handle, ["*.json", "*.h5", "*.spm"], [])
    if scheme != "kaggle":
        raise ValueError(
            "A KerasHub preset must be a name, a folder, kaggle://… or hf://…. "
            f"Received: {preset!r}. Download it and give the folder."
        )
    import kagglehub

    try:
        return Path(kagglehub.model_download(handle))
    # The library raises errors of its own, of its HTTP client and of the operating system.
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise FileNotFoundError(
            f"{preset} could not be downloaded ({type(error).__name__}: {reason}). "
            "Without network, give the path of a local preset folder."
        ) from error


def _encoder_config(folder: Path, settings: dict[str, Any]) -> EncoderConfig:
    """The numbers of a preset's `config.json`, each of which is checked."""
    where = folder / _CONFIG
    kind = settings.get("registered_name")
    if kind not in _CLASSES:
        what = kind or settings.get("model_type") or settings.get("class_name")
        raise ValueError(
            "A KerasHub preset must be of the class T5Backbone. "
            f"Received: {what!r} in {where}. A folder of Hugging Face is read as hf:FOLDER."
        )
    found = settings.get("config")
    if not isinstance(found, dict) or set(found) - _KNOWN:
        unknown = sorted(set(found) - _KNOWN) if isinstance(found, dict) else [repr(found)[:80]]
        raise ValueError(
            f"A T5 preset must have the settings of KerasHub's T5Backbone. "
            f"Received: {', '.join(unknown)} in {where}. Save it with a known version."
        )
    dtype = found.get("dtype")
    if isinstance(dtype, dict) and dtype.get("class_name") != "DTypePolicy":
        raise ValueError(
            "A preset must not be quantised. "
            f"Received: dtype={dtype.get('class_name')!r} in {where}. Use the float one."
        )
    epsilon = found.get("layer_norm_epsilon", 1e-6)
    if epsilon != 1e-6:
        raise ValueError(
            "`layer_norm_epsilon` must be 1e-06, as in every published T5. "
            f"Received: {epsilon!r} in {where}."
        )
    numbers = {ours: _number(found, theirs, where) for ours, theirs in _FIELDS.items()}
    head_dim = numbers["hidden_dim"] // numbers["num_heads"]
    if found.get("key_value_dim") is not None:
        head_dim = _number(found, "key_value_dim", where)
    return EncoderConfig(
        **numbers,
        head_dim=head_dim,
        gated=bool(found.get("use_gated_activation", True)),
        activation=_activation(found.get("activation", "relu"), where),
    )


def _number(found: dict[str, Any], key: str, where: Path) -> int:
    value = found.get(key)
    if type(value) is not int or value < 1:
        raise ValueError(f"`{key}` must be a positive integer. Received: {value!r} in {where}.")
    return value


def _activation(said: Any, where: Path) -> str:
    """Our activation for what a preset says.

    KerasHub's "gelu" is the exact form. Its T5 v1.1 presets say so although the weights, like all
    of v1.1, were trained with the tanh form, which is what the encoder here computes.
    """
    if isinstance(said, dict) and said.get("class_name") == "function":
        said = said.get("config")
    if said == "relu":
        return "relu"
    if said == "gelu":
        warnings.warn(
            f'{where} says activation "gelu", which is the exact form in KerasHub; T5 v1.1 was '
            "trained with the tanh form, and that is used here: states differ from KerasHub's in "
            "the third digit or later, not from those of the original.",
            stacklevel=4,
        )
        return "gelu"
    if said in _TANH_GELU:
        return "gelu"
    raise ValueError(
        f"`activation` must be relu, gelu or gelu_approximate. Received: {said!r:.80} in {where}. "
        "The encoder has ReLU and the tanh form of GELU."
    )


def _backbone(folder: Path, config: EncoderConfig, found: dict[str, Any]):
    """KerasHub's model with the preset's weights."""
    from keras_hub.models import T5Backbone

    weights, files = _weights(folder)
    num_layers = _num_layers(files)
    if num_layers not in (None, config.num_layers):
        raise ValueError(
            f"{_CONFIG} and the weights must have as many layers. Received: "
            f"num_layers={config.num_layers} in {folder}, and weights of {num_layers}."
        )
    backbone = T5Backbone(
        vocabulary_size=config.vocabulary_size,
        num_layers=config.num_layers,
        num_heads=config.num_heads,
        hidden_dim=config.hidden_dim,
        intermediate_dim=config.feedforward_dim,
        key_value_dim=config.head_dim,
        use_gated_activation=config.gated,
        tie_embedding_weights=bool(found.get("tie_embedding_weights", True)),
        dtype="float32",
    )
    # Keras only warns of variables that it leaves as they were made: these show.
    for _, variable in _variables(backbone):
        variable.assign(np.full(variable.shape, np.nan, np.float32))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            backbone.load_weights(str(weights))
    except (ValueError, KeyError, OSError) as error:
        reason = " ".join(str(error).split())[:300]
        raise ValueError(
            f"{weights} must hold the weights that {_CONFIG} beside it describes. "
            f"Received: a file that Keras cannot load into it ({reason})."
        ) from error
    return backbone


def _weights(folder: Path) -> tuple[Path, list[Path]]:
    """What Keras is told to load, and all files that it will open."""
    whole = find_file(folder, _WEIGHTS)
    if whole:
        return whole, [whole]
    names: set[str] = set()
    for files in read_settings(folder, _SHARDS).get("weight_map", {}).values():
        names.update([files] if isinstance(files, str) else files)
    return need_file(folder, _SHARDS), [need_file(folder, name) for name in sorted(names)]


def _num_layers(files: list[Path]) -> int | None:
    """Layers of the encoder in files of weights; Keras would leave those too many unread.

    None where a file has no such groups, as another version of Keras may have written it.
    """
    import h5py

    numbers: set[int] = set()

    def visit(name: str) -> None:
        numbers.update(int(number or 0) for number in _LAYER.findall(name))

    for file in files:
        try:
            with h5py.File(file) as opened:
                opened.visit(visit)
        except OSError as error:
            raise ValueError(
                f"{file} must be an HDF5 file. Received: one that cannot be read ({error}). "
                "Copy it again."
            ) from error
    return (max(numbers) + 1) // 2 if numbers else None  # those of the decoder follow


def _variables(backbone) -> Iterator[tuple[str, Any]]:
    """Our name and KerasHub's variable, of everything in the encoder."""
    yield TOKEN_TABLE, backbone.token_embedding.embeddings
    layers = backbone.encoder_transformer_layers
    yield "encoder/position_bias/embeddings", layers[0].self_attention.relative_attention_bias
    for i, layer in enumerate(layers):
        attention, block = layer.self_attention, f"encoder/block_{i}"
        yield f"{block}/attention_norm/scale", _only(layer.self_attention_layer_norm)
        yield f"{block}/attention/query/kernel", attention.query_projector.kernel
        yield f"{block}/attention/key/kernel", attention.key_projector.kernel
        yield f"{block}/attention/value/kernel", attention.value_projector.kernel
        yield f"{block}/attention/output/kernel", attention.output_projector.kernel
        yield f"{block}/feedforward_norm/scale", _only(layer.layer_norm)
        yield f"{block}/feedforward/wi_0/kernel", layer.input_projector.kernel
        if layer.use_gated_activation:
            yield f"{block}/feedforward/wi_1/kernel", layer.gate_projector.kernel
        yield f"{block}/feedforward/wo/kernel", layer.output_projector.kernel
    yield "encoder/final_norm/scale", _only(backbone.encoder_layer_norm)


def _only(layer):
    """The one variable of a layer."""
    (variable,) = layer.variables
    return variable


def _reader(variable):
    return lambda: np.array(variable.numpy(), dtype=np.float32)
