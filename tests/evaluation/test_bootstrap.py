"""Pins of evaluation.bootstrap: SciPy's intervals, coverage, pairing, seeds, memory, speed."""

import itertools
import time
import tracemalloc

import numpy as np
import pytest

from samtone_tf.evaluation import bootstrap
from samtone_tf.evaluation.bootstrap import Estimate, bootstrap_means, estimates, interval


def random_values(num, seed=0):
    """A measure that is 0 or 1, and one that is skewed."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, 2, num), rng.beta(0.4, 0.6, num)], axis=1).astype(float)


def test_intervals_are_scipys():
    stats = pytest.importorskip("scipy.stats")
    values = random_values(80)
    for column, found in zip(values.T, estimates(values), strict=True):
        theirs = stats.bootstrap(
            (column,), np.mean, n_resamples=10_000, method="percentile", rng=3
        ).confidence_interval
        assert found.value == column.mean()
        assert (found.low, found.high) == pytest.approx(theirs, abs=0.006)
        assert found.n == 80


def test_means_are_those_of_every_resample_as_often_as_it_is_drawn():
    """All 27 resamples of three queries are equally likely."""
    values = np.array([0.0, 0.3, 1.0])
    want = sorted(np.mean(drawn) for drawn in itertools.product(values, repeat=3))
    found = np.sort(bootstrap_means(values[:, None], draws=27_000)[:, 0])
    np.testing.assert_allclose(found[500::1000], want, atol=1e-12)


def test_the_interval_holds_the_true_mean_about_as_often_as_it_says():
    rng = np.random.default_rng(1)
    samples = rng.beta(0.5, 1.0, (100, 400))  # 400 test sets of 100 queries, true mean 1/3
    low, high = interval(bootstrap_means(samples, draws=1000))
    assert 0.91 < np.mean((low < 1 / 3) & (high > 1 / 3)) < 0.98


def test_columns_are_resampled_together():
    values = random_values(50)
    values = np.hstack([values, values[:, :1] - values[:, 1:]])
    means = bootstrap_means(values, draws=300)
    np.testing.assert_allclose(means[:, 0] - means[:, 1], means[:, 2], atol=1e-12)


def test_the_seed_decides_and_the_chunks_are_all_filled(monkeypatch):
    values = random_values(30)
    found = bootstrap_means(values, draws=1000, seed=1)
    np.testing.assert_array_equal(found, bootstrap_means(values, draws=1000, seed=1))
    assert not np.array_equal(found, bootstrap_means(values, draws=1000, seed=2))
    monkeypatch.setattr(bootstrap, "_CELLS", 30 * 7)  # chunks of seven draws
    pieces = bootstrap_means(values, draws=1000, seed=1)
    for means in (found, pieces):
        assert means.shape == (1000, 2)
        assert np.abs(means.mean(axis=0) - values.mean(axis=0)).max() < 0.02
        assert means.std(axis=0) == pytest.approx(values.std(axis=0) / 30**0.5, rel=0.1)


def test_more_queries_than_sixteen_bits_hold():
    values = np.zeros((70_000, 1))
    values[69_000:] = 1
    means = bootstrap_means(values, draws=20)
    assert means.mean() == pytest.approx(1 / 70, rel=0.1)


def test_equal_values_have_an_interval_of_no_width():
    assert estimates(np.ones((5, 1))) == [Estimate(1.0, 1.0, 1.0, 5)]


def test_one_query_has_no_interval():
    assert estimates(np.array([[0.25]])) == [Estimate(0.25, None, None, 1)]
    assert Estimate(0.25, None, None, 1).to_json() == {
        "value": 0.25,
        "low": None,
        "high": None,
        "n": 1,
    }


def test_ten_thousand_draws_take_little_time_and_memory():
    values = np.random.default_rng(0).random((1000, 18))
    start = time.perf_counter()
    bootstrap_means(values)
    assert time.perf_counter() - start < 3  # 0.15 s on a quiet core
    tracemalloc.start()
    bootstrap_means(np.random.default_rng(0).random((20_000, 2)), draws=500)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64e6  # all counts at once would be 80 MB, and the draws as many


def test_bad_input_says_what_was_received():
    with pytest.raises(ValueError, match=r"finite matrix.* Received: shape=\(3,\)"):
        bootstrap_means(np.zeros(3))
    with pytest.raises(ValueError, match=r"Received: shape=\(0, 2\)"):
        bootstrap_means(np.zeros((0, 2)))
    with pytest.raises(ValueError, match="must be a finite matrix"):
        bootstrap_means(np.array([[np.nan]]))
    with pytest.raises(ValueError, match="`draws` must be at least 1. Received: draws=0"):
        bootstrap_means(np.zeros((3, 1)), draws=0)
    with pytest.raises(ValueError, match="`level` must be above 0 and below 1. Received: level=95"):
        interval(np.zeros((3, 1)), level=95)
