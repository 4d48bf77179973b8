"""Pins of data.sources: every kind is opened by its string, every other string is refused."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from samtone_tf.cli.parser import SOURCES_HELP
from samtone_tf.data import sources
from samtone_tf.data.cache import Cache
from samtone_tf.data.pipeline import PairBatches
from samtone_tf.data.sources import list_splits, load_data, load_training_table
from samtone_tf.data.tokenizer import Tokenizer
from tests import tiny
from tests.data import replicas


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


@pytest.mark.parametrize("source", ["", "scifact", "/data/scifact", "BEIR:x", "hdfs:x"])
def test_unknown_kinds_list_the_known(source):
    known = (
        "beir:FOLDER, pairs:FILE, tfds:NAME, ir_datasets:ID, multireqa:FOLDER, msmarco:FOLDER, "
        "docstrings"
    )
    with pytest.raises(ValueError, match=rf"{known}\. Received"):
        load_data(source)


def test_nothing_that_only_some_sources_need_is_imported():
    heavy = {"tensorflow", "tensorflow_datasets", "pyarrow", "ir_datasets", "keras"}
    code = f"import sys, samtone_tf.data.sources; print(*{heavy} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_the_help_of_commands_names_every_kind():
    for kind in sources.SOURCES.values():
        assert kind.example in SOURCES_HELP


@pytest.mark.parametrize("source", ["beir", "beir:", "pairs:", "docstrings:numpy", "docstrings:"])
def test_wrong_forms_show_the_right_one(source):
    with pytest.raises(ValueError, match=r"is written as .*Received"):
        load_data(source)


def write_pairs(path, num=40, change=lambda row: row):
    """Repeated texts, negatives that other rows answer with, two splits."""
    draw = np.random.default_rng(0)
    rows = []
    for _ in range(num):
        query, document, *negatives = draw.integers(0, 15, 5).tolist()
        row = {
            "query": f"question {query}",
            "document": f"ANSWER {document}" if document % 2 else f"answer {document + 1}",
            "negatives": [f"answer {number}" for number in negatives],
            "split": "train" if query % 5 else "test",
        }
        rows.append(change(row))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"pairs:{path}"


def write_beir(path):
    folder = tiny.write_beir(path)
    with open(folder / "corpus.jsonl", "a") as file:
        file.write('{"_id": "empty", "text": ""}\n')
    with open(folder / "qrels" / "train.tsv", "a") as file:
        file.write("q3\tgone\t1\nq4\tempty\t1\nunknown\td1\t1\nq5\td1\t0\nq6\td2\t2\n")
    return f"beir:{folder}"


@pytest.fixture(params=["pairs", "beir"])
def source(request, tmp_path):
    write = {"pairs": write_pairs, "beir": write_beir}[request.param]
    return write(tmp_path / {"pairs": "a.jsonl", "beir": "b"}[request.param])


@pytest.fixture(params=["parquet", "saved", "msmarco", "multireqa", "ir_datasets"])
def replica(request, tmp_path, monkeypatch):
    if request.param == "parquet":
        return replicas.write_parquet(tmp_path / "a.parquet")
    if request.param == "ir_datasets":
        replicas.fake_ir_datasets(monkeypatch, replicas.put(tmp_path / "docs", "x"))
        return "ir_datasets:toy"
    write = {
        "saved": replicas.write_saved_splits,
        "msmarco": replicas.write_msmarco,
        "multireqa": replicas.write_multireqa,
    }
    return write[request.param](tmp_path / "set")


def test_every_layout_gives_the_same_from_disk_and_in_memory(replica, tmp_path):
    data = load_data(replica)
    assert data.source == replica
    cache = Cache(tmp_path / "cache")
    table = load_training_table(replica, "train", cache)
    assert list(table.queries.texts) == list(data.queries.values())
    assert list(table.documents.texts) == list(data.documents.values())
    assert len(table.relevant()) == len(list(data.pairs()))
    assert (table.source, table.split, table.notes) == (data.source, data.split, data.notes)
    numbers = {"batch_size": 2, "num_negatives": int(bool(data.negatives))}
    assert_same_batches(make(table, cache, **numbers), make(data, **numbers))
    assert load_training_table(replica, "train", cache).content_hash == table.content_hash
    assert cache.seen["pairs"] == "reused"
    if replica != f"pairs:{tmp_path / 'a.parquet'}":
        assert "train" in list_splits(replica)


def test_splits_that_change_places_are_not_taken_for_each_other(tmp_path):
    source = replicas.write_saved_splits(tmp_path / "set")
    cache = Cache(tmp_path / "cache")
    before = load_training_table(source, "train", cache).content_hash
    for old, new in (("train", "x"), ("test", "train"), ("x", "test")):
        (tmp_path / "set" / old).rename(tmp_path / "set" / new)
    assert load_training_table(source, "train", cache).content_hash != before


def make(data, cache=None, **arguments):
    arguments = {"batch_size": 4, "query_length": 6, "document_length": 7} | arguments
    return PairBatches(data, tiny.tokenizer(), cache=cache, **arguments)


def flat(batch):
    parts = {name: part for name, part in batch.items() if not isinstance(part, dict)}
    for side in ("query", "document", "negatives"):
        parts |= {f"{side} {name}": part for name, part in batch.get(side, {}).items()}
    return parts


def assert_same_batches(one, other):
    for step in (0, 1, 5, 17):
        got, want = flat(one.batch(step)), flat(other.batch(step))
        assert got.keys() == want.keys()
        for name, part in want.items():
            np.testing.assert_array_equal(got[name], part, err_msg=name)
            assert got[name].dtype == part.dtype


@pytest.mark.parametrize(
    "arguments", [{}, {"masks": ("id",)}, {"num_negatives": 2}, {"no_duplicates": True}], ids=str
)
def test_columns_on_disk_give_the_batches_of_the_same_data_in_memory(source, tmp_path, arguments):
    if source.startswith("beir") and "num_negatives" in arguments:
        arguments = {"max_positives": 1}
    data = load_data(source)
    want = make(data, **arguments)
    for _ in range(2):  # built, then reused
        cache = Cache(tmp_path / "cache")
        table = load_training_table(source, "train", cache)
        got = make(table, cache, **arguments)
        assert_same_batches(got, want)
        assert got.statistics == want.statistics
        assert got.notes == want.notes
        assert (table.source, table.split, table.notes) == (data.source, data.split, data.notes)
        assert got.fingerprint == want.fingerprint
    assert {*cache.seen.values()} == {"reused"}
    assert isinstance(table.documents.texts.data.base, np.memmap)


def test_the_texts_of_a_vocabulary_are_the_same_from_disk(source, tmp_path):
    on_disk = load_training_table(source, "train", Cache(tmp_path / "cache"))
    in_memory = load_training_table(source)
    assert list(on_disk.judged_texts()) == list(in_memory.judged_texts())
    assert list(on_disk.documents.texts) == list(in_memory.documents.texts)
    assert list(in_memory.documents.texts) == list(load_data(source).documents.values())


def seen(source, folder, tokenizer=None, **arguments):
    """What of the cache was reused, and what was built."""
    cache = Cache(folder)
    arguments = {"batch_size": 4, "query_length": 6, "document_length": 7} | arguments
    table = load_training_table(source, "train", cache)
    PairBatches(table, tokenizer or tiny.tokenizer(), cache=cache, **arguments)
    return cache.seen


def test_only_what_a_change_touches_is_built_again(tmp_path):
    folder, source = tmp_path / "cache", write_pairs(tmp_path / "a.jsonl")
    built = {"pairs": "built", "queries-tokens": "built", "documents-tokens": "built"}
    reused = dict.fromkeys(built, "reused")
    assert seen(source, folder) == built
    assert seen(source, folder) == reused
    assert seen(source, folder, batch_size=8, seed=3, masks=("id",), max_positives=2) == reused
    assert seen(source, folder, query_length=5) == reused | {"queries-tokens": "built"}
    assert seen(source, folder, document_length=9) == reused | {"documents-tokens": "built"}
    # With negatives, more documents are needed.
    assert seen(source, folder, num_negatives=1) == reused | {"documents-tokens": "built"}
    other = Tokenizer.train(["question", "answer 0 1 2 3 4 5 6 7 8 9"], 30)
    assert seen(source, folder, other) == reused | {k: "built" for k in built if "tokens" in k}
    (tmp_path / "moved").mkdir()
    assert seen(write_pairs(tmp_path / "moved" / "a.jsonl"), folder) == reused
    write_pairs(tmp_path / "a.jsonl", change=lambda row: row | {"query": row["query"] + "?"})
    assert seen(source, folder) == built
    assert seen(source, folder) == reused


def test_data_from_python_is_found_by_its_texts(tmp_path):
    data, folder = tiny.data(), tmp_path / "cache"

    def seen_of(data):
        cache = Cache(folder)
        make(data, cache)
        return [*cache.seen.values()]

    assert seen_of(data) == ["built", "built"]
    assert seen_of(data) == ["reused", "reused"]
    changed = replace(data, queries=dict(data.queries, q0="another question"))
    assert seen_of(changed) == ["built", "reused"]
    moved = replace(data, documents=dict(data.documents, d0="x", d1=data.documents["d1"] + " y"))
    assert seen_of(moved) == ["reused", "built"]


def test_a_damaged_cache_is_mended_while_training_data_is_opened(source, tmp_path):
    folder = tmp_path / "cache"
    cache = Cache(folder)
    make(load_training_table(source, "train", cache), cache)
    for path in folder.glob("*/*.npy"):
        path.write_bytes(path.read_bytes()[:-8])
    cache = Cache(folder)
    with pytest.warns(UserWarning, match="damaged or incomplete") as caught:
        got = make(load_training_table(source, "train", cache), cache)
    assert len(caught) == 3
    assert_same_batches(got, make(load_data(source)))


def test_bad_rows_leave_nothing_in_the_cache(tmp_path):
    source = write_pairs(tmp_path / "a.jsonl", change=lambda row: row | {"query": " "})
    with pytest.raises(ValueError, match=r"a\.jsonl:1: `query` must not be empty"):
        load_training_table(source, "train", Cache(tmp_path / "cache"))
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".lock"]


def test_sources_without_files_are_read_into_memory(monkeypatch, tmp_path):
    monkeypatch.setattr(sources, "read_docstrings", lambda split: tiny.data())
    table = load_training_table("docstrings", "train", Cache(tmp_path / "cache"))
    assert list(table.queries.texts) == list(tiny.data().queries.values())
    assert not (tmp_path / "cache").exists()
