"""Pins of data.length_batches: every text once, few shapes, little padding (C27)."""

import numpy as np
import pytest

from samtone_tf.data.length_batches import length_batches, row_batches, widths


@pytest.mark.parametrize("longest", [2, 15, 16, 17, 64, 200, 512, 2048])
def test_widths_rise_to_the_longest_by_a_quarter_at_most(longest):
    found = widths(longest)
    assert found[-1] == longest
    assert found == sorted(set(found))
    steps = np.diff([0, *found])
    assert (steps <= np.maximum(16, np.array(found) / 5 + 1e-9)).all()


def test_c27_widths_are_few():
    assert [len(widths(longest)) for longest in (64, 256, 512)] == [4, 12, 16]


@pytest.mark.parametrize("multiple", [1, 3])
@pytest.mark.parametrize("batch_tokens", [1, 100, 1000])
def test_every_text_is_in_one_batch_that_is_wide_enough(batch_tokens, multiple):
    sizes = np.random.default_rng(0).integers(1, 201, 500)
    batches = list(length_batches(sizes, 200, batch_tokens, multiple))
    assert sorted(np.concatenate([batch.rows for batch in batches])) == list(range(500))
    for batch in batches:
        assert batch.width in widths(200)
        assert batch.width - sizes[batch.rows].max() < max(16, batch.width / 5)
        assert batch.num_rows % multiple == 0
        assert len(batch.rows) <= batch.num_rows
        assert batch.num_rows * batch.width <= max(batch_tokens, multiple * batch.width)
        assert batch.padded_rows.tolist() == [
            *batch.rows,
            *[-1] * (batch.num_rows - len(batch.rows)),
        ]
    shapes = {(batch.num_rows, batch.width) for batch in batches}
    assert len(shapes) == len({width for _, width in shapes}) <= len(widths(200))
    assert all(len(batch.rows) == batch.num_rows for batch in batches[:-1])
    assert batches[0].rows[0] == sizes.argmax()


def test_no_text_makes_no_batch():
    assert list(length_batches(np.zeros(0, int), 64, 100)) == []


def test_a_batch_needs_a_token():
    with pytest.raises(ValueError, match="`batch_tokens` must be at least 1. Received: .*=0"):
        list(length_batches(np.array([3]), 64, 0))


def test_batches_of_equally_many_texts():
    sizes = np.array([3, 9, 1, 9, 4])
    found = [(b.rows.tolist(), b.num_rows, b.width) for b in row_batches(sizes, 2)]
    assert found == [([1, 3], 2, 9), ([4, 0], 2, 4), ([2], 1, 1)]
    assert list(row_batches(np.zeros(0, int), 2)) == []
    with pytest.raises(ValueError, match="`num_rows` must be at least 1. Received: num_rows=0"):
        list(row_batches(sizes, 0))
