"""Pins of data.columns: in memory and in a folder the same comes back, at any size."""

import numpy as np
import pytest

from samtone_tf.data import columns
from samtone_tf.data.columns import Joined, Numbers, Strings, Texts, load_texts, take

TEXTS = ["one", "", "zwei äöü", "\ud800 half a pair", "a\0b", "😀" * 50]


@pytest.fixture(params=[None, "folder"])
def folder(request, tmp_path, monkeypatch):
    monkeypatch.setattr(columns, "_FLUSH", 40)  # bytes: several writes
    monkeypatch.setattr(columns, "_CHUNK", 2)
    return request.param and tmp_path


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint16, np.bool_])
def test_numbers_come_back(folder, dtype):
    want = (np.arange(101) * 7 % 11).astype(dtype)
    column = Numbers(folder, "numbers", dtype)
    for value in want[:50].tolist():
        column.append(value)
    column.extend(want[50:])
    got = column.finish()
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, want)
    if folder:
        np.testing.assert_array_equal(np.load(folder / "numbers.npy"), want)


def test_no_number_is_an_empty_column(folder):
    got = Numbers(folder, "numbers").finish()
    assert got.shape == (0,)
    assert got.dtype == np.int64


def test_texts_come_back(folder):
    column = Texts(folder, "texts")
    for text in TEXTS:
        column.append(text)
    got = column.finish()
    assert list(got) == TEXTS
    assert [got[row] for row in (5, 0, 3)] == [TEXTS[row] for row in (5, 0, 3)]
    assert len(got) == len(TEXTS)
    assert list(take(got, np.array([2, 2, 1]))) == [TEXTS[2], TEXTS[2], ""]
    assert list(take(take(got, np.array([5, 3, 1])), np.array([2, 1]))) == ["", TEXTS[3]]
    if folder:
        assert isinstance(got.data.base, np.memmap)
        assert list(load_texts(folder, "texts")) == TEXTS


def test_no_text_is_an_empty_column(folder):
    assert list(Texts(folder, "texts").finish()) == []


def test_texts_in_a_folder_are_not_in_memory(tmp_path):
    column = Texts(tmp_path, "texts")
    column.append("a")
    assert isinstance(column.finish(), Strings)


def test_joined_texts_are_one_sequence():
    joined = Joined(["a", "b"], ["c"])
    assert list(joined) == [joined[row] for row in range(len(joined))] == ["a", "b", "c"]
