"""Writes made-up checkpoints in the formats of others; their names are spelled here by hand."""

import json
import os
from pathlib import Path

import numpy as np

from samtone_tf.encoder_config import EncoderConfig
from tests.checkpoints import made

MESH_BIAS = "encoder/block_000/layer_000/SelfAttention/relative_attention_bias"
UNGATED = {"gated": False, "activation": "relu"}


def huggingface_settings(config: EncoderConfig = made.NUMBERS, **changes) -> dict:
    """What `config.json` says of it; `changes` of None leave a key out."""
    settings = {
        "model_type": "t5",
        "d_model": config.hidden_dim,
        "d_kv": config.head_dim,
        "d_ff": config.feedforward_dim,
        "num_layers": config.num_layers,
        "num_decoder_layers": 1,
        "num_heads": config.num_heads,
        "vocab_size": config.vocabulary_size,
        "feed_forward_proj": "gated-gelu" if config.gated else "relu",
        "relative_attention_num_buckets": 32,
        "layer_norm_epsilon": 1e-6,
        "dropout_rate": 0.1,
    }
    return {key: value for key, value in (settings | changes).items() if value is not None}


def huggingface_tensors(config: EncoderConfig = made.NUMBERS, seed: int = 0) -> dict:
    """`made.arrays` under Hugging Face's names, matrices the other way round."""
    arrays = made.arrays(config, seed=seed)
    bias = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    found = {
        "shared.weight": arrays["token_embedding/embeddings"],
        bias: arrays["encoder/position_bias/embeddings"],
        "encoder.final_layer_norm.weight": arrays["encoder/final_norm/scale"],
    }
    for i in range(config.num_layers):
        ours, theirs = f"encoder/block_{i}", f"encoder.block.{i}.layer"
        found[f"{theirs}.0.layer_norm.weight"] = arrays[f"{ours}/attention_norm/scale"]
        found[f"{theirs}.1.layer_norm.weight"] = arrays[f"{ours}/feedforward_norm/scale"]
        for short, name in (("q", "query"), ("k", "key"), ("v", "value"), ("o", "output")):
            kernel = arrays[f"{ours}/attention/{name}/kernel"]
            found[f"{theirs}.0.SelfAttention.{short}.weight"] = kernel.T
        inner = {"wi_0": "wi_0", "wi_1": "wi_1"} if config.gated else {"wi": "wi_0"}
        for short, name in (inner | {"wo": "wo"}).items():
            kernel = arrays[f"{ours}/feedforward/{name}/kernel"]
            found[f"{theirs}.1.DenseReluDense.{short}.weight"] = kernel.T
    return {name: np.ascontiguousarray(tensor) for name, tensor in found.items()}


def write_huggingface(
    folder: Path, settings: dict | None = None, tensors: dict | None = None
) -> Path:
    """A folder with one file of safetensors and no vocabulary."""
    from safetensors.numpy import save_file

    write_settings(folder, huggingface_settings() if settings is None else settings)
    save_file(huggingface_tensors() if tensors is None else tensors, folder / "model.safetensors")
    return folder


def write_settings(folder: Path, settings: dict) -> None:
    """`config.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")


def write_shards(folder: Path, tensors: dict, num_shards: int = 3) -> dict:
    """Shards of safetensors and their index, which is returned."""
    from safetensors.numpy import save_file

    places = {}
    for i in range(num_shards):
        file = f"model-{i + 1:05d}-of-{num_shards:05d}.safetensors"
        part = {name: tensors[name] for name in sorted(tensors)[i::num_shards]}
        save_file(part, folder / file)
        places |= dict.fromkeys(part, file)
    write_index(folder, places)
    return places


def write_index(folder: Path, places: dict, name: str = "model.safetensors") -> None:
    """`weight_map`: tensor → file."""
    text = json.dumps({"metadata": {}, "weight_map": places})
    (folder / f"{name}.index.json").write_text(text, encoding="utf-8")


def as_snapshot(folder: Path, cache: Path, shared: bool = False) -> Path:
    """The folder's files as a snapshot in a cache of the hub: links into a store of blobs."""
    repository = cache / "models--owner--name"
    snapshot = repository / "snapshots" / ("0" * 40)
    for path in folder.iterdir():
        blob = repository / "blobs" / f"etag-{path.name}"
        for made_folder in (snapshot, blob.parent):
            made_folder.mkdir(parents=True, exist_ok=True)
        if shared:
            stored = cache / "blobs" / "ab" / path.name
            stored.parent.mkdir(parents=True, exist_ok=True)
            path.rename(stored)
            blob.symlink_to(os.path.relpath(stored, blob.parent))
        else:
            path.rename(blob)
        (snapshot / path.name).symlink_to(os.path.relpath(blob, snapshot))
    if shared:
        (cache / "blobs" / ".huggingface-shared-blobs").write_text("1")
    return snapshot


def mesh_tensors(config: EncoderConfig = made.NUMBERS, norm: str = "layer_norm") -> dict:
    """`made.arrays` under the names of T5's own code."""
    arrays = made.arrays(config)
    final = "final_layer_norm" if norm == "layer_norm" else norm
    found = {
        "shared/embedding": arrays["token_embedding/embeddings"],
        MESH_BIAS: arrays["encoder/position_bias/embeddings"].T,
        f"encoder/{final}/scale": arrays["encoder/final_norm/scale"],
    }
    for i in range(config.num_layers):
        ours, theirs = f"encoder/block_{i}", f"encoder/block_{i:03d}"
        found[f"{theirs}/layer_000/{norm}/scale"] = arrays[f"{ours}/attention_norm/scale"]
        found[f"{theirs}/layer_001/{norm}/scale"] = arrays[f"{ours}/feedforward_norm/scale"]
        for short, name in (("q", "query"), ("k", "key"), ("v", "value"), ("o", "output")):
            found[f"{theirs}/layer_000/SelfAttention/{short}"] = arrays[
                f"{ours}/attention/{name}/kernel"
            ]
        inner = {"wi_0": "wi_0", "wi_1": "wi_1"} if config.gated else {"wi": "wi_0"}
        for short, name in (inner | {"wo": "wo"}).items():
            found[f"{theirs}/layer_001/DenseReluDense/{short}/kernel"] = arrays[
                f"{ours}/feedforward/{name}/kernel"
            ]
    return found


def write_tensorflow(prefix: Path, tensors: dict) -> str:
    """A TensorFlow checkpoint of these variables, as T5's code leaves it in a folder."""
    import tensorflow as tf

    prefix.parent.mkdir(parents=True, exist_ok=True)
    names = sorted(tensors)
    values = [tf.constant(tensors[name]) for name in names]
    tf.raw_ops.SaveV2(
        prefix=str(prefix), tensor_names=names, shape_and_slices=[""] * len(names), tensors=values
    )
    text = f'model_checkpoint_path: "{prefix.name}"\n'
    (prefix.parent / "checkpoint").write_text(text, encoding="utf-8")
    return str(prefix)


def assert_equal(source, config: EncoderConfig = made.NUMBERS) -> None:
    """Fails unless both towers hold `made.arrays` to the bit, and the numbers are `config`'s."""
    assert source.query is source.document
    assert source.query.encoder == config
    want = made.arrays(config)
    assert set(source.query.tensors) == set(want)
    for name, tensor in source.query.tensors.items():
        got = tensor.read()
        assert got.dtype == np.float32
        assert tensor.shape == got.shape
        np.testing.assert_array_equal(got, want[name], err_msg=name)
