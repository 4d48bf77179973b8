"""Pins of data.ir_datasets: ids and splits, texts, hard negatives; with a module in its place."""

import sys
from importlib.util import find_spec

import pytest

from samtone_tf.data.ir_datasets import (
    ir_datasets_splits,
    ir_datasets_stamp,
    read_ir_datasets,
    tabulate_ir_datasets,
)
from tests.data.replicas import ANSWERS, PASSAGES, QUESTIONS, fake_ir_datasets


def refuse(dataset_id, match, kind=ValueError, split="train"):
    with pytest.raises(kind, match=match) as caught:
        read_ir_datasets(dataset_id, split)
    assert "\n" not in str(caught.value)


def test_id_and_split_together_name_a_set(monkeypatch):
    fake_ir_datasets(monkeypatch)
    data = read_ir_datasets("toy", "train")
    assert (data.documents, data.queries) == (PASSAGES, QUESTIONS)
    assert data.qrels == {"10": {"0": 1}, "11": {"1": 1}}
    assert data.negatives == {"10": ("7",)}
    assert (data.source, data.split) == ("ir_datasets:toy", "train")
    assert read_ir_datasets("toy/train", "train").qrels == data.qrels
    for whole in (("toy", "dev/small"), ("toy/dev/small", "small"), ("toy/dev/small", "dev/small")):
        assert read_ir_datasets(*whole).qrels == {"012": {"007": 1}}


def test_splits_are_what_an_id_goes_on_with(monkeypatch):
    fake_ir_datasets(monkeypatch)
    assert ir_datasets_splits("toy") == ("dev/small", "train")
    assert ir_datasets_splits("toy/train") == ("train",)
    assert ir_datasets_splits("whole") == ("test",)
    assert read_ir_datasets("whole", "test").qrels == {q: {d: 1} for q, d in ANSWERS.items()}


def test_unknown_ids_and_splits_list_the_known(monkeypatch):
    fake_ir_datasets(monkeypatch)
    refuse("toy/valid", r"those of toy are toy, toy/dev/small, .*Received: 'toy/valid'")
    refuse("toi", r"none begins like that\. Received: 'toi'")
    refuse("toy", r"ir_datasets:toy: dev/small, train\. Received: test", split="test")
    refuse("toy/train", r"ir_datasets:toy/train: train\. Received: test", split="test")
    refuse("whole", r"ir_datasets:whole: test\. Received: train")
    refuse("toy/unjudged", r"with documents, queries and judgements\. Received: .*toy/unjudged")


def test_texts_are_title_and_text_or_what_the_package_makes(monkeypatch):
    from typing import NamedTuple

    class Odd(NamedTuple):
        doc_id: str
        url: str
        body: str

    class Made(NamedTuple):
        doc_id: str
        parts: tuple

        def default_text(self):
            return " and ".join(self.parts)

    module = fake_ir_datasets(monkeypatch)
    parts = module.registry["whole"]._parts
    first = parts["docs"][0]._replace(title="Cats")
    parts["docs"] = [first, Odd("1", "https://x.org", " b "), Made("007", ("c", "d"))]
    parts["queries"] = [*parts["queries"][:2], parts["queries"][2]._replace(text=" ")]
    data = read_ir_datasets("whole", "test")
    assert data.documents == {
        "0": f"Cats {PASSAGES['0']}",
        "1": "https://x.org b",
        "007": "c and d",
    }
    assert set(data.queries) == {"10", "11"}  # the third has no text
    assert data.notes == ("1 judged queries are not in the queries file and were dropped: 012",)


def test_ids_twice_are_refused_with_their_numbers(monkeypatch):
    module = fake_ir_datasets(monkeypatch)
    docs = module.registry["whole"]._parts["docs"]
    docs.append(docs[1])
    refuse("whole", r"whole documents:5: .*Received: '1', which is also on line 2", split="test")


def test_what_is_kept_is_found_by_the_files(monkeypatch, tmp_path):
    fake_ir_datasets(monkeypatch)
    assert ir_datasets_stamp("toy", "train") is None  # does not say where its files are
    path = tmp_path / "docs.tsv"
    path.write_text("x")
    fake_ir_datasets(monkeypatch, path)
    before = ir_datasets_stamp("toy", "train")
    assert before[1] == 12
    assert ir_datasets_stamp("toy", "dev/small")[0] != before[0]
    path.write_text("xyz")
    assert ir_datasets_stamp("toy", "train")[0] != before[0]


def test_without_the_package_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    advice = r"needs the package ir_datasets.*pip install 'samtone-tf\[datasets\]'"
    refuse("toy", advice, ImportError)


@pytest.mark.skipif(not find_spec("ir_datasets"), reason="ir_datasets is not installed")
def test_the_package_itself(monkeypatch, tmp_path):
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path))
    import ir_datasets

    for name, text in (
        ("docs", "".join(f"{i}\t{t}\n" for i, t in PASSAGES.items())),
        ("queries", "".join(f"{i}\t{t}\n" for i, t in QUESTIONS.items())),
        ("qrels", "".join(f"{q} 0 {d} 1\n" for q, d in ANSWERS.items())),
    ):
        (tmp_path / name).write_text(text)
    dataset = ir_datasets.create_dataset(
        docs_tsv=str(tmp_path / "docs"),
        queries_tsv=str(tmp_path / "queries"),
        qrels_trec=str(tmp_path / "qrels"),
    )
    ir_datasets.registry.register("samtone-toy/dev", dataset)
    data = read_ir_datasets("samtone-toy/dev", "dev")
    assert (data.documents, data.queries) == (PASSAGES, QUESTIONS)
    assert data.qrels == {q: {d: 1} for q, d in ANSWERS.items()}
    (tmp_path / "columns").mkdir()
    table = tabulate_ir_datasets("samtone-toy/dev", "dev", tmp_path / "columns")
    assert list(table.documents.texts) == list(PASSAGES.values())
    stamp = ir_datasets_stamp("samtone-toy/dev", "dev")
    assert "docs" in stamp[0]
    with pytest.raises(ValueError, match=r"vaswani: test\. Received: train"):
        read_ir_datasets("vaswani", "train")
    assert "test" in ir_datasets_splits("beir/scifact")
