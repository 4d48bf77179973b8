"""How vectors stand in a file: float32, float16 or int8; and what the short forms lose.

int8 has a scale of its own for every row: x ≈ scale · q. With q = round(127 · x / max|x|), the
scale is 1 / ‖q‖, so that a unit vector comes back with length 1.
"""

from dataclasses import dataclass

import numpy as np

DTYPES = ("float32", "float16", "int8")


def to_dtype(vectors: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Unit vectors as they are written, and the scale of each row where there is one.

    Args:
        vectors: float32 `(B, D)`.
        dtype: one of `DTYPES`.

    Returns:
        `(B, D)` of that dtype; float32 `(B,)`, or None.
    """
    if dtype != "int8":
        return vectors.astype(dtype), None
    largest = np.abs(vectors).max(axis=1, keepdims=True, initial=0)
    whole = np.rint(127 * vectors / np.where(largest > 0, largest, 1))
    lengths = np.linalg.norm(whole, axis=1)
    scales = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return whole.astype("int8"), scales.astype("float32")


def to_float32(stored: np.ndarray, scales: np.ndarray | None) -> np.ndarray:
    """Vectors from what `to_dtype` returned, float32 `(B, D)`."""
    vectors = np.asarray(stored, "float32")
    return vectors if scales is None else vectors * np.asarray(scales)[:, None]


@dataclass(frozen=True)
class Loss:
    """What rows lost when they were written.

    Args:
        num_rows: how many they are.
        mean_cosine: mean cosine of a row with itself as it is read back.
        min_cosine: the lowest of them.
        max_error: largest difference of a component.
    """

    num_rows: int = 0
    mean_cosine: float = 1.0
    min_cosine: float = 1.0
    max_error: float = 0.0

    @classmethod
    def of(cls, vectors: np.ndarray, read_back: np.ndarray) -> "Loss":
        """Of rows, at least one, as they were and as they are read back; both float32 `(B, D)`."""
        exact, found = vectors.astype("float64"), read_back.astype("float64")
        lengths = np.linalg.norm(exact, axis=1) * np.linalg.norm(found, axis=1)
        cosines = np.vecdot(exact, found) / np.where(lengths > 0, lengths, 1)
        error = float(np.abs(exact - found).max())
        return cls(len(exact), float(cosines.mean()), float(cosines.min()), error)

    def __add__(self, other: "Loss") -> "Loss":
        """Of both together."""
        num_rows = self.num_rows + other.num_rows
        total = self.num_rows * self.mean_cosine + other.num_rows * other.mean_cosine
        return Loss(
            num_rows,
            total / num_rows if num_rows else 1.0,
            min(self.min_cosine, other.min_cosine),
            max(self.max_error, other.max_error),
        )
