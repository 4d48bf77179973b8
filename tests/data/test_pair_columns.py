"""Pins of data.pair_columns: the names that people give to columns of pairs."""

import json

import pytest

from samtone_tf.data.pairs import read_pairs


def write(tmp_path, *rows):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def texts(data):
    return list(data.queries.values()), list(data.documents.values())


@pytest.mark.parametrize(
    ("query", "document"),
    [
        ("question", "answer"),
        ("question", "passage"),
        ("question", "context"),
        ("anchor", "positive"),
        ("query", "positive"),
        ("question", "document"),
    ],
)
def test_names_that_people_use(tmp_path, query, document):
    data = read_pairs(write(tmp_path, {query: "a", document: "b"}), "train")
    assert texts(data) == (["a"], ["b"])
    pairs = [(query, "query"), (document, "document")]
    said = ", ".join(f"{name} → {column}" for name, column in pairs if name != column)
    assert data.notes == (f"columns read as: {said}",)


def negatives(data):
    return [[data.documents[i] for i in ids] for ids in data.negatives.values()]


@pytest.mark.parametrize(
    "row",
    [
        {"negatives": ["x", "y"]},
        {"negative": ["x", "y"]},
        {"hard_negatives": ["x", "y"]},
        {"neg": ["x", "y"]},
        {"negative_1": "x", "negative_2": "y"},
        {"negative": "x", "negative_1": "y"},
        {"hard_negatives": '["x", "y"]'},
    ],
    ids=str,
)
def test_negatives_under_any_name(tmp_path, row):
    data = read_pairs(write(tmp_path, {"anchor": "a", "positive": "b"} | row), "train")
    assert negatives(data) == [["x", "y"]]


def test_a_negative_may_be_a_text_or_be_absent(tmp_path):
    rows = [{"anchor": "a", "positive": "b", "negative": value} for value in ("[x]", "", None)]
    assert negatives(read_pairs(write(tmp_path, *rows), "train")) == [["[x]"]]


def test_a_list_of_positives_makes_a_pair_of_each(tmp_path):
    row = {"query": "a", "pos": ["b", "c"], "neg": ["x"]}
    data = read_pairs(write(tmp_path, row, {"query": "d", "pos": ["b"], "neg": []}), "train")
    pairs = [(data.queries[pair[0]], data.documents[pair[1]]) for pair in data.pairs()]
    assert pairs == [("a", "b"), ("a", "c"), ("d", "b")]
    assert negatives(data) == [["x"]]
    with pytest.raises(ValueError, match=r"a\.jsonl:1: `pos` must list a document"):
        read_pairs(write(tmp_path, {"query": "a", "pos": []}), "train")


def test_two_columns_that_could_be_one_have_to_be_told(tmp_path):
    path = write(tmp_path, {"question": "q", "context": "c", "answer": "a"})
    with pytest.raises(ValueError, match=r"Received: context, answer, each .*\?document=context"):
        read_pairs(path, "train")
    data = read_pairs(f"{path}?document=context", "train")
    assert texts(data) == (["q"], ["c"])
    assert data.notes[1] == "columns not used: answer"
    assert data.source == f"pairs:{path}?document=context"
    path = write(tmp_path, {"query": "q", "document": "d", "question": "?"})
    with pytest.raises(ValueError, match=r"columns must be among query, .*'question'"):
        read_pairs(path, "train")


def test_rows_may_differ_in_their_names(tmp_path):
    rows = [{"question": "a", "answer": "b"}, {"query": "c", "document": "d"}]
    assert texts(read_pairs(write(tmp_path, *rows), "train")) == (["a", "c"], ["b", "d"])


def test_a_header_of_other_names_and_words_that_are_none(tmp_path):
    (tmp_path / "a.tsv").write_text("question\tanswer\nwho\tme\n")
    assert texts(read_pairs(tmp_path / "a.tsv", "train")) == (["who"], ["me"])
    (tmp_path / "a.tsv").write_text("answer\ta reply\nwho\tme\n")  # a text, not a header
    assert texts(read_pairs(tmp_path / "a.tsv", "train")) == (["answer", "who"], ["a reply", "me"])
    (tmp_path / "a.csv").write_text('anchor,positive,negative\na,b,"x, y"\n')
    assert negatives(read_pairs(tmp_path / "a.csv", "train")) == [["x, y"]]


def test_a_column_may_be_named_in_a_table(tmp_path):
    (tmp_path / "a.csv").write_text("title,query,body\nT,a,b\n")
    data = read_pairs(f"{tmp_path / 'a.csv'}?document=body", "train")
    assert texts(data) == (["a"], ["T b"])
