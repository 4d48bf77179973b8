"""Pins of evaluation.measures: hand-worked values, trec_eval's rules, and pytrec_eval itself."""

import math
import random

import pytest
import pytrec_eval

from samtone_tf.evaluation.measures import MEASURES, distinct_scores, measure

# One query, ranking d2 (grade 0), d1 (grade 2), d4 (not judged), d3 (grade 1); d9 (grade 1) is
# not retrieved. Linear gain: DCG = 2/log2(3) + 1/log2(5) = 1.26186 + 0.43068 = 1.69254,
# ideal 2 + 1/log2(3) + 1/log2(4) = 3.13093, nDCG = 0.54059.
# MRR = 1/2, P@1 = 0, R@100 = 2/3, MAP = (1/2 + 2/4) / 3 = 1/3.
QRELS = {"q": {"d1": 2, "d2": 0, "d3": 1, "d9": 1}}
RUN = {"q": {"d1": 0.8, "d2": 0.9, "d3": 0.1, "d4": 0.5}}


def test_hand_worked_values():
    scores = measure(RUN, QRELS)
    want = {"P@1": 0, "MRR": 0.5, "MRR@10": 0.5, "nDCG@10": 0.54059, "R@100": 2 / 3, "MAP": 1 / 3}
    assert tuple(scores.mean) == MEASURES
    assert scores.mean == pytest.approx(want, abs=1e-5)
    assert scores.per_query == {"q": scores.mean}


def test_c48_ties_go_by_id_descending_in_every_measure():
    names = (*MEASURES, "R@1", "MRR@1", "nDCG@1")
    tied = {"q": {"d1": 1.0, "d2": 1.0, "d3": 1.0}}
    first = measure(tied, {"q": {"d3": 1}}, names)
    assert set(first.mean.values()) == {1.0}
    assert first.num_ties == 2
    # d3, then d2 tie ahead of d1: rank 3.
    third = measure(tied, {"q": {"d1": 1}}, names).mean
    assert third["MRR"] == third["MRR@10"] == third["MAP"] == pytest.approx(1 / 3)
    assert third["nDCG@10"] == pytest.approx(1 / math.log2(4))
    assert third["P@1"] == third["R@1"] == third["MRR@1"] == third["nDCG@1"] == 0


def test_c48_the_order_of_the_input_changes_nothing():
    items = [(f"d{i}", i % 3 / 10) for i in range(40)]
    qrels = {"q": {f"d{i}": i % 2 for i in range(0, 40, 3)}}
    want = measure({"q": dict(items)}, qrels).mean
    assert 0 < want["MAP"] < 1
    for seed in range(5):
        random.Random(seed).shuffle(items)
        assert measure({"q": dict(items)}, qrels).mean == want


def test_c47_an_unanswered_query_counts_as_zero():
    qrels = {"solved": {"a": 1}, "absent": {"b": 1}, "empty": {"b": 1}, "wrong": {"b": 1}}
    scores = measure({"solved": {"a": 1.0}, "empty": {}, "wrong": {"c": 1.0}}, qrels)
    assert scores.mean == dict.fromkeys(MEASURES, 0.25)
    assert scores.per_query["absent"] == dict.fromkeys(MEASURES, 0.0)
    assert (scores.num_queries, scores.num_unanswered) == (4, 2)
    assert scores.unanswered == ("absent", "empty")


def test_c47_two_queries_one_solved():
    assert measure({"q1": {"a": 1.0}}, {"q1": {"a": 1}, "q2": {"b": 1}}).mean["MRR"] == 0.5


def test_queries_without_relevant_documents_and_unjudged_ones_are_counted_apart():
    qrels = {"q": {"a": 1}, "none": {"a": 0}, "negative": {"a": -1}, "nothing": {}}
    run = {"q": {"a": 1.0}, "none": {"a": 1.0}, "stranger": {"a": 1.0}}
    scores = measure(run, qrels)
    assert scores.mean == dict.fromkeys(MEASURES, 1.0)
    assert list(scores.per_query) == ["q"]
    assert (scores.num_queries, scores.num_without_relevant, scores.num_unjudged) == (1, 3, 1)


def test_c49_scores_apart_only_in_float32s_last_digit_are_no_tie():
    # b is better by one unit in the last place, although a tie would put c before it.
    run = {"q": {"b": 0.8510000705718994, "c": 0.8510000109672546}}
    scores = measure(run, {"q": {"b": 1}})
    assert scores.mean["MRR"] == scores.mean["P@1"] == 1
    assert scores.num_ties == 0


def test_c51_no_measure_exceeds_one():
    # Ids are keys, so nothing can be found twice: a perfect run is worth exactly 1.
    qrels = {"q": {f"d{i}": 1 + i % 2 for i in range(30)}}
    run = {"q": {d: float(grade) for d, grade in qrels["q"].items()}}
    mean = measure(run, qrels).mean
    assert mean == pytest.approx(dict.fromkeys(MEASURES, 1.0))
    assert max(mean.values()) <= 1


def test_c52_a_negative_grade_is_worth_zero():
    run = {"q": {"bad": 0.9, "good": 0.8}}
    assert measure(run, {"q": {"bad": -3, "good": 1}}) == measure(run, {"q": {"bad": 0, "good": 1}})


def test_c52_relevant_documents_outside_the_corpus_stay_in_the_ideal():
    # Found one of two: R = 1/2, nDCG = 1 / (1 + 1/log2(3)) = 0.61315.
    mean = measure({"q": {"a": 1.0}}, {"q": {"a": 1, "lost": 1}}).mean
    assert mean["R@100"] == 0.5
    assert mean["nDCG@10"] == pytest.approx(0.61315, abs=1e-5)


def test_an_empty_run_is_worth_nothing():
    scores = measure({}, QRELS)
    assert scores.mean == dict.fromkeys(MEASURES, 0.0)
    assert scores.num_unanswered == 1


THEIRS = {
    "P@1": "P_1",
    "P@5": "P_5",
    "MRR": "recip_rank",
    "nDCG@10": "ndcg_cut_10",
    "nDCG": "ndcg",
    "R@10": "recall_10",
    "AP@10": "map_cut_10",
    "MAP": "map",
    "Success@5": "success_5",
    "Bpref": "bpref",
}


def random_run(seed):
    """Three queries with ties, with gaps (unjudged hits, unanswered queries) and grades below 0."""
    numbers = random.Random(seed)
    size, hits = numbers.choice([5, 40]), numbers.choice([1, 4, 30])
    documents = [f"d{number}" for number in range(size)]
    queries = [f"q{number}" for number in range(3)]
    run = {
        query: {
            document: numbers.randrange(5) / 4
            for document in numbers.sample(documents, min(hits, size))
        }
        for query in queries
    }
    qrels = {
        query: {
            document: numbers.choice([-2, -1, 0, 1, 2, 3])
            for document in numbers.sample(documents, size // 2)
        }
        for query in queries
    }
    if seed % 4 == 0:
        del run["q1"]
    qrels["q0"]["d0"] = 1 + seed % 3  # one query counts in any case
    return run, qrels


def test_equals_pytrec_eval_on_200_runs_with_ties_gaps_and_negative_grades():
    theirs = set(THEIRS.values())
    num_ties = num_unanswered = num_negative = 0
    for seed in range(200):
        run, qrels = random_run(seed)
        # pytrec_eval itself ends in a segmentation fault on grades below 0: it is given 0.
        num_negative += sum(g < 0 for judged in qrels.values() for g in judged.values())
        want = pytrec_eval.RelevanceEvaluator(
            {q: {d: max(0, grade) for d, grade in judged.items()} for q, judged in qrels.items()},
            theirs,
        ).evaluate(run)
        scores = measure(run, qrels, THEIRS)
        num_ties += scores.num_ties
        num_unanswered += scores.num_unanswered
        for query_id, values in scores.per_query.items():
            for name, value in values.items():
                expected = want.get(query_id, {}).get(THEIRS[name], 0.0)
                assert value == pytest.approx(expected, abs=1e-9), (seed, query_id, name)
        for name in THEIRS:
            mean = sum(want.get(q, {}).get(THEIRS[name], 0.0) for q in scores.per_query)
            assert scores.mean[name] == pytest.approx(mean / scores.num_queries, abs=1e-9)
    assert min(num_ties, num_unanswered, num_negative) > 40


def test_the_cut_reciprocal_rank_by_hand():
    """pytrec_eval has none: 1 / rank of the first relevant hit, or 0 beyond the cutoff."""
    for seed in range(50):
        run, qrels = random_run(seed)
        scores = measure(run, qrels, ["MRR", "MRR@2"])
        for values in scores.per_query.values():
            assert values["MRR@2"] == (values["MRR"] if values["MRR"] >= 0.5 else 0)


def test_judged_is_the_share_of_the_first_hits_that_somebody_judged():
    # d2, d1 and d3 are judged, d4 is not; d1 is judged with 0, d3 below 0: judged all the same.
    run = {"q": {"d2": 0.9, "d1": 0.8, "d4": 0.5, "d3": 0.1}, "short": {"x": 1.0}}
    qrels = {"q": {"d1": 0, "d2": 1, "d3": -1}, "short": {"y": 1}}
    values = measure(run, qrels, "Judged@2 Judged@3 Judged@4 Judged@10").per_query
    want = {"Judged@2": 1, "Judged@3": 2 / 3, "Judged@4": 3 / 4, "Judged@10": 3 / 4}
    assert values["q"] == pytest.approx(want)
    assert set(values["short"].values()) == {0}


def test_precision_divides_by_k_where_there_is_less():
    assert measure({"q": {"a": 1.0}}, {"q": {"a": 1}}, ["P@10"]).mean == {"P@10": 0.1}


def test_any_name_of_ir_measures_can_be_asked_for():
    names = "P(rel=2)@2, RR Recall@2 Success@1,Rprec IPrec@0.5 P(rel=2)@2"
    mean = measure(RUN, QRELS, names).mean
    want = {
        "P(rel=2)@2": 1 / 2,
        "RR": 1 / 2,
        "Recall@2": 1 / 3,
        "Success@1": 0,
        "Rprec": 1 / 3,  # one of three among the first three
        "IPrec@0.5": 1 / 2,  # best precision at a recall of half or more: 2 of 4
    }
    assert mean == pytest.approx(want)
    assert list(mean) == list(want)


def test_distinct_scores_keep_the_ranking():
    assert distinct_scores({"a": 0.5, "b": 0.5, "c": 7.0}) == {"c": 3.0, "b": 2.0, "a": 1.0}


def test_two_names_of_one_measure_agree():
    mean = measure(RUN, QRELS, ("MAP@10", "nDCG", "R@1000", "R@1000")).mean
    assert mean["R@1000"] == pytest.approx(2 / 3)
    assert mean["MAP@10"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    "name",
    ["ndcg@10", "P", "Recall", "P@0", "P@-1", "R@x", "R@1.5", "", "MRR@10; 1", "P(rel=", "P(x=1)@2"]
    + ["alpha_nDCG@10", "__import__('os')", 3],
)
def test_an_unknown_measure_is_named(name):
    with pytest.raises(ValueError, match="`measures` must be names that ir_measures") as raised:
        measure(RUN, QRELS, (name,))
    assert repr(name) in str(raised.value)
    assert "Use names such as P@1" in str(raised.value)


@pytest.mark.parametrize("names", [[], ()])
def test_no_measure_is_an_error(names):
    with pytest.raises(ValueError, match="`measures` must name at least one"):
        measure(RUN, QRELS, names)


@pytest.mark.parametrize("qrels", [{}, {"q": {}}, {"q": {"a": 0}}])
def test_nothing_relevant_is_an_error(qrels):
    with pytest.raises(ValueError, match=f"Received: {len(qrels)} queries without any"):
        measure(RUN, qrels)


def test_what_is_no_number_or_grade_is_refused():
    with pytest.raises(ValueError, match="nan for document 'a'"):
        measure({"q": {"a": float("nan")}}, {"q": {"a": 1}})
    with pytest.raises(ValueError, match=r"whole grades. Received: 0.5"):
        measure(RUN, {"q": {"a": 1, "b": 0.5}})
