"""Pins of index.store and index.folder: build, save, move, load; nothing half-written."""

import importlib.util
import json
import shutil
import sys

import numpy as np
import pytest

from samtone_tf.index import store
from samtone_tf.index.exact import ExactIndex
from samtone_tf.index.scann_settings import ScannSettings

ODD_IDS = ["007", "a b", "ü/é\n\"'", "文書", "7", "\u2028", ""]

KINDS = [
    "exact",
    pytest.param(
        "scann",
        marks=pytest.mark.skipif(
            importlib.util.find_spec("scann") is None, reason="ScaNN has no wheel here"
        ),
    ),
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_moved_folder_answers_the_same(kind, tmp_path, monkeypatch, unit_rows):
    queries = unit_rows(4, 6, seed=1)
    built = store.build_index(
        kind, unit_rows(7, 6), ODD_IDS, tmp_path / "here" / "INDEX", model="abc123"
    )
    want = built.index.search(queries, 7)
    (tmp_path / "there").mkdir()
    shutil.move(tmp_path / "here" / "INDEX", tmp_path / "there" / "moved")
    monkeypatch.chdir(tmp_path / "there")
    loaded = store.load_index("moved")
    found = loaded.search(queries, 7)
    assert found.document_ids == want.document_ids
    np.testing.assert_array_equal(found.scores, want.scores)
    assert (loaded.kind, loaded.dim, loaded.num_documents) == (kind, 6, 7)
    assert (loaded.model, loaded.document_ids) == ("abc123", ODD_IDS)
    assert not list((tmp_path / "here").iterdir())  # no temporary folder is left


@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_tree_survives_moving(kind, tmp_path, clustered_rows, names):
    vectors = clustered_rows(2_000, 16)
    settings = ScannSettings(num_leaves=40, reorder=100)
    built = store.build_index(kind, vectors, names(2_000), tmp_path / "a", settings=settings)
    shutil.move(tmp_path / "a", tmp_path / "b")
    loaded = store.load_index(tmp_path / "b")
    assert loaded.settings == built.index.settings
    want, found = built.index.search(vectors[:30], 600), loaded.search(vectors[:30], 600)
    assert found.document_ids == want.document_ids


@pytest.mark.parametrize("kind", KINDS)
def test_the_report_is_in_the_folder(kind, tmp_path, unit_rows, names):
    folder = tmp_path / "INDEX"
    built = store.build_index(kind, unit_rows(30, 6), names(30), folder, queries=unit_rows(9, 6, 1))
    report = json.loads((folder / "report.json").read_text())
    assert report == built.report.to_json()
    assert (report["kind"], report["num_documents"], report["dim"]) == (kind, 30, 6)
    assert (report["recall_at_10"], report["recall_at_100"]) == (1.0, 1.0)
    assert (report["num_queries"], report["queries"]) == (9, "given")
    assert report["build_seconds"] > 0
    sizes = [p.stat().st_size for p in folder.rglob("*") if p.is_file() and p.name != "report.json"]
    assert report["bytes_on_disk"] == sum(sizes) > 30 * 6 * 4
    described = json.loads((folder / "index.json").read_text())
    assert (described["format"], described["kind"], described["model"]) == (1, kind, "")


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch, unit_rows, names):
    monkeypatch.chdir(tmp_path)
    built = store.build_index("exact", unit_rows(3, 4), names(3))
    assert built.index is built.exact
    assert built.report.bytes_on_disk is None
    assert not list(tmp_path.iterdir())


def test_an_existing_folder_is_kept_unless_overwriting(tmp_path, unit_rows, names):
    folder = tmp_path / "INDEX"
    store.build_index("exact", unit_rows(3, 4), names(3), folder)
    with pytest.raises(FileExistsError, match=r"Received: .*INDEX\..*overwriting"):
        store.build_index("exact", unit_rows(5, 4), names(5), folder)
    assert store.load_index(folder).num_documents == 3
    store.build_index("exact", unit_rows(5, 4), names(5), folder, overwrite=True)
    assert store.load_index(folder).num_documents == 5
    assert [path.name for path in tmp_path.iterdir()] == ["INDEX"]


def test_overwriting_never_removes_what_is_no_index(tmp_path, unit_rows, names):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(FileExistsError, match="no index.json"):
        store.build_index("exact", unit_rows(3, 4), names(3), tmp_path, overwrite=True)
    assert (tmp_path / "thesis.txt").exists()


INDEX_JSON = {
    "format": 1,
    "kind": "exact",
    "dim": 4,
    "num_documents": 3,
    "model": "",
    "settings": {},
}


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({"index.json": "{}", "ids.json": "[]"}, "whose index.json does not describe an index"),
        ({"index.json": "[1, 2]", "ids.json": "[]"}, "does not describe an index"),
        ({"index.json": "{oops", "ids.json": "[]"}, "whose index.json cannot be read"),
        ({"index.json": json.dumps(INDEX_JSON)}, "which has no ids.json"),
        *(
            (
                {
                    "index.json": json.dumps({k: v for k, v in INDEX_JSON.items() if k != key}),
                    "ids.json": "[]",
                },
                "does not describe an index",
            )
            for key in INDEX_JSON
        ),
    ],
)
def test_overwriting_spares_a_folder_that_only_looks_like_an_index(
    files, fault, tmp_path, unit_rows, names
):
    # An index.json is what many a web site has.
    site = tmp_path / "site"
    site.mkdir()
    files["thesis.txt"] = "years of work"
    for name, content in files.items():
        (site / name).write_text(content)
    with pytest.raises(FileExistsError, match=f"Received: .*site, .*{fault}. Remove it yourself"):
        store.build_index("exact", unit_rows(3, 4), names(3), site, overwrite=True)
    assert {path.name: path.read_text() for path in site.iterdir()} == files


def test_an_index_of_another_version_can_be_overwritten(tmp_path, unit_rows, names):
    folder = tmp_path / "INDEX"
    store.build_index("exact", unit_rows(3, 4), names(3), folder)
    (folder / "index.json").write_text(json.dumps({**INDEX_JSON, "format": 99}))
    store.build_index("exact", unit_rows(5, 4), names(5), folder, overwrite=True)
    assert store.load_index(folder).num_documents == 5


def test_a_failed_write_leaves_the_old_index(tmp_path, monkeypatch, unit_rows, names):
    folder = tmp_path / "INDEX"
    store.build_index("exact", unit_rows(3, 4), names(3), folder)

    def full_disk(self, target):
        (target / "vectors.npy").write_bytes(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr(ExactIndex, "write", full_disk)
    with pytest.raises(OSError, match="No space"):
        store.build_index("exact", unit_rows(5, 4), names(5), folder, overwrite=True)
    assert store.load_index(folder).num_documents == 3
    assert [path.name for path in tmp_path.iterdir()] == ["INDEX"]


def test_what_is_no_index_is_one_clear_line(tmp_path, unit_rows, names):
    with pytest.raises(FileNotFoundError, match="no index.json"):
        store.load_index(tmp_path / "nowhere")
    folder = tmp_path / "INDEX"
    store.build_index("exact", unit_rows(3, 4), names(3), folder)
    described = json.loads((folder / "index.json").read_text())

    def rewritten(**changes):
        (folder / "index.json").write_text(json.dumps({**described, **changes}))
        with pytest.raises(ValueError, match="Build the index again|one of scann, exact") as raised:
            store.load_index(folder)
        return str(raised.value)

    assert "Received: format 99" in rewritten(format=99)
    assert "kind='faiss'" in rewritten(kind="faiss")
    assert "kind='auto'" in rewritten(kind="auto")
    assert "disagree" in rewritten(num_documents=4)
    assert "shape=(3, 4)" in rewritten(dim=5)
    (folder / "index.json").write_text('{"format": 1}')
    with pytest.raises(ValueError, match="cannot be read"):
        store.load_index(folder)


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_index_is_one_clear_line(kind, tmp_path, unit_rows, names):
    store.build_index(kind, unit_rows(3, 4), names(3), tmp_path / "INDEX")
    for path in (tmp_path / "INDEX").rglob("*"):
        if path.suffix in {".npy", ".pbtxt"}:
            path.unlink()
    with pytest.raises(ValueError, match="must hold.*Build the index again") as raised:
        store.load_index(tmp_path / "INDEX")
    assert "\n" not in str(raised.value)


def test_bad_arguments_fail_before_any_work(tmp_path, unit_rows, names):
    with pytest.raises(ValueError, match="one of auto, scann, exact. Received: kind='annoy'"):
        store.build_index("annoy", unit_rows(3, 4), names(3))
    with pytest.raises(ValueError, match="one of auto, scann, exact. Received: kind='annoy'"):
        store.resolve_kind("annoy")
    with pytest.raises(ValueError, match="`settings` must be left out"):
        store.build_index("exact", unit_rows(3, 4), names(3), settings=ScannSettings())
    with pytest.raises(ValueError, match="`queries` must have 4 columns"):
        store.build_index("exact", unit_rows(3, 4), names(3), queries=np.ones((2, 5)))


@pytest.fixture
def no_scann(monkeypatch):
    """A machine without ScaNN."""
    monkeypatch.delitem(sys.modules, "scann.scann_ops.py.scann_ops_pybind", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_auto_is_scann_where_there_is_one(kind, tmp_path, unit_rows, names):
    assert store.resolve_kind("auto") == store.resolve_kind("scann") == kind
    assert store.resolve_kind("exact") == "exact"
    settings = ScannSettings(num_leaves=4)
    built = store.build_index(
        "auto", unit_rows(30, 6), names(30), tmp_path / "INDEX", settings=settings
    )
    assert built.index.kind == built.report.kind == kind
    assert built.index.settings.num_leaves == 4
    assert json.loads((tmp_path / "INDEX" / "index.json").read_text())["kind"] == kind
    assert store.load_index(tmp_path / "INDEX").kind == kind


@pytest.mark.usefixtures("no_scann")
def test_auto_is_exact_where_there_is_no_scann(tmp_path, unit_rows, names):
    assert store.resolve_kind("auto") == "exact"
    settings = ScannSettings(num_leaves=4)  # of no use then, and no error
    built = store.build_index(
        "auto", unit_rows(3, 4), names(3), tmp_path / "INDEX", settings=settings
    )
    assert built.index is built.exact
    assert json.loads((tmp_path / "INDEX" / "index.json").read_text())["kind"] == "exact"


@pytest.mark.usefixtures("no_scann")
def test_asking_for_scann_where_there_is_none_fails_before_any_work(unit_rows, names):
    with pytest.raises(ImportError, match="`scann` must be importable.*kind='exact'"):
        store.resolve_kind("scann")
    with pytest.raises(ImportError, match="`scann` must be importable"):
        store.build_index("scann", np.ones((3, 4), np.int64), names(3))  # integers are refused, too


def test_auto_is_exact_where_scann_is_installed_but_does_not_load(monkeypatch):
    def broken():
        raise ImportError("`scann` must be importable: GLIBC_9.99 not found")

    monkeypatch.setattr(store, "scann_available", lambda: True)
    monkeypatch.setattr(store, "import_scann", broken)
    assert store.resolve_kind("auto") == "exact"
    with pytest.raises(ImportError, match="GLIBC"):
        store.resolve_kind("scann")


@pytest.mark.parametrize("kind", KINDS)
def test_the_report_names_how_it_searches(kind, tmp_path, unit_rows, names):
    built = store.build_index(kind, unit_rows(30, 6), names(30), tmp_path / "INDEX")
    said = json.loads((tmp_path / "INDEX" / "report.json").read_text())
    if kind == "exact":
        assert (said["search"], said["settings"]) == ("exact", {})
        assert built.report.description == "exact"
    else:
        assert said["search"] == "brute force"
        assert said["settings"] == built.index.settings.to_json()
        assert (said["settings"]["num_leaves"], said["settings"]["dims_per_block"]) == (0, 0)
        assert built.report.description == "scann (brute force below 20,000 documents)"
