"""Pins of index.base: what vectors, ids and k are refused, and what the message names."""

import numpy as np
import pytest

from samtone_tf.index import base


def test_any_float_matrix_becomes_contiguous_float32():
    columns = np.asfortranarray(np.arange(1, 7, dtype=np.float64).reshape(2, 3))
    checked = base.check_vectors(columns, "vectors")
    assert checked.dtype == np.float32
    assert checked.flags.c_contiguous
    np.testing.assert_array_equal(checked, [[1, 2, 3], [4, 5, 6]])


def test_no_rows_are_fine():
    assert base.check_vectors(np.zeros((0, 4), np.float32), "vectors", 4).shape == (0, 4)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (np.ones((2, 3), np.int64), TypeError, r"`queries` must hold floats.*dtype=int64"),
        (np.ones(3), ValueError, r"`queries` must be a matrix.*shape=\(3,\)"),
        (np.ones((2, 0)), ValueError, r"shape=\(2, 0\)"),
        (np.ones((2, 4)), ValueError, r"must have 3 columns.*shape=\(2, 4\)"),
        ([[1.0, 1, 1], [1, np.nan, 1], [1, np.inf, 1]], ValueError, r"finite.*2 bad rows.*row 1"),
        ([[1e300, 1, 1]], ValueError, r"finite.*row 0"),
        ([[1.0, 1, 1], [0, 0, 0]], ValueError, r"not be zero.*1 bad rows.*row 1"),
    ],
)
def test_bad_vectors_say_what_was_received(value, error, message):
    with pytest.raises(error, match=message) as raised:
        base.check_vectors(value, "queries", 3)
    assert "\n" not in str(raised.value)


def test_rows_off_unit_length_are_named():
    rows = np.array([[1, 0], [0, 1.0005], [0, 1.01], [3, 4]], np.float32)
    with pytest.raises(ValueError, match=r"unit length.*2 bad rows.*row 2.*Divide"):
        base.check_unit_length(base.row_squares(rows), "vectors")
    base.check_unit_length(base.row_squares(rows[:2]), "vectors")


@pytest.mark.parametrize(
    ("ids", "num", "error", "message"),
    [
        (["a"], 2, ValueError, "1 ids for 2 vectors"),
        ([], 0, ValueError, "at least one document"),
        (["a", 7], 2, TypeError, "7 of type int"),
        (["a", "b", "a"], 3, ValueError, "'a' at least twice"),
    ],
)
def test_bad_ids_say_what_was_received(ids, num, error, message):
    with pytest.raises(error, match=message):
        base.check_document_ids(ids, num)


@pytest.mark.parametrize(
    ("k", "error"), [(0, ValueError), (-1, ValueError), (1.0, TypeError), (True, TypeError)]
)
def test_bad_k(k, error):
    with pytest.raises(error, match=f"`k`.*Received: k={k}"):
        base.check_k(k)


def test_ids_rank_by_code_point():
    # "10" < "9" < "a" < "é" as bytes, too.
    assert base.id_ranks(["a", "9", "é", "10"]).tolist() == [2, 1, 3, 0]
