"""Pins of evaluation.comparison: differences by hand, tests against SciPy, ids, text, JSON."""

import json
from dataclasses import replace

import numpy as np
import pytest

from samtone_tf.data.records import RetrievalData
from samtone_tf.evaluation.comparison import compare_runs, correct
from samtone_tf.evaluation.comparison_text import comparison_text
from samtone_tf.evaluation.measures import measure
from samtone_tf.evaluation.significance import holm

NUM = 60
DATA = RetrievalData(
    source="toy",
    split="test",
    queries={f"q{i}": f"what is\nnumber {i}" for i in range(NUM)},
    documents={f"d{i}": f"number {i}" for i in range(NUM)},
    qrels={f"q{i}": {f"d{i}": 1} for i in range(NUM)},
)


def run_with_ranks(ranks):
    """A run in which the only relevant document of query i stands at `ranks[i]`; 0 for nowhere."""
    run = {}
    for i, rank in enumerate(ranks):
        others = [f"d{(i + 1 + j) % NUM}" for j in range(5)]
        found = others if rank == 0 else [*others[: rank - 1], f"d{i}", *others[rank - 1 :]]
        run[f"q{i}"] = {document: 1 / place for place, document in enumerate(found, start=1)}
    return run


def ranks(seed, best=1):
    return np.random.default_rng(seed).integers(best, 6, NUM).tolist()


RANKS = {"a": ranks(0), "b": [1 if i % 3 else rank for i, rank in enumerate(ranks(1))]}
RUNS = {name: run_with_ranks(found) for name, found in RANKS.items()}


def reciprocal(name):
    return np.array([1 / rank if rank else 0 for rank in RANKS[name]])


def test_a_difference_by_hand_and_by_scipy():
    stats = pytest.importorskip("scipy.stats")
    (found,) = compare_runs(RUNS, DATA, measures="MRR").differences
    want = reciprocal("b") - reciprocal("a")
    assert (found.first, found.second, found.measure) == ("a", "b", "MRR")
    assert found.difference.value == pytest.approx(want.mean())
    assert (found.wins, found.losses) == (int((want > 0).sum()), int((want < 0).sum()))
    assert found.wins + found.ties + found.losses == found.difference.n == NUM
    assert found.difference.low < want.mean() < found.difference.high
    theirs = stats.bootstrap((want,), np.mean, n_resamples=5000, method="percentile", rng=1)
    assert found.difference[1:3] == pytest.approx(theirs.confidence_interval, abs=0.01)
    paired = reciprocal("b"), reciprocal("a")
    assert found.p_t == pytest.approx(stats.ttest_rel(*paired).pvalue, rel=1e-9)
    permuted = stats.permutation_test(
        paired,
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=20_000,
        rng=2,
    )
    assert found.p_randomisation == pytest.approx(permuted.pvalue, abs=0.01)


def test_holm_is_over_all_measures_and_pairs():
    runs = {**RUNS, "c": run_with_ranks(ranks(2, best=0))}
    result = compare_runs(runs, DATA, measures="MRR P@1 nDCG@3")
    found = result.differences
    assert [(d.first, d.second) for d in found[::3]] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert result.num_tests == len(found) == 9
    for p, corrected in (("p_randomisation", "holm_randomisation"), ("p_t", "holm_t")):
        want = holm([getattr(d, p) for d in found])
        assert [getattr(d, corrected) for d in found] == want
    assert found[0].holm_randomisation > found[0].p_randomisation


def test_holm_over_several_sets():
    first = compare_runs(RUNS, DATA, measures="MRR P@1")
    second = compare_runs({"a": RUNS["a"], "b": run_with_ranks(ranks(5))}, DATA, measures="MRR")
    both = correct([first, second])
    assert [one.num_tests for one in both] == [3, 3]
    p = [d.p_randomisation for one in (first, second) for d in one.differences]
    assert [d.holm_randomisation for one in both for d in one.differences] == holm(p)
    assert correct([first])[0] == first


def test_a_run_against_itself_differs_in_nothing():
    result = compare_runs({"a": RUNS["a"], "again": RUNS["a"]}, DATA, measures="MRR nDCG@10")
    for found in result.differences:
        assert (found.p_randomisation, found.p_t, found.holm_randomisation) == (1, 1, 1)
        assert found.difference == (0, 0, 0, NUM)
        assert (found.wins, found.ties, found.losses) == (0, NUM, 0)
    assert result.moved == ()
    assert "no significant differences at 0.05" in comparison_text(result)


def test_the_queries_that_moved_most_are_named_with_their_texts():
    runs = {"a": run_with_ranks([3] * NUM), "b": run_with_ranks([1, 0, 2, *[3] * (NUM - 3)])}
    moved = compare_runs(runs, DATA, measures="P@1 MRR", moved_by="MRR").moved
    assert [(move.query_id, round(move.change, 4)) for move in moved] == [
        ("q0", 0.6667),
        ("q2", 0.1667),
        ("q1", -0.3333),
    ]
    assert moved[0].text == "what is\nnumber 0"
    assert (moved[0].before, moved[0].after) == (pytest.approx(1 / 3), 1)
    one = compare_runs(runs, DATA, measures="MRR", num_moved=1).moved
    assert [move.query_id for move in one] == ["q0", "q1"]
    assert compare_runs(runs, DATA, measures="MRR", num_moved=0).moved == ()


def test_the_measure_that_decides_is_ndcg_unless_named():
    assert compare_runs(RUNS, DATA).moved_by == "nDCG@10"
    assert compare_runs(RUNS, DATA, measures="P@1 MRR").moved_by == "P@1"
    with pytest.raises(ValueError, match="`moved_by` must be one of the measures: P@1. Received"):
        compare_runs(RUNS, DATA, measures="P@1", moved_by="MRR")


def test_text_and_json_say_the_same():
    result = compare_runs(RUNS, DATA, measures="MRR P@1")
    said = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert (said["format"], said["kind"], said["num_queries"]) == (2, "comparison", NUM)
    assert [row["system"] for row in said["rows"]] == ["a", "b"]
    assert said["rows"][0]["scores"]["MRR"]["value"] == pytest.approx(reciprocal("a").mean())
    assert said["tests"]["num_tests"] == 2
    lines = comparison_text(result).splitlines()
    assert lines[0] == f"toy (test): {NUM} queries"
    row = next(line.split() for line in lines if line.startswith("  MRR"))
    found = said["differences"][0]
    assert row[1] == f"{found['difference']['value']:+.4f}"
    assert [int(count) for count in row[4:7]] == [found["wins"], found["ties"], found["losses"]]
    moves = [line for line in lines if " → " in line]
    assert len(moves) == len(said["moved"]) > 0
    assert moves[0].endswith(
        f"{said['moved'][0]['query_id']}  what is number {moves[0].split()[-1]}"
    )
    significant = [d for d in said["differences"] if d["holm_randomisation"] < 0.05]
    assert len(significant) == sum(line.startswith("significant: b is better") for line in lines)
    assert significant
    assert f"{len(significant)} significant differences at 0.05" in lines[-1]


def test_queries_that_a_run_does_not_answer_count_0_and_are_named():
    few = {query_id: hits for query_id, hits in RUNS["b"].items() if query_id not in ("q3", "q4")}
    result = compare_runs({"a": RUNS["a"], "few": few}, DATA, measures="MRR")
    want = measure(few, DATA.qrels, ["MRR"]).mean["MRR"]
    assert result.estimates["few"]["MRR"].value == want
    assert result.estimates["few"]["MRR"].n == NUM
    assert result.notes == ("few: 2 judged queries are not in the run and count 0: q3, q4",)


def test_unknown_ids_among_known_ones_are_noted():
    strange = {**RUNS["b"], "zz": {"d1": 1.0}, "q5": {"gone": 2.0, "d5": 1.0}}
    result = compare_runs({"a": RUNS["a"], "b": strange}, DATA, measures="MRR")
    assert "b: 1 documents are not in the corpus; they keep their places: gone" in result.notes
    assert "b: 1 queries are not judged and left out: zz" in result.notes
    assert result.scores["b"].per_query["q5"] == {"MRR": 0.5}


def test_runs_of_other_data_are_refused():
    with pytest.raises(ValueError, match=r"`runs` must answer queries that toy .*'x1'.*'q0'"):
        compare_runs({"a": RUNS["a"], "b": {"x1": {"d1": 1.0}}}, DATA)
    with pytest.raises(ValueError, match="run b, with 1 documents and none of the corpus: other"):
        compare_runs({"a": RUNS["a"], "b": {"q1": {"other": 1.0}}}, DATA)
    with pytest.raises(ValueError, match="none of the corpus: empty"):
        compare_runs({"a": RUNS["a"], "b": {}}, DATA)
    with pytest.raises(ValueError, match=r"`runs` must hold two runs or more. Received: \['a'\]"):
        compare_runs({"a": RUNS["a"]}, DATA)
    with pytest.raises(ValueError, match="`num_moved` must be at least 0. Received: num_moved=-1"):
        compare_runs(RUNS, DATA, num_moved=-1)


def test_nothing_relevant_is_an_error():
    nothing = replace(DATA, qrels={"q1": {"d1": 0}})
    with pytest.raises(ValueError, match="`qrels` must judge at least one document as relevant"):
        compare_runs(RUNS, nothing)


def test_a_cutoff_above_the_corpus_is_noted():
    result = compare_runs(RUNS, DATA, measures="P@100 P@1")
    note = "P@100: deeper than depth 6; what is not there counts as not relevant"
    assert result.notes == (note,)
    assert result.estimates["a"]["P@100"].value == pytest.approx(1 / 100)


def test_one_query_has_no_interval_and_no_t_test():
    one = replace(DATA, qrels={"q0": DATA.qrels["q0"]})
    runs = {"a": run_with_ranks([2] * NUM), "b": run_with_ranks([1] * NUM)}
    result = compare_runs(runs, one, measures="MRR")
    (found,) = result.differences
    assert found.difference == (0.5, None, None, 1)
    assert (found.p_randomisation, found.p_t, found.holm_t) == (1, None, None)
    row = next(x for x in comparison_text(result).splitlines() if x.startswith("  MRR"))
    assert row.split()[1:] == ["+0.5000", "-", "1", "0", "0", "1.0000", "1.0000", "-", "-"]


def test_c45_hits_on_the_query_itself_are_dropped_by_name_or_on_request():
    data = RetrievalData(
        source="beir:x/arguana",
        split="test",
        queries={"d0": "number 0"},
        documents=DATA.documents,
        qrels={"d0": {"d1": 1}},
    )
    runs = {"a": {"d0": {"d0": 3.0, "d1": 2.0}}, "b": {"d0": {"d1": 1.0}}}
    dropped = compare_runs(runs, data, measures="P@1")
    assert [dropped.estimates[name]["P@1"].value for name in "ab"] == [1, 1]
    kept = compare_runs(runs, data, measures="P@1", drop_self=False)
    assert [kept.estimates[name]["P@1"].value for name in "ab"] == [0, 1]
    other = replace(data, source="beir:x/other")
    assert compare_runs(runs, other, measures="P@1").estimates["a"]["P@1"].value == 0
    asked = compare_runs(runs, other, measures="P@1", drop_self=True)
    assert asked.estimates["a"]["P@1"].value == 1
