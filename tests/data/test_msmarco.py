"""Pins of data.msmarco: the published TSV files, ids as strings, triples as hard negatives."""

import pytest

from samtone_tf.data.msmarco import msmarco_splits, read_msmarco
from tests.data.replicas import ANSWERS, PASSAGES, QUESTIONS, put, tabs, write_msmarco


def refuse(folder, match, kind=ValueError, split="train"):
    with pytest.raises(kind, match=match) as caught:
        read_msmarco(folder, split)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gz"])
def test_the_published_files(tmp_path, zipped):
    write_msmarco(tmp_path, zipped)
    data = read_msmarco(tmp_path, "train")
    assert data.documents == PASSAGES
    assert data.queries == QUESTIONS
    assert data.qrels == {"10": {"0": 1}, "11": {"1": 1}}
    assert data.negatives == {"10": ("7", "1"), "11": ("7",)}
    assert data.notes == ()
    assert msmarco_splits(tmp_path) == ("dev.small", "train")
    dev = read_msmarco(tmp_path, "dev.small")  # its queries are among those of dev
    assert dev.qrels == {"012": {"007": 1}}
    assert dev.negatives == {}


@pytest.mark.parametrize(
    "qrels",
    ["10\t0\t1\n11\t1\t1\n", "qid pid rel\n10 0 1\n11 1 1\n", "10 0 0 1\n11 0 1 1\n"],
    ids=["3 columns", "header", "4 columns"],
)
def test_c52_judgements_of_any_form(tmp_path, qrels):
    write_msmarco(tmp_path)
    put(tmp_path / "qrels.train.tsv", qrels)
    assert read_msmarco(tmp_path, "train").qrels == {"10": {"0": 1}, "11": {"1": 1}}


def test_triples_of_texts_are_found_in_the_collection(tmp_path):
    write_msmarco(tmp_path)
    (tmp_path / "qidpidtriples.train.full.2.tsv").unlink()
    rows = [
        (QUESTIONS["10"], PASSAGES["0"], PASSAGES["7"]),
        (QUESTIONS["11"], PASSAGES["1"], "A passage of another collection."),
        ("another question", PASSAGES["1"], PASSAGES["7"]),
    ]
    put(tmp_path / "triples.train.small.tsv", tabs(*rows))
    data = read_msmarco(tmp_path, "train")
    assert data.negatives == {"10": ("7",)}
    assert data.notes == ("2 triples have a text that is not in the files; left out",)


def test_trec_judgements_are_a_split_of_their_year(tmp_path):
    write_msmarco(tmp_path)
    put(tmp_path / "msmarco-test2019-queries.tsv", tabs(("31", "agents")))
    put(tmp_path / "2019qrels-pass.txt", "31 Q0 007 3\n31 Q0 7 0\n")
    assert "test2019" in msmarco_splits(tmp_path)
    assert read_msmarco(tmp_path, "test2019").qrels == {"31": {"007": 3, "7": 0}}


def test_bad_lines_name_their_number(tmp_path):
    write_msmarco(tmp_path)
    put(tmp_path / "collection.tsv", tabs(*PASSAGES.items()) + "no tab\n")
    refuse(tmp_path, r"collection\.tsv:5: expected an id, a tab and a text\. Received: 'no tab'")
    put(tmp_path / "collection.tsv", tabs(*PASSAGES.items(), ("7", "again")))
    refuse(tmp_path, r"collection\.tsv:5: .*Received: '7', which is also on line 4")
    write_msmarco(tmp_path)
    put(tmp_path / "qidpidtriples.train.full.2.tsv", "10\t0\t7\n10\t0\n")
    refuse(tmp_path, r"full\.2\.tsv:2: expected a query, its passage and a negative")
    put(tmp_path / "qrels.train.tsv", "10\t0\t0\tgood\n")
    refuse(tmp_path, r"qrels\.train\.tsv:1: expected query id")


def test_bad_folders_say_what_is_there(tmp_path):
    refuse(tmp_path / "gone", "gone, which does not exist", FileNotFoundError)
    put(tmp_path / "a" / "readme.txt", "x")
    lacks = r"lacks collection\.tsv, qrels\.SPLIT\.tsv and holds readme\.txt"
    refuse(tmp_path / "a", lacks, FileNotFoundError)
    write_msmarco(tmp_path / "b")
    refuse(tmp_path / "b", r"has qrels of: dev\.small, train\. Received: test", split="test")
    (tmp_path / "b" / "queries.train.tsv").unlink()
    refuse(tmp_path / "b", r"the queries of train, queries\.train\.tsv", FileNotFoundError)
    write_msmarco(tmp_path / "c")
    put(tmp_path / "c" / "qrels.train.tsv", "")
    refuse(tmp_path / "c", r"qrels\.train\.tsv: no relevant pair is left")
    put(tmp_path / "c" / "collection.tsv", "")
    refuse(tmp_path / "c", r"collection\.tsv: every document is empty")


def test_negatives_that_the_collection_lacks_are_counted_in_training(tmp_path):
    from samtone_tf.data.msmarco import tabulate_msmarco
    from samtone_tf.data.training_pairs import make_training_pairs

    write_msmarco(tmp_path)
    put(tmp_path / "qidpidtriples.train.full.2.tsv", tabs(("10", "0", "99"), ("10", "0", "7")))
    pairs = make_training_pairs(tabulate_msmarco(tmp_path, "train"))
    assert pairs.notes == ("1 hard negatives are empty or not in the corpus; left out",)
    assert {q: d for q, d in ANSWERS.items() if q != "012"} == {"10": "0", "11": "1"}
