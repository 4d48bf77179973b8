"""Pins of data.token_cache: flat storage gives back what the tokenizer gave, padded."""

import numpy as np
import pytest

from samtone_tf.data.token_cache import TokenCache
from samtone_tf.data.tokenizer import Tokenizer

TEXTS = ["cat dog bird " * i for i in range(6)]  # the first is empty


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(["cat dog bird", "dog cat", "bird"], vocabulary_size=30)


def by_loops(tokenizer, texts, length):
    """The same arrays, one text at a time."""
    ids = np.zeros((len(texts), length), np.int32)
    mask = np.zeros((len(texts), length), bool)
    for row, text in enumerate(texts):
        if text is not None:
            tokens = tokenizer.encode([text], length)[0]
            ids[row, : len(tokens)], mask[row, : len(tokens)] = tokens, True
    return ids, mask


@pytest.mark.parametrize("length", [8, 5, 2])
def test_padded_rows_equal_the_tokenizers(tokenizer, length):
    cache = TokenCache.build(TEXTS, tokenizer, length)
    rows = [3, 0, 1, 3, 5]
    got = cache.padded(np.array(rows))
    ids, mask = by_loops(tokenizer, [TEXTS[row] for row in rows], length)
    np.testing.assert_array_equal(got["token_ids"], ids)
    np.testing.assert_array_equal(got["padding_mask"], mask)
    assert got["token_ids"].dtype == np.int32
    assert got["padding_mask"].dtype == bool


def test_rows_of_any_shape_and_absent_rows(tokenizer):
    cache = TokenCache.build(TEXTS, tokenizer, 8)
    got = cache.padded(np.array([[1, -1, 5], [-1, -1, 0]]))
    ids, mask = by_loops(tokenizer, [TEXTS[1], None, TEXTS[5], None, None, TEXTS[0]], 8)
    np.testing.assert_array_equal(got["token_ids"], ids.reshape(2, 3, 8))
    np.testing.assert_array_equal(got["padding_mask"], mask.reshape(2, 3, 8))
    assert not got["padding_mask"][0, 1].any()


def test_cut_texts_are_counted_and_exact_fits_are_not(tokenizer):
    sizes = [len(tokenizer.encode([text], 99)[0]) for text in TEXTS]
    length = sizes[2]
    cache = TokenCache.build(TEXTS, tokenizer, length)
    assert cache.truncated == sum(size > length for size in sizes) == 3
    assert len(cache) == 6


def test_chunks_do_not_show(tokenizer, monkeypatch):
    whole = TokenCache.build(TEXTS, tokenizer, 8)
    monkeypatch.setattr("samtone_tf.data.token_cache._CHUNK", 2)
    parts = TokenCache.build(TEXTS, tokenizer, 8)
    np.testing.assert_array_equal(parts.values, whole.values)
    np.testing.assert_array_equal(parts.offsets, whole.offsets)
    assert parts.truncated == whole.truncated > 0


def test_a_cache_in_a_folder_is_mapped_and_the_same(tokenizer, tmp_path):
    want = TokenCache.build(TEXTS, tokenizer, 8)
    TokenCache.build(TEXTS, tokenizer, 8, tmp_path)
    got = TokenCache.load(tmp_path)
    assert (got.length, got.truncated) == (want.length, want.truncated)
    np.testing.assert_array_equal(got.values, want.values)
    np.testing.assert_array_equal(got.offsets, want.offsets)
    assert isinstance(got.values.base, np.memmap)
    assert got.values.dtype == np.uint16
    rows = np.array([5, -1, 0])
    for name, part in want.padded(rows).items():
        np.testing.assert_array_equal(got.padded(rows)[name], part)


def test_ids_of_a_large_vocabulary_are_kept_whole():
    class Large:
        vocabulary_size = 2**16 + 1

        def tokenize(self, texts):
            return [[2**16] for _ in texts]

    got = TokenCache.build(["a"], Large(), 4)
    assert got.values.tolist() == [2**16, 1]


def test_no_texts_give_padding_only(tokenizer):
    got = TokenCache.build([], tokenizer, 4).padded(np.array([-1, -1]))
    assert got["token_ids"].tolist() == [[0] * 4] * 2
    assert got["token_ids"].dtype == np.int32
    assert not got["padding_mask"].any()


def test_wrong_rows_and_lengths_are_refused(tokenizer):
    cache = TokenCache.build(TEXTS, tokenizer, 8)
    with pytest.raises(ValueError, match="from -1 to 5. Received: rows from 0 to 6"):
        cache.padded(np.array([0, 6]))
    with pytest.raises(ValueError, match="Received: rows from -2"):
        cache.padded(np.array([-2]))
    with pytest.raises(ValueError, match="Received: length=1"):
        TokenCache.build(TEXTS, tokenizer, 1)
