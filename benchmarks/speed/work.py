"""The work that both sides of the speed comparison do: shapes, token ids, operations.

Imports NumPy only, so that either side's environment can read it.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

# t5.1.1-small
LAYERS, HIDDEN, HEADS, HEAD_DIM, FEEDFORWARD, VOCABULARY = 8, 512, 6, 64, 1024, 32128
EMBEDDING_DIM = 512
DROPOUT = 0.1
QUERY_LENGTH, DOCUMENT_LENGTH = 32, 128
BATCH = {"plain": 64, "cached": 256}
CHUNK = 32
ENCODED = 512  # documents
ENCODE_BATCH = 32
RATE, TEMPERATURE = 1e-3, 0.05
CASES = ("plain", "cached", "encode")
DTYPES = ("float32", "bfloat16")


def flops(case: str) -> float:
    """Floating-point operations of one step (or of encoding all documents), products only.

    A multiply-add counts as two. Training takes three forward passes' worth, with gradient
    caching four.
    """
    query, document = (_forward(length) for length in (QUERY_LENGTH, DOCUMENT_LENGTH))
    if case == "encode":
        return ENCODED * document
    passes = {"plain": 3, "cached": 4}[case]
    return BATCH[case] * passes * (query + document)


def _forward(length: int) -> float:
    inner = HEADS * HEAD_DIM
    weights = 4 * HIDDEN * inner + 3 * HIDDEN * FEEDFORWARD
    attention = 2 * length * inner  # queries with keys, weights with values
    return 2.0 * length * LAYERS * (weights + attention)


def count(case: str) -> int:
    """Pairs of a step, or documents encoded."""
    return ENCODED if case == "encode" else BATCH[case]


def write(folder: Path, tokens: dict[str, np.ndarray], documents: list[str]) -> None:
    """What the child processes read: token ids (padding is 0) and texts."""
    np.savez(folder / "tokens.npz", **tokens)
    (folder / "documents.json").write_text(json.dumps(documents), encoding="utf-8")


def read_tokens(folder: Path) -> dict[str, np.ndarray]:
    """`query` int32 `(n, 32)` and `document` int32 `(n, 128)`."""
    return dict(np.load(folder / "tokens.npz"))


def read_documents(folder: Path) -> list[str]:
    """The texts to encode."""
    return json.loads((folder / "documents.json").read_text(encoding="utf-8"))


def batch(tokens: dict[str, np.ndarray], case: str, step: int) -> dict[str, np.ndarray]:
    """The rows of one step; they start again at the end."""
    size = BATCH[case]
    rows = np.arange(step * size, (step + 1) * size) % len(tokens["query"])
    return {side: ids[rows] for side, ids in tokens.items()}


def timed(run: Callable[[], object]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
