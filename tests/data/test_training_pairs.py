"""Pins of data.training_pairs: fingerprints by text or id, positives, usable negatives (C02)."""

import time

import numpy as np
import pytest

from samtone_tf import config
from samtone_tf.data import training_pairs
from samtone_tf.data.fingerprints import fingerprint, normalise
from samtone_tf.data.records import RetrievalData
from samtone_tf.data.training_pairs import make_training_pairs
from tests.data import oracle


def data(queries, documents, qrels, negatives=None):
    return RetrievalData("made here", "train", queries, documents, qrels, negatives or {})


QUERIES = {"a": "who purrs", "b": "Who  PURRS", "c": "who barks"}
DOCUMENTS = {"x": "Cats.", "y": "Kittens.", "z": "Dogs.", "x2": "CATS."}
QRELS = {"a": {"x": 1, "y": 2}, "b": {"x2": 1}, "c": {"z": 1, "x": 0}}


def of(text):
    return fingerprint(normalise(text))


def positives(table):
    return table.positive_fingerprints(np.arange(len(table))).tolist()


def pair_ids(given, table):
    queries, documents = list(given.queries), list(given.documents)
    rows = zip(table.query_rows.tolist(), table.document_rows.tolist(), strict=True)
    return [(queries[query], documents[document]) for query, document in rows]


def negatives(given, table):
    """Query id → document ids, of queries that have any."""
    queries, documents = list(given.queries), list(given.documents)
    rows = iter(table.negatives.rows.tolist())
    return {
        query: tuple(documents[next(rows)] for _ in range(count))
        for query, count in zip(queries, table.negatives.counts.tolist(), strict=False)
        if count
    }


def test_c02_records_of_equal_text_share_a_fingerprint():
    given = data(QUERIES, DOCUMENTS, QRELS)
    table = make_training_pairs(given)
    assert pair_ids(given, table) == [("a", "x"), ("a", "y"), ("b", "x2"), ("c", "z")]
    purrs, barks = of("who purrs"), of("who barks")
    assert table.query_fingerprints.tolist() == [purrs, purrs, purrs, barks]
    cats, kittens, dogs = of("cats."), of("kittens."), of("dogs.")
    assert table.document_fingerprints.tolist() == [cats, kittens, cats, dogs]


def test_c02_positives_are_merged_over_queries_of_equal_text_own_first():
    cats, kittens, dogs = of("cats."), of("kittens."), of("dogs.")
    table = make_training_pairs(data(QUERIES, DOCUMENTS, QRELS))
    assert positives(table) == [
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
    assert positives(table)[2] == [fingerprint("x2"), -1]


@pytest.mark.parametrize("masks", [(), ("id",), ("id", "text")])
def test_without_positives_only_the_own_document_is_listed(masks):
    table = make_training_pairs(data(QUERIES, DOCUMENTS, QRELS), masks=masks)
    assert positives(table) == [[own] for own in table.document_fingerprints.tolist()]


def test_positives_are_capped_and_the_overflow_counted():
    documents = {f"d{i}": f"text {i}" for i in range(5)}
    many = data({"q": "a", "r": "b"}, documents, {"q": dict.fromkeys(documents, 1), "r": {"d0": 1}})
    table = make_training_pairs(many, max_positives=3)
    assert np.shape(positives(table)) == (6, 3)
    assert table.positives_overflow == 5
    assert positives(table)[4] == [of("text 4"), of("text 0"), of("text 1")]
    assert np.shape(positives(make_training_pairs(many, max_positives=16))) == (6, 5)


@pytest.mark.parametrize("seed", range(40))
def test_everything_is_what_dictionaries_say(seed):
    rng = np.random.default_rng(seed)
    masks = [(), ("id",), ("text",), ("positives",), ("text", "positives")][seed % 5]
    most = (1, 2, 3, 16)[seed % 4]
    # Some texts twice, some blank, some ids in judgements only.
    documents = {f"d{i}": f"text {rng.integers(8)}" if i % 7 else " " for i in range(14)}
    queries = {f"q{i}": f"QUERY  {rng.integers(4)}" if i % 6 else "" for i in range(9)}

    def some(names, count):
        return list(dict.fromkeys(rng.choice(names, rng.integers(0, count)).tolist()))

    any_document = [*documents, "gone"]
    qrels = {
        query: {document: int(rng.integers(0, 3)) for document in some(any_document, 7)}
        for query in rng.permutation([*queries, "unknown"]).tolist()
    }
    given_negatives = {query: tuple(some(any_document, 9)) for query in some([*queries], 8)}
    given = data(queries, documents, qrels, given_negatives)
    table, want = make_training_pairs(given, masks, most), oracle.training_pairs(given, masks, most)
    assert len(want.ids) > 1
    assert pair_ids(given, table) == want.ids
    assert table.query_fingerprints.tolist() == want.queries
    assert table.document_fingerprints.tolist() == want.documents
    assert positives(table) == want.positives
    assert table.positives_overflow == want.overflow
    assert negatives(given, table) == want.negatives
    assert list(table.notes) == want.notes


def test_a_hundred_thousand_pairs_may_share_a_query():
    documents = {f"d{i}": f"text {i}" for i in range(100_000)}
    many = data({"q": "a"}, documents, {"q": dict.fromkeys(documents, 1)})
    started = time.process_time()
    table = make_training_pairs(many)
    assert time.process_time() - started < 20  # about 1 s; with every list whole, an hour
    assert table.positives_overflow == 100_000
    assert len(set(positives(table)[-1])) == 16


def test_the_rules_are_those_of_the_configuration():
    assert training_pairs.MASKS is config.MASKS


def test_pairs_with_empty_texts_are_dropped_and_counted():
    odd = data(QUERIES | {"e": " "}, DOCUMENTS | {"n": ""}, QRELS | {"e": {"x": 1}, "c": {"n": 1}})
    table = make_training_pairs(odd)
    assert len(table) == 3
    assert table.notes == ("2 pairs with an empty text were dropped",)


def test_negatives_are_unique_present_and_no_known_positives():
    documents = DOCUMENTS | {"n1": "Birds.", "n2": "birds.", "n3": "Fish.", "e": ""}
    of_query = {"b": ("y", "n1", "n2", "x", "n3", "gone", "e"), "unjudged": ("x",)}
    given = data(QUERIES, documents, QRELS, of_query)
    table = make_training_pairs(given)
    # y is a positive of query a, whose text is the same as b's
    assert negatives(given, table) == {"b": ("n1", "n3")}
    assert table.notes == (
        "2 hard negatives are empty or not in the corpus; left out",
        "2 hard negatives are known positives; left out",
    )
    unmasked = make_training_pairs(given, masks=("id",))
    assert negatives(given, unmasked) == {"b": ("y", "n1", "n2", "x", "n3")}


def test_wrong_arguments_say_what_was_received():
    with pytest.raises(ValueError, match=r"any of: id, text, positives\. Received: \('ids',\)"):
        make_training_pairs(data(QUERIES, DOCUMENTS, QRELS), masks=("ids",))
    with pytest.raises(ValueError, match="Received: 'id'"):
        make_training_pairs(data(QUERIES, DOCUMENTS, QRELS), masks="id")
    with pytest.raises(ValueError, match="Received: max_positives=0"):
        make_training_pairs(data(QUERIES, DOCUMENTS, QRELS), max_positives=0)
