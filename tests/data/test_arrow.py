"""Pins of parquet files and of Hugging Face folders as sources of pairs."""

import json
import sys

import pytest

from samtone_tf.data.pairs import pairs_splits, read_pairs
from tests.data.replicas import (
    PASSAGES,
    QUESTIONS,
    pair_rows,
    put,
    write_arrow,
    write_parquet,
    write_saved,
    write_saved_splits,
)


def refuse(path, match, kind=ValueError, split="train"):
    with pytest.raises(kind, match=match) as caught:
        read_pairs(path, split)
    assert "\n" not in str(caught.value)


def same_as_jsonl(tmp_path, rows, split="train"):
    path = tmp_path / "same.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_pairs(path, split)


def assert_same(got, want):
    assert (got.queries, got.documents) == (want.queries, want.documents)
    assert (got.qrels, got.negatives) == (want.qrels, want.negatives)


def test_a_parquet_file_gives_what_its_rows_give_as_jsonl(tmp_path):
    write_parquet(tmp_path / "a.parquet")
    data = read_pairs(tmp_path / "a.parquet", "train")
    assert_same(data, same_as_jsonl(tmp_path, pair_rows()))
    assert list(data.queries.values()) == list(QUESTIONS.values())
    assert list(data.documents.values()) == [PASSAGES[i] for i in ("0", "1", "007", "7")]
    assert data.notes == (
        "columns read as: question → query, positive → document, negative → negatives",
    )


def test_columns_of_other_names_are_left_out_and_noted(tmp_path):
    rows = [row | {"url": "https://example.org", "score": 0.5} for row in pair_rows()]
    write_parquet(tmp_path / "a.parquet", rows)
    data = read_pairs(tmp_path / "a.parquet", "train")
    assert_same(data, same_as_jsonl(tmp_path, pair_rows()))
    assert data.notes[-1] == "columns not used: url, score"


def test_ids_splits_bytes_and_nulls(tmp_path):
    rows = [
        {"query": b"caf\xc3\xa9", "document": "x", "query_id": 7, "split": "train", "title": None},
        {"query": b"tea", "document": "y", "query_id": 8, "split": "test", "title": "T"},
    ]
    write_parquet(tmp_path / "a.parquet", rows)
    data = read_pairs(tmp_path / "a.parquet", "test")
    assert data.queries == {"7": "café", "8": "tea"}
    assert list(data.qrels) == ["8"]
    assert sorted(data.documents.values()) == ["T y", "x"]
    assert pairs_splits(tmp_path / "a.parquet") == ("test", "train")
    refuse(tmp_path / "a.parquet", r"a\.parquet: test, train\. Received: dev", split="dev")


def test_missing_columns_list_those_there_are(tmp_path):
    write_parquet(tmp_path / "a.parquet", [{"question": "a", "text": "b", "label": 1}])
    refuse(
        tmp_path / "a.parquet",
        r"a\.parquet: `document` is missing\. Received: columns question, text, label\. .*"
        r"\?document=NAME",
    )
    data = read_pairs(f"{tmp_path / 'a.parquet'}?document=text", "train")
    assert list(data.documents.values()) == ["b"]
    assert data.notes == (
        "columns read as: question → query, text → document",
        "columns not used: label",
    )
    refuse(f"{tmp_path / 'a.parquet'}?document=body", r"`document` was to be read from 'body'")
    refuse(f"{tmp_path / 'a.parquet'}?text=body", r"may have the options .*Received: 'text=body'")


def test_wrong_values_name_file_and_row(tmp_path):
    write_parquet(tmp_path / "a.parquet", [{"query": "a", "document": {"text": "b"}}])
    refuse(tmp_path / "a.parquet", r"a\.parquet:1: `document` must be a string")
    write_parquet(tmp_path / "a.parquet", [{"query": q, "document": "b"} for q in ("a", "a", None)])
    refuse(tmp_path / "a.parquet", r"a\.parquet:3: `query` is missing")
    write_parquet(tmp_path / "a.parquet", [{"query": "a", "document": b"\xff"}])
    refuse(tmp_path / "a.parquet", r"a\.parquet: expected a whole parquet file of UTF-8 texts")


def test_damaged_and_empty_files_are_named(tmp_path):
    write_parquet(tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(whole[:-10])
    refuse(tmp_path / "a.parquet", r"a\.parquet: expected a whole parquet file")
    write_arrow(tmp_path / "set-train.arrow", pair_rows())
    (tmp_path / "set-train.arrow").write_bytes(b"no arrow at all")
    (tmp_path / "a.parquet").unlink()
    refuse(tmp_path, r"set-train\.arrow: expected a whole arrow file")
    import pyarrow

    empty = pyarrow.table({"query": pyarrow.array([], "string"), "document": ["x"][:0]})
    from pyarrow import parquet

    parquet.write_table(empty, tmp_path / "b.parquet")
    refuse(tmp_path / "b.parquet", r"b\.parquet: expected rows .*Received: no row")
    refuse(tmp_path / "gone.parquet", r"gone\.parquet, which does not exist", FileNotFoundError)


def test_without_pyarrow_it_says_how_to_get_it(tmp_path, monkeypatch):
    write_parquet(tmp_path / "a.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    refuse(
        tmp_path / "a.parquet", r"need pyarrow.*pip install 'samtone-tf\[datasets\]'", ImportError
    )


def test_what_save_to_disk_wrote_is_read_by_split(tmp_path):
    write_saved_splits(tmp_path / "set")
    assert pairs_splits(tmp_path / "set") == ("test", "train")
    data = read_pairs(tmp_path / "set", "test")
    rows = [row | {"split": "train"} for row in pair_rows()]
    rows[2]["split"] = "test"
    assert_same(data, same_as_jsonl(tmp_path, rows, "test"))
    assert [data.queries[i] for i in data.qrels] == ["who drinks martinis"]
    refuse(tmp_path / "set", r"one of those in .*set: test, train\. Received: dev", split="dev")


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "file"])
def test_one_saved_dataset_has_its_split_or_none(tmp_path, stream):
    write_saved(tmp_path / "a", pair_rows(), "train", stream)
    assert pairs_splits(tmp_path / "a") == ("train",)
    assert_same(read_pairs(tmp_path / "a", "train"), same_as_jsonl(tmp_path, pair_rows()))
    write_saved(tmp_path / "b", pair_rows(), None, stream)
    assert pairs_splits(tmp_path / "b") == ()
    assert any("has no split column" in note for note in read_pairs(tmp_path / "b", "test").notes)


@pytest.mark.parametrize(
    "names",
    [
        ("data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"),
        ("train-00000-of-00001-0123456789abcdef.parquet",),
        ("plain_text/train-00000-of-00001.parquet",),
        ("train.parquet",),
        ("train/0000.parquet", "train/0001.parquet"),
        ("my_set-train.arrow",),
        ("my_set-train-00000-of-00002.arrow", "my_set-train-00001-of-00002.arrow"),
    ],
    ids=lambda names: names[0],
)
def test_folders_of_shards_are_read_in_order(tmp_path, names):
    rows = pair_rows()
    parts = [rows] if len(names) == 1 else [rows[:1], rows[1:]]
    for name, part in zip(names, parts, strict=True):
        if name.endswith(".arrow"):
            write_arrow(tmp_path / "set" / name, part)
        else:
            write_parquet(tmp_path / "set" / name, part)
    assert pairs_splits(tmp_path / "set") == ("train",)
    assert_same(read_pairs(tmp_path / "set", "train"), same_as_jsonl(tmp_path, rows))


def test_folders_that_are_none_say_what_is_there(tmp_path):
    put(tmp_path / "a" / "letter.txt", "dear reader")
    refuse(tmp_path / "a", r"Received: .*a, which holds letter\.txt", FileNotFoundError)
    for config in ("big", "small"):
        write_parquet(tmp_path / "b" / config / "train-00000-of-00001.parquet")
    refuse(tmp_path / "b", r"a folder of one data set.*those of big, small")
    write_saved_splits(tmp_path / "c")
    (tmp_path / "c" / "test" / "data-00000-of-00001.arrow").unlink()
    refuse(tmp_path / "c", r"which lacks data-00000-of-00001\.arrow", FileNotFoundError)
    (tmp_path / "c" / "test" / "state.json").unlink()
    refuse(tmp_path / "c", r"which lacks state\.json", FileNotFoundError)
    put(tmp_path / "c" / "dataset_dict.json", "{")
    refuse(tmp_path / "c", r"dataset_dict\.json: expected the JSON that save_to_disk wrote")
