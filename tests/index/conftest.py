"""Vectors for index tests; no code under test."""

import numpy as np
import pytest


def _unit_rows(num: int, dim: int, seed: int = 0) -> np.ndarray:
    """Directions without structure."""
    return _unit(np.random.default_rng(seed).normal(size=(num, dim)))


def _clustered_rows(num: int, dim: int, seed: int = 0) -> np.ndarray:
    """Directions around 50 centres that overlap."""
    centres = np.random.default_rng(99).normal(size=(50, dim))
    random = np.random.default_rng(seed)
    return _unit(centres[random.integers(50, size=num)] + 0.8 * random.normal(size=(num, dim)))


def _names(num: int) -> list[str]:
    """Ids whose order as text differs from the order of rows."""
    return [f"d{row}" for row in range(num)]


def _unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def unit_rows():
    """Makes `(num, dim)` unit vectors from a seed."""
    return _unit_rows


@pytest.fixture
def clustered_rows():
    """Makes `(num, dim)` unit vectors in clusters, the same clusters for every seed."""
    return _clustered_rows


@pytest.fixture
def names():
    """Makes `num` ids."""
    return _names
