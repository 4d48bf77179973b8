"""Pins of evaluation.evaluate: model and index apart, what counts, rows and table."""

import importlib.util
import json

import numpy as np
import pytest

from samtone_tf.data.records import RetrievalData
from samtone_tf.evaluation.evaluate import evaluate
from samtone_tf.index.base import SearchResult
from samtone_tf.index.exact import ExactIndex
from samtone_tf.index.store import build_index

# Documents a, b, c at 0, 37 and 53 degrees; a query "45" is a vector at 45 degrees.
VECTORS = np.array([[1, 0], [0.8, 0.6], [0.6, 0.8]], np.float32)
DATA = RetrievalData(
    source="toy",
    split="test",
    queries={"q1": "0", "q2": "60", "unjudged": "1", "b": "37"},
    documents={"a": "0", "b": "37", "c": "53"},
    qrels={"q1": {"a": 1}, "q2": {"b": 1}, "none": {"a": 0}, "textless": {"a": 1}},
    notes=("a note of the reader",),
)


def encode(texts):
    angles = np.radians([float(text) for text in texts])
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


class WorstFirst:
    """An index that finds the exact neighbours but for the best one."""

    kind = "scann"

    def __init__(self, exact):
        self.exact = exact
        self.dim, self.num_documents = exact.dim, exact.num_documents
        self.document_ids, self.model = exact.document_ids, exact.model

    def search(self, vectors, k):
        found = self.exact.search(vectors, k)
        return SearchResult([ids[1:] for ids in found.document_ids], [s[1:] for s in found.scores])

    def save(self, folder, *, overwrite=False):
        raise NotImplementedError


EXACT = ExactIndex.build(VECTORS, list("abc"))


def test_judged_queries_with_text_are_encoded_and_the_others_count_zero():
    asked = []

    def encode_and_note(texts):
        asked.extend(texts)
        return encode(texts)

    result = evaluate(DATA, encode_and_note, [EXACT])
    assert asked == ["0", "60"]
    # q1 finds a first; q2 (60 degrees) finds c, then b; "textless" finds nothing.
    assert result.scores["exact"].mean["MRR"] == pytest.approx((1 + 1 / 2 + 0) / 3)
    assert result.scores["exact"].num_unanswered == 1
    assert "1 judged queries have no text; they count as unanswered" in result.notes
    assert "a note of the reader" in result.notes


def test_the_loss_of_an_index_is_told_from_the_model():
    result = evaluate(DATA, encode, [EXACT, WorstFirst(EXACT)], depth=3)
    # Without its best hit, q1 loses a; q2 loses c, so b is first: MRR (0 + 1 + 0) / 3.
    assert result.scores["scann"].mean["MRR"] == pytest.approx(1 / 3)
    assert result.index_loss("scann")["MRR"] == pytest.approx(1.5 / 3 - 1 / 3)
    assert result.index_loss("scann")["R@100"] == pytest.approx(1 / 3)
    # Two of three documents are found for each query.
    assert result.index_recall["scann"] == pytest.approx({"recall@10": 2 / 3, "recall@100": 2 / 3})


def test_without_exact_search_no_loss_is_claimed():
    result = evaluate(DATA, encode, [WorstFirst(EXACT)])
    assert result.index_recall == {}
    assert "index_loss" not in result.rows()[0]
    assert "exact" not in result.table()


def test_json_and_table_show_both():
    result = evaluate(DATA, encode, [EXACT, WorstFirst(EXACT)], depth=3)
    said = json.loads(json.dumps(result.to_json()))
    assert [row["search"] for row in said["rows"]] == ["exact", "scann"]
    assert said["rows"][1]["index_loss"]["MRR"] == pytest.approx(1 / 6)
    assert said["rows"][0]["depth"] == 3
    assert said["counts"]["exact"]["num_queries"] == 3
    assert said["counts"]["exact"]["num_without_relevant"] == 1
    lines = result.table().splitlines()
    assert lines[0].split() == ["search", "P@1", "MRR", "MRR@10", "nDCG@10", "R@100", "MAP"]
    assert lines[1].split()[:3] == ["exact", "0.3333", "0.5000"]
    assert lines[2].split()[:3] == ["scann", "0.3333", "0.3333"]
    assert lines[3].split()[2:5] == ["scann", "+0.0000", "+0.1667"]
    assert len({len(line) for line in lines[:4]}) == 1
    assert "scann against exact search: recall@10 0.6667, recall@100 0.6667" in lines
    assert said["unanswered"] == {"exact": ["textless"], "scann": ["textless"]}
    assert "exact: 1 queries unanswered, counted 0: textless" in lines
    assert "measure_depths" not in said["rows"][1]  # one search, no deeper than 10
    assert lines[-1] == "1 judged queries have no text; they count as unanswered"


class LazyForTen(WorstFirst):
    """An index that loses the best neighbour in a search for 10 or fewer only."""

    def search(self, vectors, k):
        return super().search(vectors, k) if k <= 10 else self.exact.search(vectors, k)


MANY = ExactIndex.build(
    np.concatenate([VECTORS, encode([str(angle) for angle in range(90, 110)])]),
    ["a", "b", "c", *(f"x{angle}" for angle in range(90, 110))],
)


def test_c42_cutoffs_up_to_10_come_from_a_search_for_10():
    result = evaluate(DATA, encode, [MANY, LazyForTen(MANY)], depth=20)
    exact, scann = result.scores["exact"], result.scores["scann"]
    # q1 finds a first, q2 c and then b; for 10, a and c are lost, so b comes first.
    assert (exact.mean["MRR@10"], scann.mean["MRR@10"]) == pytest.approx((0.5, 1 / 3))
    assert scann.per_query["q1"]["P@1"] == 0
    assert scann.per_query["q2"]["P@1"] == 1
    assert scann.per_query["q1"]["nDCG@10"] == 0
    loss = result.index_loss("scann")
    assert loss["MRR@10"] == pytest.approx(1 / 6)
    assert loss["MRR"] == loss["R@100"] == loss["MAP"] == 0
    assert list(scann.mean) == list(exact.mean)
    assert result.runs["scann"] == result.runs["exact"]  # the deep one
    assert {len(hits) for hits in result.runs["scann"].values()} == {20}


def test_c42_table_and_json_say_which_search_a_measure_is_from():
    result = evaluate(DATA, encode, [MANY, LazyForTen(MANY)], depth=20)
    said = "scann: cutoffs up to 10 from a search for 10, the rest from depth 20"
    assert said in result.table().splitlines()
    exact, scann = json.loads(json.dumps(result.to_json()))["rows"]
    assert scann["measure_depths"] == {
        "P@1": 10,
        "MRR": 20,
        "MRR@10": 10,
        "nDCG@10": 10,
        "R@100": 20,
        "MAP": 20,
    }
    assert "measure_depths" not in exact


def test_c42_without_the_query_itself_a_search_for_10_still_keeps_10():
    data = RetrievalData("toy", "test", DATA.queries, DATA.documents, {"b": {"a": 1}})
    asked = []

    class Noting(WorstFirst):
        def search(self, vectors, k):
            asked.append(k)
            return self.exact.search(vectors, k)

    result = evaluate(data, encode, [Noting(MANY)], depth=20, drop_self=True)
    assert asked == [21, 11]
    assert result.scores["scann"].mean["P@1"] == 0  # c, then a
    assert result.scores["scann"].mean["MRR@10"] == result.scores["scann"].mean["MRR"] == 0.5


@pytest.mark.skipif(importlib.util.find_spec("scann") is None, reason="ScaNN has no wheel here")
def test_an_index_that_approximates_nothing_says_so():
    index = build_index("scann", VECTORS, list("abc")).index
    result = evaluate(DATA, encode, [EXACT, index])
    said = "scann (brute force below 20,000 documents)"
    row = result.to_json()["rows"][1]
    assert (row["search"], row["index"]) == ("scann", said)
    assert f"{said} against exact search: recall@10 1.0000, recall@100 1.0000" in (
        result.table().splitlines()
    )


def test_c47_unanswered_queries_are_listed():
    lost = {f"lost{number}": {"a": 1} for number in range(7)}
    data = RetrievalData("toy", "test", DATA.queries, DATA.documents, {**DATA.qrels, **lost})
    result = evaluate(data, encode, [EXACT])
    assert result.to_json()["unanswered"] == {"exact": ["textless", *lost]}
    assert result.to_json()["counts"]["exact"]["num_unanswered"] == 8
    want = "exact: 8 queries unanswered, counted 0: textless, lost0, lost1, lost2, lost3, …"
    assert want in result.table().splitlines()


def test_other_runs_stand_beside_and_are_cut_alike():
    other = {"q1": {"b": 1.0, "a": 2.0}, "q2": {"c": 5.0, "a": 4.0, "b": 3.0}}
    result = evaluate(DATA, encode, [EXACT], depth=2, runs={"bm25": other})
    assert result.runs["bm25"] == {"q1": {"a": 2.0, "b": 1.0}, "q2": {"c": 5.0, "a": 4.0}}
    assert list(result.scores) == ["exact", "bm25"]
    assert result.scores["bm25"].mean["MRR"] == pytest.approx(1 / 3)


def test_c45_a_query_that_is_a_document_is_dropped_on_request():
    data = RetrievalData("toy", "test", DATA.queries, DATA.documents, {"b": {"c": 1}})
    kept = evaluate(data, encode, [EXACT], depth=1)
    assert kept.scores["exact"].mean["P@1"] == 0
    dropped = evaluate(
        data, encode, [EXACT], depth=1, drop_self=True, runs={"other": {"b": {"b": 2.0, "c": 1.0}}}
    )
    assert dropped.scores["exact"].mean["P@1"] == dropped.scores["other"].mean["P@1"] == 1
    assert dropped.notes == ("1 queries are documents themselves; those hits were left out",)
    assert kept.notes == (
        "1 queries are documents themselves (same id and text) and may find themselves; "
        "drop_self leaves those hits out",
    )


def test_c45_queries_that_nobody_judged_are_no_reason_for_a_note():
    data = RetrievalData("toy", "test", DATA.queries, DATA.documents, {"q1": {"a": 1}})
    assert evaluate(data, encode, [EXACT]).notes == ()


def test_c45_data_by_a_known_name_drops_the_query_itself():
    named = RetrievalData("beir:x/ArguAna", "test", DATA.queries, DATA.documents, {"b": {"c": 1}})
    dropped = evaluate(named, encode, [EXACT], depth=1)
    assert dropped.scores["exact"].mean["P@1"] == 1
    assert dropped.notes == (
        "drop_self was switched on by the name of the data, beir:x/ArguAna",
        "1 queries are documents themselves; those hits were left out",
    )
    kept = evaluate(named, encode, [EXACT], depth=1, drop_self=False)
    assert kept.scores["exact"].mean["P@1"] == 0
    assert "may find themselves" in kept.notes[0]
    asked = evaluate(named, encode, [EXACT], depth=1, drop_self=True)
    assert asked.scores == dropped.scores
    assert len(asked.notes) == 1


def test_bad_input_says_what_was_received():
    with pytest.raises(ValueError, match=r"one row per text. Received: shape=\(1, 2\) for 2 texts"):
        evaluate(DATA, lambda texts: encode(texts)[:1], [EXACT])
    with pytest.raises(ValueError, match=r"each once. Received: \['exact', 'exact'\]"):
        evaluate(DATA, encode, [EXACT, EXACT])
    with pytest.raises(ValueError, match=r"at least one search.*Received: \[\]"):
        evaluate(DATA, encode, [])
    with pytest.raises(ValueError, match="same documents. Received: exact and scann"):
        evaluate(DATA, encode, [EXACT, WorstFirst(ExactIndex.build(VECTORS, list("abd")))])
    with pytest.raises(ValueError, match="none of the 3 documents of toy"):
        evaluate(DATA, encode, [ExactIndex.build(VECTORS, list("xyz"))])
    textless = RetrievalData("toy", "test", {}, DATA.documents, DATA.qrels)
    with pytest.raises(ValueError, match="Received: 0 such queries"):
        evaluate(textless, encode, [EXACT])
