"""Pins of evaluation.significance: SciPy's p values, enumeration by hand, Holm by hand."""

import itertools
import math

import numpy as np
import pytest

from samtone_tf.evaluation import significance
from samtone_tf.evaluation.significance import holm, randomisation_test, t_test

stats = pytest.importorskip("scipy.stats")


def random_differences(num, seed, shift=0.05):
    """Differences of a fine measure, and of one that is 0 for most queries."""
    rng = np.random.default_rng(seed)
    fine = rng.normal(shift, 0.2, num)
    coarse = rng.choice([-1.0, 0, 0, 0, 1], num)
    return np.stack([fine, coarse], axis=1)


def flips_by_hand(differences):
    """The share of all sign patterns whose sum is as far from 0."""
    sums = [
        abs(math.fsum(s * d for s, d in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    return sum(total >= abs(math.fsum(differences)) - 1e-12 for total in sums) / len(sums)


@pytest.mark.parametrize("num", [1, 2, 3, 7, 11])
def test_few_queries_are_tested_exactly(num):
    differences = random_differences(num, seed=num)
    want = [flips_by_hand(column) for column in differences.T]
    assert randomisation_test(differences).tolist() == pytest.approx(want, abs=1e-12)


def test_queries_without_a_difference_change_no_p_value():
    differences = random_differences(9, seed=3)
    more = np.concatenate([differences, np.zeros((50, 2))])
    np.testing.assert_array_equal(randomisation_test(more), randomisation_test(differences))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_many_queries_have_scipys_p_value(seed):
    differences = random_differences(60, seed, shift=0.04)
    found = randomisation_test(differences, seed=seed)
    for column, p in zip(differences.T, found, strict=True):
        theirs = stats.permutation_test(
            (column, np.zeros_like(column)),
            lambda x, y, axis: np.mean(x - y, axis=axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=20_000,
            rng=5,
        ).pvalue
        assert p == pytest.approx(theirs, abs=0.012)


def test_sampled_patterns_give_the_exact_p_value_nearly(monkeypatch):
    differences = random_differences(14, seed=4)
    exact = randomisation_test(differences)
    monkeypatch.setattr(significance, "EXACT_UP_TO", 0)
    sampled = randomisation_test(differences)
    np.testing.assert_allclose(sampled, exact, atol=0.006)
    assert not np.array_equal(sampled, exact)


def test_a_sampled_p_value_is_never_zero_and_follows_the_seed():
    differences = np.full((100, 1), 0.5)
    assert randomisation_test(differences, draws=999).tolist() == [1 / 1000]
    differences = random_differences(100, seed=1)
    np.testing.assert_array_equal(
        randomisation_test(differences, seed=3), randomisation_test(differences, seed=3)
    )
    assert not np.array_equal(
        randomisation_test(differences, seed=3), randomisation_test(differences, seed=4)
    )


def test_chance_alone_is_significant_as_often_as_it_should_be():
    rng = np.random.default_rng(0)
    differences = rng.normal(0, 1, (40, 600))  # 600 comparisons of equals
    for p in (randomisation_test(differences, draws=2000), t_test(differences)):
        assert 0.02 < np.mean(p < 0.05) < 0.08


@pytest.mark.parametrize("num", [2, 3, 10, 225, 3698])
def test_the_t_test_is_scipys(num):
    for shift in (0.0, 0.01, 0.3, 3.0):
        differences = random_differences(num, seed=num, shift=shift)
        if not differences[:, 1].any():
            differences[0, 1] = 1
        theirs = stats.ttest_1samp(differences, 0).pvalue
        np.testing.assert_allclose(t_test(differences), theirs, rtol=1e-9, atol=1e-300)


def test_t_of_no_difference_of_one_query_and_of_a_constant():
    assert t_test(np.zeros((5, 1))).tolist() == [1.0]
    assert np.isnan(t_test(np.ones((1, 1)))).tolist() == [True]
    assert t_test(np.ones((5, 1))).tolist() == [0.0]
    assert randomisation_test(np.zeros((50, 1))).tolist() == [1.0]
    assert randomisation_test(np.ones((1, 1))).tolist() == [1.0]


def test_holm_by_hand():
    # Sorted .01 .02 .03 .04, times 4 3 2 1: .04 .06 .06 .04, never falling: .04 .06 .06 .06.
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.4, 0.9]) == pytest.approx([0.8, 0.9])
    assert holm([0.7, 0.6]) == pytest.approx([1.0, 1.0])
    assert holm([0.05]) == [0.05]
    assert holm([]) == []


def test_holm_leaves_out_what_was_not_tested():
    found = holm([0.01, math.nan, 0.02])
    assert found[0] == pytest.approx(0.02)
    assert found[2] == pytest.approx(0.02)
    assert math.isnan(found[1])


def test_holm_keeps_the_order_of_equal_p_values():
    assert holm([0.01, 0.01, 0.5]) == pytest.approx([0.03, 0.03, 0.5])


@pytest.mark.parametrize("test", [randomisation_test, t_test])
def test_bad_input_says_what_was_received(test):
    with pytest.raises(ValueError, match=r"`differences` must be a finite.*shape=\(3,\)"):
        test(np.zeros(3))
    with pytest.raises(ValueError, match=r"shape=\(0, 1\)"):
        test(np.zeros((0, 1)))
    with pytest.raises(ValueError, match="must be a finite matrix"):
        test(np.array([[np.inf]]))
