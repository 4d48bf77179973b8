"""Pins of README.md: its Python example runs, its paths and commands exist."""

import re
from pathlib import Path

import pytest

from samtone_tf.cli.main import COMMANDS
from tests import tiny

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_python_example_runs(tmp_path, monkeypatch, capsys):
    """As it stands, but on a tiny BEIR folder and for two steps."""
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    folder = tiny.write_beir(tmp_path / "beir")
    for name, value in {
        '"docstrings"': f'"beir:{folder}"',
        "num_steps=100": "num_steps=2",
        "batch_size=128": "batch_size=8",
        "vocabulary_size=4000": "vocabulary_size=200",
    }.items():
        assert name in code
        code = code.replace(name, value)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    hits = [
        line for line in capsys.readouterr().out.splitlines() if re.match(r"-?\d\.\d{3}  ", line)
    ]
    assert len(hits) == 3


def test_the_links_and_the_tree_name_what_exists():
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
    tree = README.split("## The tree")[1].split("\n    tests/")[0]
    names = re.findall(r"^      (\S+?),? ", tree, re.MULTILINE)
    assert len(names) > 6
    for name in names:
        assert (ROOT / "samtone_tf" / name).exists(), name


def test_every_command_is_shown():
    shown = set(re.findall(r"^    samtone ([\w-]+)", README, re.MULTILINE))
    assert shown == set(COMMANDS) - {"quickstart"}
    assert "make quickstart" in README
    assert "make test" in README
