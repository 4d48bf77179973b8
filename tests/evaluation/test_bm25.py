"""Pins of evaluation.bm25: Lucene's formula, ties, no hits without a word."""

import math
import sys

import pytest

pytest.importorskip("bm25s")

from samtone_tf.evaluation import bm25
from samtone_tf.evaluation.bm25 import bm25_name, bm25_run

DOCUMENTS = {
    "d1": "zebra zebra mountain",
    "d2": "zebra river",
    "d3": "The mountain",
    "d4": "",
    "d5": "lake",
}


def lucene(frequency, length, num_with, num=5, mean=(3 + 2 + 1 + 0 + 1) / 5):
    """One word's share; Lucene leaves out the constant factor k1 + 1."""
    idf = math.log(1 + (num - num_with + 0.5) / (num_with + 0.5))
    return idf * frequency / (frequency + 1.2 * (1 - 0.75 + 0.75 * length / mean))


def test_scores_are_lucenes():
    run = bm25_run(DOCUMENTS, {"q": "the zebra of the mountain"})
    want = {
        "d1": lucene(2, 3, 2) + lucene(1, 3, 2),
        "d2": lucene(1, 2, 2),
        "d3": lucene(1, 1, 2),
    }
    assert run["q"] == pytest.approx(want, rel=1e-5)
    assert list(run["q"]) == sorted(want, key=want.get, reverse=True)


def test_depth_larger_than_the_corpus_and_small_depth():
    assert len(bm25_run(DOCUMENTS, {"q": "zebra"}, depth=1000)["q"]) == 2
    assert list(bm25_run(DOCUMENTS, {"q": "zebra"}, depth=1)["q"]) == ["d1"]


def test_documents_without_a_word_of_the_query_are_no_hits():
    run = bm25_run(DOCUMENTS, {"unknown": "xylophone", "stop": "the of", "empty": "", "q": "lake"})
    assert {query_id: list(hits) for query_id, hits in run.items()} == {
        "unknown": [],
        "stop": [],
        "empty": [],
        "q": ["d5"],
    }


def test_ties_go_by_id_descending():
    documents = {f"d{i}": "same words" for i in (1, 10, 9)}
    assert list(bm25_run(documents, {"q": "words"}, depth=2)["q"]) == ["d9", "d10"]


def test_excluded_documents_are_made_up_for():
    run = bm25_run(DOCUMENTS, {"q": "zebra"}, depth=1, exclude={"q": {"d1"}})
    assert list(run["q"]) == ["d2"]


def test_a_corpus_without_words_gives_no_hits():
    assert bm25_run({"d1": "", "d2": "the"}, {"q": "zebra"}) == {"q": {}}
    assert bm25_run({}, {"q": "zebra"}) == {"q": {}}


def test_it_is_quiet(capfd):
    bm25_run(DOCUMENTS, {"q": "zebra"})
    assert capfd.readouterr() == ("", "")


def test_the_name_says_whether_words_were_stemmed(monkeypatch):
    monkeypatch.setattr(bm25, "_has_stemmer", lambda: False)
    assert bm25_name() == "BM25 (Lucene, k1=1.2, b=0.75, English stop words, no stemmer)"
    monkeypatch.setattr(bm25, "_has_stemmer", lambda: True)
    assert "Snowball stemmer" in bm25_name()


def test_a_missing_library_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(ImportError, match=r"pip install \"samtone-tf\[mining\]\""):
        bm25_run(DOCUMENTS, {"q": "zebra"})
