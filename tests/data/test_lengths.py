"""Pins of data.lengths: numbers against NumPy, bins, texts evenly spread."""

import numpy as np
import pytest

from samtone_tf.data.lengths import measure_lengths, spread, summarise
from tests import tiny


def test_numbers_are_those_of_numpy():
    lengths = np.array([1, 8, 9, 16, 17, 40, 300])
    found = summarise(lengths, 16, of=700)
    assert (found.counted, found.of, found.limit) == (7, 700, 16)
    assert found.mean == pytest.approx(sum(lengths.tolist()) / 7)
    assert (found.median, found.longest) == (16, 300)
    assert found.percentile_95 == pytest.approx(40 + 0.7 * 260)  # place 5.7 of 6
    assert found.share_cut == pytest.approx(3 / 7)
    assert found.share_cut_at_double == pytest.approx(2 / 7)
    assert found.share_of_tokens_cut == pytest.approx((1 + 24 + 284) / 391)
    assert found.histogram == (
        (1, 8, 2), (9, 16, 2), (17, 32, 1), (33, 64, 1), (65, 128, 0), (129, 256, 0), (257, 512, 1),
    )  # fmt: skip


def test_a_text_is_cut_when_training_would_cut_it():
    tokenizer = tiny.tokenizer()
    texts = [*tiny.data().documents.values(), ""]
    whole = [len(tokenizer.encode([text], 500)[0]) for text in texts]
    for limit in (5, max(whole) - 1, max(whole)):
        found = measure_lengths(texts, tokenizer, limit, 1000, "texts")
        assert found.longest == max(whole)
        assert found.share_cut == pytest.approx(np.mean([length > limit for length in whole]))


def test_rows_are_evenly_spread():
    assert spread(3, 5).tolist() == [0, 1, 2]
    assert spread(10, 5).tolist() == [0, 2, 4, 6, 8]
    rows = spread(10_000_019, 100_000)
    assert (len(set(rows.tolist())), rows[0]) == (100_000, 0)
    assert rows[-1] > 9_999_000
