"""Pins of data.order: permutations by (seed, epoch); batches without equal texts."""

import numpy as np
import pytest

from samtone_tf.data.order import ApartOrder, Order


def epoch(order, number):
    first = number * order.steps_per_epoch
    return np.stack([order.batch(step) for step in range(first, first + order.steps_per_epoch)])


def random_keys(num, num_queries, num_documents, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, num_queries, num), rng.integers(0, num_documents, num)


def skewed_keys():
    rng = np.random.default_rng(1)
    return np.arange(3000), np.minimum(rng.zipf(1.4, 3000), 500)


CASES = {  # queries, documents, batch size, full batches that must be found at least
    "all differ": (np.arange(103), np.arange(103), 10, 10),
    "each document twice": (np.arange(60), np.arange(60) % 30, 8, 7),
    "each document in every batch": (np.arange(200), np.arange(200) % 10, 10, 20),
    "each query, too": (np.arange(64) // 8, np.arange(64) % 8, 8, 4),
    "one document for half of the pairs": (
        np.arange(100),
        np.where(np.arange(100) < 50, 0, np.arange(100)),
        10,
        5,  # 50 others and one of the half in each: 5 × 10 = 5 + 45
    ),
    "many of both": (*random_keys(2000, 200, 150), 16, 120),
    "skewed": (*skewed_keys(), 32, 30),
}


@pytest.mark.parametrize("name", CASES)
def test_no_batch_holds_an_equal_query_or_document(name):
    queries, documents, size, want = CASES[name]
    order = ApartOrder(queries, documents, size, seed=3)
    assert want <= order.steps_per_epoch <= len(queries) // size
    epochs = [epoch(order, number) for number in range(4)]
    for batches in epochs:
        assert batches.shape == (order.steps_per_epoch, size)
        assert len(np.unique(batches)) == batches.size  # every pair at most once
        for side in (queries, documents):
            assert all(len(set(row)) == size for row in side[batches].tolist())
    assert not np.array_equal(epochs[0], epochs[1])
    left_out = {frozenset(range(len(queries))) - {*batches.ravel()} for batches in epochs}
    assert len(left_out) > 1 or not any(left_out)


def test_a_frequent_text_is_in_every_batch_and_the_rest_is_drawn_anew():
    documents = np.where(np.arange(1000) < 600, 0, np.arange(1000))
    order = ApartOrder(np.arange(1000), documents, 20, seed=0)
    # S batches take S of the 600 and at most 400 others: 20 S ≤ S + 400.
    assert order.steps_per_epoch == 21
    frequent = [set(epoch(order, number)[epoch(order, number) < 600]) for number in range(2)]
    assert [len(chosen) for chosen in frequent] == [21, 21]
    assert frequent[0] != frequent[1]


@pytest.mark.parametrize("make", [ApartOrder, lambda q, d, size, seed: Order(len(q), size, seed)])
def test_a_batch_follows_from_seed_and_step_alone(make):
    keys = random_keys(500, 100, 80)
    order = make(*keys, 16, seed=5)
    want = [order.batch(step) for step in range(3 * order.steps_per_epoch)]
    again = make(*keys, 16, seed=5)
    for step in (len(want) - 1, 0, order.steps_per_epoch, 7):
        assert again.batch(step).tolist() == want[step].tolist()
    other = make(*keys, 16, seed=6)
    assert other.batch(0).tolist() != want[0].tolist()


def test_epochs_without_luck_use_the_first_ones_batches_again(monkeypatch):
    order = ApartOrder(np.arange(60), np.arange(60) % 30, 8, seed=0)
    monkeypatch.setattr(order, "_draw", lambda seed: np.zeros((0, 8), np.int64))
    one, other = epoch(order, 1), epoch(order, 2)
    assert {*map(tuple, one)} == {*map(tuple, other)} == {*map(tuple, epoch(order, 0))}
    assert one.tolist() != other.tolist()


@pytest.mark.parametrize("swap", [False, True])
def test_one_text_everywhere_is_refused(swap):
    keys = [np.arange(100), np.zeros(100, np.int64)][:: -1 if swap else 1]
    match = r"`no_duplicates` is set. Received: batch_size=2, (100|1) different queries and (100|1)"
    with pytest.raises(ValueError, match=match):
        ApartOrder(*keys, 2, seed=0)


def test_the_plain_order_is_numpys_permutation():
    order = Order(21, 4, seed=3)
    want = np.random.default_rng((3, 2)).permutation(21)
    assert epoch(order, 2).ravel().tolist() == want[:20].tolist()
