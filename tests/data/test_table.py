"""Pins of data.table: dictionaries → columns → dictionaries, in memory and from a folder."""

from dataclasses import replace

import numpy as np
import pytest

from samtone_tf.data.fingerprints import fingerprint, normalise
from samtone_tf.data.records import RetrievalData
from samtone_tf.data.table import as_data, as_table, load_table, save_table

DATA = RetrievalData(
    "made here",
    "dev",
    {"q1": "who purrs", "q2": " ", "q3": "WHO\u2028barks"},
    {"d1": "Cats.", "d2": "", "d3": "Dogs \ud800."},
    {"q3": {"d3": 1, "gone": 2, "d1": 0}, "q1": {"d1": 1, "gone": -1}},
    {"q1": ("d3", "d2"), "q2": ("d1",)},
    ("a note",),
)


def test_columns_hold_what_the_dictionaries_do():
    assert as_data(as_table(DATA)) == DATA
    assert as_table(as_table(DATA)).queries.ids == list(DATA.queries)


def test_judgements_of_unknown_queries_and_absent_negatives_have_no_row():
    more = replace(DATA, qrels={"q9": {"d1": 1}, **DATA.qrels}, negatives={"q1": ("d3", "gone")})
    table = as_table(more)
    assert as_data(table) == replace(DATA, negatives={"q1": ("d3",)})
    assert table.negative_documents.tolist() == [2, -1]
    assert as_table(replace(more, negatives={"q9": ("d1",)})).negative_queries.tolist() == []


def test_pairs_are_relevant_and_have_both_texts():
    table = as_table(DATA)
    queries, documents = list(DATA.queries), list(DATA.documents)
    pairs = [
        (queries[table.judged_queries[place]], documents[table.judged_documents[place]])
        for place in table.relevant()
    ]
    assert pairs == [tuple(pair) for pair in DATA.pairs()] == [("q3", "d3"), ("q1", "d1")]
    assert table.queries.is_empty.tolist() == [False, True, False]
    assert list(table.judged_texts()) == ["WHO\u2028barks", "who purrs"]


@pytest.mark.parametrize("where", ["memory", "folder"])
def test_fingerprints_are_of_ids_or_of_normalised_texts(where, tmp_path):
    table = as_table(DATA)
    if where == "folder":
        save_table(table, tmp_path)
        table = load_table(tmp_path, "hash")
    rows = np.array([2, 0, 2])
    by_id, by_text = (table.queries.fingerprints(rows, by_text).tolist() for by_text in (0, 1))
    assert by_id == [fingerprint(name) for name in ("q3", "q1", "q3")]
    assert by_text == [fingerprint(normalise(text)) for text in ("who barks", "who purrs") * 2][:3]


def test_a_table_in_a_folder_is_the_same_but_for_ids(tmp_path):
    want = as_table(DATA)
    save_table(want, tmp_path)
    got = load_table(tmp_path, "hash")
    assert got.queries.ids is got.documents.ids is None
    known = replace(
        got,
        queries=replace(got.queries, ids=want.queries.ids),
        documents=replace(got.documents, ids=want.documents.ids),
    )
    assert as_data(known) == DATA


def test_hashes_of_texts_know_texts_and_rows():
    table, rows = as_table(DATA), np.array([0, 2])
    assert table.hash_texts("queries", rows) == as_table(DATA).hash_texts("queries", rows)
    others = [
        (table, "queries", np.array([2, 0])),
        (table, "documents", rows),
        (as_table(replace(DATA, queries=dict(DATA.queries, q3="x"))), "queries", rows),
        (replace(table, content_hash="a"), "queries", rows),
        (replace(table, content_hash="b"), "queries", rows),
        (replace(table, content_hash="b"), "documents", rows),
        (replace(table, content_hash="b"), "queries", np.array([2, 0])),
    ]
    hashes = {one.hash_texts(side, of) for one, side, of in others}
    assert len({*hashes, table.hash_texts("queries", rows)}) == 8
    # Where the files' hash is known, texts need not be read; unjudged ones do not matter.
    unread = replace(table, queries=replace(table.queries, texts=None), content_hash="b")
    assert unread.hash_texts("queries", rows) in hashes
