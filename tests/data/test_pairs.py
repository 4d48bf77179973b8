"""Pins of data.pairs: one result from every format, ids, splits, and errors with file and line."""

import csv
import gzip
import json

import pytest

from samtone_tf.data.fingerprints import fingerprint
from samtone_tf.data.pairs import read_pairs

ROWS = [
    {"query": "who purrs", "document": "They purr.", "title": "Cats", "negatives": ["Dogs bark."]},
    {"query": "who barks", "document": "Dogs bark.", "title": "", "negatives": []},
]


def text_id(kind, text):
    return f"{kind}{fingerprint(text):016x}"


def jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def refuse(path, match, kind=ValueError, split="train"):
    with pytest.raises(kind, match=match) as caught:
        read_pairs(path, split)
    assert "\n" not in str(caught.value)


def test_a_row_becomes_records_named_by_their_text(tmp_path):
    data = read_pairs(jsonl(tmp_path / "a.jsonl", ROWS), "train")
    cats, dogs = text_id("d", "Cats They purr."), text_id("d", "Dogs bark.")
    assert data.documents == {cats: "Cats They purr.", dogs: "Dogs bark."}
    purrs, barks = text_id("q", "who purrs"), text_id("q", "who barks")
    assert data.queries == {purrs: "who purrs", barks: "who barks"}
    assert data.qrels == {purrs: {cats: 1}, barks: {dogs: 1}}
    assert data.negatives == {purrs: (dogs,)}  # the negative is the record of the second row
    assert data.notes == ()


def test_every_format_gives_the_same(tmp_path):
    want = read_pairs(jsonl(tmp_path / "a.jsonl", ROWS), "train")
    tsv = 'query\tdocument\ttitle\tnegatives\nwho purrs\tThey purr.\tCats\t["Dogs bark."]\n'
    tsv += "who barks\tDogs bark.\t\t\n"
    comma = 'query,document,title,negatives\nwho purrs,They purr.,Cats,"[""Dogs bark.""]"\n'
    comma += "who barks,Dogs bark.,,\n"
    (tmp_path / "a.tsv").write_text(tsv)
    (tmp_path / "a.csv").write_text(comma)
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(tsv.encode()))
    for name in ("a.tsv", "a.csv", "a.tsv.gz"):
        data = read_pairs(tmp_path / name, "train")
        assert (data.queries, data.documents, data.qrels, data.negatives) == (
            want.queries,
            want.documents,
            want.qrels,
            want.negatives,
        ), name


def test_a_tsv_of_two_columns_needs_no_header(tmp_path):
    (tmp_path / "a.tsv").write_text('a "quoted query\tb\nc\td\n')
    data = read_pairs(tmp_path / "a.tsv", "train")
    assert list(data.queries.values()) == ['a "quoted query', "c"]
    (tmp_path / "b.tsv").write_text("document\tquery\nb\ta\n")
    assert list(read_pairs(tmp_path / "b.tsv", "train").queries.values()) == ["a"]


@pytest.mark.parametrize(("name", "text"), [("a.tsv", "a\tb\tc\n"), ("a.csv", "a,b\nc,d\n")])
def test_other_files_without_header_are_refused(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    refuse(tmp_path / name, rf"{name}:1: expected a header with `query` and `document`")


def test_quoted_csv_fields_may_span_lines_and_errors_name_the_first(tmp_path):
    (tmp_path / "a.csv").write_text('query,document\n"a\nb","c, d"\ne\n')
    refuse(tmp_path / "a.csv", r"a\.csv:4: expected 2 fields .*Received: 1")
    (tmp_path / "a.csv").write_text('query,document\n"a\nb","c, d"\n')
    assert list(read_pairs(tmp_path / "a.csv", "train").documents.values()) == ["c, d"]
    (tmp_path / "a.csv").write_text('query,document\n"a"b,c\n')
    refuse(tmp_path / "a.csv", r"a\.csv:2: expected a row of comma-separated fields")


def test_csv_fields_may_be_long_and_the_modules_limit_is_put_back(tmp_path):
    before = csv.field_size_limit()
    long = "word " * 40_000  # 200,000 characters
    (tmp_path / "a.csv").write_text(f"query,document\na,{long}\n")
    assert list(read_pairs(tmp_path / "a.csv", "train").documents.values()) == [long.strip()]
    assert csv.field_size_limit() == before
    (tmp_path / "a.csv").write_text("query,document\n,b\n")
    refuse(tmp_path / "a.csv", r"a\.csv:2: `query` must not be empty")
    assert csv.field_size_limit() == before


def test_given_ids_are_kept_as_strings(tmp_path):
    rows = [{"query": "a", "document": "b", "query_id": "007", "document_id": 7}]
    data = read_pairs(jsonl(tmp_path / "a.jsonl", rows), "train")
    assert data.qrels == {"007": {"7": 1}}


def test_c51_one_id_with_two_texts_is_refused(tmp_path):
    rows = [{"query": "a", "document": t, "document_id": "d"} for t in ("one", "two")]
    refuse(
        jsonl(tmp_path / "a.jsonl", rows),
        r"a\.jsonl:2: one `document_id` must have one text\. Received: 'd' with 'two' after 'one'",
    )


def test_c51_repeated_rows_are_counted(tmp_path):
    data = read_pairs(jsonl(tmp_path / "a.jsonl", [ROWS[0], ROWS[0]]), "train")
    assert data.notes == ("1 rows repeat an earlier pair",)
    assert len(list(data.pairs())) == 1


def test_negatives_of_a_query_are_gathered_over_rows(tmp_path):
    rows = [
        {"query": "a", "document": d, "negatives": n} for d, n in (("b", ["x"]), ("c", ["y", "x"]))
    ]
    data = read_pairs(jsonl(tmp_path / "a.jsonl", rows), "train")
    assert [data.documents[i] for i in data.negatives[text_id("q", "a")]] == ["x", "y"]


@pytest.mark.parametrize("order", [1, -1], ids=["denied first", "answered first"])
def test_a_negative_is_the_document_that_has_its_text(tmp_path, order):
    rows = [
        {"query": "a", "document": "x", "document_id": "1", "negatives": ["y", "other"]},
        {"query": "b", "document": "y", "document_id": "2"},
        {"query": "c", "document": "y", "document_id": "3"},
    ][::order]
    data = read_pairs(jsonl(tmp_path / "a.jsonl", rows), "train")
    other = text_id("d", "other")
    assert data.documents == {"1": "x", "2": "y", "3": "y", other: "other"}
    first = "2" if order == 1 else "3"
    assert data.negatives == {text_id("q", "a"): (first, other)}


def test_a_negative_of_another_split_is_in_the_corpus_once(tmp_path):
    rows = [
        {"query": "a", "document": "x", "split": "train", "negatives": ["y", "z"]},
        {"query": "b", "document": "y", "document_id": "2", "split": "test"},
    ]
    data = read_pairs(jsonl(tmp_path / "a.jsonl", rows), "test")
    assert sorted(data.documents.values()) == ["x", "y", "z"]
    assert data.negatives == {}


def test_an_id_that_a_negatives_text_would_make_may_not_stand_for_another_text(tmp_path):
    taken = text_id("d", "y")
    rows = [{"query": "a", "document": "x", "document_id": taken, "negatives": ["y"]}]
    refuse(jsonl(tmp_path / "a.jsonl", rows), rf"a\.jsonl:1: .*Received: '{taken}' with 'y' after")


def test_split_column_chooses_judgements_and_keeps_all_documents(tmp_path):
    rows = [ROWS[0] | {"split": "train"}, ROWS[1] | {"split": "test"}]
    path = jsonl(tmp_path / "a.jsonl", rows)
    data = read_pairs(path, "test")
    assert list(data.qrels) == [text_id("q", "who barks")]
    assert len(data.documents) == 2
    assert data.negatives == {}
    assert data.notes == ()
    refuse(path, r"`split` must be one of .*: test, train\. Received: dev", split="dev")


def test_without_split_column_every_row_is_judged_and_said(tmp_path):
    path = jsonl(tmp_path / "a.jsonl", ROWS)
    assert read_pairs(path, "test").notes == (
        "the file has no split column: all 2 rows are judged, and if the model was trained on "
        "this file the numbers are not held out; add a split column",
    )
    assert read_pairs(path, "train").notes == ()
    rows = [ROWS[0] | {"split": "train"}, ROWS[1]]
    refuse(jsonl(tmp_path / "b.jsonl", rows), r"b\.jsonl:2: `split` is missing here")


@pytest.mark.parametrize(
    ("row", "match"),
    [
        (
            {"query": "a", "document": "b", "labels": 1},
            r":2: columns must be among query, .*'labels'",
        ),
        ({"query": "a"}, r":2: `document` is missing"),
        ({"query": 3, "document": "b"}, r":2: `query` must be a string\. Received: '3'"),
        ({"query": " ", "document": "b"}, r":2: `query` must not be empty"),
        ({"query": "a", "document": "", "title": "t"}, r":2: `document` must not be empty"),
        ({"query": "a", "document": "b", "negatives": [""]}, r":2: `negatives` must not be empty"),
        ({"query": "a", "document": "b", "negatives": "x"}, r":2: `negatives` must be a list"),
        ({"query": "a", "document": "b", "negatives": [1]}, r":2: `negatives` must be a list"),
    ],
)
def test_bad_rows_name_their_line(tmp_path, row, match):
    refuse(jsonl(tmp_path / "a.jsonl", [ROWS[0], row]), r"a\.jsonl" + match)


def test_bad_files_are_named(tmp_path):
    refuse(
        tmp_path / "a.xlsx", r"must end in \.jsonl, \.tsv, \.csv, \.parquet.*Received: .*a\.xlsx"
    )
    refuse(tmp_path / "a.tsv", r"a\.tsv, which does not exist", FileNotFoundError)
    (tmp_path / "a.tsv").write_text("query\tdocument\n")
    refuse(tmp_path / "a.tsv", "expected rows .*Received: no row")
    (tmp_path / "a.tsv").write_text("query\tquery\nx\ty\n")
    refuse(tmp_path / "a.tsv", "`query` twice")
