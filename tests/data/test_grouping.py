"""Pins of data.grouping: what dictionaries would say, in the order of first appearance."""

import numpy as np
import pytest

from samtone_tf.data import grouping

NOTHING = np.zeros(0, np.int64)


def keys(seed, num=60):
    return np.random.default_rng(seed).integers(-5, 2**62, 8)[
        np.random.default_rng(seed + 100).integers(0, 8, num)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_numbers_count_keys_in_the_order_in_which_they_appear(seed):
    given = keys(seed)
    number_of, first = grouping.number(given)
    seen = {}
    for place, key in enumerate(given.tolist()):
        seen.setdefault(key, place)
    assert number_of.tolist() == [list(seen).index(key) for key in given.tolist()]
    assert first.tolist() == list(seen.values())


@pytest.mark.parametrize("seed", range(5))
def test_find_gives_the_first_place_or_minus_one(seed):
    given = keys(seed)
    wanted = np.concatenate([given[::-3], keys(seed + 50, 5), [-7]])
    places = [given.tolist().index(key) if key in given else -1 for key in wanted]
    assert grouping.find(wanted, given).tolist() == places
    assert -1 in places
    assert max(places) >= 0


@pytest.mark.parametrize("seed", range(5))
def test_gather_puts_groups_together_and_drops_repeats(seed):
    rng = np.random.default_rng(seed)
    groups, members = keys(seed), rng.integers(0, 6, 60)
    seen = {}
    for place, (group, member) in enumerate(zip(groups.tolist(), members.tolist(), strict=True)):
        seen.setdefault(group, {}).setdefault(member, place)
    want = [place for group in seen.values() for place in group.values()]
    assert grouping.gather(groups, members).tolist() == want
    assert len(want) < 60


def test_distinct_rows_and_their_places():
    rows, place = grouping.distinct(np.array([7, 2, 2, 5]), 9)
    assert rows.tolist() == [2, 5, 7]
    assert place[[2, 5, 7]].tolist() == [0, 1, 2]


@pytest.mark.parametrize("seed", range(5))
def test_different_keys_are_counted(seed):
    assert grouping.count_distinct(keys(seed)) == len(set(keys(seed).tolist()))


def test_nothing_is_nothing():
    assert [part.tolist() for part in grouping.number(NOTHING)] == [[], []]
    assert grouping.find(NOTHING, np.arange(3)).tolist() == []
    assert grouping.find(np.arange(2), NOTHING).tolist() == [-1, -1]
    assert grouping.gather(NOTHING, NOTHING).tolist() == []
    assert grouping.count_distinct(NOTHING) == 0
