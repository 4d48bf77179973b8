"""Tensors of a folder by name, read when asked: safetensors, PyTorch's own files, shards of either.

Nothing here runs code from a file: safetensors cannot hold any, and PyTorch's files are opened
with `weights_only=True`. All numbers come out as float32.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from samtone_tf.checkpoints.folder_files import find_file, need_file, read_settings
from samtone_tf.checkpoints.source import LazyTensor, Shape, listed

_SAFETENSORS = "model.safetensors"
_TORCH = "pytorch_model.bin"
_INDEX = ".index.json"
_OTHERS = ("*.safetensors", "*.bin", "*.h5", "*.msgpack", "*.onnx", "*.gguf", "*.pt", "*.ckpt*")


@dataclass(frozen=True)
class StoredTensor:
    """A tensor as a file has it.

    Args:
        name: as the file calls it.
        shape: as the file has it; at least one axis where `rows` is called.
        rows: reads rows `start` to `stop` as float32.
    """

    name: str
    shape: Shape
    rows: Callable[[int, int], np.ndarray]

    def lazy(self, transposed: bool = False) -> LazyTensor:
        """The same for a variable of ours; `transposed` turns a matrix round."""
        if transposed:
            return LazyTensor(self.name, self.shape[::-1], lambda: self._read().T)
        return LazyTensor(self.name, self.shape, self._read)

    def _read(self) -> np.ndarray:
        return self.rows(0, self.shape[0])


def open_tensors(folder: str | Path) -> dict[str, StoredTensor]:
    """Name → tensor, of the weights of `folder`.

    Looks for `model.safetensors`, its shards, `pytorch_model.bin` and its shards, in this order.

    Args:
        folder: of a Hugging Face checkpoint, or of one module of sentence-transformers.

    Raises:
        FileNotFoundError: there are none of these, or a shard is missing.
        ValueError: a file is none of its kind, index and shards do not agree, or a tensor has a
            type other than float32, float16 and bfloat16.
        ImportError: the files are PyTorch's, which is not installed.
    """
    folder = Path(folder)
    for name, read in ((_SAFETENSORS, _read_safetensors), (_TORCH, _read_torch)):
        whole = find_file(folder, name)
        if whole:
            return read(whole)
        if find_file(folder, name + _INDEX):
            return _read_shards(folder, name, read)
    others = sorted({path.name for pattern in _OTHERS for path in folder.glob(pattern)})
    found = f"which has {listed(others)}" if others else "which has no file of weights"
    raise FileNotFoundError(
        f"The checkpoint must hold {_SAFETENSORS}, {_TORCH} or shards of either. "
        f"Received: {folder}, {found}. Save it with transformers' save_pretrained."
    )


def is_equal(first: StoredTensor, second: StoredTensor) -> bool:
    """Whether two tensors hold the same numbers; compares a few rows at a time."""
    if first.shape != second.shape:
        return False
    rows = first.shape[0]
    step = max(1, (1 << 22) * rows // max(1, int(np.prod(first.shape))))
    return all(
        np.array_equal(first.rows(i, min(i + step, rows)), second.rows(i, min(i + step, rows)))
        for i in range(0, rows, step)
    )


def _read_shards(
    folder: Path, name: str, read: Callable[[Path], dict[str, StoredTensor]]
) -> dict[str, StoredTensor]:
    """The tensors of all shards, if the index says the same as they do."""
    index = name + _INDEX
    places = read_settings(folder, index).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(file, str) for file in places.values()):
        raise ValueError(
            f"{folder / index} must hold `weight_map`, tensor → file. Received: {places!r:.80}."
        )
    files = sorted(set(places.values()))
    stem, suffix = name.split(".")
    lying = {path.name for path in folder.glob(f"{stem}-*.{suffix}")}
    _check_none(folder / index, "does not name the files", sorted(lying - set(files)))
    found: dict[str, StoredTensor] = {}
    unnamed = []
    for file in files:
        for tensor, stored in read(need_file(folder, file)).items():
            if places.get(tensor) == file:
                found[tensor] = stored
            else:
                unnamed.append(f"{tensor} in {file}")
    _check_none(folder / index, "does not name the tensors", unnamed)
    absent = [f"{tensor} in {file}" for tensor, file in places.items() if tensor not in found]
    _check_none(folder / index, "names tensors that are missing", absent)
    return found


def _check_none(index: Path, what: str, names: list[str]) -> None:
    if names:
        raise ValueError(
            "The index of a checkpoint must name its files and what each holds. Received: "
            f"{index}, which {what} {listed(names)}. Copy all files of one checkpoint."
        )


def _read_safetensors(path: Path) -> dict[str, StoredTensor]:
    import ml_dtypes  # noqa: F401  (NumPy then knows bfloat16 by name)
    from safetensors import SafetensorError, safe_open

    def stored(name: str, shape: Shape) -> StoredTensor:
        # Opened for every tensor, and closed: what is mapped counts as memory of the process.
        def rows(start: int, stop: int) -> np.ndarray:
            with safe_open(path, framework="numpy") as file:
                return file.get_slice(name)[start:stop].astype(np.float32, copy=False)

        return StoredTensor(name, shape, rows)

    found = {}
    try:
        with safe_open(path, framework="numpy") as file:
            for name in file.keys():  # noqa: SIM118  (no mapping)
                part = file.get_slice(name)
                _check_type(path, name, part.get_dtype(), ("F32", "F16", "BF16"))
                found[name] = stored(name, tuple(part.get_shape()))
    except SafetensorError as error:
        raise ValueError(
            f"{path} must be a safetensors file. Received: one that cannot be read ({error}). "
            "Copy it again."
        ) from error
    return found


def _read_torch(path: Path) -> dict[str, StoredTensor]:
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"Reading {path} needs PyTorch. Install it with `pip install torch`, or save the "
            "checkpoint as safetensors where it is installed."
        ) from error

    state, is_mapped = _load_torch(path)

    def stored(name: str, shape: Shape) -> StoredTensor:
        def rows(start: int, stop: int) -> np.ndarray:
            # As with safetensors: a mapping that was read from is closed again.
            tensors = _load_torch(path)[0] if is_mapped else state
            return tensors[name][start:stop].detach().to(torch.float32, copy=True).numpy()

        return StoredTensor(name, shape, rows)

    if not isinstance(state, dict) or not all(isinstance(v, torch.Tensor) for v in state.values()):
        raise ValueError(
            f"{path} must hold tensors by name. Received: a {type(state).__name__} of something "
            "else. Save it with transformers' save_pretrained."
        )
    known = ("torch.float32", "torch.float16", "torch.bfloat16")
    for name, tensor in state.items():
        _check_type(path, name, str(tensor.dtype), known)
    return {name: stored(name, tuple(tensor.shape)) for name, tensor in state.items()}


def _load_torch(path: Path) -> tuple[Any, bool]:
    """What the file holds, and whether it is mapped; never anything but weights."""
    import pickle

    import torch

    def load(mapped: bool) -> Any:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)

    try:
        try:
            return load(True), True
        except RuntimeError as error:
            if "mmap can only be used" not in str(error):
                raise
            return load(False), False  # from before PyTorch 1.6: has to be read whole
    except (RuntimeError, pickle.UnpicklingError, EOFError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(
            f"{path} must be weights that PyTorch saved, and nothing else. Received: a file that "
            f"torch.load(weights_only=True) refuses ({reason}). Ask for safetensors instead."
        ) from error


def _check_type(path: Path, name: str, found: str, known: tuple[str, ...]) -> None:
    if found not in known:
        raise ValueError(
            f"Tensors must be float32, float16 or bfloat16. Received: {name} of type {found} in "
            f"{path}. Save the checkpoint without quantisation."
        )
