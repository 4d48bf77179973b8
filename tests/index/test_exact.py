"""Pins of index.exact: naive NumPy, ties, independence of chunks, edges."""

import time
import tracemalloc

import numpy as np
import pytest

from samtone_tf.index import store
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
    for memory in (0, 0.5, float("nan")):
        with pytest.raises(ValueError, match=f"`memory` must be at least 1.*memory={memory}"):
            index.search(np.ones((1, 4)), 1, memory=memory)
    with pytest.raises(TypeError, match="`memory` must be a number.*'1 GB'"):
        index.search(np.ones((1, 4)), 1, memory="1 GB")
    with pytest.raises(ValueError, match="one of float32, bfloat16, int8"):
        ExactIndex.build(np.ones((1, 4)), ["a"], storage="int4")
    with pytest.raises(ValueError, match="at least one document"):
        ExactIndex.build(np.zeros((0, 4)), [])


def test_a_thousand_deep_search_is_quick(unit_rows, names):
    index, queries = ExactIndex.build(unit_rows(10_000, 64), names(10_000)), unit_rows(100, 64, 3)
    start = time.perf_counter()
    found = index.search(queries, 1000)
    assert time.perf_counter() - start < 5  # 0.1 s; sorting whole rows in Python takes far longer
    assert {len(ids) for ids in found.document_ids} == {1000}


@pytest.mark.parametrize("k", [1, 10, 700])
def test_shards_and_mapped_files_and_any_memory_give_the_same(k, tmp_path, unit_rows, names):
    vectors, queries = unit_rows(600, 24), unit_rows(40, 24, seed=1)
    vectors[300:350] = vectors[:50]  # ties across shards
    np.save(tmp_path / "mapped.npy", vectors[:450])
    shards = [np.load(tmp_path / "mapped.npy", mmap_mode="r"), vectors[450:460], vectors[460:]]
    want = ExactIndex.build(vectors, names(600)).search(queries, k)
    assert want.document_ids == naive_with_ties(vectors, names(600), queries, k)
    index = ExactIndex.build(shards, names(600))
    for keywords in ({}, {"memory": 1}, {"chunk_size": 7}, {"memory": 1, "chunk_size": 599}):
        found = index.search(queries, k, **keywords)
        assert found.document_ids == want.document_ids
        for got, scores in zip(found.scores, want.scores, strict=True):
            np.testing.assert_array_equal(got, scores)


def naive_with_ties(vectors, ids, queries, k):
    """Equal rows tie exactly, whatever a matrix product makes of them."""
    _, first = np.unique(vectors, axis=0, return_inverse=True)
    found = []
    for query in queries.astype(np.float64):
        scores = np.array([row @ query for row in np.unique(vectors, axis=0).astype(np.float64)])
        pairs = zip(scores[first.ravel()].tolist(), ids, strict=True)
        found.append([name for _, name in sorted(pairs, reverse=True)[:k]])
    return found


def test_thousands_of_equal_documents_are_settled(unit_rows, names):
    # All candidates tie with the k-th: the pool must neither lose the right ones nor grow.
    vectors = np.repeat(unit_rows(2, 8), 6_000, axis=0)
    queries = unit_rows(3, 8, seed=1)
    found = ExactIndex.build(vectors, names(12_000)).search(queries, 20, chunk_size=1_000)
    assert found.document_ids == naive_with_ties(vectors, names(12_000), queries, 20)


def test_documents_in_order_of_their_score_are_found(names):
    # The worst order: every block is better than all before it.
    angles = np.linspace(1.5, 0.0, 5_000)
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    found = ExactIndex.build(vectors, names(5_000)).search(np.array([[1.0, 0]]), 5, chunk_size=100)
    assert found.document_ids == [["d4999", "d4998", "d4997", "d4996", "d4995"]]


def test_memory_is_bounded_by_the_setting(unit_rows, names):
    vectors, queries = unit_rows(20_000, 16), unit_rows(300, 16, seed=1)
    index = ExactIndex.build(vectors, names(20_000), storage="int8")
    peaks = []
    for memory in (2, 30):
        tracemalloc.start()
        index.search(queries, 10, memory=memory)
        peaks.append(tracemalloc.get_traced_memory()[1] / 1e6)
        tracemalloc.stop()
        # Beside it: the queries' candidates and the results, 500 × 10 ids and scores.
        assert peaks[-1] < memory + 3
    assert peaks[1] > peaks[0] + 5  # and it is used, where there is some


def naive_conditions(vectors, ids, queries, k, allowed=None, groups=None, limit=1):
    """Walk down the whole ranking and take what may be taken."""
    found = []
    for ranked in naive(vectors, ids, queries, len(ids)):
        taken, row = {}, []
        for name in ranked:
            group = (groups or {}).get(name)
            if (allowed is None or name in allowed) and (
                group is None or taken.get(group, 0) < limit
            ):
                taken[group] = taken.get(group, 0) + 1
                row.append(name)
        found.append(row[:k])
    return found


@pytest.mark.parametrize("storage", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("allow", [None, 3, 40, 400])
@pytest.mark.parametrize("limit", [None, 1, 3])
def test_conditions_equal_a_naive_walk(storage, allow, limit, unit_rows, names):
    from samtone_tf.index.conditions import Crowding

    vectors, queries, ids = unit_rows(500, 12), unit_rows(6, 12, seed=1), names(500)
    index = ExactIndex.build(vectors, ids, storage=storage)
    kept = index.vectors.array()  # what is stored is what is searched
    allowed = None if allow is None else set(ids[::7][:allow] + ids[:allow])
    groups = {name: int(name[1:]) % 8 for name in ids if int(name[1:]) % 10}
    crowding = None if limit is None else Crowding(groups, limit)
    found = index.search(queries, 25, allowed=allowed, crowding=crowding)
    want = naive_conditions(kept, ids, queries, 25, allowed, limit and groups, limit)
    assert found.document_ids == want
    for query, row, scores in zip(queries, found.document_ids, found.scores, strict=True):
        np.testing.assert_array_equal(index.score(query, row), scores)


def test_conditions_that_nothing_meets_give_empty_rows(unit_rows, names):
    index, queries = ExactIndex.build(unit_rows(9, 4), names(9)), unit_rows(2, 4, seed=1)
    for allowed in (set(), {"elsewhere"}):
        found = index.search(queries, 3, allowed=allowed)
        assert found.document_ids == [[], []]
        assert [scores.shape for scores in found.scores] == [(0,), (0,)]


def test_bad_conditions_say_what_was_received(unit_rows, names):
    from samtone_tf.index.conditions import Crowding

    index, query = ExactIndex.build(unit_rows(3, 4), names(3)), np.ones((1, 4))
    with pytest.raises(TypeError, match="`allowed` must be a collection of ids. Received: 'd1'"):
        index.search(query, 1, allowed="d1")
    with pytest.raises(TypeError, match="`crowding` must be a Crowding. Received: {'d1': 'x'}"):
        index.search(query, 1, crowding={"d1": "x"})
    with pytest.raises(ValueError, match="`limit` must be at least 1.*limit=0"):
        Crowding({}, 0)


@pytest.mark.parametrize("storage", [None, "int8"])
def test_adding_and_deleting_equal_building_anew(storage, unit_rows, names):
    vectors, queries = unit_rows(90, 12), unit_rows(6, 12, seed=1)
    ids = names(90)
    index = ExactIndex.build(vectors[:50], ids[:50], model="m", storage=storage)
    index.add(vectors[50:], ids[50:], model="m")
    gone = {"d0", "d49", "d50", "d89", "d17"}
    index.delete([*sorted(gone), "d17"])
    rows = [row for row in range(90) if ids[row] not in gone]
    want = ExactIndex.build(vectors[rows], [ids[row] for row in rows], storage=storage)
    found = index.search(queries, 85)
    assert (index.num_documents, index.storage) == (85, storage or "float32")
    assert found.document_ids == want.search(queries, 85).document_ids
    np.testing.assert_array_equal(found.scores, want.search(queries, 85).scores)
    assert index.rows["d88"] == index.document_ids.index("d88")


def test_bad_additions_and_deletions_are_refused(unit_rows, names):
    index = ExactIndex.build(unit_rows(3, 4), names(3), model="aaa")
    for call, message in (
        (lambda: index.add(unit_rows(1, 4), ["d2"]), "new to the index. Received: 'd2'"),
        (lambda: index.add(unit_rows(1, 5), ["d7"]), "4 columns"),
        (lambda: index.add(unit_rows(1, 4), ["d7"], model="bbb"), "fingerprint bbb.*has aaa"),
        (lambda: index.delete(["d9"]), "in the index. Received: 'd9'"),
        (lambda: index.delete(names(3)), "leave a document.*all 3"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="list of ids. Received: 'd1'"):
        index.delete("d1")
    assert index.document_ids == names(3)


def test_an_index_stays_on_disk(tmp_path, unit_rows, names):
    ExactIndex.build(unit_rows(50, 8), names(50)).save(tmp_path / "index")
    loaded = store.load_index(tmp_path / "index")
    assert isinstance(loaded.vectors.rows(0, 5).base.base, np.memmap)
    loaded.delete(["d3"])  # and can be changed and saved over itself all the same
    loaded.save(tmp_path / "index", overwrite=True)
    assert store.load_index(tmp_path / "index").num_documents == 49
