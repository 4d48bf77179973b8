"""Pins of data.hard_negatives: whose they are, every choice equally likely, cost by slots alone."""

import tracemalloc
from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from samtone_tf.data.hard_negatives import HardNegatives

GIVEN = [[7, 3, 9], [], [4], [11, 12, 13, 14, 15], []]


def make(rows_of_query):
    counts = np.array([len(rows) for rows in rows_of_query], dtype=np.int64)
    return HardNegatives(counts, np.array([row for rows in rows_of_query for row in rows], int))


def draw(queries, num, seed=0):
    return make(GIVEN).draw(np.array(queries), num, np.random.default_rng(seed))


@pytest.mark.parametrize("num", [1, 2, 3, 5, 8])
def test_a_draw_is_of_the_querys_own_without_repeats_and_empty_slots_last(num):
    queries = np.random.default_rng(num).integers(0, 5, 200)
    drawn = draw(queries, num)
    assert drawn.shape == (200, num)
    assert drawn.dtype == np.int64
    for query, row in zip(queries, drawn.tolist(), strict=True):
        filled = min(num, len(GIVEN[query]))
        assert row[filled:] == [-1] * (num - filled)
        assert len(set(row[:filled])) == filled
        assert set(row[:filled]) <= set(GIVEN[query])


@pytest.mark.parametrize("num", [1, 2, 4])
def test_every_choice_is_equally_likely(num):
    times = 20_000
    found = Counter(tuple(sorted(row)) for row in draw([3] * times, num).tolist())
    choices = list(combinations(GIVEN[3], num))
    assert set(found) == set(choices)
    expected = times / len(choices)
    assert all(abs(found[choice] - expected) < 5 * expected**0.5 for choice in choices)


def test_draws_follow_from_the_generator():
    assert draw([0, 3, 3], 2, seed=4).tolist() == draw([0, 3, 3], 2, seed=4).tolist()
    assert draw([3] * 50, 2, seed=4).tolist() != draw([3] * 50, 2, seed=5).tolist()


def test_counts_are_kept():
    assert make(GIVEN).counts.tolist() == [3, 0, 1, 5, 0]
    assert make([]).counts.tolist() == []


def test_renumbered_ones_are_the_same_negatives():
    place = np.arange(16) * 10
    few = make(GIVEN).renumbered(np.array([0, 1, 2, 3]), place)
    assert few.counts.tolist() == [3, 0, 1, 5]
    assert few.rows.tolist() == [70, 30, 90, 40, 110, 120, 130, 140, 150]
    without_the_second = make(GIVEN).renumbered(np.array([0, 2, 3]), place)
    one, other = (
        negatives.draw(np.array(queries), 2, np.random.default_rng(1))
        for negatives, queries in ((few, [0, 2, 3]), (without_the_second, [0, 1, 2]))
    )
    assert one.tolist() == other.tolist()


def test_one_long_list_costs_the_others_nothing():
    given = [[0]] * 20_000 + [list(range(50_000))]
    tracemalloc.start()
    try:
        negatives = make(given)
        drawn = negatives.draw(np.arange(20_001), 3, np.random.default_rng(0))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2e7  # a table as wide as the longest list has 1e9 cells
    assert len(set(drawn[-1].tolist())) == 3
    assert (drawn[:-1] == [0, -1, -1]).all()
