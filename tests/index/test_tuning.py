"""Pins of index.tuning and tuning.tune_index: what is measured, chosen, written and kept."""

import importlib.util
import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from samtone_tf.index import frontier, store, tuning
from samtone_tf.index.exact import ExactIndex
from samtone_tf.index.frontier import Point
from samtone_tf.index.report import recall
from samtone_tf.index.scann import ScannIndex
from samtone_tf.index.scann_settings import ScannSettings
from samtone_tf.tuning import tune_index

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("scann") is None, reason="ScaNN has no wheel here"
)
NUM = 3_000


@pytest.fixture
def quick(monkeypatch):
    """A small grid, little time for each."""
    monkeypatch.setattr(tuning, "REORDERS", (40, 200))
    single = tuning._single_qps
    monkeypatch.setattr(tuning, "_single_qps", lambda index, queries: single(index, queries, 0.01))


@pytest.fixture
def folder(tmp_path, clustered_rows, names):
    """An index with a tree that reads far more than it must, in a folder with other files."""
    settings = ScannSettings(num_leaves=50, num_leaves_to_search=50, reorder=500)
    store.build_index(
        *("scann", clustered_rows(NUM, 16), names(NUM), tmp_path / "index"),
        settings=settings,
        model="abc",
        queries=clustered_rows(50, 16, seed=9),
        extra_files={"texts.jsonl.gz": b"texts"},
    )
    return tmp_path / "index"


@pytest.mark.usefixtures("quick")
def test_the_chosen_settings_reach_the_recall_and_are_kept(folder, clustered_rows, names):
    queries = clustered_rows(300, 16, seed=1)
    found = tune_index(folder, recall=0.95, queries=queries)
    assert found.reached
    assert (found.num_queries, found.queries, found.dim) == (300, "given as vectors", 16)
    assert found.chosen.num_leaves_to_search < 50  # it need not read them all
    loaded = store.load_index(folder)
    assert loaded.settings.num_leaves_to_search == found.chosen.num_leaves_to_search
    assert loaded.settings.reorder == found.chosen.reorder
    assert (loaded.settings.num_leaves, loaded.model) == (50, "abc")
    exact = ExactIndex.build(clustered_rows(NUM, 16), names(NUM))
    again = recall(loaded.search(queries, 10), exact, queries, 10)
    assert again == pytest.approx(found.chosen.recall_at_10, abs=1e-9)
    assert again >= 0.95


@pytest.mark.usefixtures("quick")
def test_the_frontier_is_what_no_other_point_beats(folder, clustered_rows):
    found = tune_index(folder, recall=0.9, queries=clustered_rows(200, 16, seed=1))
    good = []
    for point in found.points:
        better = [
            other
            for other in found.points
            if other.batched_qps > point.batched_qps and other.recall_at_10 >= point.recall_at_10
        ]
        assert not (point.on_frontier and better) or point.chosen
        if point.recall_at_10 >= 0.9:
            good.append(point)
        if point.on_frontier:
            assert point.single_qps > 0
    # Of those that are about as fast as the fastest, the one that finds most.
    fastest = max(point.batched_qps for point in good)
    about = [point for point in good if point.batched_qps >= 0.95 * fastest]
    assert found.chosen in about
    assert found.chosen.recall_at_10 >= 0.9
    assert [p.batched_qps for p in found.points] == sorted(
        (p.batched_qps for p in found.points), reverse=True
    )
    assert {point.reorder for point in found.points} == {40, 200, 500}
    assert len({point.num_leaves_to_search for point in found.points}) > 5


def test_of_points_about_as_fast_the_one_that_finds_most_is_taken(monkeypatch):
    speeds = {"a": 100.0, "b": 96.0, "c": 94.0, "d": 300.0}
    recalls = {"a": 0.91, "b": 0.95, "c": 0.99, "d": 0.5}
    monkeypatch.setattr(tuning, "_timed", lambda index, queries: (0.0, speeds[index]))
    measured = [(Point("codes", 0, 0, 0, recalls[name], 1.0), name) for name in speeds]
    truth = SimpleNamespace(queries=None)
    assert measured[tuning._fastest(list(measured), truth, 0.9)][1] == "b"
    assert measured[tuning._fastest(list(measured), truth, 0.98)][1] == "c"
    # Where none reaches the target, recall alone counts.
    assert measured[tuning._fastest(list(measured), truth, 0.999)][1] == "c"


@pytest.mark.usefixtures("quick")
def test_the_folder_is_replaced_whole_and_says_all(folder, clustered_rows):
    stamp = (folder / "scann" / "scann_config.pb").stat().st_ino
    found = tune_index(folder, recall=0.9, queries=clustered_rows(100, 16, seed=1))
    names = {path.name for path in folder.iterdir()}
    plotted = importlib.util.find_spec("matplotlib") is not None
    assert names == {
        *("index.json", "ids.json", "scann", "report.json", "texts.jsonl.gz"),
        *("tuning.json", "tuning.md"),
        *(["tuning.png"] if plotted else []),
    }
    assert (folder / "texts.jsonl.gz").read_bytes() == b"texts"
    assert (folder / "scann" / "scann_config.pb").stat().st_ino == stamp  # linked, not copied
    assert json.loads((folder / "tuning.json").read_text()) == json.loads(
        json.dumps(found.to_json())
    )
    table = (folder / "tuning.md").read_text()
    assert "3,000 documents of 16 dimensions; 100 queries, given as vectors" in table
    assert f"\n| * tree + codes + reorder | {found.chosen.num_leaves_to_search}/50 |" in table
    assert "\n| exact |  |  | 1.0000 |" in table
    report = json.loads((folder / "report.json").read_text())
    assert report["recall_at_10"] == pytest.approx(found.chosen.recall_at_10)
    assert report["settings"]["num_leaves_to_search"] == found.chosen.num_leaves_to_search
    assert report["build_seconds"] == found.chosen.build_seconds > 0
    assert report["bytes_per_vector"] == found.chosen.bytes_per_vector > 16 * 4
    assert [path.name for path in folder.parent.iterdir()] == ["index"]
    # And once more: what was tuned can be tuned again.
    tune_index(folder, recall=0.5, queries=clustered_rows(50, 16, seed=2))
    assert store.load_index(folder).num_documents == NUM


@pytest.mark.usefixtures("quick")
def test_a_failed_write_leaves_the_index_as_it_was(folder, monkeypatch, clustered_rows):
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}

    def full_disk(*arguments):
        raise OSError("No space left on device")

    monkeypatch.setattr("samtone_tf.tuning.write_frontier", full_disk)
    with pytest.raises(OSError, match="No space"):
        tune_index(folder, queries=clustered_rows(20, 16, seed=1))
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before
    assert [path.name for path in folder.parent.iterdir()] == ["index"]


@pytest.mark.usefixtures("quick")
def test_without_queries_documents_are_perturbed_and_it_says_so(monkeypatch, folder):
    monkeypatch.setattr("samtone_tf.tuning.MAX_QUERIES", 150)
    found = tune_index(folder, recall=0.9)
    assert found.num_queries == 150
    assert "made up" in found.queries
    assert "perturbed" in found.queries
    assert "perturbed" in (folder / "tuning.md").read_text()
    assert "perturbed" in json.loads((folder / "report.json").read_text())["queries"]


def test_perturbed_documents_keep_near_their_own(unit_rows, names):
    exact = ExactIndex.build(unit_rows(400, 64), names(400))
    made = tuning.perturbed(exact, 200, seed=3)
    np.testing.assert_allclose(np.linalg.norm(made, axis=1), 1, atol=1e-5)
    best = (made @ exact.vectors.array().T).max(axis=1)
    assert 0.75 < best.mean() < 0.85
    np.testing.assert_array_equal(made, tuning.perturbed(exact, 200, seed=3))
    assert len(tuning.perturbed(exact, 1_000)) == 400


@pytest.mark.usefixtures("quick")
def test_building_again_may_win(folder, clustered_rows):
    # One leaf more is no tree at all: codes of everything, where few documents are.
    found = tune_index(
        folder, recall=0.99, queries=clustered_rows(200, 16, seed=1), num_leaves=[0, 10]
    )
    assert {point.num_leaves for point in found.points} == {0, 10, 50}
    for point in found.points:
        assert point.build_seconds > 0
        assert point.bytes_per_vector > 16 * 4
    loaded = store.load_index(folder)
    assert loaded.settings.num_leaves == found.chosen.num_leaves
    assert loaded.search(clustered_rows(1, 16, seed=1), 10).document_ids
    assert (folder / "texts.jsonl.gz").read_bytes() == b"texts"


@pytest.mark.usefixtures("quick")
def test_a_recall_that_cannot_be_reached_gives_the_best_there_is(
    monkeypatch, tmp_path, unit_rows, names
):
    # One 4-bit code for 8 dimensions without structure: the 10 best are not among 40 candidates.
    monkeypatch.setattr(tuning, "REORDERS", (40,))
    settings = ScannSettings(num_leaves=0, reorder=40, dims_per_block=8)
    store.build_index(
        "scann", unit_rows(NUM, 64), names(NUM), tmp_path / "index", settings=settings
    )
    found = tune_index(tmp_path / "index", recall=0.999, queries=unit_rows(100, 64, seed=1))
    assert not found.reached
    assert found.chosen.recall_at_10 == max(point.recall_at_10 for point in found.points) < 0.999
    assert "recall@10 of 0.999 was not reached; best is reorder 40" in found.message()
    assert "was not reached" in (tmp_path / "index" / "tuning.md").read_text()


def test_judgements_give_what_is_lost_in_ndcg(clustered_rows, names):
    vectors, queries = clustered_rows(NUM, 16), clustered_rows(60, 16, seed=1)
    exact = ExactIndex.build(vectors, names(NUM))
    index = ScannIndex.build(vectors, names(NUM), settings=ScannSettings(num_leaves=50))
    wanted = [row[0] for row in exact.search(queries, 1).document_ids]

    def quality(searched):
        """Share of queries whose best document comes first: what nDCG@1 would be."""
        found = searched.search(queries, 10).document_ids
        return float(np.mean([row[0] == best for row, best in zip(found, wanted, strict=True)]))

    candidates = [tuning.Candidate(index, 1.5, 99.0)]
    tuned = tuning.tune(candidates, exact, queries, recall=0.5, quality=quality)
    assert tuned.frontier.exact.ndcg_at_10 == 1
    assert not tuned.rebuilt
    for point in tuned.frontier.points:
        if point.on_frontier:
            assert point.ndcg_at_10_lost == pytest.approx(1 - point.ndcg_at_10)
    lost = [p.ndcg_at_10_lost for p in tuned.frontier.points if p.on_frontier]
    assert max(lost) > 0.1 > 0.01 > min(lost)  # one leaf loses much, many lose nothing


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("num", "leaves"), [(1, [1]), (10, [0, 2]), (100, [0, 10])])
def test_small_indexes_are_tuned_as_well(num, leaves, tmp_path, unit_rows, names):
    store.build_index("scann", unit_rows(num, 8), names(num), tmp_path / "index")
    found = tune_index(tmp_path / "index", num_leaves=leaves)
    assert found.reached
    assert found.num_queries == num
    assert {point.num_leaves for point in found.points} == {0, *leaves}
    ids = store.load_index(tmp_path / "index").search(unit_rows(2, 8, seed=1), 10).document_ids
    assert all(ids)


def test_a_brute_force_index_has_one_point(tmp_path, unit_rows, names):
    store.build_index("scann", unit_rows(300, 8), names(300), tmp_path / "index")
    found = tune_index(tmp_path / "index", queries=unit_rows(20, 8, seed=1))
    assert len(found.points) == 1
    assert (found.chosen.search, found.chosen.recall_at_10) == ("brute force", 1.0)
    assert "chosen: brute force: recall@10 1.0000" in found.message()


def test_without_matplotlib_the_plot_is_left_out(monkeypatch, tmp_path):
    point = frontier.Point("tree", 10, 3, 0, 0.9, 50.0, chosen=True, on_frontier=True)
    exact = frontier.Point("exact", 0, 0, 0, 1.0, 5.0)
    found = frontier.Frontier(0.8, True, 5, 4, 3, "given", "float32 vectors", exact, (point,))
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    assert frontier.write_frontier(found, tmp_path) is False
    assert {path.name for path in tmp_path.iterdir()} == {"tuning.json", "tuning.md"}


def test_the_plot_is_a_picture(tmp_path):
    pytest.importorskip("matplotlib")
    point = frontier.Point("tree", 10, 3, 0, 0.9, 50.0, chosen=True, on_frontier=True)
    slow = frontier.Point("tree", 10, 9, 0, 0.85, 20.0)
    exact = frontier.Point("exact", 0, 0, 0, 1.0, 5.0)
    found = frontier.Frontier(0.8, True, 5, 4, 3, "given", "float32 vectors", exact, (point, slow))
    assert frontier.write_frontier(found, tmp_path) is True
    assert (tmp_path / "tuning.png").read_bytes().startswith(b"\x89PNG")


def test_bad_arguments_say_what_was_received(tmp_path, folder, unit_rows, names):
    for value in (0, 1.5, -1, float("nan")):
        with pytest.raises(ValueError, match=f"`recall` must be above 0.*recall={value}"):
            tune_index(folder, recall=value)
    with pytest.raises(TypeError, match="`recall` must be a number. Received: recall='high'"):
        tune_index(folder, recall="high")
    with pytest.raises(ValueError, match="`queries` must have 16 columns"):
        tune_index(folder, queries=np.ones((2, 5), np.float32))
    with pytest.raises(ValueError, match="`num_leaves` must be at least 1.*-3"):
        tune_index(folder, num_leaves=[-3])
    with pytest.raises(ValueError, match="number of documents, 3000. Received: num_leaves=3001"):
        tune_index(folder, num_leaves=[10, 3001])
    with pytest.raises(TypeError, match="`queries` must be a list of strings. Received: 'why'"):
        tune_index(folder, queries="why")
    with pytest.raises(FileNotFoundError, match="no index.json"):
        tune_index(tmp_path / "gone")
    store.build_index("exact", unit_rows(5, 4), names(5), tmp_path / "exact")
    with pytest.raises(ValueError, match="must hold a ScaNN index.*kind 'exact'.*nothing to tune"):
        tune_index(tmp_path / "exact")
    settings = ScannSettings(reorder=0)
    store.build_index("scann", unit_rows(50, 4), names(50), tmp_path / "codes", settings=settings)
    with pytest.raises(ValueError, match="keeps vectors.*codes only"):
        tune_index(tmp_path / "codes")
