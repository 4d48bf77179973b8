"""Tensors → `model.safetensors`, or several files and their index where one would be too large."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from tqdm import tqdm

from samtone_tf.checkpoints.source import LazyTensor

SHARD_BYTES = 4 * 10**9
"""Of one file, at most; a single tensor may need more."""


def write_safetensors(
    folder: Path, tensors: Mapping[str, LazyTensor], shard_bytes: int = SHARD_BYTES
) -> list[Path]:
    """Writes `model.safetensors`, float32, or `model-00001-of-0000N.safetensors` and an index.

    The tensors of one file are in memory at a time, no others.

    Args:
        folder: where to.
        tensors: the name in the file → the tensor, as it shall lie there.
        shard_bytes: the most of one file.
    """
    groups = _groups(tensors, shard_bytes)
    if len(groups) == 1:
        return [write_one(folder / "model.safetensors", tensors)]
    files, place = [], {}
    for number, names in enumerate(groups, start=1):
        file = folder / f"model-{number:05d}-of-{len(groups):05d}.safetensors"
        files.append(write_one(file, {name: tensors[name] for name in names}))
        place |= dict.fromkeys(names, file.name)
    total = sum(_bytes(tensor) for tensor in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": place}
    text = json.dumps(index, indent=2) + "\n"
    (folder / "model.safetensors.index.json").write_text(text, encoding="utf-8")
    return files


def write_one(file: Path, tensors: Mapping[str, LazyTensor]) -> Path:
    """Writes one safetensors file; its tensors are in memory at once."""
    from safetensors.numpy import save_file

    reading = tqdm(
        tensors.items(), f"writing {file.name}", unit="tensor", leave=False, disable=None
    )
    arrays = {name: np.ascontiguousarray(tensor.read()) for name, tensor in reading}
    # Without this, transformers takes the file for that of another framework.
    save_file(arrays, str(file), metadata={"format": "pt"})
    return file


def _groups(tensors: Mapping[str, LazyTensor], shard_bytes: int) -> list[list[str]]:
    """The names of each file, in order; at least one file."""
    groups: list[list[str]] = [[]]
    size = 0
    for name, tensor in tensors.items():
        if groups[-1] and size + _bytes(tensor) > shard_bytes:
            groups.append([])
            size = 0
        groups[-1].append(name)
        size += _bytes(tensor)
    return groups


def _bytes(tensor: LazyTensor) -> int:
    return 4 * int(np.prod(tensor.shape))
