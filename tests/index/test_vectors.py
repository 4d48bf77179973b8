"""Pins of index.vectors: storages against ml_dtypes and the formula, shards, mapped files."""

import ml_dtypes
import numpy as np
import pytest

from samtone_tf.index.vectors import StoredVectors, check_storage, decode, encode


def test_bfloat16_rounds_as_ml_dtypes_does(unit_rows):
    rows = unit_rows(200, 33) * np.float32(3.7)
    rows[0, :3] = 1 + 2.0**-8, 1 + 3 * 2.0**-8, -(1 + 2.0**-8)  # halfway: to even
    got = decode(*encode(rows, "bfloat16"))
    np.testing.assert_array_equal(got, rows.astype(ml_dtypes.bfloat16).astype(np.float32))


def test_int8_is_the_nearest_of_255_steps_a_row(unit_rows):
    rows = unit_rows(50, 40) * np.float32(2)
    rows[3] = 0
    rows[3, 5] = 1e-30  # as small as it may be, and still there
    part = encode(rows, "int8")
    assert part.codes.dtype == np.int8
    largest = np.abs(rows.astype(np.float64)).max(axis=1, keepdims=True)
    assert (np.abs(decode(*part) - rows) <= largest / 254 * 1.0001).all()
    np.testing.assert_array_equal(np.abs(part.codes.astype(int)).max(axis=1), 127)


@pytest.mark.parametrize("storage", ["float32", "bfloat16", "int8"])
def test_what_is_written_is_read(storage, tmp_path, unit_rows):
    rows = unit_rows(30, 7)
    vectors = StoredVectors.of(rows, "vectors").stored(storage)
    vectors.write(tmp_path)
    scales = tmp_path / "scales.npy" if storage == "int8" else None
    opened = StoredVectors.open(tmp_path / "vectors.npy", scales)
    assert (opened.storage, opened.shape) == (storage, (30, 7))
    np.testing.assert_array_equal(opened.array(), vectors.array())
    size = {"float32": 28, "bfloat16": 14, "int8": 7 + 4}[storage]
    assert opened.bytes_per_vector == vectors.bytes_per_vector == size


def test_shards_are_one_matrix(unit_rows, tmp_path):
    rows = unit_rows(20, 5)
    half = rows[3:11].astype(np.float16)
    np.save(tmp_path / "a.npy", rows[11:])
    shards = [rows[:3], half, np.load(tmp_path / "a.npy", mmap_mode="r")]
    want = np.concatenate([rows[:3], half.astype(np.float32), rows[11:]])
    vectors = StoredVectors.of(shards, "vectors")
    assert (len(vectors), vectors.shape, vectors.storage) == (20, (20, 5), "mixed")
    np.testing.assert_array_equal(vectors.array(), want)
    np.testing.assert_array_equal(vectors.rows(2, 12), want[2:12])
    np.testing.assert_array_equal(vectors.rows(18, 99), want[18:])
    at = np.array([19, 0, 3, 3, 10, 2])
    np.testing.assert_array_equal(vectors.take(at), want[at])
    np.testing.assert_allclose(vectors.squares(), (want.astype(float) ** 2).sum(axis=1), rtol=1e-6)
    vectors.write(tmp_path)
    np.testing.assert_array_equal(np.load(tmp_path / "vectors.npy"), want)


def test_int8_shards_keep_their_scales(unit_rows):
    first, second = unit_rows(6, 5), unit_rows(4, 5, seed=1) * np.float32(9)
    vectors = StoredVectors.of([first, second], "vectors").stored("int8")
    at = np.array([9, 0, 6, 5])
    np.testing.assert_allclose(vectors.take(at), np.concatenate([first, second])[at], atol=0.04)
    keep = np.arange(10) % 3 > 0
    np.testing.assert_array_equal(vectors.kept(keep).array(), vectors.array()[keep])
    np.testing.assert_array_equal(
        vectors.joined(vectors.kept(keep)).array(),
        np.concatenate([vectors.array(), vectors.array()[keep]]),
    )


def test_float32_is_neither_copied_nor_read(tmp_path, unit_rows):
    np.save(tmp_path / "a.npy", unit_rows(8, 4))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    vectors = StoredVectors.of(mapped, "vectors")
    assert np.shares_memory(vectors.rows(2, 5), mapped)
    assert np.shares_memory(vectors.array(), mapped)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ([np.ones((2, 3)), np.ones((2, 4))], ValueError, r"`docs` must have 3 col.*\(2, 4\)"),
        ([np.ones((2, 3)), np.ones((2, 3), int)], TypeError, "must hold floats.*int64"),
        ([np.ones((2, 3)), np.array([[1, np.nan, 1]])], ValueError, "finite.*row 2"),
        ([np.ones((2, 3)), np.zeros((1, 3))], ValueError, "not be zero.*row 2"),
        (np.ones(3), ValueError, r"`docs` must be a matrix.*shape=\(3,\)"),
    ],
)
def test_bad_vectors_say_what_was_received(value, error, message):
    with pytest.raises(error, match=message):
        StoredVectors.of(value, "docs")


def test_an_unknown_storage_is_named():
    with pytest.raises(ValueError, match="one of float32, bfloat16, int8. Received: .*'int4'"):
        check_storage("int4")


def test_a_file_of_something_else_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((2, 3), np.int64))
    with pytest.raises(ValueError, match="int64"):
        StoredVectors.open(tmp_path / "a.npy")
    np.save(tmp_path / "b.npy", np.ones((2, 3), np.int8))
    with pytest.raises(ValueError, match="scales"):
        StoredVectors.open(tmp_path / "b.npy")
