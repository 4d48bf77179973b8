"""Pins of inspect_data: every number against a count by hand, the same from disk and memory."""

import json
from itertools import combinations

import numpy as np
import pytest

from samtone_tf.data.cache import Cache
from samtone_tf.data.fingerprints import normalise
from samtone_tf.data.inspect_data import inspect_data
from samtone_tf.data.inspect_text import same_tower_advice
from samtone_tf.data.sources import load_data
from tests import tiny
from tests.data.replicas import lines, put

DOCUMENTS = {
    "d1": "Cats purr when they are content.",
    "d2": "CATS  purr when they are content.",  # the same, case and spaces aside
    "d3": "Dogs bark at strangers.",
    "d4": "who barks",  # also a question
    "d5": "",
}
QUERIES = {
    "q1": "who purrs",
    "q2": "Who purrs",
    "q3": "who barks",
    "q4": "who hoots",
    "q5": "who purrs ",
    "q6": "nobody asks this",
}
QRELS = {
    "train": [
        ("q1", "d1", 1),
        ("q2", "d2", 2),
        ("q3", "d3", 1),
        ("q3", "d1", 0),
        ("q4", "gone", 1),
    ],
    "test": [("q5", "d1", 1), ("q4", "d3", 1)],
}


@pytest.fixture(params=["memory", "disk"])
def cache(request, tmp_path):
    return None if request.param == "memory" else Cache(tmp_path / "cache")


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "set"
    put(folder / "corpus.jsonl", lines(*({"_id": i, "text": t} for i, t in DOCUMENTS.items())))
    put(folder / "queries.jsonl", lines(*({"_id": i, "text": t} for i, t in QUERIES.items())))
    for split, judged in QRELS.items():
        rows = ("\t".join(map(str, row)) for row in judged)
        put(folder / "qrels" / f"{split}.tsv", lines(*rows))
    return f"beir:{folder}"


def inspect(source, split=None, **arguments):
    return inspect_data(source, split, **{"vocabulary": tiny.tokenizer()} | arguments)


def test_counts(source, cache):
    found = inspect(source, cache=cache)
    assert (found.source, found.split, found.splits) == (source, "train", ("test", "train"))
    assert (found.documents, found.empty_documents, found.queries) == (5, 1, 6)
    assert (found.judged_queries, found.judgements) == (4, 5)
    assert found.grades == {0: 1, 1: 3, 2: 1}
    assert found.absent_documents == 1
    assert found.unanswerable_queries == 1  # q4, whose only answer is gone
    assert found.unjudged_queries == 1  # q6
    assert found.queries_that_are_documents == 1  # q3
    test = inspect(source, "test", cache=cache)
    assert (test.judged_queries, test.unanswerable_queries, test.unjudged_queries) == (2, 0, 1)


def test_equal_texts(source, cache):
    found = inspect(source, cache=cache)
    queries, documents = found.query_repeats, found.document_repeats
    assert (queries.total, queries.different, queries.most) == (6, 4, 3)
    assert (documents.total, documents.different, documents.most) == (4, 3, 2)  # less the empty one
    assert documents.unique_rate == 0.75


def test_pairs_are_those_of_training(source, cache):
    pairs = inspect(source, cache=cache).pairs
    assert pairs.num == 3
    assert (pairs.queries.different, pairs.documents.different) == (2, 2)
    assert pairs.documents.unique_rate == pytest.approx(2 / 3)
    assert pairs.batch_size == 3  # all of them meet: of two rows each meets one
    assert pairs.same_query == pairs.same_document == pytest.approx(2 / 3)


def test_meetings_in_a_batch_are_the_mean_over_all_batches(tmp_path):
    answers = ["a", "a", "a", "b", "b", "c"]
    rows = [{"query": f"question {i}", "document": text} for i, text in enumerate(answers)]
    put(tmp_path / "a.jsonl", lines(*rows))
    found = inspect(f"pairs:{tmp_path / 'a.jsonl'}", batch_size=3)
    meetings = [
        np.mean([sum(one == other for other in batch) - 1 for one in batch])
        for batch in combinations(answers, 3)
    ]
    assert found.pairs.same_document == pytest.approx(np.mean(meetings))
    assert found.pairs.same_query == 0


def test_what_splits_share(source, cache):
    (shared,) = inspect(source, cache=cache).shared
    assert (shared.split, shared.other) == ("test", "train")
    data = {split: load_data(source, split) for split in ("train", "test")}
    pairs = {
        split: {(normalise(d.queries[q]), normalise(d.documents[i])) for q, i in d.pairs()}
        for split, d in data.items()
    }
    both = pairs["test"] & pairs["train"]
    assert (shared.pairs, shared.shared_pairs) == (len(pairs["test"]), len(both)) == (2, 1)
    assert (shared.queries, shared.shared_queries) == (2, 1)
    assert (shared.documents, shared.shared_documents) == (2, 2)
    assert inspect(source, cache=cache, against=["test"]).shared == (shared,)
    assert inspect(source, cache=cache, against=[]).shared == ()


def test_lengths_are_of_judged_queries_and_of_the_corpus(source, cache):
    found = inspect(source, cache=cache, query_length=3, document_length=5)
    length = {text: len(tiny.tokenizer().encode([text], 500)[0]) for text in DOCUMENTS.values()}
    assert found.document_lengths.longest == max(length.values())
    expected = np.mean([number > 5 for number in length.values()])
    assert found.document_lengths.share_cut == pytest.approx(expected)
    assert found.query_lengths.of == 4
    assert inspect(source, cache=cache, sample=2).document_lengths.counted == 2


def test_samples_languages_and_notes(source, cache):
    found = inspect(source, cache=cache)
    assert [tuple(sample) for sample in found.samples] == [
        ("who purrs", DOCUMENTS["d1"]),
        ("Who purrs", DOCUMENTS["d2"]),
        ("who barks", DOCUMENTS["d3"]),
    ]
    assert sum(found.document_languages.values()) == pytest.approx(1)
    assert any("not in the corpus" in note for note in found.notes)


def test_disk_and_memory_find_the_same(source, tmp_path):
    on_disk = inspect(source, cache=Cache(tmp_path / "cache"))
    assert on_disk == inspect(source)


def test_without_a_vocabulary_one_is_trained_and_said(tmp_path):
    folder = tiny.write_beir(tmp_path / "beir", ("train", "test"))
    found = inspect_data(f"beir:{folder}")
    assert "trained on 120 of these texts" in found.tokens
    assert found.document_lengths.longest > 10


def test_a_set_without_splits_is_taken_whole(tmp_path):
    put(tmp_path / "a.tsv", "who purrs\tCats purr.\n")
    found = inspect(f"pairs:{tmp_path / 'a.tsv'}")
    assert (found.split, found.splits, found.compared) == ("train", (), ("train",))
    assert found.shared == ()


def test_json_has_all_numbers(source):
    found = inspect(source)
    read = json.loads(json.dumps(found.to_json()))
    assert read["grades"] == {"0": 1, "1": 3, "2": 1}
    assert read["pairs"]["documents"]["unique_rate"] == pytest.approx(2 / 3)
    assert read["samples"][0] == {"query": "who purrs", "document": DOCUMENTS["d1"]}
    assert read["shared"][0]["shared_queries"] == 1


def test_the_text_says_it_in_lines_of_a_terminal(source):
    text = str(inspect(source)).replace(source, "beir:set")
    assert max(map(len, text.splitlines())) <= 100
    for words in (
        "beir:set, split train (the set has test, train)",
        "unique documents: 66.7 % (2)",
        "same_tower: query. The document side would push apart",
        "  test in train                        1 of 2  50.0 %         1 of 2  50.0 %",
        "Queries that are trained on and judged make the numbers better",
        "Documents that answer in both are usual",
        "Languages (a guess",
        "Q who purrs",
        "cut at 256: 0.0 % of documents",
    ):
        assert words in text, words


@pytest.mark.parametrize(
    ("rate", "meetings", "words"),
    [
        (0.98, 0.02, "documents are as good as unique (MS MARCO: 98 %)"),
        (0.17, 0.3, "push apart documents that are the same"),
        (0.7, 0.001, "equal ones hardly ever meet"),
    ],
)
def test_advice_follows_the_papers_two_sets(rate, meetings, words):
    assert words in same_tower_advice(rate, meetings)


def test_bad_arguments_are_refused(source):
    with pytest.raises(ValueError, match=r"train\.tsv|one of those in .*Received: dev"):
        inspect(source, "dev")
    with pytest.raises(ValueError, match=r"splits of .*: test, train\. Received: dev"):
        inspect(source, against=["dev"])
    with pytest.raises(ValueError, match="document_length=1"):
        inspect(source, document_length=1)
    with pytest.raises(FileNotFoundError, match=r"gone\.spm, which does not exist"):
        inspect(source, vocabulary="gone.spm")
