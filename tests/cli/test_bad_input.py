"""Pins of bad input to commands: exit code 2, one line, what was received, nothing written."""

import json

import numpy as np
import pytest
import tensorflow as tf

from tests import tiny
from tests.cli.runner import TINY_FLAGS, refuse, samtone


def edit(name, change):
    """Makes a BEIR folder in which one file is `change`d; returns its source name."""

    def make(tmp_path):
        folder = tiny.write_beir(tmp_path / "beir")
        path = folder / name
        path.write_text(change(path.read_text()))
        return f"beir:{folder}"

    return make


def pairs(content, name="faq.jsonl"):
    def make(tmp_path):
        (tmp_path / name).write_text(content)
        return f"pairs:{tmp_path / name}"

    return make


def text_folder(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "letter.txt").write_text("dear reader")
    return f"beir:{tmp_path / 'folder'}"


def without(name):
    def make(tmp_path):
        folder = tiny.write_beir(tmp_path / "beir")
        (folder / name).unlink()
        return f"beir:{folder}"

    return make


BROKEN_LINE = '{"_id": "d61", "text": \n'
TWICE = json.dumps({"_id": "d3", "text": "again"}) + "\n"
NO_TEXT = json.dumps({"_id": "q77", "text": "  "}) + "\n"
UNKNOWN = "query-id\tcorpus-id\tscore\nq500\td500\t1\n"

DATA = {
    "missing folder": (lambda tmp_path: f"beir:{tmp_path / 'gone'}", ["gone", "does not exist"]),
    "missing file": (lambda tmp_path: f"pairs:{tmp_path / 'gone.jsonl'}", ["gone.jsonl"]),
    "no BEIR set": (text_folder, ["corpus.jsonl", "queries.jsonl", "letter.txt"]),
    "no corpus": (without("corpus.jsonl"), ["lacks corpus.jsonl"]),
    "no such split": (without("qrels/train.tsv"), ["Received: train", "test"]),
    "broken JSON": (edit("corpus.jsonl", lambda text: text + BROKEN_LINE), ["corpus.jsonl:61"]),
    "broken JSON of queries": (
        edit("queries.jsonl", lambda text: "{}}\n" + text),
        ["queries.jsonl:1"],
    ),
    "broken JSON of pairs": (pairs('{"query": "a", "document": "b"}\n{"query"\n'), ["jsonl:2"]),
    "broken judgement": (
        edit("qrels/train.tsv", lambda text: text + "q1\td1\tgood\n"),
        ["train.tsv:62", "good"],
    ),
    "only unknown ids": (
        edit("qrels/train.tsv", lambda text: UNKNOWN),
        ["train.tsv", "no relevant pair is left", "q500"],
    ),
    "a document twice": (
        edit("corpus.jsonl", lambda text: text + TWICE),
        ["jsonl:61", "'d3'", "line 4"],
    ),
    "a query twice": (
        edit("queries.jsonl", lambda text: text + text.splitlines()[0] + "\n"),
        ["queries.jsonl:61", "'q0'", "line 1"],
    ),
    "an empty query": (edit("queries.jsonl", lambda text: text + NO_TEXT), ["jsonl:61", "'q77'"]),
    "empty documents": (
        edit("corpus.jsonl", lambda text: json.dumps({"_id": "d1", "text": ""}) + "\n"),
        ["corpus.jsonl", "every document is empty"],
    ),
    "an empty pair": (pairs('{"query": "a", "document": " "}\n'), ["faq.jsonl:1", "`document`"]),
    "no pair": (pairs(""), ["faq.jsonl"]),
    "an unknown ending": (pairs("a\tb", "faq.xlsx"), ["faq.xlsx", ".jsonl, .tsv, .csv"]),
    "a folder without rows": (
        lambda tmp_path: text_folder(tmp_path).replace("beir", "pairs"),
        ["letter.txt", "save_to_disk"],
    ),
    "no MS MARCO files": (
        lambda tmp_path: text_folder(tmp_path).replace("beir", "msmarco"),
        ["collection.tsv", "letter.txt"],
    ),
    "no MultiReQA files": (
        lambda tmp_path: text_folder(tmp_path).replace("beir", "multireqa"),
        ["candidates.json.gz", "letter.txt"],
    ),
    "an unknown kind": (lambda tmp_path: "hdfs:somewhere", ["'hdfs:somewhere'", "beir:FOLDER"]),
    "no kind": (lambda tmp_path: str(tmp_path), ["beir:FOLDER"]),
}


@pytest.mark.parametrize("name", DATA)
def test_data_that_train_cannot_use(tmp_path, name):
    make, named = DATA[name]
    line = refuse("train", "--data", make(tmp_path), "--out", tmp_path / "run", *TINY_FLAGS)
    for words in named:
        assert words in line
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["missing folder", "no BEIR set", "broken JSON", "a query twice"])
@pytest.mark.parametrize("command", ["index", "evaluate"])
def test_data_that_other_commands_cannot_use(tmp_path, command, name):
    make, named = DATA[name]
    out = ("--out", tmp_path / "out")
    model = tiny.saved_model("sde")
    line = refuse(command, "--model", model, "--data", make(tmp_path), *out)
    for words in named:
        assert words in line
    assert not (tmp_path / "out").exists()


def test_unknown_ids_among_known_ones_are_counted_and_listed(tmp_path):
    more = "".join(f"q{500 + i}\td1\t1\n" for i in range(3)) + "q2\td900\t1\n"
    data = edit("qrels/train.tsv", lambda text: text + more)(tmp_path)
    done = samtone("train", "--data", data, "--out", tmp_path / "run", *TINY_FLAGS)
    assert done.code == 0
    notes = [line for line in done.out.splitlines() if line.startswith("note")]
    assert any("3 judged queries" in note and "q500" in note for note in notes)
    assert any("1 judged documents" in note and "d900" in note for note in notes)


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--train.batch_size", "61"], ["60", "batch_size=61"]),
        (["--train.batch_size", "1"], ["batch_size=1"]),
        (["--loss.temperature", "0"], ["`temperature`", "temperature=0"]),
        (["--loss.temperature=-0.01"], ["temperature=-0.01"]),
        (["--loss.temperature", "nan"], ["temperature", "nan"]),
        (["--loss.temperature", "inf"], ["temperature", "inf"]),
        (["--loss.temperature", "cold"], ["cold"]),
        (["--model.architecture", "tied"], ["'tied'", "sde, ade_spl, ade"]),
        (["--model.architecture", "[encoder, pooling]"], ["'pooling'"]),
        (["--model.size", "huge"], ["'huge'", "mini"]),
        (["--model.hidden_dim", "0"], ["hidden_dim=0"]),
        (["--model.dropout", "1"], ["dropout=1"]),
        (["--model.lora_rank=-1"], ["`lora_rank`", "lora_rank=-1"]),
        (["--model.lora_rank", "17"], ["to 16", "lora_rank=17"]),
        (["--model.lora_rank", "4", "--model.freeze", "encoder"], ["`freeze`", "lora_rank=4"]),
        (["--model.lora_targets", "qkv"], ["qkv", "query_value"]),
        (["--loss.masks", "id,ids"], ["'ids'"]),
        (["--loss.colour", "red"], ["--loss.colour"]),
        (["--train.steps", "0"], ["train.steps=0"]),
        (["--train.learning_rate", "0"], ["learning_rate=0"]),
        (["--train.steps_per_execution", "0"], ["steps_per_execution=0"]),
        (["--train.warmup_steps", "5"], ["warmup_steps=5"]),
        (["--data.query_length", "1"], ["query_length=1"]),
        (["--data.vocabulary", "/gone.spm"], ["/gone.spm", "does not exist"]),
        (["--data.vocabulary", __file__], [__file__, "SentencePiece"]),
        (["--data.vocabulary_size", "3"], ["vocabulary_size=3"]),
    ],
    ids=lambda value: " ".join(value) if value and value[0].startswith("--") else "",
)
def test_flags_that_train_cannot_use(tmp_path, flags, named):
    data = f"beir:{tiny.write_beir(tmp_path / 'beir')}"
    out = ("--out", tmp_path / "run")
    line = refuse("train", "--data", data, *out, *TINY_FLAGS, *flags)
    for words in named:
        assert words in line
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """A SavedModel that is none of ours."""
    folder = tmp_path_factory.mktemp("foreign") / "1"
    module = tf.Module()
    module.call = tf.function(lambda x: {"y": x}, input_signature=[tf.TensorSpec([None])])
    tf.saved_model.save(module, str(folder), signatures={"predict": module.call})
    return folder


@pytest.mark.parametrize("command", ["index", "evaluate"])
def test_models_that_cannot_be_used(tmp_path, command, foreign):
    data = ("--data", f"beir:{tiny.write_beir(tmp_path / 'beir')}", "--out", tmp_path / "out")
    assert "gone" in refuse(command, "--model", tmp_path / "gone", *data)
    assert "saved_model.pb" in refuse(command, "--model", tiny.run("sde"), *data)
    version = tiny.saved_model("sde")
    assert f"Did you mean {version}?" in refuse(command, "--model", version.parent, *data)
    line = refuse(command, "--model", foreign, *data)
    assert str(foreign) in line
    assert "['predict']" in line
    assert not (tmp_path / "out").exists()


def test_runs_that_cannot_be_exported(tmp_path):
    out = tmp_path / "1"
    assert "gone" in refuse("export", tmp_path / "gone", out)
    (tmp_path / "empty").mkdir()
    assert "config.yaml" in refuse("export", tmp_path / "empty", out)
    assert "length=1" in refuse("export", tiny.run("sde"), out, "--query_length", "1")
    assert "--length" in refuse("export", tiny.run("sde"), out, "--length", "1")
    assert not out.exists()


@pytest.mark.parametrize("command", ["index", "evaluate"])
@pytest.mark.parametrize(
    "flags", [["--kind", "faiss"], ["--search", "faiss"], ["--depth", "0"]], ids=str
)
def test_choices_of_index_and_evaluate(tmp_path, command, flags):
    data = ("--data", f"beir:{tiny.write_beir(tmp_path / 'beir')}", "--out", tmp_path / "out")
    line = refuse(command, "--model", tiny.saved_model("sde"), *data, *flags)
    assert flags[1] in line
    assert not (tmp_path / "out").exists()


def test_lengths_of_evaluate_that_cannot_be(tmp_path):
    data = ("--data", f"beir:{tiny.write_beir(tmp_path / 'beir')}")
    for length in ("1", "0", "-1"):
        flags = ("--model", tiny.saved_model("sde"), "--query_length", length)
        assert f"length={length}" in refuse("evaluate", *flags, *data)


def test_searches_that_cannot_be(tmp_path):
    from samtone_tf.index.store import build_index

    assert "gone" in refuse("search", tmp_path / "gone", "a question")
    build_index("exact", np.eye(3, dtype="float32"), ["a", "b", "c"], tmp_path / "bare")
    assert "retriever.json" in refuse("search", tmp_path / "bare", "a question")
    assert "k=0" in refuse("search", tmp_path / "gone", "a question", "--k", "0")
    assert "query" in refuse("search", tmp_path / "gone")
    assert "only empty ones" in refuse("search", tmp_path / "gone", "  ")
