"""Pins of `samtone encode`, and of `samtone index` on its vectors."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from samtone_tf.cli.encode import parse_shards
from samtone_tf.encoding.vectors import Vectors
from samtone_tf.export.saved_encoder import SavedEncoder
from samtone_tf.retriever import Retriever
from tests import tiny
from tests.cli.runner import ROOT, refuse, succeed

QUESTION = "the old harbour"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return f"beir:{tiny.write_beir(tmp_path_factory.mktemp('encode') / 'beir')}"


@pytest.fixture(scope="module")
def vectors(tmp_path_factory, data):
    """Folders of documents (printed text with them) and queries; read them only."""
    top = tmp_path_factory.mktemp("vectors")
    flags = ("encode", "--model", tiny.saved_model("sde"), "--data", data, "--shard_size", "25")
    printed = succeed(*flags, "--out", top / "documents").out
    succeed(*flags, "--out", top / "queries", "--side", "query")
    return top / "documents", top / "queries", printed


def test_vectors_are_those_of_the_model(vectors):
    documents, queries, printed = vectors
    saved = SavedEncoder(tiny.saved_model("sde"))
    for folder, side in ((documents, "document"), (queries, "query")):
        found, texts = (
            Vectors(folder),
            getattr(tiny.data(), f"{'queries' if side == 'query' else 'documents'}"),
        )
        assert found.ids == list(texts)
        want = getattr(saved, f"encode_{side}")(list(texts.values()))
        np.testing.assert_allclose(found[:], want, atol=1e-5)
    assert "encoded 60 documents in " in printed
    assert f"{documents} is complete: 60 documents, 12 float32 numbers each" in printed


def test_again_there_is_nothing_to_do_and_changes_are_refused(vectors, data, tmp_path):
    documents, _, _ = vectors
    flags = ("encode", "--model", tiny.saved_model("sde"), "--data", data, "--out", documents)
    assert "nothing was left to encode" in succeed(*flags, "--shard_size", "25").out
    line = refuse(*flags, "--shard_size", "30")
    assert "shard_size 25 and not 30" in line


def test_ranges_and_int8(tmp_path, data):
    flags = ("encode", "--model", tiny.run("sde"), "--data", data, "--out", tmp_path / "v")
    flags = (*flags, "--shard_size", "25", "--dtype", "int8", "--strategy", "one")
    assert "lacks 2 of 3 shards" in succeed(*flags, "--shards", "1:2").out
    assert "lacks 1 of 3 shards" in succeed(*flags, "--shards", "2:").out
    out = succeed(*flags).out
    assert "cosine with the float32 vectors: 0.999" in out
    want = SavedEncoder(tiny.saved_model("sde"), document_length=512)
    want = want.encode_document(list(tiny.data().documents.values()))
    np.testing.assert_allclose(Vectors(tmp_path / "v")[:], want, atol=0.01)


@pytest.mark.parametrize(
    ("text", "want"), [("0:10", (0, 10)), ("3:", (3, None)), (None, None), ("7:8", (7, 8))]
)
def test_ranges_of_shards(text, want):
    assert parse_shards(text) == want


@pytest.mark.parametrize("text", ["", "3", ":3", "a:b", "-1:2", "1:2:3"])
def test_what_is_no_range_is_refused(text):
    with pytest.raises(ValueError, match="`shards` must be first:end.*Received: shards="):
        parse_shards(text)


BAD = {
    "no model": (["--model", "gone"], "gone, which does not exist"),
    "no data": (["--data", "corpus:gone.jsonl"], "'gone.jsonl', which matches no file"),
    "shard size": (["--shard_size", "0"], "`shard_size` must be at least 1"),
    "dtype": (["--dtype", "bfloat16"], "dtype='bfloat16'"),
    "side": (["--side", "passage"], "side='passage'"),
    "shards": (["--shards", "7:9"], "`shards` must be first:end within 0:1"),
    "strategy": (["--strategy", "mirrored"], "`strategy` is for a run folder"),
    "shards of Beam": (["--shards", "0:1", "--beam"], "`shards` has no meaning with --beam"),
    "devices of Beam": (["--strategy", "tpu", "--beam"], "`strategy` has no meaning with --beam"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_writes_nothing(tmp_path, data, name):
    flags, words = BAD[name]
    out = tmp_path / "v"
    line = refuse(
        "encode", "--model", tiny.saved_model("sde"), "--data", data, "--out", out, *flags
    )
    assert words in line
    assert not out.exists()


def test_a_folder_of_something_else_is_refused(tmp_path, data):
    (tmp_path / "letter.txt").write_text("dear")
    model = tiny.saved_model("sde")
    assert "nothing is overwritten" in refuse(
        "encode", "--model", model, "--data", data, "--out", tmp_path
    )


def test_invalid_utf_8_names_the_line(tmp_path):
    (tmp_path / "c.jsonl").write_bytes(b'{"_id": "a", "text": "b"}\n\xff\n')
    flags = ("--data", f"corpus:{tmp_path / 'c.jsonl'}", "--out", tmp_path / "v")
    assert "c.jsonl:2" in refuse("encode", "--model", tiny.saved_model("sde"), *flags)


def test_an_index_of_vectors_is_that_of_model_and_data(vectors, data, tmp_path):
    documents, queries, _ = vectors
    model = tiny.saved_model("sde")
    succeed("index", "--model", model, "--data", data, "--out", tmp_path / "a", "--kind", "exact")
    flags = ("index", "--vectors", documents, "--queries", queries, "--kind", "exact")
    printed = succeed(*flags, "--data", data, "--out", tmp_path / "b").out
    assert "60 documents, exact, recall@10 1.0000" in printed
    assert "(60 queries, given)" in printed
    a, b = Retriever.load(tmp_path / "a"), Retriever.load(tmp_path / "b")
    assert a.index.model == b.index.model == SavedEncoder(model).fingerprint
    (want,), (found,) = a.search([QUESTION], 5), b.search([QUESTION], 5)
    assert [hit.document_id for hit in found] == [hit.document_id for hit in want]
    np.testing.assert_allclose([h.score for h in found], [h.score for h in want], atol=1e-5)
    assert [hit.text for hit in found] == [hit.text for hit in want]


def test_an_index_without_texts_is_searched_all_the_same(vectors, tmp_path):
    documents, _, _ = vectors
    succeed("index", "--vectors", documents, "--out", tmp_path / "index", "--kind", "exact")
    out = succeed("search", tmp_path / "index", QUESTION, "--json", "--k", "2").out
    hits = json.loads(out)["hits"]
    assert [hit["text"] for hit in hits] == ["", ""]
    assert hits[0]["document_id"] in tiny.data().documents
    other = tiny.saved_model("ade_spl")
    assert "fingerprint" in refuse("search", tmp_path / "index", QUESTION, "--model", other)


def test_what_does_not_go_together_is_refused(vectors, data, tmp_path):
    documents, queries, _ = vectors
    model, out = ("--model", tiny.saved_model("sde")), ("--out", tmp_path / "i")
    for flags in (
        (),
        ("--data", data),
        model,
        ("--vectors", documents, *model),
        ("--vectors", documents, "--split", "test"),
        (*model, "--data", data, "--queries", queries),
    ):
        assert "An index is built from --model and --data" in refuse("index", *flags, *out)
    assert "of side query" in refuse("index", "--vectors", queries, *out)
    line = refuse("index", "--vectors", documents, "--queries", documents, *out)
    assert "`queries` must be vectors of side query" in line
    assert "gone" in refuse("index", "--vectors", tmp_path / "gone", *out)
    few = tmp_path / "few.jsonl"
    few.write_text('{"_id": "d0", "text": "a"}')
    line = refuse("index", "--vectors", documents, "--data", f"corpus:{few}", *out)
    assert "lacks 59 of 60, such as 'd1'" in line
    assert not (tmp_path / "i").exists()


def test_queries_of_another_model_are_refused(vectors, data, tmp_path):
    documents, _, _ = vectors
    model = ("--model", tiny.saved_model("ade_spl"))
    succeed("encode", *model, "--data", data, "--side", "query", "--out", tmp_path / "q")
    flags = ("--vectors", documents, "--queries", tmp_path / "q", "--out", tmp_path / "i")
    assert "`queries` must be vectors of the model that made" in refuse("index", *flags)


@pytest.mark.slow
def test_a_command_that_was_killed_goes_on(tmp_path):
    texts = {f"d{row}": text for row, text in enumerate(tiny.docstring_texts(4000))}
    lines = [json.dumps({"_id": name, "text": text}) for name, text in texts.items()]
    (tmp_path / "c.jsonl").write_text("\n".join(lines))
    out = tmp_path / "v"
    flags = ["--model", tiny.saved_model("sde"), "--data", f"corpus:{tmp_path / 'c.jsonl'}"]
    flags = ["encode", *flags, "--out", out, "--shard_size", "100", "--batch_tokens", "64"]
    command = [sys.executable, "-m", "samtone_tf.cli.main", *map(str, flags)]
    for done in (1, 9):
        process = subprocess.Popen(command, cwd=ROOT, env=dict(os.environ))
        deadline = time.monotonic() + 120
        while len(list(out.glob("shard-*.json"))) < done and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL  # it was not over
    assert 9 <= len(list(out.glob("shard-*.json"))) < 40
    succeed(*flags)
    vectors = Vectors(out)
    assert vectors.ids == list(texts)
    want = SavedEncoder(tiny.saved_model("sde")).encode_document(list(texts.values()))
    np.testing.assert_allclose(vectors[:], want, atol=1e-5)
    assert not list(out.glob(".*"))
