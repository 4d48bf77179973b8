"""Pins of `import samtone_tf`: it is quick and lazy, and every public name resolves."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import samtone_tf

ROOT = Path(__file__).parent.parent


def run(code):
    """Runs it in a fresh process; returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_importing_the_package_imports_nothing_heavy():
    heavy = "tensorflow keras keras_hub tensorflow_text scann numpy sentencepiece ir_measures"
    code = f"import sys, samtone_tf; print(*[n for n in '{heavy}'.split() if n in sys.modules])"
    assert run(code) == []
    assert run(code.replace("samtone_tf;", "keras;")) != []  # the check sees what is there


@pytest.mark.parametrize(
    "name",
    [
        "RunConfig",
        "RetrievalData",
        "Tokenizer",
        "ExactIndex",
        "load_index",
        "evaluate",
        "write_report",
    ],
)
def test_names_without_a_model_need_neither_tensorflow_nor_keras(name):
    code = f"""
import sys, samtone_tf
samtone_tf.{name}
print(*[heavy for heavy in ("tensorflow", "keras") if heavy in sys.modules])"""
    assert run(code) == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of compiled dependencies
@pytest.mark.parametrize("name", samtone_tf.__all__)
def test_every_public_name_resolves_more_than_once(name):
    for _ in range(2):
        thing = getattr(samtone_tf, name)
        assert getattr(thing, "__name__", name) == name
        assert name == "__version__" or (callable(thing) and thing.__doc__)


def test_public_names_are_listed_and_others_are_refused():
    assert dir(samtone_tf) == sorted(samtone_tf.__all__)
    assert len(set(samtone_tf.__all__)) == len(samtone_tf.__all__) > 20
    with pytest.raises(AttributeError, match="'samtone_tf' has no attribute 'SamTone'"):
        _ = samtone_tf.SamTone
