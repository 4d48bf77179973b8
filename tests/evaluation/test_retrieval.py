"""Pins of evaluation.retrieval: depth, batches, exclusions, queries that are documents."""

import numpy as np
import pytest

from samtone_tf.data.records import RetrievalData
from samtone_tf.evaluation.measures import measure
from samtone_tf.evaluation.retrieval import drops_self, search_run, self_retrieval_ids
from samtone_tf.index.exact import ExactIndex

# Cosines of the query (1, 0) with a, b, c, d: 1, 0.8, 0.6, 0.
VECTORS = np.array([[1, 0], [0.8, 0.6], [0.6, 0.8], [0, 1]], np.float32)
INDEX = ExactIndex.build(VECTORS, list("abcd"))


def test_a_run_holds_scores_by_id():
    run = search_run(INDEX, ["q1", "q2"], VECTORS[[0, 3]], depth=2)
    assert list(run) == ["q1", "q2"]
    assert run["q1"] == pytest.approx({"a": 1, "b": 0.8})
    assert run["q2"] == pytest.approx({"d": 1, "c": 0.8})
    assert type(run["q1"]["a"]) is float


@pytest.mark.parametrize("batch_size", [1, 2, 3, 256])
def test_batches_change_nothing(batch_size):
    queries = np.random.default_rng(0).normal(size=(7, 2))
    names = [f"q{i}" for i in range(7)]
    assert search_run(INDEX, names, queries, batch_size=batch_size) == search_run(
        INDEX, names, queries
    )
    assert len(search_run(INDEX, names, queries, batch_size=batch_size)["q6"]) == 4


def test_excluded_documents_are_made_up_for():
    exclude = {"q1": {"a", "c"}, "other": {"b"}}
    run = search_run(INDEX, ["q1", "q2"], VECTORS[[0, 0]], depth=2, exclude=exclude)
    assert list(run["q1"]) == ["b", "d"]
    assert list(run["q2"]) == ["a", "b"]


def test_c45_a_query_does_not_find_itself():
    data = RetrievalData("x", "test", {"q1": "x"}, {"q1": "x", "d2": "y"}, {"q1": {"d2": 1}})
    index, query = ExactIndex.build(VECTORS[:2], ["q1", "d2"]), VECTORS[:1]
    found = search_run(index, ["q1"], query, depth=1, exclude=self_retrieval_ids(data))
    assert measure(found, data.qrels, ("nDCG@1",)).mean == {"nDCG@1": 1.0}
    kept = search_run(index, ["q1"], query, depth=1)
    assert measure(kept, data.qrels, ("nDCG@1",)).mean == {"nDCG@1": 0.0}


def test_c45_the_same_id_is_the_same_text_only_if_it_is():
    queries = {"1": "a  cat", "2": "a cat", "3": "a cat", "4": "a cat", "5": ""}
    documents = {
        "1": "a cat",  # the same but for spacing
        "2": "Of cats a cat",  # a title in front
        "3": "a dog",  # an id by chance
        "x4": "a cat",  # another document with the same text
        "5": "a dog",  # an empty query is the end of every text
    }
    found = self_retrieval_ids(RetrievalData("x", "test", queries, documents, {}))
    assert found == {"1": {"1"}, "2": {"2"}}


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("beir:arguana", True),
        ("beir:/data/ArguAna/", True),
        ("pairs:faq/Quora.jsonl", True),
        ("beir:C:\\data\\quora", True),
        ("beir:quora/scifact", False),
        ("beir:scifact", False),
        ("docstrings", False),
    ],
)
def test_c45_only_the_last_part_of_a_source_names_it(source, named):
    data = RetrievalData(source, "test", {}, {}, {})
    assert drops_self(data) is drops_self(data, None) is named
    assert drops_self(data, True) is True
    assert drops_self(data, False) is False


def test_bad_input_says_what_was_received():
    with pytest.raises(ValueError, match="1 ids for 2 vectors"):
        search_run(INDEX, ["q"], VECTORS[:2])
    with pytest.raises(ValueError, match="distinct. Received: 1 repetitions"):
        search_run(INDEX, ["q", "q"], VECTORS[:2])
    with pytest.raises(ValueError, match="`query_vectors` must have 2 columns"):
        search_run(INDEX, ["q"], np.ones((1, 3)))
    with pytest.raises(ValueError, match="depth=0"):
        search_run(INDEX, ["q"], VECTORS[:1], depth=0)
