"""Pins of unit_norm: length 1 in float32, and a zero row that stays zero with gradient zero."""

import numpy as np
import pytest
import tensorflow as tf

from samtone_tf.unit_norm import unit_norm
from tests import checks


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_rows_get_length_1_in_float32(dtype):
    # In float16 the square of 300 is inf.
    rows = tf.constant([[300.0, 400.0], [0.003, -0.004], [1, 0]], dtype)
    got = unit_norm(rows)
    assert got.dtype == tf.float32
    np.testing.assert_allclose(got, [[0.6, 0.8], [0.6, -0.8], [1, 0]], atol=5e-3)
    np.testing.assert_allclose(np.linalg.norm(got, axis=1), np.ones(3), atol=1e-6)


def test_any_number_of_axes():
    rows = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    want = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    np.testing.assert_allclose(unit_norm(rows), want, rtol=1e-6)


@pytest.mark.parametrize("size", [1e-12, 1e-6, 1.0, 1e6, 1e15], ids="{:g}".format)
def test_rows_of_any_size_have_length_1(size):
    rows = (size * np.array([[3, 4]])).astype("float32")
    np.testing.assert_allclose(unit_norm(rows), [[0.6, 0.8]], rtol=1e-5)


def test_c06_a_zero_row_stays_zero_and_has_gradient_zero():
    rows = tf.constant([[0.0, 0.0, 0.0], [3.0, 0.0, 4.0]])
    with tf.GradientTape() as tape:
        tape.watch(rows)
        units = unit_norm(rows)
        value = tf.reduce_sum(units * tf.constant([[1.0, 2.0, 3.0]]))
    np.testing.assert_allclose(units, [[0, 0, 0], [0.6, 0, 0.8]], atol=1e-7)
    # (w - u (u.w)) / |v| with w = (1, 2, 3), u.w = 3, |v| = 5: (-0.16, 0.4, 0.12).
    gradient = tape.gradient(value, rows)
    checks.assert_near(gradient, [[0, 0, 0], [-0.16, 0.4, 0.12]], 1e-6)


@pytest.mark.parametrize("size", [0.0, 1e-30, 1e-16, 1e-15, 1e-10], ids="{:g}".format)
def test_gradient_is_finite_near_zero(size):
    rows = tf.constant([[size, 0.0]])
    with tf.GradientTape() as tape:
        tape.watch(rows)
        value = tf.reduce_sum(unit_norm(rows))
    assert np.isfinite(tape.gradient(value, rows)).all()
    assert np.isfinite(value)
