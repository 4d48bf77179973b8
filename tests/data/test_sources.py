"""Pins of data.sources: every kind is opened by its string, every other string is refused."""

import json

import pytest

from samtone_tf.data import sources
from samtone_tf.data.sources import list_splits, load_data
from tests import tiny


def test_pairs_and_beir_are_opened(tmp_path):
    (tmp_path / "a.tsv").write_text("a query\ta document\n")
    assert len(load_data(f"pairs:{tmp_path / 'a.tsv'}").documents) == 1
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "dev.tsv").write_text("q d 1\n")
    for name in ("corpus", "queries"):
        record = {"_id": name[0].replace("c", "d"), "text": "x"}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(record))
    data = load_data(f"beir:{tmp_path}", "dev")
    assert data.qrels == {"q": {"d": 1}}
    assert data.source == f"beir:{tmp_path}"


def test_splits_are_listed(tmp_path):
    folder = tiny.write_beir(tmp_path / "beir", ("train", "dev"))
    assert list_splits(f"beir:{folder}") == ("dev", "train")
    assert list_splits("docstrings") == ("train", "test")
    (tmp_path / "a.tsv").write_text("query\tdocument\tsplit\na\tb\ttrain\nc\td\tdev \n")
    assert list_splits(f"pairs:{tmp_path / 'a.tsv'}") == ("dev", "train")
    (tmp_path / "b.tsv").write_text("a query\ta document\n")
    assert list_splits(f"pairs:{tmp_path / 'b.tsv'}") == ()


def test_docstrings_are_opened_without_a_place(monkeypatch):
    monkeypatch.setattr(sources, "read_docstrings", lambda split: f"docstrings of {split}")
    assert load_data("docstrings", "test") == "docstrings of test"


@pytest.mark.parametrize("source", ["", "scifact", "/data/scifact", "BEIR:x", "tfds:x"])
def test_unknown_kinds_list_the_known(source):
    with pytest.raises(ValueError, match=r"beir:FOLDER, pairs:FILE\.jsonl, docstrings\. Received"):
        load_data(source)


@pytest.mark.parametrize("source", ["beir", "beir:", "pairs:", "docstrings:numpy", "docstrings:"])
def test_wrong_forms_show_the_right_one(source):
    with pytest.raises(ValueError, match=r"is written as .*Received"):
        load_data(source)
