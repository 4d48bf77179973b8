"""How far a mean over queries may be off: bootstrap intervals, seeded and in bounded memory.

The queries of a test set are a sample of those that could be asked. Drawing as many of
them again, with replacement, shows how much a mean depends on which were sampled (Efron
and Tibshirani 1993, *An Introduction to the Bootstrap*, chapter 13: the percentile interval).
"""

from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from samtone_tf.index.base import check_k

DRAWS = 10_000
LEVEL = 0.95
METHOD = "percentile bootstrap over queries"

_CELLS = 1 << 18
"""Counts held at once: 2 MiB each for a few arrays, however many queries there are."""


class Estimate(NamedTuple):
    """A mean over `n` queries, and the interval it lies in; no interval for one query."""

    value: float
    low: float | None
    high: float | None
    n: int

    def to_json(self) -> dict[str, Any]:
        """The fields, as JSON holds them."""
        return self._asdict()


def bootstrap_means(
    values: np.ndarray, draws: int = DRAWS, seed: int | np.random.SeedSequence = 0
) -> np.ndarray:
    """Means of resampled queries, float64 `(draws, M)`.

    All columns are resampled with the same queries, so differences of columns are paired.

    Args:
        values: floats `(Q, M)`, a row per query and a column per measure.
        draws: int ≥ 1, how often Q queries are drawn.
        seed: int or NumPy's SeedSequence; equal seeds give equal means.

    Raises:
        ValueError: `values` are not a finite matrix with at least one row.
    """
    draws = check_k(draws, "draws")
    values = np.asarray(values, np.float64)
    if values.ndim != 2 or not len(values) or not np.isfinite(values).all():
        raise ValueError(
            "`values` must be a finite matrix with a row per query. "
            f"Received: shape={values.shape}. Stack the scores of at least one query."
        )
    num, columns = len(values), np.ascontiguousarray(values.T)
    rng = np.random.default_rng(seed)
    means = np.empty((draws, values.shape[1]))
    rows = max(1, _CELLS // num)
    # Counting how often each query was drawn costs one pass, whatever the number of measures.
    dtype = np.uint16 if num <= 1 << 16 else np.int64
    bar = tqdm(total=draws, desc="bootstrap", unit=" draws", delay=3, leave=False, disable=None)
    with bar:
        for start in range(0, draws, rows):
            size = min(rows, draws - start)
            drawn = rng.integers(0, num, (size, num), dtype).astype(np.int64)
            drawn += np.arange(size)[:, None] * num
            counts = np.bincount(drawn.ravel(), minlength=size * num).reshape(size, num)
            # Not `@`: BLAS starts threads for so little, and they wait on a busy machine.
            sums = np.einsum("rq,mq->rm", counts.astype(np.float64), columns)
            means[start : start + size] = sums / num
            bar.update(size)
    return means


def estimates(
    values: np.ndarray, draws: int = DRAWS, seed: int = 0, level: float = LEVEL
) -> list[Estimate]:
    """The mean of each column with its percentile interval.

    Args:
        values: floats `(Q, M)`. With one row there is nothing to resample: no interval.
        draws: as for `bootstrap_means`.
        seed: as for `bootstrap_means`.
        level: share of the means inside the interval, above 0 and below 1.
    """
    values = np.asarray(values, np.float64)
    means = bootstrap_means(values, draws, seed)
    low, high = interval(means, level)
    some = len(values) > 1
    return [
        Estimate(
            float(column.mean()),
            float(low[place]) if some else None,
            float(high[place]) if some else None,
            len(values),
        )
        for place, column in enumerate(values.T)
    ]


def interval(means: np.ndarray, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray]:
    """Quantiles that cut off the same share of the draws on both sides, each `(M,)`.

    Args:
        means: floats `(draws, M)`.
        level: share of the means between them, above 0 and below 1.
    """
    if not 0 < level < 1:
        raise ValueError(
            f"`level` must be above 0 and below 1. Received: level={level}. 0.95 is usual."
        )
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high
