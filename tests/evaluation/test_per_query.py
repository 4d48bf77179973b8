"""Pins of evaluation.per_query and whole_file: values come back exactly; whole or not at all."""

import csv

import numpy as np
import pytest

from samtone_tf.evaluation.measures import measure
from samtone_tf.evaluation.per_query import matrix, read_per_query, write_per_query
from samtone_tf.evaluation.whole_file import write_lines

QRELS = {"007": {"a": 1, "b": 2, "c": 1}, 'odd\t"id"': {"a": 1}, "lost": {"b": 1}}
RUN = {"007": {"a": 0.1, "b": 0.05, "c": 0.2}, 'odd\t"id"': {"c": 0.3, "a": 0.2}}


def scores():
    return {
        name: measure(run, QRELS, ["nDCG@10", "P@1"]) for name, run in {"a": RUN, "b": {}}.items()
    }


def test_what_is_written_is_read_to_the_last_digit(tmp_path):
    write_per_query(scores(), tmp_path / "new" / "x.tsv")
    found = read_per_query(tmp_path / "new" / "x.tsv")
    assert list(found) == ["a", "b"]
    for name, (measures, values) in found.items():
        assert measures == ["nDCG@10", "P@1"]
        np.testing.assert_array_equal(values, matrix(scores()[name]))
    assert 0 < found["a"][1][0, 0] < 1


def test_it_is_a_table_that_other_programs_read(tmp_path):
    path = write_per_query(scores(), tmp_path / "x.tsv")
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [row["query_id"] for row in rows] == [*QRELS] * 2
    assert rows[1]["P@1"] == "0.0"
    assert path.read_text().startswith("system\tquery_id\tnDCG@10\tP@1\na\t007\t0.")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"must begin with the columns.*Received: \[\]"),
        ("q1 Q0 d1 1 0.5 t\n", "must begin with the columns"),
        ("system\tquery_id\tP@1\na\tq\tmuch\n", r"1 numbers a line. Received: \['a'.*x\.tsv:2"),
        ("system\tquery_id\tP@1\na\tq\t1\t2\n", "1 numbers a line"),
    ],
)
def test_another_file_is_refused(tmp_path, text, message):
    (tmp_path / "x.tsv").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_per_query(tmp_path / "x.tsv")


def test_a_file_is_replaced_whole_or_left_as_it_was(tmp_path):
    def lines():
        yield "new\n"
        raise RuntimeError("the disk is full")

    write_lines(tmp_path / "x", ["old\n"])
    with pytest.raises(RuntimeError):
        write_lines(tmp_path / "x", lines())
    assert (tmp_path / "x").read_text() == "old\n"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    write_lines(tmp_path / "x", ["new\n"])
    assert (tmp_path / "x").read_text() == "new\n"
