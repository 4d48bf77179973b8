"""Entry point: finds the command, parses its flags, and turns bad input into one line.

Nothing heavy is imported before a command runs, so `--help` answers at once.
"""

import importlib
import os
import sys
import warnings
from collections.abc import Sequence

from samtone_tf.version import __version__

COMMANDS = {
    "quickstart": "train, export, index, search and evaluate on docstrings; no downloads",
    "inspect": "look into a data set before training on it",
    "train": "train a dual encoder on pairs of texts",
    "plan": "say what a training step needs, and whether it fits on a device",
    "export": "write the SavedModel of a trained run",
    "convert": "write a model for another tool, or a published one as a run",
    "encode": "write the vectors of a corpus of any size to a folder",
    "index": "encode a corpus and build a search index",
    "tune-index": "find the fastest settings of an index with a wanted recall",
    "search": "ask an index questions",
    "evaluate": "judge an exported model on a data set, or a suite of them",
    "compare": "test whether runs differ by more than chance",
    "report": "show results as one HTML page that opens offline",
}

USAGE = """usage: samtone COMMAND [options]

Train, export, index and judge dual-encoder retrievers with SamToNe.

commands:
{commands}

options:
  --help       this text; `samtone COMMAND --help` explains a command
  --version    the version

Bad input ends with one line and exit code 2; SAMTONE_TRACEBACK=1 shows where it was raised.

example:
  samtone train --data beir:scifact --out runs/scifact
  samtone export runs/scifact saved_models/scifact/1
  samtone evaluate --model saved_models/scifact/1 --data beir:scifact --split test
"""


def usage() -> str:
    """The text of `samtone --help`."""
    return USAGE.format(commands="\n".join(f"  {n:<12} {text}" for n, text in COMMANDS.items()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        arguments: what follows `samtone`; None takes them from the command line.

    Returns:
        0 when it worked, 2 for bad input, 130 when interrupted.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage(), end="")
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print(f"samtone-tf {__version__}")
        return 0
    name = arguments[0]
    if name not in COMMANDS:
        return _fail("samtone", f"unknown command {name!r}; the commands are {', '.join(COMMANDS)}")
    # TensorFlow prints what hardware it did not find; a user asked for none of it.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    if not sys.stderr.isatty():
        # In a log file a progress bar is a line each time.
        os.environ.setdefault("TQDM_MININTERVAL", "10")
    warnings.showwarning = _show_warning
    return _run(name, arguments[1:])


def _run(name: str, arguments: list[str]) -> int:
    from jsonargparse import ArgumentError

    command = importlib.import_module(f"samtone_tf.cli.{name.replace('-', '_')}")
    program = f"samtone {name}"
    try:
        return command.run(arguments) or 0
    except ArgumentError as error:
        return _fail(program, str(error))
    except KeyboardInterrupt as interrupt:
        print(f"{program}: interrupted", *interrupt.args, sep="; ", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader went away (`| head`): not an error, and nothing more to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, TypeError, OSError, ImportError, FloatingPointError) as error:
        if os.environ.get("SAMTONE_TRACEBACK"):
            raise
        return _fail(program, str(error) or type(error).__name__, hint=False)


def _fail(program: str, message: str, hint: bool = True) -> int:
    """Prints one line and returns the exit code for bad input."""
    line = " ".join(message.split())
    more = f" (see `{program} --help`)" if hint else ""
    print(f"{program}: error: {line}{more}", file=sys.stderr)
    return 2


def _show_warning(message, category, filename, lineno, file=None, line=None):
    print(f"warning: {' '.join(str(message).split())}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
