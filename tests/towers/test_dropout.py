"""Pins of towers.dropout: what is dropped, how the rest is scaled, and which seeds draw alike."""

import zlib

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from samtone_tf.towers.dropout import dropout, fold

SEED = np.array([2**32 - 5, 7])


def seed(first=SEED[0], second=SEED[1]):
    return tf.constant([first, second], "int64")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_a_share_is_zero_and_the_rest_is_divided_by_what_is_kept(rate, dtype):
    inputs = ops.ones((100, 200), dtype)
    got = ops.convert_to_numpy(ops.cast(dropout(inputs, rate, seed(), "here"), "float32"))
    kept = got != 0
    assert abs(kept.mean() - (1 - rate)) < 5 * np.sqrt(rate * (1 - rate) / got.size)
    np.testing.assert_allclose(got[kept], 1 / (1 - rate), rtol=1e-6 if dtype == "float32" else 4e-3)


def test_without_a_seed_or_a_rate_nothing_happens():
    inputs = ops.ones((2, 3))
    assert dropout(inputs, 0.5, None, "here") is inputs
    assert dropout(inputs, 0.0, seed(), "here") is inputs


def test_masks_follow_from_seed_and_place():
    def mask(*numbers, place="here"):
        return dropout(ops.ones((40, 50)), 0.5, seed(*numbers), place).numpy() != 0

    first = mask()
    np.testing.assert_array_equal(mask(), first)
    others = [mask(3), mask(SEED[0], 8), mask(place="there")]
    for other in others:
        # Independent masks agree in half of the places.
        assert abs((other == first).mean() - 0.5) < 0.06


def test_fold_is_exclusive_or_with_the_places_checksum():
    assert fold(None, "inner") is None
    want = [int(SEED[0]) ^ zlib.crc32(b"inner"), 7]
    assert fold(seed(), "inner").numpy().tolist() == want
    assert fold(seed(), "inner").dtype == tf.int64
    unsigned = tf.constant(SEED, "uint32")  # JAX's seeds
    assert fold(unsigned, "inner").numpy().tolist() == want
