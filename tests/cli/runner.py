"""Runs `samtone` in this process and returns what a shell would see."""

import contextlib
import io
import os
import sys
import warnings
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from samtone_tf.cli.main import main

ROOT = Path(__file__).parents[2]


class Done(NamedTuple):
    """Exit code and both streams of a command that ended."""

    code: int
    out: str
    err: str


def samtone(*arguments, stdin: str = "", show_warnings: bool = False) -> Done:
    """One command. Warnings are errors, as in every test, unless they are what is tested."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        stack.enter_context(mock.patch.dict(os.environ))
        stack.enter_context(mock.patch.object(sys, "stdin", io.StringIO(stdin)))
        stack.enter_context(warnings.catch_warnings())
        if show_warnings:
            warnings.simplefilter("default")
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as exit_:
            code = exit_.code or 0
    return Done(code, out.getvalue(), err.getvalue())


def succeed(*arguments, **keywords) -> Done:
    """One command that must work."""
    done = samtone(*arguments, **keywords)
    assert done.code == 0, done.err[-2000:]
    return done


def refuse(*arguments, **keywords) -> str:
    """One command that must be refused; its only line on the error stream."""
    done = samtone(*arguments, **keywords)
    assert done.code == 2, (done.code, done.out[-500:], done.err[-500:])
    lines = done.err.splitlines()
    assert len(lines) == 1, done.err
    program = " ".join(["samtone", *map(str, arguments[:1])])
    assert lines[0].startswith(f"{program}: error: ")
    assert "Traceback" not in done.out
    return lines[0]


TINY_FLAGS = (
    "--data.query_length=12",
    "--data.document_length=20",
    "--data.vocabulary_size=200",
    "--model.embedding_dim=12",
    "--model.num_layers=1",
    "--model.hidden_dim=16",
    "--model.num_heads=2",
    "--model.head_dim=8",
    "--model.feedforward_dim=32",
    "--train.steps=5",
    "--train.batch_size=8",
)
