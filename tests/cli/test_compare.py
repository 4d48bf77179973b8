"""Pins of `samtone compare` and of `evaluate --suite`: text, JSON, names, and what is refused."""

import json

import pytest

from samtone_tf.cli.compare import run_names
from samtone_tf.evaluation.trec import write_run
from tests import tiny
from tests.cli.runner import refuse, succeed

SUITE = """
measures: P@1 MRR
sets:
  - {name: first, data: "beir:{root}/first"}
  - {name: second, data: "beir:{root}/second"}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A BEIR folder, three runs on it, and a suite of two sets; read them only."""
    top = tmp_path_factory.mktemp("compare")
    for name in ("first", "second"):
        tiny.write_beir(top / name)
    ids = list(tiny.data().qrels)
    right = {q: {"d0": 1.0, "d1": 0.5, f"d{q[1:]}": 2.0} for q in ids}
    wrong = {q: {"d0": 1.0, "d1": 0.5} for q in ids}
    half = {q: (right if i % 2 else wrong)[q] for i, q in enumerate(ids)}
    for name, run in {"right": right, "wrong": wrong, "half": half}.items():
        write_run(run, top / f"{name}.trec", tag=name)
        for part in ("first", "second"):
            write_run(run, top / "runs" / name / f"{part}.trec", tag=name)
    (top / "list.yaml").write_text(SUITE)
    return top


def flags(place, *names):
    return ("compare", *(place / f"{n}.trec" for n in names), "--data", f"beir:{place / 'first'}")


def test_two_runs(place):
    out = succeed(*flags(place, "wrong", "right"), "--measures", "P@1 MRR").out
    lines = out.splitlines()
    assert lines[0] == f"beir:{place / 'first'} (test): 60 queries"
    assert lines[2].split() == ["run", "P@1", "MRR"]
    row = next(line for line in lines if line.startswith("  P@1")).split()
    # Only d0 answers q0 in "wrong"; d1 is second there: 59 of 60 queries are won.
    assert row[1] == "+0.9833"
    assert row[4:7] == ["59", "1", "0"]
    assert "significant: right is better than wrong by P@1 (0.9833, p <.0001)" in lines
    assert sum(" → " in line for line in lines) == 5
    assert "the old harbour" not in out  # q0, which did not move
    assert "by P@1:" in out


def test_three_runs_as_json(place):
    out = succeed(*flags(place, "wrong", "half", "right"), "--measures", "P@1", "--json").out
    said = json.loads(out)
    pairs = [(d["first"], d["second"]) for d in said["differences"]]
    assert pairs == [("wrong", "half"), ("wrong", "right"), ("half", "right")]
    assert said["differences"][0]["difference"]["value"] == pytest.approx(0.5)
    assert said["tests"]["num_tests"] == 3


def test_a_suite_of_runs(place):
    folders = (place / "runs" / "wrong", place / "runs" / "half")
    suite = ("--suite", place / "list.yaml", "--root", place)
    out = succeed("compare", *folders, *suite).out
    for name in ("first", "second"):
        assert f"beir:{place / name} (test): 60 queries" in out
    assert out.count("Holm over 4 tests") == 2
    said = json.loads(succeed("compare", *folders, *suite, "--json", "--moved", "1").out)
    assert [one["source"] for one in said] == [f"beir:{place / n}" for n in ("first", "second")]
    assert len(said[0]["moved"]) == 1


def test_one_command_judges_a_suite_and_compare_takes_its_runs(place, tmp_path):
    suite = ("--suite", place / "list.yaml", "--root", place)
    model = ("--model", tiny.saved_model("sde"), "--search", "exact", "--bm25")
    printed = succeed("evaluate", *model, *suite, "--out", tmp_path / "out").out
    assert (tmp_path / "out" / "table.md").read_text() in printed
    runs = tmp_path / "out" / "runs"
    out = succeed("compare", runs / "exact", runs / "bm25", *suite, "--measures", "P@1").out
    assert "significant: bm25 is better than exact by P@1" in out
    assert "which holds something else" in refuse("evaluate", *model, *suite, "--out", place)
    line = refuse("evaluate", *model, *suite, "--out", tmp_path / "out", "--depth", "3")
    assert "depth=1000, not 3" in line


def test_names_are_as_short_as_they_can_be():
    assert run_names(["runs/a.trec", "x/b.run"]) == ["a", "b"]
    assert run_names(["old/runs/exact", "new/runs/exact"]) == ["old/runs/exact", "new/runs/exact"]
    assert run_names(["old/exact.trec", "new/exact.trec"]) == ["old/exact", "new/exact"]
    with pytest.raises(ValueError, match="`runs` must be different files. Received: a, a"):
        run_names(["a", "a"])


def test_what_compare_cannot_use(place, tmp_path):
    assert "two run files or more" in refuse(*flags(place, "right"))
    assert "gone.trec does not exist" in refuse(*flags(place, "right", "gone"))
    two = flags(place, "right", "wrong")
    assert "'ndcg'" in refuse(*two, "--measures", "ndcg")
    assert "`moved_by`" in refuse(*two, "--moved_by", "MAP@3")
    assert "num_moved=-1" in refuse(*two, "--moved", "-1")
    assert "either --data or --suite" in refuse(*two, "--suite", "beir")
    assert "either --data or --suite" in refuse(*two[:3])
    assert "--root goes with --suite" in refuse(*two, "--root", place)
    assert "`split` must be one of those" in refuse(*two, "--split", "dev")
    (tmp_path / "bad.trec").write_text("q1 d1 0.5\n")
    line = refuse(*two[:2], tmp_path / "bad.trec", *two[3:])
    assert "6 columns" in line
    assert "bad.trec:1" in line
    (tmp_path / "twice.trec").write_text("q1 Q0 d1 1 0.5 t\nq1 Q0 d1 2 0.4 t\n")
    assert "repeats document 'd1'" in refuse(*two[:2], tmp_path / "twice.trec", *two[3:])
    (tmp_path / "other.trec").write_text("x1 Q0 d1 1 0.5 t\n")
    assert "`runs` must answer queries" in refuse(*two[:2], tmp_path / "other.trec", *two[3:])


def test_what_compare_cannot_use_of_a_suite(place, tmp_path):
    suite = ("--suite", place / "list.yaml", "--root", place)
    right = place / "runs" / "right"
    assert "--split goes with --data" in refuse("compare", right, right, *suite, "--split", "x")
    (tmp_path / "half").mkdir()
    line = refuse("compare", right, tmp_path / "half", *suite)
    assert "All folders must hold the same runs" in line
    (tmp_path / "none").mkdir()
    line = refuse("compare", tmp_path / "none", tmp_path / "half", *suite)
    assert "holds a run of the suite list, such as first.trec" in line


def test_flags_of_evaluate_that_do_not_go_together(place, tmp_path):
    model = ("--model", tiny.saved_model("sde"))
    data = ("--data", f"beir:{place / 'first'}")
    suite = ("--suite", place / "list.yaml", "--root", place)
    assert "either --data or --suite" in refuse("evaluate", *model)
    assert "either --data or --suite" in refuse("evaluate", *model, *data, *suite)
    assert "--root goes with --suite" in refuse("evaluate", *model, *data, "--root", place)
    assert "--overwrite goes with --suite" in refuse("evaluate", *model, *data, "--overwrite")
    out = ("--out", tmp_path / "out")
    assert "--run goes with --data" in refuse("evaluate", *model, *suite, *out, "--run", "x")
    assert "--split goes with --data" in refuse("evaluate", *model, *suite, *out, "--split", "x")
    assert "needs --out" in refuse("evaluate", *model, *suite)
    missing = refuse("evaluate", *model, "--suite", "beir", "--root", place, *out)
    assert "29 of 29 sets are not there: trec-covid, bioasq" in missing
    assert not (tmp_path / "out").exists()
