"""Pins of evaluation.trec: run files round trip, keep distinct scores apart, refuse what breaks."""

import numpy as np
import pytest

from samtone_tf.evaluation import trec
from samtone_tf.evaluation.measures import measure


def test_ranking_is_by_score_then_id_descending():
    assert trec.ranking({"d1": 0.5, "d3": 0.5, "d2": 0.9, "d10": 0.5}) == ["d2", "d3", "d10", "d1"]


def test_a_run_file_has_six_columns(tmp_path):
    trec.write_run({"q1": {"a": 0.25, "b": 0.5}}, tmp_path / "made" / "x.run", tag="mini")
    text = (tmp_path / "made" / "x.run").read_text()
    assert text == "q1 Q0 b 1 0.5 mini\nq1 Q0 a 2 0.25 mini\n"


def test_what_is_written_is_read(tmp_path):
    run = {
        "007": {"é": 1 / 3, "7": -2e-9, "文書": float(np.float32(0.1))},
        "q": {"d": 3.0, "e": 3.0},
    }
    trec.write_run(run, tmp_path / "x.run")
    assert trec.read_run(tmp_path / "x.run") == run


def test_a_run_file_of_another_program_can_be_judged(tmp_path):
    # Columns by tabs, ranks from 0 and out of order: the scores say that b is first.
    path = tmp_path / "other.run"
    path.write_text("q\tQ0\ta\t0\t1.5\tother\nq\tQ0\tb\t1\t2.5\tother\n")
    assert measure(trec.read_run(path), {"q": {"a": 1}}, ["MRR"]).mean == {"MRR": 0.5}


def test_c49_distinct_scores_never_tie_in_the_file(tmp_path):
    # In bfloat16 both are 0.8516; and two neighbours in float32 differ in the 8th digit.
    near = np.float32(0.851)
    scores = {"a": float(near), "b": float(np.nextafter(near, np.float32(1))), "c": 0.853}
    trec.write_run({"q": scores}, tmp_path / "x.run")
    read = trec.read_run(tmp_path / "x.run")["q"]
    assert read["a"] < read["b"] < read["c"]
    assert len({np.float32(score) for score in read.values()}) == 3


def test_c51_a_document_twice_names_file_and_line(tmp_path):
    path = tmp_path / "x.run"
    path.write_text("q Q0 d 1 0.5 t\n\nq Q0 e 2 0.4 t\nq Q0 d 3 0.3 t\n")
    with pytest.raises(ValueError, match=r"x\.run:4 repeats document 'd' of query 'q'"):
        trec.read_run(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q Q0 d 1 0.5", r"5 columns at .*x\.run:1"),
        ("q Q0 a b 1 0.5 t", r"7 columns at .*x\.run:1"),
        ("q Q0 d 1 high t", r"'high' at .*x\.run:1"),
        ("q Q0 d 1 nan t", r"'nan' at .*x\.run:1"),
    ],
)
def test_a_bad_line_is_named(line, message, tmp_path):
    (tmp_path / "x.run").write_text(line + "\n")
    with pytest.raises(ValueError, match=message):
        trec.read_run(tmp_path / "x.run")


@pytest.mark.parametrize(
    ("run", "tag", "message"),
    [
        ({"q": {"a b": 1.0}}, "t", "document id.*'a b'"),
        ({"q\t1": {"a": 1.0}}, "t", "query id"),
        ({"q": {"": 1.0}}, "t", "document id.*''"),
        ({"q": {"a": 1.0}}, "my run", "tag.*'my run'"),
        ({"q": {"a": float("nan")}}, "t", "finite scores. Received: nan for query 'q'"),
    ],
)
def test_what_would_break_the_columns_is_refused(run, tag, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        trec.write_run(run, tmp_path / "x.run", tag=tag)
    assert not (tmp_path / "x.run").exists()
