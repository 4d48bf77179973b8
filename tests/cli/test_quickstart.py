"""Pins of cli.quickstart: what it writes and prints on a tiny corpus, and what it never deletes."""

import json
import re

import numpy as np
import pytest

from samtone_tf.cli import quickstart
from samtone_tf.data import sources
from samtone_tf.data.docstrings import read_docstrings
from samtone_tf.data.fingerprints import split_fingerprint
from tests.cli.runner import refuse, succeed

MODELS = ["BM25", "untrained", "in-batch softmax", "SamToNe"]
MEASURES = ["P@1", "MRR", "nDCG@10", "R@100"]


def write_package(folder):
    """Four hundred documented functions, so that a batch of 256 pairs can be filled."""
    random = np.random.default_rng(1)
    starts, ends = ("mo", "ka", "ti", "re", "lu"), ("ran", "sel", "dop", "ik")
    words = [f"{a}{b}{c}" for a in starts for b in starts for c in ends]
    code = []
    for number in range(400):
        name, rest = random.choice(words, 4), random.choice(words, 8)
        code.append(
            f'def function_{number}():\n    """Return the {" ".join(name)} of {number}.\n\n'
            f'    {" ".join(name[::-1])} {" ".join(rest)}.\n    """\n'
        )
    (folder / "tinydocs").mkdir()
    (folder / "tinydocs" / "__init__.py").write_text("\n\n".join(code))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """(folder, printed text, held-out data) of a quickstart of two steps a model."""
    top = tmp_path_factory.mktemp("quickstart")
    write_package(top)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(top))
        patch.setattr(
            sources, "read_docstrings", lambda split: read_docstrings(split, ("tinydocs",))
        )
        done = succeed("quickstart", "--out", top / "out", "--train.steps", "2")
        held_out = read_docstrings("test", ("tinydocs",))
    return top / "out", done.out, held_out


@pytest.mark.slow
class TestTheWholeJob:
    """One run of seconds, looked at from several sides."""

    def test_rows_of_the_results(self, finished):
        rows = json.loads((finished[0] / "results.json").read_text())
        assert [row["model"] for row in rows] == MODELS
        for row in rows:
            assert all(0 <= row[name] <= 1 for name in MEASURES)
        for row in rows[1:]:
            assert row["ScaNN recall@10"] == row["ScaNN recall@100"] == 1.0  # brute force here
        assert rows[0]["MRR"] > 0.8  # a text holds the words of its summary
        assert len({row["MRR"] for row in rows}) == 4

    def test_the_table_shows_those_rows(self, finished):
        lines = finished[1].splitlines()
        start = next(i for i, line in enumerate(lines) if line.startswith("model"))
        assert [name for name in MEASURES if name in lines[start]] == MEASURES
        rows = json.loads((finished[0] / "results.json").read_text())
        for row, line in zip(rows, lines[start + 1 : start + 5], strict=True):
            assert line.startswith(row["model"])
            shown = line.removeprefix(row["model"]).split()
            assert shown[:4] == [f"{row[name]:.4f}" for name in MEASURES]

    def test_the_held_out_part_is_named_by_size_and_hash(self, finished):
        _, printed, held_out = finished
        assert (
            f"{len(held_out.qrels)} held-out pairs (hash {split_fingerprint(held_out)})" in printed
        )
        assert f"over {len(held_out.documents)} documents" in printed
        assert 15 < len(held_out.qrels) < 60

    def test_five_searches_with_their_hits(self, finished):
        _, printed, held_out = finished
        asked = re.findall(
            r"^(Return the .*\.)   \(written for (tinydocs\.function_\d+)\)$", printed, re.M
        )
        assert len(asked) == 5
        for query, answer in asked:
            assert held_out.qrels[f"{answer}:summary"] == {answer: 1}
            assert held_out.queries[f"{answer}:summary"] == query
        assert (
            len(re.findall(r"^   [123]  -?\d\.\d{4}  tinydocs\.function_\d+  \w", printed, re.M))
            == 15
        )

    def test_folders_of_every_step(self, finished):
        folder, printed, _ = finished
        assert {path.name for path in (folder / "runs").iterdir()} == {
            "in_batch_softmax",
            "samtone",
        }
        assert {path.name for path in (folder / "saved_models").iterdir()} == {
            "untrained",
            "in_batch_softmax",
            "samtone",
        }
        assert (folder / "indexes" / "samtone" / "report.json").is_file()
        losses = {
            name: (folder / "runs" / name / "config.yaml").read_text()
            for name in ("in_batch_softmax", "samtone")
        }
        for name, text in losses.items():
            assert f"name: {name}" in text
            assert "steps: 2\n" in text
        assert str(folder) in printed.splitlines()[-1]


@pytest.fixture
def quick(monkeypatch):
    """The job replaced by one that writes a file; returns the folders it was called for."""
    called = []

    def job(config, out):
        called.append(out)
        (out / "model").write_text(str(config.train.steps))
        rows = [{"model": name, **dict.fromkeys(MEASURES, 0.5)} for name in MODELS]
        return rows, "five searches"

    monkeypatch.setattr(quickstart, "job", job)
    return called


def test_results_are_written_last(quick, tmp_path):
    succeed("quickstart", "--out", tmp_path / "q", "--train.steps", "7")
    assert quick == [tmp_path / "q"]
    assert (tmp_path / "q" / "model").read_text() == "7"
    assert [
        row["model"] for row in json.loads((tmp_path / "q" / "results.json").read_text())
    ] == MODELS


def test_an_earlier_quickstart_is_replaced_only_when_asked_for(quick, tmp_path):
    out = tmp_path / "q"
    succeed("quickstart", "--out", out)
    (out / "left over").write_text("x")
    line = refuse("quickstart", "--out", out)
    assert str(out) in line
    assert "--overwrite" in line
    assert (out / "left over").exists()
    succeed("quickstart", "--out", out, "--overwrite")
    assert not (out / "left over").exists()
    assert len(quick) == 2


def test_one_that_was_interrupted_can_be_replaced(quick, tmp_path, monkeypatch):
    def stop(config, out):
        raise ValueError("stopped")

    out = tmp_path / "q"
    with monkeypatch.context() as patch:
        patch.setattr(quickstart, "job", stop)
        assert "stopped" in refuse("quickstart", "--out", out)
    assert not (out / "results.json").exists()
    succeed("quickstart", "--out", out, "--overwrite")


def test_an_empty_folder_is_taken(quick, tmp_path):
    (tmp_path / "q").mkdir()
    succeed("quickstart", "--out", tmp_path / "q")
    assert quick == [tmp_path / "q"]


@pytest.mark.parametrize("name", ["notes.txt", "results.json", "started.txt", "runs/a/config.yaml"])
@pytest.mark.parametrize("flags", [[], ["--overwrite"]], ids=str)
def test_a_folder_of_someone_else_is_never_touched(quick, tmp_path, name, flags):
    """`results.json` is also what `evaluate --out` writes into a folder of the user's."""
    path = tmp_path / "mine" / name
    path.parent.mkdir(parents=True)
    path.write_text('{"rows": []}')
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    assert str(tmp_path / "mine") in refuse("quickstart", "--out", tmp_path / "mine", *flags)
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years of work"
    assert quick == []


def test_a_file_in_its_place_is_never_touched(quick, tmp_path):
    (tmp_path / "q").write_text("mine")
    assert "q" in refuse("quickstart", "--out", tmp_path / "q", "--overwrite")
    assert (tmp_path / "q").read_text() == "mine"


def test_what_is_missing_for_bm25_is_said_before_any_work(quick, tmp_path, monkeypatch):
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "bm25s" else found(name)
    )
    assert "pip install 'samtone-tf[" in refuse("quickstart", "--out", tmp_path / "q")
    assert not (tmp_path / "q").exists()
    assert quick == []
