"""Pins of cli.main: help that answers at once, dispatch, exit codes, one-line errors."""

import subprocess
import sys
import time

import pytest

import samtone_tf
from samtone_tf.cli import search
from tests.cli.runner import ROOT, samtone, succeed

COMMANDS = (
    "quickstart",
    "inspect",
    "train",
    "plan",
    "export",
    "convert",
    "encode",
    "index",
    "tune-index",
    "search",
    "evaluate",
    "compare",
    "report",
)


def python(*arguments):
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)


def test_help_answers_within_a_second():
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        done = python("-m", "samtone_tf.cli.main", "--help")
        best = min(best, time.perf_counter() - start)
        assert done.returncode == 0
        assert done.stdout.startswith("usage: samtone COMMAND")
    assert best < 1


HEAVY = ("tensorflow", "tensorflow_text", "keras", "scann", "sentencepiece", "ir_measures")


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["--help"], (*HEAVY, "numpy", "jsonargparse")),
        (["--version"], (*HEAVY, "numpy", "jsonargparse")),
        *[([name, "--help"], HEAVY) for name in COMMANDS],
    ],
    ids=str,
)
def test_help_imports_nothing_heavy(arguments, absent):
    done = python(
        "-c",
        "import sys\n"
        "from samtone_tf.cli.main import main\n"
        "try:\n"
        f"    main({arguments})\n"
        "except SystemExit:\n"
        "    pass\n"
        "print('modules', *sys.modules)",
    )
    modules = set(done.stdout.splitlines()[-1].split())
    assert "samtone_tf.cli.main" in modules
    assert not modules & set(absent)


def test_help_names_every_command():
    for arguments in (["--help"], ["-h"], ["help"]):
        done = succeed(*arguments)
        assert done.err == ""
        for name in COMMANDS:
            assert f"\n  {name} " in done.out
    assert samtone() == (2, done.out, "")


def test_version():
    assert succeed("--version").out == f"samtone-tf {samtone_tf.__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_each_commands_help_ends_in_examples_of_it(name):
    done = succeed(name, "--help")
    usage, _, examples = done.out.partition("\nexamples:\n")
    assert usage.startswith(f"usage: samtone {name} ")
    assert f"  samtone {name}" in examples or f"| samtone {name}" in examples


def test_an_unknown_command_is_named_beside_the_known_ones():
    done = samtone("frobnicate", "--data", "x")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("samtone: error: unknown command 'frobnicate'")
    assert len(done.err.splitlines()) == 1
    for name in COMMANDS:
        assert name in done.err


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ValueError("line one\n   line two"), 2, "samtone search: error: line one line two"),
        (FloatingPointError("The loss became nan"), 2, "samtone search: error: The loss became"),
        (ImportError("pip install x"), 2, "samtone search: error: pip install x"),
        (OSError(28, "No space left"), 2, "samtone search: error: [Errno 28] No space left"),
        (ValueError(), 2, "samtone search: error: ValueError"),
        (KeyboardInterrupt(), 130, "samtone search: interrupted"),
    ],
    ids=repr,
)
def test_how_a_command_ends(monkeypatch, error, code, line):
    def run(arguments):
        raise error

    monkeypatch.setattr(search, "run", run)
    done = samtone("search", "x")
    assert done.code == code
    assert done.err.startswith(line)
    assert len(done.err.splitlines()) == 1


def test_a_fault_of_our_own_keeps_its_traceback(monkeypatch):
    def run(arguments):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(search, "run", run)
    with pytest.raises(ZeroDivisionError):
        samtone("search", "x")


def test_a_traceback_can_be_asked_for(monkeypatch):
    monkeypatch.setenv("SAMTONE_TRACEBACK", "1")
    with pytest.raises(ValueError, match="k=0"):
        samtone("search", "index", "a question", "--k", "0")
