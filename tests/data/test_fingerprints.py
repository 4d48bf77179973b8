"""Pins of data.fingerprints: what counts as one text, and numbers that never change."""

import hashlib
from dataclasses import replace

import pytest

from samtone_tf.data.fingerprints import fingerprint, normalise, split_fingerprint
from samtone_tf.data.records import RetrievalData


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


SPLIT = RetrievalData(
    "made here",
    "test",
    {"p": "who purrs", "b": "who barks", "u": "unjudged"},
    {"c": "Cats.", "d": "Dogs.", "k": "Kittens."},
    {"p": {"c": 1, "k": 2}, "b": {"d": 1, "c": 0}},
)


def test_a_splits_fingerprint_is_frozen():
    # blake2b-6 of the sorted (query, document) texts, each after its size in 8 bytes: numbers
    # measured under different versions of the package are compared by it.
    texts = ["who barks", "Dogs.", "who purrs", "Cats.", "who purrs", "Kittens."]
    raw = b"".join(len(text).to_bytes(8, "big") + text.encode() for text in texts)
    assert split_fingerprint(SPLIT) == hashlib.blake2b(raw, digest_size=6).hexdigest()


@pytest.mark.parametrize(
    "change",
    [
        {"qrels": {"b": {"d": 1}, "p": {"k": 1, "c": 1}}},
        {"queries": dict(SPLIT.queries, u="other")},
        {"documents": {**SPLIT.documents, "e": "Eels."}},
        {"source": "other", "split": "other", "notes": ("a note",)},
    ],
    ids=["order and grades", "unjudged query", "unjudged document", "names"],
)
def test_a_splits_fingerprint_overlooks_what_makes_no_pair(change):
    assert split_fingerprint(replace(SPLIT, **change)) == split_fingerprint(SPLIT)


@pytest.mark.parametrize(
    "change",
    [
        {"qrels": {"p": {"c": 1}, "b": {"d": 1}}},
        {"qrels": {"p": {"c": 1, "k": 1}, "b": {"c": 1}}},
        {"queries": dict(SPLIT.queries, p="who purrs?")},
        {"documents": dict(SPLIT.documents, c="Cats!")},
        {
            "queries": dict(SPLIT.queries, b="who barksD"),
            "documents": dict(SPLIT.documents, d="ogs."),
        },
    ],
    ids=["one less", "another", "query", "document", "moved letter"],
)
def test_a_splits_fingerprint_knows_pairs_and_texts(change):
    assert split_fingerprint(replace(SPLIT, **change)) != split_fingerprint(SPLIT)
