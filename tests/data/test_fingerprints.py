"""Pins of data.fingerprints: what counts as one text, and numbers that never change."""

import hashlib

import pytest

from samtone_tf.data.fingerprints import fingerprint, normalise


@pytest.mark.parametrize("other", ["HELLO  World", " hello\tworld\n", "ｈｅｌｌｏ world"])
def test_spellings_of_one_text_are_equal(other):
    assert normalise(other) == "hello world"


def test_casefold_goes_further_than_lower():
    assert normalise("STRASSE") == normalise("straße")


def test_different_texts_stay_different():
    assert normalise("hello worlds") != normalise("hello world")
    assert fingerprint("a") != fingerprint("b")


def test_fingerprint_is_the_first_63_bits_of_blake2b():
    # Frozen: a changed value would silently unmask pairs of older runs.
    bits = "".join(f"{byte:08b}" for byte in hashlib.blake2b(b"samtone", digest_size=8).digest())
    assert fingerprint("samtone") == int(bits[:63], 2)


def test_fingerprints_fit_int64_and_never_meet_padding():
    numbers = [fingerprint(str(i)) for i in range(2000)]
    assert min(numbers) >= 0
    assert max(numbers) < 2**63
    assert len(set(numbers)) == 2000


def test_half_a_surrogate_pair_has_a_fingerprint():
    assert fingerprint("\ud800") != fingerprint("?")
