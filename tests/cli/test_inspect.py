"""Pins of `samtone inspect`: what it prints and writes, and what it refuses."""

import json

import pytest

from tests import tiny
from tests.cli.runner import refuse, succeed


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocabulary") / "v.spm"
    tiny.tokenizer().save(path)
    return path


def test_text_and_json_say_the_same(tmp_path, vocabulary):
    folder = tiny.write_beir(tmp_path / "beir", ("train", "test"))
    out = tmp_path / "found.json"
    flags = ("--vocabulary", vocabulary, "--query_length", "4", "--json", out)
    done = succeed("inspect", "--data", f"beir:{folder}", *flags)
    found = json.loads(out.read_text())
    assert found["documents"] == found["queries"] == 60
    assert f"beir:{folder}, split train (the set has test, train)" in done.out
    cut = 100 * found["query_lengths"]["share_cut"]
    assert f"cut at 4: {cut:.1f} % of queries" in done.out
    assert found["shared"][0]["shared_queries"] == 60
    assert "60 of 60 100.0 %" in done.out
    assert not [path for path in tmp_path.iterdir() if "building" in path.name]


def test_the_first_split_is_taken_where_there_is_no_train(tmp_path, vocabulary):
    folder = tiny.write_beir(tmp_path / "beir", ("test",))
    flags = ("--vocabulary", vocabulary, "--cache", "memory")
    assert "split test" in succeed("inspect", "--data", f"beir:{folder}", *flags).out


def test_what_it_refuses(tmp_path, vocabulary):
    data = ("--data", f"beir:{tiny.write_beir(tmp_path / 'beir', ('test',))}")
    assert "Received: train" in refuse("inspect", *data, "--split", "train")
    assert "Received: dev" in refuse("inspect", *data, "--against", "test,dev")
    assert "gone" in refuse("inspect", "--data", f"beir:{tmp_path / 'gone'}")
    assert "gone.spm" in refuse("inspect", *data, "--vocabulary", "gone.spm")
    assert "query_length=1" in refuse("inspect", *data, "--query_length", "1")
    (tmp_path / "there.json").write_text("{}")
    line = refuse("inspect", *data, "--json", tmp_path / "there.json")
    assert "there.json exists and is not overwritten" in line
