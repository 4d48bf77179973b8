"""Pins of towers.pooling: value, rows without tokens, padding that holds NaN, float32 counts."""

import numpy as np
import pytest
import tensorflow as tf

from samtone_tf.towers.pooling import MaskedMeanPooling
from tests import checks


def test_value_is_the_mean_of_real_tokens():
    states = np.array([[[1, 2], [3, 4], [50, 60]], [[5, 6], [70, 80], [90, 9]]], "float32")
    mask = np.array([[True, True, False], [True, False, False]])
    np.testing.assert_array_equal(MaskedMeanPooling()(states, mask), [[2, 3], [5, 6]])


def test_padding_may_stand_anywhere():
    states = np.array([[[50], [1], [60], [4]]], "float32")
    mask = np.array([[False, True, False, True]])
    np.testing.assert_array_equal(MaskedMeanPooling()(states, mask), [[2.5]])


def test_c06_a_row_of_padding_is_zeros_with_finite_gradient():
    states = tf.constant(np.random.default_rng(0).normal(size=(2, 3, 2)), "float32")
    mask = np.array([[False, False, False], [True, True, False]])
    with tf.GradientTape() as tape:
        tape.watch(states)
        pooled = MaskedMeanPooling()(states, mask)
    np.testing.assert_array_equal(pooled[0], [0, 0])
    gradient = tape.gradient(pooled, states).numpy()
    np.testing.assert_array_equal(gradient[0], np.zeros((3, 2)))
    np.testing.assert_array_equal(gradient[1], [[0.5, 0.5], [0.5, 0.5], [0, 0]])


@pytest.mark.parametrize("bad", [np.nan, np.inf], ids=str)
def test_what_stands_at_a_padded_position_does_not_leak(bad):
    states = tf.constant([[[1.0], [3.0], [bad]]])
    with tf.GradientTape() as tape:
        tape.watch(states)
        pooled = MaskedMeanPooling()(states, np.array([[True, True, False]]))
    assert pooled.numpy().tolist() == [[2.0]]
    assert tape.gradient(pooled, states).numpy().ravel().tolist() == [0.5, 0.5, 0.0]


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_sum_and_count_are_float32(policy):
    # In bfloat16, 511 ones sum to 512.
    states = tf.ones((1, 600, 1), "bfloat16")
    mask = np.arange(600)[None] < 511
    pooled = MaskedMeanPooling(dtype=policy)(states, mask)
    assert pooled.dtype == tf.float32
    assert pooled.numpy().tolist() == [[1.0]]
    # 1 and 512 × 1/512: in bfloat16 the small ones are lost beside the 1.
    states = tf.concat([tf.ones((1, 1, 1), "bfloat16"), tf.ones((1, 512, 1), "bfloat16") / 512], 1)
    pooled = MaskedMeanPooling(dtype=policy)(states, np.ones((1, 513), bool))
    np.testing.assert_allclose(pooled, [[2 / 513]], rtol=1e-6)


def test_config_round_trip():
    assert checks.assert_config_round_trip(MaskedMeanPooling(name="mean")).name == "mean"
