"""Pins of retriever: build, move, load and search again; which model an index takes; hits."""

import functools
import gzip
import json
import shutil

import numpy as np
import pytest

from samtone_tf.data.records import RetrievalData
from samtone_tf.export.saved_encoder import SavedEncoder
from samtone_tf.index.conditions import Crowding
from samtone_tf.index.scann_settings import ScannSettings
from samtone_tf.index.store import load_index
from samtone_tf.retriever import Retriever
from tests import tiny

QUERIES = ["the old harbour", "the famous tunnel", "nothing of the kind"]


def by_hand(architecture, queries):
    """Document ids of each query, best first, from the Python model and a dot product."""
    vectors = tiny.python_vectors(architecture, "document", list(tiny.data().documents.values()))
    scores = tiny.python_vectors(architecture, "query", queries) @ vectors.T
    names = np.array(list(tiny.data().documents))
    return names[np.argsort(-scores, axis=1)], -np.sort(-scores, axis=1)


@pytest.fixture(scope="module", params=["exact", "scann"])
def folders(request, tmp_path_factory):
    """(folder of everything, model, index) of one kind; read it only."""
    top = tmp_path_factory.mktemp("retriever") / "work"
    shutil.copytree(tiny.saved_model("ade_spl"), top / "saved_models" / "1")
    model, index = top / "saved_models" / "1", top / "index"
    Retriever.build(model, tiny.data(), index, kind=request.param)
    return top, model, index


def test_hits_are_those_of_the_python_model(folders):
    _, _, index = folders
    want_ids, want_scores = by_hand("ade_spl", QUERIES)
    found = Retriever.load(index).search(QUERIES, k=5)
    assert [len(hits) for hits in found] == [5, 5, 5]
    for hits, ids, scores in zip(found, want_ids, want_scores, strict=True):
        np.testing.assert_allclose([hit.score for hit in hits], scores[:5], atol=1e-5)
        best = [name for name, score in zip(ids, scores, strict=True) if score > scores[4] - 1e-4]
        assert {hit.document_id for hit in hits} <= set(best)


def test_hits_carry_their_texts(folders):
    _, _, index = folders
    (hits,) = Retriever.load(index).search(["the old harbour"], k=60)
    assert {hit.document_id: hit.text for hit in hits} == tiny.data().documents


def test_a_depth_beyond_the_corpus_gives_all_of_it(folders):
    _, _, index = folders
    (hits,) = Retriever.load(index).search(["the old harbour"], k=1000)
    assert sorted(hit.document_id for hit in hits) == sorted(tiny.data().documents)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def copy(folders, to):
    top, _, _ = folders
    shutil.copytree(top, to)
    return to


def test_both_folders_moved_together_find_each_other(folders, tmp_path, monkeypatch):
    top, model, index = folders
    want = Retriever.load(index).search(QUERIES)
    copy(folders, tmp_path / "copied")
    # The old place is gone for the copy: only the relative path can lead to the model.
    about = tmp_path / "copied" / "index" / "retriever.json"
    content = json.loads(about.read_text())
    assert content["model"] == str(model.resolve())
    about.write_text(json.dumps(content | {"model": str(tmp_path / "gone" / "1")}))
    (tmp_path / "copied").rename(tmp_path / "moved")
    moved = Retriever.load(tmp_path / "moved" / "index")
    assert moved.encoder.folder.resolve() == tmp_path / "moved" / "saved_models" / "1"
    assert moved.search(QUERIES) == want
    monkeypatch.chdir(tmp_path / "moved")
    assert Retriever.load("index").search(QUERIES) == want


def test_an_index_moved_alone_finds_its_model_where_it_was(folders, tmp_path):
    _, model, index = folders
    shutil.copytree(index, tmp_path / "a" / "b" / "moved")
    moved = Retriever.load(tmp_path / "a" / "b" / "moved")
    assert moved.encoder.folder == model.resolve()
    assert moved.search(QUERIES) == Retriever.load(index).search(QUERIES)


def test_a_model_that_is_gone_is_asked_for(folders, tmp_path):
    _, model, index = folders
    top = copy(folders, tmp_path / "work")
    about = top / "index" / "retriever.json"
    content = json.loads(about.read_text()) | {"model": str(tmp_path / "gone" / "1")}
    about.write_text(json.dumps(content))
    shutil.move(top / "saved_models", tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError, match=r"gone/1, which is no longer there\. .*--model"):
        Retriever.load(top / "index")
    found = Retriever.load(top / "index", model=tmp_path / "elsewhere" / "1").search(QUERIES)
    assert found == Retriever.load(index).search(QUERIES)


def test_another_model_is_refused(folders):
    _, _, index = folders
    with pytest.raises(ValueError, match=r"must be the one that made.*with fingerprint \w{16}"):
        Retriever.load(index, model=tiny.saved_model("sde"))


def test_the_report_is_written_beside_the_index(folders):
    _, _, index = folders
    about = json.loads((index / "report.json").read_text())
    assert (about["num_documents"], about["dim"]) == (60, tiny.DIM)
    assert (about["num_queries"], about["queries"]) == (60, "given")
    assert about["recall_at_10"] == 1.0  # both kinds score every one of 60 documents
    assert about["bytes_on_disk"] > 0


def test_texts_keep_every_character(tmp_path):
    odd = {"a": "tab\tline\nend", "b": "naïve 🙂 \u2028 “q”", "007": "", "c": "\u0000"}
    data = RetrievalData("odd", "test", {}, odd, {})
    Retriever.build(tiny.saved_model("sde"), data, tmp_path / "index", kind="exact")
    (hits,) = Retriever.load(tmp_path / "index").search(["tab"], k=9)
    assert {hit.document_id: hit.text for hit in hits} == odd
    assert json.loads((tmp_path / "index" / "report.json").read_text())["queries"] == (
        "sampled from the corpus"
    )
    with gzip.open(tmp_path / "index" / "texts.jsonl.gz", "rt", encoding="utf-8") as lines:
        assert [json.loads(line) for line in lines] == list(odd.values())


def test_bad_calls_name_what_was_received(folders):
    _, _, index = folders
    retriever = Retriever.load(index)
    with pytest.raises(TypeError, match="must be a list of strings. Received: 'the old harbour'"):
        retriever.search("the old harbour")
    with pytest.raises(ValueError, match="Received: k=0"):
        retriever.search(["the old harbour"], k=0)
    assert retriever.search([]) == []


def test_what_exists_is_replaced_only_when_asked_for(tmp_path):
    index, model = tmp_path / "index", tiny.saved_model("sde")
    few = RetrievalData("few", "test", {}, {"a": "one", "b": "two"}, {})
    Retriever.build(model, few, index, kind="exact")
    with pytest.raises(FileExistsError, match=f"Received: {index}"):
        Retriever.build(model, tiny.data(), index, kind="exact")
    assert len(Retriever.load(index).texts) == 2
    Retriever.build(model, tiny.data(), index, kind="exact", overwrite=True)
    assert len(Retriever.load(index).texts) == 60
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(FileExistsError, match="mine"):
        Retriever.build(model, few, tmp_path / "mine", kind="exact", overwrite=True)


def test_an_unknown_kind_is_refused_before_the_corpus_is_encoded(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "samtone_tf.retriever.SavedEncoder.encode_document",
        lambda *_: pytest.fail("encoded the corpus first"),
    )
    with pytest.raises(ValueError, match="Received: kind='faiss'"):
        Retriever.build(tiny.saved_model("sde"), tiny.data(), tmp_path / "index", kind="faiss")


def test_what_is_no_index_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="gone"):
        Retriever.load(tmp_path / "gone")
    from samtone_tf.index.store import build_index

    build_index("exact", np.eye(3, dtype="float32"), ["a", "b", "c"], tmp_path / "bare")
    with pytest.raises(FileNotFoundError, match=r"bare, which has no retriever\.json"):
        Retriever.load(tmp_path / "bare")


@pytest.fixture(scope="module")
def halves(tmp_path_factory):
    """Two indexes over halves of the documents, and one over all, of one model."""
    top, model = tmp_path_factory.mktemp("halves"), tiny.saved_model("sde")
    documents = list(tiny.data().documents.items())
    for name, some in {"a": documents[:25], "b": documents[25:], "all": documents}.items():
        data = RetrievalData(name, "test", {}, dict(some), {})
        Retriever.build(model, data, top / name, kind="scann" if name == "a" else "exact")
    return top


def test_several_indexes_answer_as_one(halves):
    merged = Retriever.load([halves / "a", halves / "b"])
    whole = Retriever.load(halves / "all")
    for k in (1, 7, 100):
        for got, want in zip(merged.search(QUERIES, k), whole.search(QUERIES, k), strict=True):
            assert [hit.text for hit in got] == [hit.text for hit in want]
            np.testing.assert_allclose(
                [hit.score for hit in got], [hit.score for hit in want], atol=1e-6
            )
    assert Retriever.load([halves / "all"]).search(QUERIES) == whole.search(QUERIES)


def test_conditions_reach_the_index(halves):
    names = list(tiny.data().documents)
    groups = {name: int(name[1:]) % 3 for name in names}
    given = {"allowed": set(names[:30]), "crowding": Crowding(groups, 2)}
    for folders in (halves / "all", [halves / "a", halves / "b"]):
        (hits,) = Retriever.load(folders).search(["the old harbour"], 9, **given)
        assert len(hits) == 6
        assert {hit.document_id for hit in hits} <= given["allowed"]
        assert sorted(groups[hit.document_id] for hit in hits) == [0, 0, 1, 1, 2, 2]


def test_indexes_that_do_not_belong_together_are_refused(halves, folders):
    _, _, other = folders
    with pytest.raises(ValueError, match=r"one model. Received: fingerprints \w{16} and \w{16}"):
        Retriever.load([halves / "a", other])
    with pytest.raises(ValueError, match="not share document ids. Received: 'd0' in two"):
        Retriever.load([halves / "a", halves / "all"])


def test_an_index_of_another_model_is_refused_however_it_comes(halves, folders):
    other = load_index(folders[2])
    encoder = Retriever.load(halves / "all").encoder
    with pytest.raises(ValueError, match=f"fingerprint {encoder.fingerprint}; the index has"):
        Retriever(encoder, other, {})


def test_settings_that_do_not_fit_are_refused_before_encoding(tmp_path, monkeypatch):
    def encode(self, texts):
        raise AssertionError("encoded")

    monkeypatch.setattr(SavedEncoder, "encode_document", encode)
    build = functools.partial(Retriever.build, tiny.saved_model("sde"), tiny.data())
    with pytest.raises(ValueError, match="number of documents, 60. Received: num_leaves=61"):
        build(tmp_path / "a", kind="scann", settings=ScannSettings(num_leaves=61))
    with pytest.raises(ValueError, match="`settings` must be left out for kind='exact'"):
        build(tmp_path / "a", kind="exact", settings=ScannSettings(num_leaves=6))
    with pytest.raises(ValueError, match="`storage` must be one of"):
        build(tmp_path / "a", storage="int4")
