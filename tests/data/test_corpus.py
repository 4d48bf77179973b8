"""Pins of data.corpus: the texts of `load_data` in its order, without judgements; refusals."""

import gzip
import json
import shutil
from types import SimpleNamespace

import pytest

from samtone_tf.data import corpus as module
from samtone_tf.data.cache import default_folder
from samtone_tf.data.corpus import open_corpus
from samtone_tf.data.records import RetrievalData
from samtone_tf.data.sources import load_data
from tests import tiny

PAIRS = [
    {"query": "who", "document": "he", "negatives": ["she", "they"], "query_id": "007"},
    {"query": "what", "document": "they", "document_id": "d\n7", "title": "A"},
    {"query": "who", "document": "it", "negatives": ["he", "half \ud800"], "query_id": "007"},
    {"query": "what", "document": "they"},
]


def pairs(tmp_path):
    path = tmp_path / "faq.jsonl"
    path.write_text("\n".join(map(json.dumps, PAIRS)))
    return f"pairs:{path}"


def beir(tmp_path):
    folder = tiny.write_beir(tmp_path / "beir")
    with (folder / "corpus.jsonl").open("a") as file:
        file.write('\n{"_id": "x", "title": "A title", "text": " and text "}\n')
        file.write('{"_id": "y", "text": "half \\ud800"}\n{"_id": "z", "text": ""}\n')
    return f"beir:{folder}"


@pytest.mark.parametrize("side", ["query", "document"])
@pytest.mark.parametrize("make", [pairs, beir])
def test_texts_are_those_of_load_data_as_often_as_they_are_read(tmp_path, make, side):
    source = make(tmp_path)
    data = load_data(source)
    want = list((data.queries if side == "query" else data.documents).items())
    corpus = open_corpus(source, side)
    assert corpus.source == source
    for _ in range(2):
        assert list(corpus.read()) == want
    assert list(open_corpus(data, side).read()) == want


def test_columns_of_pairs_go_with_the_corpus(tmp_path):
    corpus = open_corpus(pairs(tmp_path), "document")
    texts = corpus.read()
    next(texts)
    assert len(list(default_folder().glob("texts-*"))) == 1
    del texts, corpus
    assert not list(default_folder().glob("texts-*"))


def test_other_sources_are_read_once_and_only_when_asked(monkeypatch):
    read = []

    def load(source, split):
        read.append((source, split))
        return tiny.data()

    monkeypatch.setattr(module, "load_data", load)
    corpus = open_corpus("docstrings", "query")
    assert not read
    for _ in range(2):
        assert dict(corpus.read()) == tiny.data().queries
    assert read == [("docstrings", "train")]


def test_a_beir_folder_needs_only_the_file_that_is_read(tmp_path):
    folder = tiny.write_beir(tmp_path / "beir")
    shutil.rmtree(folder / "qrels")
    (folder / "queries.jsonl").unlink()
    path = folder / "corpus.jsonl"
    (folder / "corpus.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert dict(open_corpus(f"beir:{folder}", "document").read()) == tiny.data().documents
    with pytest.raises(FileNotFoundError, match=r"hold queries.jsonl .* which lacks it"):
        open_corpus(f"beir:{folder}", "query")
    with pytest.raises(FileNotFoundError, match=r"gone, which is no folder"):
        open_corpus(f"beir:{tmp_path / 'gone'}", "document")


def test_files_of_a_corpus_follow_one_another_by_name(tmp_path):
    for name in ("b", "a", "c"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"_id": name, "text": f"text {name}"}))
    want = [("a", "text a"), ("b", "text b"), ("c", "text c")]
    assert list(open_corpus(f"corpus:{tmp_path}/*.jsonl", "document").read()) == want
    assert list(open_corpus(f"corpus:{tmp_path}/b.jsonl", "query").read()) == want[1:2]


def test_texts_in_memory():
    texts = {"a": "one", "b": b"\xff"}
    assert list(open_corpus(texts, "query").read()) == list(texts.items())
    data = RetrievalData("mine", "train", {"q": "what"}, {"d": "that"}, {})
    assert list(open_corpus(data, "query").read()) == [("q", "what")]
    assert open_corpus(data, "document").source == "mine"


BAD = {
    "an unknown kind": ("hdfs:x", ValueError, r"one of: corpus:FILES.jsonl, beir:.*'hdfs:x'"),
    "no kind": ("x", ValueError, "Received: 'x'"),
    "no file": ("corpus:{}/*.gone", FileNotFoundError, "gone', which matches no file"),
    "a folder": ("corpus:{}", FileNotFoundError, "which matches a folder"),
    "no pairs": ("pairs:{}/gone.jsonl", FileNotFoundError, "gone.jsonl, which does not exist"),
    "a list": (["a"], TypeError, "Received: list"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_corpus_is_refused_at_once(tmp_path, name):
    data, kind, match = BAD[name]
    data = data.replace("{}", str(tmp_path)) if isinstance(data, str) else data
    with pytest.raises(kind, match=match):
        open_corpus(data, "document")


def test_a_side_is_one_of_two():
    with pytest.raises(ValueError, match="`side` must be one of query, document. .*'passage'"):
        open_corpus(SimpleNamespace(), "passage")


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b'{"_id": "a", "text": "b"}\n\xff\n', "c.jsonl:2: expected UTF-8 text.*0xff"),
        (b'{"_id": "a", "text": "b"}\n{"_id": 1.5}\n', "c.jsonl:2: `_id` must be a string"),
        (b'{"_id": "a"}\n', "c.jsonl:1: `text` is missing"),
        (b"[1]\n", "c.jsonl:1: expected a JSON object"),
        (b"{\n", "c.jsonl:1: expected one JSON object per line"),
    ],
)
def test_a_bad_line_is_named(tmp_path, content, match):
    (tmp_path / "c.jsonl").write_bytes(content)
    with pytest.raises(ValueError, match=match):
        list(open_corpus(f"corpus:{tmp_path}/c.jsonl", "document").read())
