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
    # A share is one of 65,536, so that a rate is met to 1e-5 only.
    np.testing.assert_allclose(got[kept], 1 / (1 - rate), rtol=1e-5 if dtype == "float32" else 4e-3)


@pytest.mark.parametrize("shape", [(3, 5), (7,), (2, 3, 4)])
def test_odd_and_unknown_shapes_and_the_gradient_of_what_is_kept(shape):
    inputs = np.random.default_rng(0).normal(size=shape).astype("float32")
    run = tf.function(
        lambda x: dropout(x, 0.5, seed(), "here"),
        input_signature=[tf.TensorSpec([None] * len(shape), "float32")],
    )
    with tf.GradientTape() as tape:
        variable = tf.Variable(inputs)
        got = run(variable)
    np.testing.assert_array_equal(got, dropout(tf.constant(inputs), 0.5, seed(), "here"))
    kept = np.where(got.numpy() == 0, 0.0, 2.0)
    np.testing.assert_array_equal(got, inputs * kept)
    upstream = np.arange(inputs.size, dtype="float32").reshape(shape)
    np.testing.assert_array_equal(tape.gradient(got, variable, upstream), upstream * kept)


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
