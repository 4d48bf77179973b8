"""Pins of data.validation_set: what is chosen, what is held out, and what is said of it."""

from dataclasses import replace

import pytest

from samtone_tf.data.records import RetrievalData
from samtone_tf.data.validation_set import choose, hold_out


def make_data(num=200, split="dev"):
    """Query i is answered by document i; documents from `num` on answer nothing."""
    return RetrievalData(
        "made up",
        split,
        {f"q{i}": f"query {i}" for i in range(num)},
        {f"d{i}": f"document {i}" for i in range(2 * num)},
        {f"q{i}": {f"d{i}": 1, f"d{i + num}": 0} for i in range(0, num, 2)},
    )


def test_everything_is_chosen_where_there_is_little():
    found = choose(make_data(), 1000, "all", seed=0)
    assert found.data.qrels == make_data().qrels
    assert found.data.documents == make_data().documents
    assert list(found.data.queries) == list(found.data.qrels)  # no query of another split
    assert str(found) == "100 dev queries over 400 documents"


def test_a_sample_has_all_judged_documents_and_as_many_others_as_asked_for():
    found = choose(make_data(), 10, 30, seed=0)
    judged = {i for judged in found.data.qrels.values() for i in judged}
    assert len(found.data.qrels) == len(found.data.queries) == 10
    assert len(judged) == 20
    assert judged < found.data.documents.keys()
    assert len(found.data.documents) == 50
    assert list(found.data.documents) == [
        i for i in make_data().documents if i in found.data.documents
    ]
    assert str(found) == (
        "10 of 100 dev queries over 50 of 400 documents: higher than over the whole corpus"
    )


def test_a_sample_is_a_function_of_the_seed():
    one, again, other = (choose(make_data(), 10, 30, seed) for seed in (0, 0, 1))
    assert one == again
    assert one.data.qrels != other.data.qrels


def test_judged_documents_alone():
    assert len(choose(make_data(), 1000, 0, seed=0).data.documents) == 200


def test_queries_without_an_answer_in_the_corpus_are_not_asked():
    data = make_data()
    qrels = {**data.qrels, "q1": {"d1": 0}, "q3": {"gone": 1}, "gone": {"d1": 1}}
    assert choose(replace(data, qrels=qrels), 1000, "all", 0).data.qrels == data.qrels
    with pytest.raises(ValueError, match="Received: none in the split dev of made up"):
        choose(replace(data, qrels={"q1": {"d1": 0}}), 1000, "all", 0)


def test_held_out_queries_are_five_in_a_hundred_and_no_longer_trained_on():
    data = make_data(2000, "train")
    left, taken = hold_out(data, 1000)
    assert len(taken.qrels) == 50  # of 1000 judged ones
    assert left.qrels.keys() | taken.qrels.keys() == data.qrels.keys()
    assert not left.qrels.keys() & taken.qrels.keys()
    assert (left.split, taken.split) == ("train", "held_out")
    assert taken.documents == data.documents
    assert len(hold_out(data, 7)[1].qrels) == 7
    assert len(hold_out(make_data(10), 1000)[1].qrels) == 1


def test_equal_queries_stay_together():
    data = make_data(400)
    same = dict.fromkeys(data.queries, "the same") | {"q0": "another"}
    left, taken = hold_out(replace(data, queries=same), 1)
    assert {len(left.qrels), len(taken.qrels)} == {1, 199}


def test_one_query_cannot_be_trained_on_and_held_out():
    with pytest.raises(ValueError, match="Received: 1 in made up"):
        hold_out(make_data(2), 10)
