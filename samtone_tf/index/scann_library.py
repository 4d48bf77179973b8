"""ScaNN itself: whether it is there, its pybind module, and training a searcher."""

import importlib
import importlib.util
import platform
import sys
import types
from typing import Any

import numpy as np

from samtone_tf.index.scann_settings import ScannSettings

_REORDER_TYPES = {"float32": "FLOAT32", "bfloat16": "BFLOAT16", "int8": "INT8"}


def scann_available() -> bool:
    """Whether ScaNN is installed on a system it has wheels for; imports nothing.

    An installed ScaNN may still fail to load, which `import_scann` then says.
    """
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
        return False
    try:
        return importlib.util.find_spec("scann") is not None
    except ValueError:  # a module of that name without a spec
        return False


def import_scann() -> Any:
    """ScaNN's pybind module, without TensorFlow.

    `import scann` imports TensorFlow for its graph ops, which costs seconds, and
    fails beside a release it was not built for. Nothing here needs them, so a
    bare stand-in package keeps `scann/__init__.py` from running; it is taken
    away again, and a later `import scann` works as ever.
    """
    name = "scann.scann_ops.py.scann_ops_pybind"
    if name in sys.modules:
        return sys.modules[name]
    try:
        spec = importlib.util.find_spec("scann")
        if spec is None or spec.submodule_search_locations is None:
            raise ModuleNotFoundError("No module named 'scann'", name="scann")
        if "scann" in sys.modules:
            return importlib.import_module(name)
        stand_in = types.ModuleType("scann")
        stand_in.__path__ = list(spec.submodule_search_locations)
        sys.modules["scann"] = stand_in
        try:
            return importlib.import_module(name)
        finally:
            del sys.modules["scann"]
    except (ImportError, ValueError) as error:
        raise ImportError(
            "`scann` must be importable for this index; it has wheels for Linux x86-64 only. "
            f"Received: {error} on {sys.platform} {platform.machine()}. "
            "Use exact search instead: --search exact, or kind='exact'."
        ) from error


def train(vectors: np.ndarray, settings: ScannSettings, storage: str = "float32") -> Any:
    """ScaNN's searcher over float32 unit vectors `(C, D)`.

    Args:
        vectors: contiguous; ScaNN copies them.
        settings: all filled in, see `scann_settings`.
        storage: `float32`, `bfloat16` or `int8`, of the vectors behind the final scores.

    Raises:
        ValueError: ScaNN refuses the settings.
    """
    scann = import_scann()
    quantize = getattr(scann.scann_builder.ReorderType, _REORDER_TYPES[storage])
    builder = scann.builder(vectors, min(10, len(vectors)), "dot_product")
    if settings.num_leaves:
        builder = builder.tree(
            num_leaves=settings.num_leaves,
            num_leaves_to_search=settings.num_leaves_to_search,
            # ScaNN refuses a sample smaller than the number of leaves.
            training_sample_size=settings.training_sample_size,
        )
    if settings.dims_per_block:
        builder = builder.score_ah(
            settings.dims_per_block,
            anisotropic_quantization_threshold=settings.anisotropic_threshold,
        )
    else:
        builder = builder.score_brute_force(quantize)
    if settings.reorder:
        builder = builder.reorder(min(settings.reorder, len(vectors)), quantize)
    try:
        return builder.build()
    except (RuntimeError, ValueError) as error:
        raise ValueError(
            f"`settings` must suit the corpus. Received: {settings} for {len(vectors)} documents; "
            f"ScaNN said: {' '.join(str(error).split())}. Leave fields out for automatic ones."
        ) from error
