"""Whether two runs differ by more than chance: paired tests over queries, and Holm's correction.

The randomisation test asks how often a difference as large would appear if, for each
query, it were a coin's choice which run is which (Fisher; for retrieval Smucker, Allan and
Carterette 2007, *A Comparison of Statistical Significance Tests for Information Retrieval
Evaluation*). The paired t test asks the same of a normal distribution.
"""

import math
from collections.abc import Sequence

import numpy as np
from tqdm import tqdm

from samtone_tf.index.base import check_k

DRAWS = 100_000
EXACT_UP_TO = 20
"""Queries with a difference for which all 2^n sign patterns are tried instead of a sample."""

_CELLS = 1 << 20
"""Bytes of signs held at once, however many draws and queries there are."""


def randomisation_test(differences: np.ndarray, draws: int = DRAWS, seed: int = 0) -> np.ndarray:
    """Two-sided p values of the paired randomisation test on the mean, float64 `(M,)`.

    Exact where at most 20 queries differ: the share of the sign patterns whose mean is at
    least as far from 0. Otherwise `(1 + b) / (1 + draws)`, with b such patterns among
    those drawn, which is never 0 and errs on the safe side (Phipson and Smyth 2010).

    Args:
        differences: floats `(Q, M)`, one run's values minus the other's.
        draws: int ≥ 1, sign patterns drawn where there are too many to try all.
        seed: int; equal seeds give equal p values.
    """
    draws = check_k(draws, "draws")
    differences = _check(differences)
    p = np.empty(differences.shape[1])
    many = np.count_nonzero(differences, axis=0) > EXACT_UP_TO
    for column in np.flatnonzero(~many):
        p[column] = _exact(differences[:, column])
    if many.any():
        p[many] = _sampled(differences[:, many], draws, seed)
    return p


def _exact(differences: np.ndarray) -> float:
    sums = np.zeros(1)
    for difference in differences[differences != 0]:
        sums = np.concatenate([sums + difference, sums - difference])
    return float(np.mean(np.abs(sums) >= _least(differences)))


def _sampled(differences: np.ndarray, draws: int, seed: int) -> np.ndarray:
    # A query without any difference has no sign to flip.
    differences = differences[np.any(differences != 0, axis=1)]
    least = np.array([_least(column) for column in differences.T])
    total = differences.sum(axis=0)
    tables = _sums_by_byte(differences)
    rng = np.random.default_rng(seed)
    rows = max(1, _CELLS // len(tables))
    extreme = np.zeros(len(total), np.int64)
    bar = tqdm(total=draws, desc="randomise", unit=" draws", delay=3, leave=False, disable=None)
    with bar:
        for start in range(0, draws, rows):
            size = min(rows, draws - start)
            drawn = rng.integers(0, 256, (len(tables), size), np.uint8)
            flipped = np.zeros((size, len(total)))
            for table, bits in zip(tables, drawn, strict=True):
                flipped += table[bits]
            extreme += np.count_nonzero(np.abs(total - 2 * flipped) >= least, axis=0)
            bar.update(size)
    return (1 + extreme) / (1 + draws)


def _sums_by_byte(differences: np.ndarray) -> np.ndarray:
    """For every eight queries and every byte, the sum of those whose bit is set: `(G, 256, M)`.

    Eight signs cost one look-up this way, and no matrix product.
    """
    num, width = differences.shape
    eights = np.zeros((-(-num // 8) * 8, width))
    eights[:num] = differences
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float64)
    return np.einsum("bi,gim->gbm", bits, eights.reshape(-1, 8, width))


def _least(differences: np.ndarray) -> float:
    """The size of a sum that counts as at least as large as that of all; allows for rounding."""
    return abs(math.fsum(differences)) - 1e-12 * float(np.abs(differences).sum())


def t_test(differences: np.ndarray) -> np.ndarray:
    """Two-sided p values of the paired t test on the mean, float64 `(M,)`.

    Without any difference p is 1; for one query there is no test and p is NaN.

    Args:
        differences: floats `(Q, M)`, one run's values minus the other's.
    """
    differences = _check(differences)
    num = len(differences)
    if num < 2:
        return np.full(differences.shape[1], np.nan)
    from scipy.special import stdtr

    mean, deviation = differences.mean(axis=0), differences.std(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(mean == 0, 0.0, mean * math.sqrt(num) / deviation)
    return 2 * stdtr(num - 1, -np.abs(t))


def holm(p_values: Sequence[float]) -> list[float]:
    """P values corrected for their number: below α with chance α at most if nothing differs.

    The i-th smallest of m is multiplied by m − i + 1, and never falls below the one before
    it (Holm 1979). NaN, where there was no test, stays NaN and is not counted.

    Args:
        p_values: of all tests that were made, in any order.
    """
    p = np.asarray(p_values, np.float64)
    corrected = np.full(p.shape, np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(1, np.maximum.accumulate(p[order] * factors))
    return corrected.tolist()


def _check(differences: np.ndarray) -> np.ndarray:
    differences = np.asarray(differences, np.float64)
    if differences.ndim != 2 or not len(differences) or not np.isfinite(differences).all():
        raise ValueError(
            "`differences` must be a finite matrix with a row per query. "
            f"Received: shape={differences.shape}. Subtract the scores of the same queries."
        )
    return differences
