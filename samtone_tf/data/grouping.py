"""What dictionaries do for records of a file, done for columns of int64 keys by sorting.

A dictionary of ten million keys takes a gigabyte; a column of them takes 80 MB.
"""

import numpy as np


def number(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number the different keys 0, 1, … in the order in which they first appear.

    Args:
        keys: int64 (n,).

    Returns:
        int64 (n,), the number of each key; and int64 (u,), the place where each of the u
        numbers first appears.
    """
    _, first, number_of = np.unique(keys, return_index=True, return_inverse=True)
    by_appearance = np.argsort(first)
    rank = np.empty(len(first), np.int64)
    rank[by_appearance] = np.arange(len(first))
    return rank[number_of], first[by_appearance]


def distinct(rows: np.ndarray, num: int) -> tuple[np.ndarray, np.ndarray]:
    """Renumber rows out of `num` without the rows that are not there.

    Args:
        rows: int64 (n,), from 0 to `num` - 1.
        num: how many there could be.

    Returns:
        int64 (u,), the different rows in rising order; and int64 (num,), the place of each
        row among them.
    """
    is_there = np.zeros(num, bool)
    is_there[rows] = True
    return np.flatnonzero(is_there), np.cumsum(is_there) - 1


def count_distinct(keys: np.ndarray) -> int:
    """Return how many different keys there are."""
    # np.unique hashes integers, and takes minutes for ten million that follow one another.
    return int((np.diff(np.sort(keys)) != 0).sum()) + bool(len(keys))


def find(wanted: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Return the first place of each wanted key among `keys`, -1 where it is absent.

    Args:
        wanted: int64 (m,).
        keys: int64 (n,); may hold a key more than once.
    """
    if not len(keys):
        return np.full(len(wanted), -1, np.int64)
    order = np.argsort(keys, kind="stable")
    place = np.searchsorted(keys, wanted, sorter=order)
    place = order[np.minimum(place, len(keys) - 1)]
    return np.where(keys[place] == wanted, place, -1)


def gather(groups: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Return the first place of every different (group, member), groups one after another.

    Groups are in the order in which they first appear, and so are the members of each.

    Args:
        groups: int64 (n,).
        members: int64 (n,), small numbers, not below 0.
    """
    turn, _ = number(groups)
    _, first = number(turn * (members.max(initial=0) + 1) + members)
    return first[np.argsort(turn[first], kind="stable")]
