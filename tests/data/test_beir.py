"""Pins of data.beir: forms of a folder, what is counted, and what is refused (C51, C52)."""

import gzip
import json
from pathlib import Path

import pytest

from samtone_tf.data.beir import read_beir

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
CORPUS = [
    {"_id": "d1", "title": "Cats", "text": "They purr."},
    {"_id": "007", "title": "", "text": "No title."},
    {"_id": "7", "text": "Another id than 007."},
]
QUERIES = [{"_id": "007", "text": "who purrs"}, {"_id": "q2", "text": "titles"}]
QRELS = "query-id\tcorpus-id\tscore\n007\td1\t2\n007\t7\t-1\nq2\t007\t1\n"


def write(folder, corpus=CORPUS, queries=QUERIES, qrels=QRELS, split="test"):
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    for name, records in (("corpus", corpus), ("queries", queries)):
        text = "".join(f"{r if isinstance(r, str) else json.dumps(r)}\n" for r in records)
        (folder / f"{name}.jsonl").write_text(text)
    (folder / "qrels" / f"{split}.tsv").write_text(qrels)
    return folder


def refuse(folder, match, kind=ValueError, split="test"):
    with pytest.raises(kind, match=match) as caught:
        read_beir(folder, split)
    assert "\n" not in str(caught.value)


def test_c52_titles_ids_and_grades(tmp_path):
    data = read_beir(write(tmp_path), "test")
    assert data.documents == {"d1": "Cats They purr.", "007": "No title.", "7": CORPUS[2]["text"]}
    assert data.queries == {"007": "who purrs", "q2": "titles"}
    assert data.qrels == {"007": {"d1": 2, "7": -1}, "q2": {"007": 1}}
    assert [tuple(pair) for pair in data.pairs()] == [("007", "d1"), ("q2", "007")]
    assert data.notes == ()
    assert data.split == "test"


@pytest.mark.parametrize(
    "qrels",
    [
        "007\td1\t2\n007\t7\t-1\nq2\t007\t1\n",
        "007 0 d1 2\n007 0 7 -1\n\nq2 Q0 007 1\n",
        "007\t0\td1\t2\n007\t0\t7\t-1\nq2\t0\t007\t1",
        "qid 0 docid rel\n007 0 d1 2\n007 0 7 -1\nq2 0 007 1.0\n",
    ],
)
def test_c52_header_no_header_and_trec_form_are_the_same(tmp_path, qrels):
    want = read_beir(write(tmp_path / "a"), "test").qrels
    assert read_beir(write(tmp_path / "b", qrels=qrels), "test").qrels == want


def test_gzipped_files_are_the_same(tmp_path):
    want = read_beir(write(tmp_path), "test")
    for path in [p for p in tmp_path.rglob("*") if p.is_file()]:
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert read_beir(tmp_path, "test") == want


def test_c52_absent_ids_are_counted_and_judged_documents_stay(tmp_path):
    qrels = QRELS + "q2\tgone\t1\nq9\td1\t1\n"
    data = read_beir(write(tmp_path, qrels=qrels), "test")
    assert data.qrels["q2"] == {"007": 1, "gone": 1}  # still in the ideal ranking
    assert "q9" not in data.qrels
    assert any("1 judged documents are not in the corpus" in n and "gone" in n for n in data.notes)
    assert any("1 judged queries are not in the queries" in n and "q9" in n for n in data.notes)


@pytest.mark.parametrize("qrels", ["q8\td1\t1\n", "q2\tgone\t1\n", "q2\td1\t0\n", ""])
def test_no_relevant_pair_left_is_an_error(tmp_path, qrels):
    refuse(write(tmp_path, qrels=qrels), r"test\.tsv: no relevant pair is left\. Received: ")


def test_c51_ids_twice_name_both_lines(tmp_path):
    corpus = [CORPUS[0], "", CORPUS[1], CORPUS[0]]
    refuse(write(tmp_path, corpus=corpus), r"corpus\.jsonl:4: .*Received: 'd1'.*line 1")
    queries = [*QUERIES, QUERIES[1]]
    refuse(write(tmp_path, queries=queries), r"queries\.jsonl:3: .*Received: 'q2'.*line 2")


def test_c51_equal_judgements_are_counted_and_conflicts_refused(tmp_path):
    data = read_beir(write(tmp_path, qrels=QRELS + "q2\t007\t1\n"), "test")
    assert data.notes == ("1 judgements are repeated in test.tsv",)
    assert data.qrels["q2"] == {"007": 1}
    refuse(write(tmp_path, qrels=QRELS + "q2\t007\t2\n"), r"test\.tsv:5: .*grade 2 after 1")


def test_empty_documents_are_counted_and_kept(tmp_path):
    corpus = [*CORPUS, {"_id": "e", "title": " ", "text": ""}]
    data = read_beir(write(tmp_path, corpus=corpus), "test")
    assert data.documents["e"] == ""
    assert data.notes == ("1 documents are empty: e",)
    corpus = [{"_id": "d1", "text": ""}, {"_id": "e", "text": " "}]
    refuse(write(tmp_path, corpus=corpus), r"corpus\.jsonl: every document is empty")


@pytest.mark.parametrize(
    ("record", "match"),
    [
        ('{"_id": "x", ', r"corpus\.jsonl:4: expected one JSON object"),
        ({"text": "x"}, r"corpus\.jsonl:4: `_id` is missing\. Received: fields text"),
        ({"_id": "x"}, r"corpus\.jsonl:4: `text` is missing\. Received: fields _id"),
        (
            {"_id": "x", "text": None},
            r"corpus\.jsonl:4: `text` must be a string\. Received: 'null'",
        ),
        ({"_id": " ", "text": "x"}, r"corpus\.jsonl:4: `_id` is empty"),
        ({"_id": True, "text": "x"}, r"corpus\.jsonl:4: `_id` must be a string"),
    ],
)
def test_bad_records_name_their_line(tmp_path, record, match):
    refuse(write(tmp_path, corpus=[*CORPUS, record]), match)


def test_whole_number_ids_become_strings(tmp_path):
    corpus = [{"_id": 7, "title": None, "text": "x"}, *CORPUS[:2]]
    assert read_beir(write(tmp_path, corpus=corpus), "test").documents["7"] == "x"


def test_an_empty_query_is_refused(tmp_path):
    queries = [*QUERIES, {"_id": "q3", "text": "  "}]
    refuse(write(tmp_path, queries=queries), r"queries\.jsonl:3: query 'q3' must have a text")


@pytest.mark.parametrize("line", ["q2\td1", "q2\td1\tyes", "q2\td1\t1.5", "q2\t\t1", "a b c d 1"])
def test_bad_judgements_name_their_line(tmp_path, line):
    refuse(write(tmp_path, qrels=QRELS + line + "\n"), r"test\.tsv:5: expected query id")


def test_a_broken_first_line_is_no_header(tmp_path):
    refuse(write(tmp_path, qrels="007\td1\tx\n" + QRELS), r"test\.tsv:1: expected query id")


def test_unknown_split_lists_those_there_are(tmp_path):
    write(tmp_path, split="dev")
    refuse(
        write(tmp_path), r"`split` must be one of .*: dev, test\. Received: train", split="train"
    )


def test_wrong_folders_say_what_is_there(tmp_path):
    refuse(tmp_path / "none", "none, which does not exist", FileNotFoundError)
    (tmp_path / "readme.txt").write_text("x")
    refuse(
        tmp_path,
        r"must hold corpus\.jsonl, queries\.jsonl, qrels/\*\.tsv .*holds readme\.txt",
        FileNotFoundError,
    )
    refuse(tmp_path / "readme.txt", "which is a file")
    write(tmp_path / "a")
    (tmp_path / "a" / "queries.jsonl").unlink()
    refuse(tmp_path / "a", r"lacks queries\.jsonl and holds", FileNotFoundError)


@pytest.mark.shared_data
@pytest.mark.skipif(not SHARED.is_dir(), reason="the real data sets are not beside the checkout")
@pytest.mark.parametrize(
    ("name", "split", "documents", "pairs"),
    [
        ("scifact", "train", 5183, 917),
        ("squad_dev", "train", 2067, 7578),
        ("nq_small", "train", 10400, 6840),
    ],
)
def test_real_sets_have_the_published_sizes(name, split, documents, pairs):
    data = read_beir(SHARED / name, split)
    assert len(data.documents) == documents
    assert sum(1 for _ in data.pairs()) == pairs
