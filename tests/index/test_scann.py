"""Pins of index.scann: equal to exact search where it must be, tree and codes, edges, imports."""

import importlib.util
import subprocess
import sys
import types

import numpy as np
import pytest

from samtone_tf.index import scann_library, store
from samtone_tf.index.conditions import Crowding
from samtone_tf.index.exact import ExactIndex
from samtone_tf.index.report import index_report
from samtone_tf.index.scann import ScannIndex
from samtone_tf.index.scann_settings import ScannSettings

needs_scann = pytest.mark.skipif(
    importlib.util.find_spec("scann") is None, reason="ScaNN has no wheel here"
)


@needs_scann
@pytest.mark.parametrize("num", [1, 10, 100, 5_000])
def test_c41_defaults_work_at_any_size(num, unit_rows, names):
    vectors, queries = unit_rows(num, 16), unit_rows(5, 16, seed=1)
    index = ScannIndex.build(vectors, names(num))
    assert index.settings.is_brute_force
    for k in (1, 10, num + 5):
        found = index.search(queries, k)
        want = ExactIndex.build(vectors, names(num)).search(queries, k)
        assert found.document_ids == want.document_ids
        np.testing.assert_allclose(found.scores, want.scores, atol=1e-6)
        assert found.scores[0].dtype == np.float32


@needs_scann
def test_c41_no_documents_is_one_clear_line():
    with pytest.raises(ValueError, match="0 documents"):
        ScannIndex.build(np.zeros((0, 4)), [])


@needs_scann
def test_c42_fewer_leaves_find_less(clustered_rows, names):
    vectors = clustered_rows(5_000, 16)
    queries, exact = clustered_rows(200, 16, seed=1), ExactIndex.build(vectors, names(5_000))
    recalls = []
    for searched in (70, 20, 1):
        settings = ScannSettings(num_leaves=70, num_leaves_to_search=searched)
        index = ScannIndex.build(vectors, names(5_000), settings=settings)
        recalls.append(index_report(index, exact, queries).recall_at_10)
    assert recalls[0] > 0.99
    assert recalls[0] >= recalls[1] > recalls[2] + 0.05
    assert recalls[2] < 0.9


@needs_scann
def test_c43_inner_product_of_unit_vectors_ranks_as_distance_does(unit_rows, names):
    vectors, queries = unit_rows(400, 16), unit_rows(6, 16, seed=1)
    pybind = scann_library.import_scann()
    distances = pybind.builder(vectors, 20, "squared_l2").score_brute_force().build()
    rows, smaller_is_better = distances.search_batched(queries)
    found = ScannIndex.build(vectors, names(400)).search(queries, 20)
    assert found.document_ids == [[f"d{row}" for row in best] for best in rows.tolist()]
    for scores, distance in zip(found.scores, smaller_is_better, strict=True):
        assert (np.diff(scores) <= 0).all()  # higher is better
        np.testing.assert_allclose(2 - 2 * scores, distance, atol=1e-5)


@needs_scann
def test_a_tree_that_finds_too_few_gives_shorter_rows(clustered_rows, names):
    vectors = clustered_rows(3_000, 16)
    settings = ScannSettings(num_leaves=54, num_leaves_to_search=1)
    found = ScannIndex.build(vectors, names(3_000), settings=settings).search(vectors[5:25], 3_000)
    for ids, scores in zip(found.document_ids, found.scores, strict=True):
        assert 1 <= len(ids) == len(scores) < 3_000
        assert len(set(ids)) == len(ids)
        assert np.isfinite(scores).all()
        assert ids.count("d0") <= 1  # ScaNN pads with row 0


@needs_scann
def test_deep_runs_are_good(clustered_rows, names):
    # Settings made for 10 results: at a depth of 1000 more leaves and candidates are needed.
    vectors, queries = clustered_rows(4_000, 16), clustered_rows(50, 16, seed=1)
    settings = ScannSettings(num_leaves=64, num_leaves_to_search=20, reorder=50)
    found = ScannIndex.build(vectors, names(4_000), settings=settings).search(queries, 1000)
    want = ExactIndex.build(vectors, names(4_000)).search(queries, 1000)
    shares = [
        len(set(a) & set(b)) / 1000
        for a, b in zip(found.document_ids, want.document_ids, strict=True)
    ]
    assert np.mean(shares) > 0.97


@needs_scann
def test_ties_go_by_id_descending():
    vectors = np.array([[1, 0], [1, 0], [0, 1], [1, 0]], np.float32)
    index = ScannIndex.build(vectors, ["d1", "d10", "d2", "d9"])
    assert index.search(np.array([[1.0, 0.0]]), 4).document_ids == [["d9", "d10", "d1", "d2"]]


@needs_scann
def test_any_float_layout_of_queries_is_the_same(unit_rows, names):
    index, queries = ScannIndex.build(unit_rows(50, 8), names(50)), unit_rows(12, 8, seed=1)
    want = index.search(queries, 5)
    for same in (queries.astype(np.float64), np.asfortranarray(queries)):
        assert index.search(same, 5).document_ids == want.document_ids
    every_other = index.search(queries[::2], 5)
    assert every_other.document_ids == want.document_ids[::2]


@needs_scann
def test_bad_input_never_reaches_scann(unit_rows, names):
    index = ScannIndex.build(unit_rows(20, 8), names(20))
    assert index.search(np.zeros((0, 8)), 3) == ([], [])
    with pytest.raises(ValueError, match="8 columns.*shape=\\(1, 4\\)"):
        index.search(np.ones((1, 4)), 3)
    with pytest.raises(ValueError, match="k=0"):
        index.search(np.ones((1, 8)), 0)
    with pytest.raises(ValueError, match="finite.*row 0"):
        index.search(np.full((1, 8), np.nan), 3)
    with pytest.raises(ValueError, match="unit length.*Divide each row"):
        ScannIndex.build(2 * unit_rows(20, 8), names(20))


def test_missing_scann_names_the_platform_and_the_way_out(monkeypatch):
    monkeypatch.delitem(sys.modules, "scann.scann_ops.py.scann_ops_pybind", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=f"{sys.platform}.*--search exact") as raised:
        scann_library.import_scann()
    assert isinstance(raised.value.__cause__, ModuleNotFoundError)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("system", "machine", "spec", "available"),
    [
        ("linux", "x86_64", object(), True),
        ("linux", "x86_64", None, False),
        ("linux", "aarch64", object(), False),
        ("darwin", "x86_64", object(), False),
        ("win32", "AMD64", object(), False),
    ],
)
def test_scann_is_available_where_it_is_installed_and_has_wheels(
    system, machine, spec, available, monkeypatch
):
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(scann_library.platform, "machine", lambda: machine)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    assert scann_library.scann_available() is available


def test_a_module_without_a_spec_is_no_scann(monkeypatch):
    monkeypatch.setitem(sys.modules, "scann", types.ModuleType("scann"))
    assert scann_library.scann_available() is False


@needs_scann
def test_searching_and_judging_import_no_tensorflow():
    code = (
        "import sys, numpy as np\n"
        "import samtone_tf.index.scann, samtone_tf.index.store, samtone_tf.evaluation.evaluate\n"
        "import samtone_tf.evaluation.bm25, samtone_tf.evaluation.measures\n"
        "samtone_tf.index.scann.ScannIndex.build(np.eye(3), ['a', 'b', 'c']).search(np.eye(3), 2)\n"
        "print(sorted({'tensorflow', 'keras', 'torch'} & set(sys.modules)), 'scann' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    # The stand-in package is gone again, so a later `import scann` is the real one.
    assert ran.stdout.strip() == "[] False", ran.stderr


LAYOUTS = {
    "brute force": {},
    "codes + reorder": {"num_leaves": 0, "reorder": 200},
    "tree + codes + reorder": {"num_leaves": 20, "num_leaves_to_search": 20, "reorder": 200},
    "tree": {"num_leaves": 20, "num_leaves_to_search": 20, "dims_per_block": 0},
}


@needs_scann
@pytest.mark.parametrize("storage", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_storage_loses_little_and_is_smaller(layout, storage, tmp_path, clustered_rows, names):
    vectors, queries = clustered_rows(2_000, 64), clustered_rows(50, 64, seed=1)
    given = LAYOUTS[layout]
    settings = ScannSettings(**given) if given else None
    if (layout, storage) == ("tree", "bfloat16"):
        with pytest.raises(ValueError, match="cannot save in bfloat16.*dims_per_block=0"):
            ScannIndex.build(vectors, names(2_000), settings=settings, storage=storage)
        return
    built = store.build_index(
        *("scann", vectors, names(2_000), tmp_path / "index"),
        **{"queries": queries, "settings": settings, "storage": storage},
    )
    assert (built.report.storage, built.index.storage) == (storage, storage)
    assert built.report.search == layout
    assert built.report.recall_at_10 > (0.97 if storage == "float32" else 0.93)
    stored = {"float32": 256, "bfloat16": 128, "int8": 64}[storage]
    codes = 0 if layout in ("brute force", "tree") else 16
    assert stored + codes <= built.report.bytes_per_vector < stored + 1.5 * codes + 60
    loaded = store.load_index(tmp_path / "index")
    assert loaded.storage == storage
    assert loaded.search(queries, 10).document_ids == built.index.search(queries, 10).document_ids
    # What it keeps is what was given, to the storage's precision.
    error = {"float32": 0, "bfloat16": 2.0**-9, "int8": 0.004}[storage]
    np.testing.assert_allclose(loaded.vectors.array(), vectors, atol=error)


@needs_scann
def test_codes_alone_have_nothing_to_store(unit_rows, names):
    settings = ScannSettings(reorder=0)
    with pytest.raises(ValueError, match="`storage` needs vectors.*storage='int8' with reorder=0"):
        ScannIndex.build(unit_rows(50, 8), names(50), settings=settings, storage="int8")
    index = ScannIndex.build(unit_rows(50, 8), names(50), settings=settings)
    assert index.vectors is None


@needs_scann
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("allow", [None, 30, 1_000])
@pytest.mark.parametrize("limit", [None, 2])
def test_conditions_equal_exact_search_where_all_is_read(
    layout, allow, limit, clustered_rows, names
):
    vectors, queries, ids = clustered_rows(2_000, 8), clustered_rows(5, 8, seed=1), names(2_000)
    given = LAYOUTS[layout]
    settings = ScannSettings(**given | ({"reorder": 2_000} if "reorder" in given else {}))
    index = ScannIndex.build(vectors, ids, settings=settings if given else None)
    conditions = {
        "allowed": allow and set(ids[:allow]),
        "crowding": limit and Crowding({name: int(name[1:]) % 4 for name in ids}, limit),
    }
    found = index.search(queries, 12, **conditions)
    want = ExactIndex.build(vectors, ids).search(queries, 12, **conditions)
    assert found.document_ids == want.document_ids
    assert {len(row) for row in found.document_ids} == {8 if limit else 12}


@needs_scann
def test_effort_is_changed_without_building_again(clustered_rows, names):
    vectors, queries = clustered_rows(2_000, 16), clustered_rows(50, 16, seed=1)
    index = ScannIndex.build(vectors, names(2_000), settings=ScannSettings(num_leaves=40))
    exact = ExactIndex.build(vectors, names(2_000))
    recalls = [
        index_report(index.with_effort(leaves, 100), exact, queries).recall_at_10
        for leaves in (1, 40)
    ]
    assert recalls[0] < 0.9 < 0.99 < recalls[1]
    assert index.with_effort(None, None).settings == index.settings
    assert index.with_effort(3, 50).settings.reorder == 50
    with pytest.raises(ValueError, match="must not exceed num_leaves=40. Received: .*=41"):
        index.with_effort(41, None)
    with pytest.raises(ValueError, match="never to or from 0. Received: reorder=0, and 500"):
        index.with_effort(None, 0)


@needs_scann
def test_one_query_finds_what_many_find(clustered_rows, names):
    vectors, queries = clustered_rows(3_000, 16), clustered_rows(300, 16, seed=1)
    settings = ScannSettings(num_leaves=50, num_leaves_to_search=5, reorder=50)
    index = ScannIndex.build(vectors, names(3_000), settings=settings)
    many = index.search(queries, 10)
    assert index.search(queries, 10).document_ids == many.document_ids
    alone = [index.search(query[None], 10).document_ids[0] for query in queries]
    # ScaNN rounds a little differently in batches where only some leaves are read.
    shares = [len(set(a) & set(b)) / 10 for a, b in zip(alone, many.document_ids, strict=True)]
    assert np.mean(shares) > 0.98
    whole = index.with_effort(50, 3_000)
    for row in (0, 7, 299):
        one, both = whole.search(queries[row : row + 1], 10), whole.search(queries, 10)
        assert one.document_ids[0] == both.document_ids[row]
        np.testing.assert_array_equal(one.scores[0], both.scores[row])


@needs_scann
@pytest.mark.parametrize("storage", ["float32", "int8"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_adding_and_deleting_equal_exact_search(layout, storage, tmp_path, clustered_rows, names):
    # All leaves are read and all candidates scored again, so only the storage can lose.
    vectors, queries, ids = clustered_rows(1_200, 16), clustered_rows(20, 16, seed=1), names(1_200)
    given = LAYOUTS[layout] and LAYOUTS[layout] | {"reorder": 1_200}
    if layout == "tree":
        given = LAYOUTS[layout]
    index = ScannIndex.build(
        vectors[:800],
        ids[:800],
        settings=ScannSettings(**given) if given else None,
        model="m",
        storage=storage,
    )
    exact = ExactIndex.build(vectors[:800], ids[:800], model="m")
    gone = ["d1199", "d0", "d799", "d800", "d5", *ids[300:340], "d5"]
    for step in range(2):
        for one in (index, exact):
            if step == 0:
                one.add(vectors[800:], ids[800:], model="m")
            else:
                one.delete(gone)
        assert sorted(index.document_ids) == sorted(exact.document_ids)
        found, want = index.search(queries, 10), exact.search(queries, 10)
        if storage == "float32":
            assert found.document_ids == want.document_ids
        shares = [
            len(set(a) & set(b)) for a, b in zip(found.document_ids, want.document_ids, strict=True)
        ]
        assert np.mean(shares) > 9.3
        for query, row, scores in zip(queries, found.document_ids, found.scores, strict=True):
            np.testing.assert_allclose(scores, exact.score(query, row), atol=0.02)
    index.save(tmp_path / "index")
    loaded = store.load_index(tmp_path / "index")
    assert loaded.search(queries, 10).document_ids == found.document_ids
    assert loaded.num_documents == 1_200 - len(set(gone))
    few = loaded.document_ids[:20]  # compared one by one, with vectors in their new order
    by_one = loaded.search(queries, 20, allowed=few)
    for query, row, scores in zip(queries, by_one.document_ids, by_one.scores, strict=True):
        assert sorted(row) == sorted(few)
        np.testing.assert_allclose(scores, exact.score(query, row), atol=0.02)


@needs_scann
def test_bad_additions_and_deletions_are_refused(unit_rows, names):
    index = ScannIndex.build(unit_rows(30, 4), names(30), model="aaa")
    for call, message in (
        (lambda: index.add(unit_rows(1, 4), ["d2"]), "new to the index. Received: 'd2'"),
        (lambda: index.add(unit_rows(1, 5), ["d77"]), "4 columns"),
        (lambda: index.add(3 * unit_rows(1, 4), ["d77"]), "unit length"),
        (lambda: index.add(unit_rows(1, 4), ["d77"], model="bbb"), "fingerprint bbb.*has aaa"),
        (lambda: index.delete(["d99"]), "in the index. Received: 'd99'"),
        (lambda: index.delete(names(30)), "leave a document.*all 30"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    assert index.document_ids == names(30)
    assert index.search(unit_rows(1, 4), 40).document_ids[0].count("d2") == 1
