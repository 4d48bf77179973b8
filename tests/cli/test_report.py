"""Pins of `samtone report`: what it writes and prints, and what it refuses in one line."""

from tests.analysis import results as made
from tests.cli.runner import refuse, succeed


def test_a_page_with_its_command(tmp_path):
    path = made.evaluation(tmp_path / "one result.json")
    out = tmp_path / "out.html"
    done = succeed("report", path, "--out", out, "--title", "Mine & yours")
    assert (done.out, done.err) == (f"wrote {out}\n", "")
    page = made.Page(out.read_text(encoding="utf-8"))
    assert page.texts("h1") == ["Mine & yours"]
    command = f"samtone report '{path}' --out {out} --title 'Mine & yours'"
    assert page.texts("code") == [command]


def test_what_it_refuses(tmp_path):
    path, out = made.inspection(tmp_path / "lengths.json"), tmp_path / "out.html"
    assert "out" in refuse("report", path)
    assert "results" in refuse("report", "--out", out)
    assert "does not exist" in refuse("report", tmp_path / "no.json", "--out", out)
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    assert "broken.json, which cannot be read" in refuse("report", broken, "--out", out)
    broken.write_text('{"kind": "x\\ny"}')
    assert "must be of a known kind" in refuse("report", broken, "--out", out)
    out.write_text("mine")
    assert "out.html, which exists" in refuse("report", path, "--out", out)
    assert out.read_text() == "mine"
    succeed("report", path, "--out", out, "--overwrite")
