"""Pins of judge: rows of a judged export, their values against loops, depth, refusals."""

import math
import sys
from dataclasses import replace

import numpy as np
import pytest

from samtone_tf.export.saved_encoder import SavedEncoder
from samtone_tf.judge import evaluate_model
from tests import tiny


@pytest.fixture(scope="module")
def encoder():
    return SavedEncoder(tiny.saved_model("ade_spl"))


def ranks_by_hand():
    """Place, from 1, of each query's only relevant document; scores from the Python model."""
    documents = tiny.python_vectors("ade_spl", "document", list(tiny.data().documents.values()))
    queries = tiny.python_vectors("ade_spl", "query", list(tiny.data().queries.values()))
    scores = queries @ documents.T
    return [int((row > row[i]).sum()) + 1 for i, row in enumerate(scores)]


def mean(values):
    return sum(values) / len(values)


def test_measures_of_exact_search_by_hand(encoder):
    ranks = ranks_by_hand()
    found = evaluate_model(encoder, tiny.data(), search="exact").scores["exact"].mean
    # Two scores within rounding of each other may change places: hence the tolerance.
    assert found["P@1"] == pytest.approx(mean([rank == 1 for rank in ranks]), abs=0.02)
    assert found["MRR"] == pytest.approx(mean([1 / rank for rank in ranks]), abs=0.01)
    ndcg = mean([1 / math.log2(rank + 1) if rank <= 10 else 0 for rank in ranks])
    assert found["nDCG@10"] == pytest.approx(ndcg, abs=0.01)
    assert found["R@100"] == 1.0  # of 60 documents
    assert 0.02 < found["MRR"] < 1  # neither chance nor perfection would test anything


def test_exact_search_stands_beside_the_index(encoder):
    result = evaluate_model(encoder, tiny.data(), search="scann", bm25=True)
    assert [row["system"] for row in result.rows()] == ["exact", "scann", "bm25"]
    assert set(result.index_recall) == {"scann"}
    assert result.index_recall["scann"]["recall@10"] == 1.0
    assert result.model["fingerprint"] == encoder.fingerprint
    assert result.model["lengths"] == encoder.lengths
    for name, value in result.scores["exact"].mean.items():
        assert result.scores["scann"].mean[name] == pytest.approx(value, abs=0.02)


def test_exact_search_alone(encoder):
    result = evaluate_model(encoder, tiny.data(), search="exact")
    assert [row["system"] for row in result.rows()] == ["exact"]
    assert result.index_recall == {}


def test_bm25_finds_what_shares_its_words(encoder):
    """Each query's two words are together in one document only."""
    result = evaluate_model(encoder, tiny.data(), search="exact", bm25=True)
    assert result.scores["bm25"].mean["P@1"] == 1.0


@pytest.mark.parametrize(("depth", "hits"), [(1, 1), (7, 7), (1000, 60)])
def test_depth_limits_every_run(encoder, depth, hits):
    result = evaluate_model(encoder, tiny.data(), search="scann", depth=depth, bm25=True)
    for search in ("exact", "scann"):
        assert {len(run) for run in result.runs[search].values()} == {hits}
    assert max(len(run) for run in result.runs["bm25"].values()) <= hits
    assert {row["depth"] for row in result.rows()} == {depth}


def test_a_folder_is_as_good_as_a_loaded_model(encoder):
    by_folder = evaluate_model(tiny.saved_model("ade_spl"), tiny.data(), search="exact")
    by_encoder = evaluate_model(encoder, tiny.data(), search="exact")
    assert by_folder.scores["exact"].mean == by_encoder.scores["exact"].mean


def test_drop_self_leaves_out_the_query_as_document(encoder):
    """As in ArguAna, where a query is a document under the same id."""
    texts = list(tiny.data().documents.values())
    data = replace(
        tiny.data(),
        queries={"d0": texts[0]},
        qrels={"d0": {"d1": 1}},
    )
    kept = evaluate_model(encoder, data, search="exact", bm25=True)
    dropped = evaluate_model(encoder, data, search="exact", bm25=True, drop_self=True)
    for search in ("exact", "bm25"):
        assert "d0" in kept.runs[search]["d0"]
        assert "d0" not in dropped.runs[search]["d0"]
    assert len(dropped.runs["exact"]["d0"]) == 59


def test_every_judged_query_counts(encoder):
    """A judged query without a text is unanswered and counts 0."""
    base = evaluate_model(encoder, tiny.data(), search="exact").scores["exact"]
    more = replace(tiny.data(), qrels=tiny.data().qrels | {"gone": {"d1": 1}})
    found = evaluate_model(encoder, more, search="exact").scores["exact"]
    assert found.num_queries == 61
    assert found.mean["MRR"] == pytest.approx(base.mean["MRR"] * 60 / 61)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"search": "faiss"}, "'faiss'"),
        ({"depth": 0}, "depth=0"),
        ({"depth": -1}, "depth=-1"),
        ({"measures": "P@0"}, "'P@0'"),
    ],
    ids=str,
)
def test_bad_arguments_are_refused_before_the_corpus_is_encoded(
    encoder, monkeypatch, arguments, message
):
    monkeypatch.setattr(
        SavedEncoder, "encode_document", lambda *_: pytest.fail("encoded the corpus first")
    )
    with pytest.raises(ValueError, match=f"Received: .*{message}"):
        evaluate_model(encoder, tiny.data(), **arguments)


def test_a_missing_bm25_is_said_before_the_corpus_is_encoded(encoder, monkeypatch):
    monkeypatch.setitem(sys.modules, "bm25s", None)
    monkeypatch.setattr(
        SavedEncoder, "encode_document", lambda *_: pytest.fail("encoded the corpus first")
    )
    with pytest.raises(ImportError, match="mining"):
        evaluate_model(encoder, tiny.data(), search="exact", bm25=True)


def test_no_judged_query_is_an_error(encoder):
    with pytest.raises(ValueError, match="0 such queries"):
        evaluate_model(encoder, replace(tiny.data(), qrels={}), search="exact")


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="gone"):
        evaluate_model(tmp_path / "gone", tiny.data())


def test_vectors_of_the_run_are_those_of_the_model(encoder):
    """The scores in the run are cosines: those of NumPy on the Python model's vectors."""
    run = evaluate_model(encoder, tiny.data(), search="exact").runs["exact"]["q7"]
    documents = tiny.python_vectors("ade_spl", "document", list(tiny.data().documents.values()))
    query = tiny.python_vectors("ade_spl", "query", [tiny.data().queries["q7"]])[0]
    want = dict(zip(tiny.data().documents, documents @ query, strict=True))
    assert run.keys() == want.keys()
    np.testing.assert_allclose([run[i] for i in want], list(want.values()), atol=1e-5)
