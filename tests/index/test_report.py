"""Pins of index.report: recall with ties, sampling, and what the report says."""

import numpy as np
import pytest

from samtone_tf.index.base import SearchResult
from samtone_tf.index.exact import ExactIndex
from samtone_tf.index.report import IndexReport, index_report, recall


def test_recall_counts_what_was_found():
    # Scores with the query are 1, 0.8, 0.6, 0: the best two are a and b.
    vectors = np.array([[1, 0], [0.8, 0.6], [0.6, 0.8], [0, 1]], np.float32)
    exact, query = ExactIndex.build(vectors, list("abcd")), vectors[:1]
    for ids, want in [("ab", 1.0), ("ba", 1.0), ("ac", 0.5), ("cd", 0.0), ("a", 0.5), ("acb", 0.5)]:
        found = SearchResult([list(ids)], [np.zeros(len(ids), np.float32)])
        assert recall(found, exact, query, 2) == want


def test_ties_at_the_border_are_no_loss():
    # b, c, d tie for the second place; exact search picks d, the index may pick another.
    vectors = np.array([[1, 0], [0, 1], [0, 1], [0, 1], [-1, 0]], np.float32)
    exact, query = ExactIndex.build(vectors, list("abcde")), vectors[:1]
    for second, want in [("b", 1.0), ("c", 1.0), ("d", 1.0), ("e", 0.5)]:
        found = SearchResult([["a", second]], [np.zeros(2, np.float32)])
        assert recall(found, exact, query, 2) == want


def test_few_documents_can_be_found_completely(unit_rows, names):
    exact = ExactIndex.build(unit_rows(4, 3), names(4))
    report = index_report(exact, exact, unit_rows(7, 3, seed=1), build_seconds=2.5)
    assert (report.recall_at_10, report.recall_at_100) == (1.0, 1.0)
    assert (report.num_queries, report.queries) == (7, "given")
    assert (report.num_documents, report.dim, report.build_seconds) == (4, 3, 2.5)
    assert report.ms_per_query > 0


def test_without_queries_documents_are_sampled_and_it_says_so(unit_rows, names):
    exact = ExactIndex.build(unit_rows(1_200, 3), names(1_200))
    for nothing in (None, np.zeros((0, 3))):
        report = index_report(exact, exact, nothing)
        assert report.num_queries == 1_000
        assert report.queries == "sampled from the corpus"


@pytest.mark.parametrize(
    ("kind", "search", "num", "said"),
    [
        ("exact", "exact", 30_000, "exact"),
        ("scann", "brute force", 19_999, "scann (brute force below 20,000 documents)"),
        # By settings of the caller's, not for being small.
        ("scann", "brute force", 20_000, "scann (brute force)"),
        ("scann", "tree + codes + reorder", 100_000, "scann (tree + codes + reorder)"),
    ],
)
def test_the_description_tells_approximate_from_exact(kind, search, num, said):
    report = IndexReport(kind, search, num, 8, 1.0, 1.0, 5, "given", 0.1)
    assert report.description == said
