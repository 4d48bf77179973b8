"""Pins of index.exact: naive NumPy, ties, independence of chunks, edges."""

import time

import numpy as np
import pytest

from samtone_tf.index.exact import ExactIndex


def naive(vectors, ids, queries, k):
    """Every score in float64, sorted as Python sorts."""
    found = []
    for query in queries.astype(np.float64):
        scores = vectors.astype(np.float64) @ query
        found.append([i for _, i in sorted(zip(scores, ids, strict=True), reverse=True)[:k]])
    return found


@pytest.mark.parametrize(("num", "k", "chunk_size"), [(1, 5, 8), (50, 7, 8), (300, 300, 64)])
def test_equals_naive_search(num, k, chunk_size, unit_rows, names):
    vectors, queries = unit_rows(num, 16), unit_rows(9, 16, seed=1)
    found = ExactIndex.build(vectors, names(num)).search(queries, k, chunk_size=chunk_size)
    assert found.document_ids == naive(vectors, names(num), queries, k)
    for query, ids, scores in zip(queries, found.document_ids, found.scores, strict=True):
        assert scores.dtype == np.float32
        rows = [int(document_id[1:]) for document_id in ids]
        np.testing.assert_allclose(scores, vectors[rows] @ query, atol=1e-6)


def test_ties_go_by_id_descending():
    # Three equal documents and a worse one; as text "d9" > "d10" > "d1".
    vectors = np.array([[1, 0], [1, 0], [0, 1], [1, 0]], np.float32)
    index = ExactIndex.build(vectors, ["d1", "d10", "d2", "d9"])
    found = index.search(np.array([[1.0, 0.0]]), 4)
    assert found.document_ids == [["d9", "d10", "d1", "d2"]]
    assert index.search(np.array([[1.0, 0.0]]), 2).document_ids == [["d9", "d10"]]


def test_equal_documents_tie_wherever_they_stand(unit_rows, names):
    # 500 rows, only 20 distinct: a matrix product rounds equal rows differently by position.
    vectors = np.tile(unit_rows(20, 37), (25, 1))
    index, queries = ExactIndex.build(vectors, names(500)), unit_rows(150, 37, seed=2)
    whole = index.search(queries, 60)
    for ids, scores in zip(whole.document_ids, whole.scores, strict=True):
        assert len(set(scores.tolist())) == 3  # 60 hits are 3 groups of 25, 25 and 10
        assert ids[:25] == sorted(ids[:25], reverse=True)
    for chunk_size in (1, 7, 64, 499):
        part = index.search(queries, 60, chunk_size=chunk_size)
        assert part.document_ids == whole.document_ids
        np.testing.assert_array_equal(part.scores, whole.scores)
    alone = index.search(queries[77:78], 60)
    assert alone.document_ids[0] == whole.document_ids[77]
    np.testing.assert_array_equal(alone.scores[0], whole.scores[77])


def test_any_length_is_taken():
    # Inner product, not cosine: the longer of two parallel documents wins.
    index = ExactIndex.build(np.array([[1.0, 0.0], [100.0, 0.0]]), ["short", "long"])
    found = index.search(np.array([[2.0, 0.0]]), 2)
    assert found.document_ids == [["long", "short"]]
    np.testing.assert_array_equal(found.scores[0], [200, 2])


def test_no_queries_give_no_rows(unit_rows, names):
    found = ExactIndex.build(unit_rows(3, 4), names(3)).search(np.zeros((0, 4)), 2)
    assert found == ([], [])


def test_bad_input_is_refused(unit_rows, names):
    index = ExactIndex.build(unit_rows(3, 4), names(3))
    with pytest.raises(ValueError, match="4 columns"):
        index.search(np.ones((1, 5)), 1)
    with pytest.raises(ValueError, match="k=0"):
        index.search(np.ones((1, 4)), 0)
    with pytest.raises(ValueError, match="chunk_size=0"):
        index.search(np.ones((1, 4)), 1, chunk_size=0)
    with pytest.raises(ValueError, match="at least one document"):
        ExactIndex.build(np.zeros((0, 4)), [])


def test_a_thousand_deep_search_is_quick(unit_rows, names):
    index, queries = ExactIndex.build(unit_rows(10_000, 64), names(10_000)), unit_rows(100, 64, 3)
    start = time.perf_counter()
    found = index.search(queries, 1000)
    assert time.perf_counter() - start < 5  # 0.1 s; sorting whole rows in Python takes far longer
    assert {len(ids) for ids in found.document_ids} == {1000}
