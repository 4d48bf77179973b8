"""Pins of data.training_pairs: fingerprints by text or id, positives, usable negatives (C02)."""

import time

import numpy as np
import pytest

from samtone_tf import config
from samtone_tf.data import training_pairs
from samtone_tf.data.fingerprints import fingerprint, normalise
from samtone_tf.data.records import RetrievalData
from samtone_tf.data.training_pairs import make_training_pairs


def data(queries, documents, qrels, negatives=None):
    return RetrievalData("made here", "train", queries, documents, qrels, negatives or {})


QUERIES = {"a": "who purrs", "b": "Who  PURRS", "c": "who barks"}
DOCUMENTS = {"x": "Cats.", "y": "Kittens.", "z": "Dogs.", "x2": "CATS."}
QRELS = {"a": {"x": 1, "y": 2}, "b": {"x2": 1}, "c": {"z": 1, "x": 0}}


def of(text):
    return fingerprint(normalise(text))


def test_c02_records_of_equal_text_share_a_fingerprint():
    table = make_training_pairs(data(QUERIES, DOCUMENTS, QRELS))
    assert [tuple(p) for p in table.pairs] == [("a", "x"), ("a", "y"), ("b", "x2"), ("c", "z")]
    purrs, barks = of("who purrs"), of("who barks")
    assert table.query_fingerprints.tolist() == [purrs, purrs, purrs, barks]
    cats, kittens, dogs = of("cats."), of("kittens."), of("dogs.")
    assert table.document_fingerprints.tolist() == [cats, kittens, cats, dogs]


def test_c02_positives_are_merged_over_queries_of_equal_text_own_first():
    cats, kittens, dogs = of("cats."), of("kittens."), of("dogs.")
    table = make_training_pairs(data(QUERIES, DOCUMENTS, QRELS))
    assert table.positive_fingerprints.tolist() == [
        [cats, kittens],
        [kittens, cats],
        [cats, kittens],  # b was judged with x2 only
        [dogs, -1],
    ]
    assert table.positives_overflow == 0


def test_without_text_only_ids_count():
    table = make_training_pairs(data(QUERIES, DOCUMENTS, QRELS), masks=("id", "positives"))
    assert len(set(table.query_fingerprints.tolist())) == 3
    assert len(set(table.document_fingerprints.tolist())) == 4
    assert table.positive_fingerprints[2].tolist() == [fingerprint("x2"), -1]


@pytest.mark.parametrize("masks", [(), ("id",), ("id", "text")])
def test_without_positives_only_the_own_document_is_listed(masks):
    table = make_training_pairs(data(QUERIES, DOCUMENTS, QRELS), masks=masks)
    assert table.positive_fingerprints.shape == (4, 1)
    assert table.positive_fingerprints[:, 0].tolist() == table.document_fingerprints.tolist()


def test_positives_are_capped_and_the_overflow_counted():
    documents = {f"d{i}": f"text {i}" for i in range(5)}
    many = data({"q": "a", "r": "b"}, documents, {"q": dict.fromkeys(documents, 1), "r": {"d0": 1}})
    table = make_training_pairs(many, max_positives=3)
    assert table.positive_fingerprints.shape == (6, 3)
    assert table.positives_overflow == 5
    assert table.positive_fingerprints[4].tolist() == [of("text 4"), of("text 0"), of("text 1")]
    assert make_training_pairs(many, max_positives=16).positive_fingerprints.shape == (6, 5)


@pytest.mark.parametrize("masks", [(), ("text", "positives"), ("positives",)])
@pytest.mark.parametrize("most", [1, 2, 3, 4, 9])
def test_positives_are_those_of_the_whole_list_cut_afterwards(masks, most):
    rng = np.random.default_rng(most)
    documents = {f"d{i}": f"text {i // 2}" for i in range(12)}  # every text twice
    queries = {f"q{i}": f"query {i // 2}" for i in range(6)}
    chosen = {q: rng.permutation(12)[: rng.integers(1, 6)] for q in queries}
    given = data(queries, documents, {q: {f"d{i}": 1 for i in ids} for q, ids in chosen.items()})
    table = make_training_pairs(given, masks, most)
    query_of, document_of = table.query_fingerprints.tolist(), table.document_fingerprints.tolist()
    rows, overflow = [], 0
    for query, own in zip(query_of, document_of, strict=True):
        listed = [own]
        for other_query, other in zip(query_of, document_of, strict=True):
            if "positives" in masks and other_query == query and other not in listed:
                listed.append(other)
        overflow += len(listed) > most
        rows.append(listed[:most])
    width = max(map(len, rows))
    want = [row + [-1] * (width - len(row)) for row in rows]
    assert table.positive_fingerprints.tolist() == want
    assert table.positives_overflow == overflow


def test_a_hundred_thousand_pairs_may_share_a_query():
    documents = {f"d{i}": f"text {i}" for i in range(100_000)}
    many = data({"q": "a"}, documents, {"q": dict.fromkeys(documents, 1)})
    started = time.process_time()
    table = make_training_pairs(many)
    assert time.process_time() - started < 20  # about 1 s; with every list whole, an hour
    assert table.positives_overflow == 100_000
    assert len(set(table.positive_fingerprints[-1].tolist())) == 16


def test_the_rules_are_those_of_the_configuration():
    assert training_pairs.MASKS is config.MASKS


def test_pairs_with_empty_texts_are_dropped_and_counted():
    odd = data(QUERIES | {"e": " "}, DOCUMENTS | {"n": ""}, QRELS | {"e": {"x": 1}, "c": {"n": 1}})
    table = make_training_pairs(odd)
    assert len(table.pairs) == 3
    assert table.notes == ("2 pairs with an empty text were dropped",)


def test_negatives_are_unique_present_and_no_known_positives():
    documents = DOCUMENTS | {"n1": "Birds.", "n2": "birds.", "n3": "Fish.", "e": ""}
    given = {"b": ("y", "n1", "n2", "x", "n3", "gone", "e"), "unjudged": ("x",)}
    table = make_training_pairs(data(QUERIES, documents, QRELS, given))
    # y is a positive of query a, whose text is the same as b's
    assert table.negatives == {"b": ("n1", "n3")}
    assert table.notes == (
        "2 hard negatives are empty or not in the corpus; left out",
        "2 hard negatives are known positives; left out",
    )
    assert table.fingerprint_of["n3"] == of("fish.")
    unmasked = make_training_pairs(data(QUERIES, documents, QRELS, given), masks=("id",))
    assert unmasked.negatives == {"b": ("y", "n1", "n2", "x", "n3")}


def test_wrong_arguments_say_what_was_received():
    with pytest.raises(ValueError, match=r"any of: id, text, positives\. Received: \('ids',\)"):
        make_training_pairs(data(QUERIES, DOCUMENTS, QRELS), masks=("ids",))
    with pytest.raises(ValueError, match="Received: 'id'"):
        make_training_pairs(data(QUERIES, DOCUMENTS, QRELS), masks="id")
    with pytest.raises(ValueError, match="Received: max_positives=0"):
        make_training_pairs(data(QUERIES, DOCUMENTS, QRELS), max_positives=0)
