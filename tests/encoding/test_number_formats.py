"""Pins of encoding.number_formats: what int8 and float16 keep, and how the loss is measured."""

import numpy as np
import pytest

from samtone_tf.encoding.number_formats import DTYPES, Loss, to_dtype, to_float32


def unit(num, dim, seed=0):
    vectors = np.random.default_rng(seed).normal(size=(num, dim))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype("float32")


def test_int8_is_the_rounded_row_and_comes_back_with_unit_length():
    vectors = unit(50, 64)
    stored, scales = to_dtype(vectors, "int8")
    assert (stored.dtype, scales.dtype, scales.shape) == (np.int8, np.float32, (50,))
    for row, numbers in zip(vectors.astype("float64"), stored, strict=True):
        assert numbers.tolist() == np.rint(row / np.abs(row).max() * 127).tolist()
    assert np.abs(stored).max(axis=1).tolist() == [127] * 50
    back = to_float32(stored, scales)
    assert back.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(back, axis=1), 1, atol=1e-6)
    # Half a step of 1/127 of the largest number, a little more for the scale.
    steps = np.abs(vectors).max(axis=1, keepdims=True) / 127
    assert (np.abs(back - vectors) < 0.6 * steps).all()


@pytest.mark.parametrize(("dtype", "bound"), [("float32", 0), ("float16", 2.0**-12)])
def test_floats_are_rounded_once(dtype, bound):
    vectors = unit(20, 8)
    stored, scales = to_dtype(vectors, dtype)
    assert (stored.dtype, scales) == (np.dtype(dtype), None)
    assert np.abs(to_float32(stored, scales) - vectors).max() <= bound


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_zeros_and_no_rows_stay_what_they_are(dtype):
    for vectors in (np.zeros((2, 3), "float32"), np.zeros((0, 3), "float32")):
        back = to_float32(*to_dtype(vectors, dtype))
        assert back.shape == vectors.shape
        assert not back.any()


def test_the_loss_is_that_of_the_formula_and_of_all_parts_together():
    vectors = unit(30, 16)
    back = to_float32(*to_dtype(vectors, "int8"))
    parts = [Loss.of(vectors[rows], back[rows]) for rows in (slice(0, 7), slice(7, 30))]
    found = sum(parts, Loss())
    exact, read = vectors.astype("float64"), back.astype("float64")
    cosines = [
        a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(exact, read, strict=True)
    ]
    assert found.num_rows == 30
    assert found.mean_cosine == pytest.approx(np.mean(cosines), abs=1e-12)
    assert found.min_cosine == pytest.approx(np.min(cosines), abs=1e-12)
    assert found.max_error == pytest.approx(np.abs(exact - read).max(), abs=1e-12)
    assert 0.99 < found.min_cosine < found.mean_cosine < 1 - 1e-6
    assert Loss() + Loss() == Loss()
