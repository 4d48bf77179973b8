"""Pins of evaluation.evaluate: model and index apart, what counts, rows and table."""

import importlib.util
import json

import numpy as np
import pytest

from samtone_tf.data.records import RetrievalData
from samtone_tf.evaluation.evaluate import evaluate
from samtone_tf.evaluation.measures import MEASURES
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
    assert (said["format"], said["kind"]) == (2, "evaluation")
    assert said["measures"] == list(MEASURES)
    assert (said["num_queries"], said["num_documents"]) == (3, 3)
    assert [row["system"] for row in said["rows"]] == ["exact", "scann"]
    loss = said["rows"][1]["index_loss"]["MRR"]
    assert loss["value"] == pytest.approx(1 / 6)
    # q1 loses 1, q2 gains 1/2, the third neither: means of 3 drawn lie from -1/2 to 1.
    assert -0.5 <= loss["low"] < loss["value"] < loss["high"] <= 1
    exact = said["rows"][0]["scores"]["MRR"]
    assert exact == {"value": pytest.approx(0.5), "low": 0, "high": 1, "n": 3}
    assert said["rows"][0]["depth"] == 3
    assert said["counts"]["exact"]["num_queries"] == 3
    assert said["counts"]["exact"]["num_without_relevant"] == 1
    lines = result.table().splitlines()
    assert lines[0].split() == ["system", "P@1", "MRR", "MRR@10", "nDCG@10", "R@100", "MAP"]
    assert lines[1].split()[:3] == ["exact", "0.3333", "0.5000"]
    assert lines[2].split()[:3] == ["95%", ".0000-1.0000", ".0000-1.0000"]
    assert lines[3].split()[:3] == ["scann", "0.3333", "0.3333"]
    assert lines[5].split()[2:5] == ["scann", "+0.0000", "+0.1667"]
    assert len({len(line) for line in lines[:6]}) == 1
    assert "scann against exact search: recall@10 0.6667, recall@100 0.6667" in lines
    assert said["unanswered"] == {"exact": ["textless"], "scann": ["textless"]}
    assert "exact: 1 queries unanswered, counted 0: textless" in lines
    assert "measure_depths" not in said["rows"][1]  # one search, no deeper than 10
    assert lines[-2] == "1 judged queries have no text; they count as unanswered"
    assert lines[-1] == (
        "MRR@10, nDCG@10, R@100: deeper than depth 3; what is not there counts as not relevant"
    )


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
    assert (row["system"], row["index"]) == ("scann", said)
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
    first = {"depth": 1, "measures": "P@1"}
    kept = evaluate(data, encode, [EXACT], **first)
    assert kept.scores["exact"].mean["P@1"] == 0
    other = {"other": {"b": {"b": 2.0, "c": 1.0}}}
    dropped = evaluate(data, encode, [EXACT], **first, drop_self=True, runs=other)
    assert dropped.scores["exact"].mean["P@1"] == dropped.scores["other"].mean["P@1"] == 1
    assert dropped.notes == ("1 queries are documents themselves; those hits were left out",)
    assert kept.notes == (
        "1 queries are documents themselves (same id and text) and may find themselves; "
        "drop_self leaves those hits out",
    )


def test_c45_queries_that_nobody_judged_are_no_reason_for_a_note():
    data = RetrievalData("toy", "test", DATA.queries, DATA.documents, {"q1": {"a": 1}})
    assert evaluate(data, encode, [EXACT], measures="P@1").notes == ()


def test_c45_data_by_a_known_name_drops_the_query_itself():
    named = RetrievalData("beir:x/ArguAna", "test", DATA.queries, DATA.documents, {"b": {"c": 1}})
    first = {"depth": 1, "measures": ["P@1"]}
    dropped = evaluate(named, encode, [EXACT], **first)
    assert dropped.scores["exact"].mean["P@1"] == 1
    assert dropped.notes == (
        "drop_self was switched on by the name of the data, beir:x/ArguAna",
        "1 queries are documents themselves; those hits were left out",
    )
    kept = evaluate(named, encode, [EXACT], **first, drop_self=False)
    assert kept.scores["exact"].mean["P@1"] == 0
    assert "may find themselves" in kept.notes[0]
    asked = evaluate(named, encode, [EXACT], **first, drop_self=True)
    assert asked.scores == dropped.scores
    assert len(asked.notes) == 1


def test_c45_an_equal_id_alone_is_no_reason_to_drop_a_hit():
    """Query b asks for 60, document b is at 37 degrees: it stays, whatever is asked for."""
    data = RetrievalData("toy", "test", {"b": "60"}, DATA.documents, {"b": {"b": 1}})
    for drop_self in (None, True, False):
        result = evaluate(data, encode, [EXACT], depth=3, drop_self=drop_self)
        assert "b" in result.runs["exact"]["b"]
        assert result.scores["exact"].mean["MRR"] == 0.5


def test_measures_are_those_asked_for_and_approximate_search_is_asked_for_few():
    asked = []

    class Noting(WorstFirst):
        def search(self, vectors, k):
            asked.append(k)
            return self.exact.search(vectors, k)

    names = "AP@100 P@1 Judged@10"
    result = evaluate(DATA, encode, [Noting(MANY)], depth=20, measures=names)
    assert list(result.scores["scann"].mean) == names.split()
    assert asked == [20, 10]
    assert result.measure_depths == {"scann": {"AP@100": 20, "P@1": 10, "Judged@10": 10}}
    asked.clear()
    evaluate(DATA, encode, [Noting(MANY)], depth=20, measures="AP@100")
    assert asked == [20]


def test_a_measure_deeper_than_search_or_corpus_is_noted():
    note = "what is not there counts as not relevant"
    notes = evaluate(DATA, encode, [EXACT], depth=2, measures="P@1 P@10 MRR").notes
    assert f"P@10: deeper than depth 2; {note}" in notes
    notes = evaluate(DATA, encode, [EXACT], measures="P@3 P@4").notes
    assert f"P@4: deeper than the 3 documents of the corpus; {note}" in notes


def test_one_query_has_no_interval():
    data = RetrievalData("toy", "test", DATA.queries, DATA.documents, {"q1": {"a": 1}})
    result = evaluate(data, encode, [EXACT], measures="P@1")
    score = json.loads(json.dumps(result.to_json()))["rows"][0]["scores"]["P@1"]
    assert score == {"value": 1.0, "low": None, "high": None, "n": 1}
    assert result.table().splitlines()[2].split() == ["95%", "-"]


def test_intervals_follow_the_seed():
    kept = evaluate(DATA, encode, [MANY], measures="AP").estimates
    assert evaluate(DATA, encode, [MANY], measures="AP", seed=0).estimates == kept
    assert kept["exact"]["AP"].value == pytest.approx(0.5)


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
