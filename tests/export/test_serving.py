"""Pins of an export in processes without this package: vectors, ops, signatures (C33–C37, C44)."""

import base64
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests import tiny

HERE = Path(__file__).parent
SIDES = {"encode_query": "query", "encode_document": "document", "serving_default": "query"}
TEXTS = [*tiny.ODD_TEXTS, b"\xff\xfe caf\xe9", *tiny.docstring_texts(1000 - len(tiny.ODD_TEXTS))]


def run_python(*arguments, check=True):
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=300)
    assert done.returncode == 0 or not check, done.stderr[-3000:]
    return done


@pytest.fixture(scope="module", params=tiny.ARCHITECTURES)
def alone(request, tmp_path_factory):
    """(architecture, about, vectors) of a process with TensorFlow alone and a moved export."""
    folder = tmp_path_factory.mktemp("alone")
    shutil.copytree(tiny.saved_model(request.param), folder / "copied" / "1")
    (folder / "copied").rename(folder / "moved")
    raw = [text if isinstance(text, bytes) else text.encode() for text in TEXTS]
    (folder / "texts.json").write_text(json.dumps([base64.b64encode(t).decode() for t in raw]))
    arguments = (folder / "moved" / "1", folder / "texts.json", folder)
    run_python("-I", HERE / "load_alone.py", *arguments)
    about = json.loads((folder / "about.json").read_text())
    with np.load(folder / "vectors.npz") as file:
        return request.param, about, dict(file)


def test_the_other_process_had_nothing_of_ours(alone):
    _, about, _ = alone
    assert {"tensorflow", "tensorflow_text"} < set(about["modules"])
    # TensorFlow itself imports Keras.
    assert not {"samtone_tf", "keras_hub", "sentencepiece"} & set(about["modules"])


@pytest.mark.parametrize("signature", SIDES)
def test_c33_strings_give_the_vectors_of_the_python_model(alone, signature):
    architecture, _, vectors = alone
    want = tiny.python_vectors(architecture, SIDES[signature], TEXTS)
    found = vectors[f"{signature}_all"]
    assert found.dtype == np.float32
    assert (
        np.abs(want[:, None] - want[None]).max() > 0.5
    )  # texts differ, so this compares something
    np.testing.assert_allclose(found, want, atol=1e-5)


@pytest.mark.parametrize("signature", SIDES)
def test_c26_every_text_has_a_finite_unit_vector(alone, signature):
    _, _, vectors = alone
    lengths = np.linalg.norm(vectors[f"{signature}_all"].astype("float64"), axis=1)
    np.testing.assert_allclose(lengths, np.ones(len(TEXTS)), atol=1e-5)


@pytest.mark.parametrize("signature", SIDES)
def test_c36_no_text_and_one_text(alone, signature):
    _, _, vectors = alone
    assert vectors[f"{signature}_none"].shape == (0, tiny.DIM)
    assert vectors[f"{signature}_one"].shape == (1, tiny.DIM)
    np.testing.assert_allclose(
        vectors[f"{signature}_one"], vectors[f"{signature}_all"][:1], atol=1e-5
    )


def test_the_default_signature_is_that_of_queries(alone):
    architecture, _, vectors = alone
    np.testing.assert_allclose(
        vectors["serving_default_all"], vectors["encode_query_all"], atol=1e-6
    )
    if architecture != "sde":
        assert np.abs(vectors["serving_default_all"] - vectors["encode_document_all"]).max() > 0.1


def test_c35_c44_the_only_foreign_ops_are_plain_sentencepiece(alone):
    _, about, _ = alone
    assert about["foreign_ops"] == ["SentencepieceOp", "SentencepieceTokenizeOp"]
    bad = ("RoundRobin", "Fast", "Scann", "Xla", "PyFunc", "EagerPyFunc", "Custom")
    assert not [op for op in about["ops"] if op.startswith(bad)]
    assert {"MatMul", "GatherV2"} & set(about["ops"])  # the list is of the whole graph


@pytest.mark.parametrize("architecture", tiny.ARCHITECTURES)
def test_no_path_of_the_machine_is_in_an_export(architecture):
    folder = tiny.saved_model(architecture)
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert folder / "saved_model.pb" in files
    for path in files:
        content = path.read_bytes()
        for trace in (folder.parents[1], Path(__file__).parents[2], Path(sys.prefix)):
            assert str(trace).encode() not in content, path


def test_saved_model_cli_reads_well():
    """The command that users of TensorFlow look at a SavedModel with."""
    program = Path(sys.executable).with_name("saved_model_cli")
    command = [program, "show", "--dir", tiny.saved_model("sde"), "--all"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert shown.returncode == 0, shown.stderr[-2000:]
    for name in SIDES:
        part = shown.stdout.split(f"signature_def['{name}']")[1].split("signature_def[")[0]
        lines = [line.strip() for line in part.splitlines()]
        given, _, made = part.partition("outputs")
        assert "inputs['text'] tensor_info:" in lines
        assert "outputs['embedding'] tensor_info:" in lines
        assert "dtype: DT_STRING" in given
        assert "shape: (-1)" in given
        assert "dtype: DT_FLOAT" in made
        assert f"shape: (-1, {tiny.DIM})" in made


def sentencepiece_ops():
    import tensorflow_text

    return Path(tensorflow_text.__file__).parent / "python" / "ops" / "_sentencepiece_tokenizer.so"


@pytest.mark.parametrize("architecture", tiny.ARCHITECTURES)
def test_tensorflows_own_loader_needs_one_op_library(architecture):
    folder = tiny.saved_model(architecture)
    done = run_python("-I", HERE / "load_through_c.py", folder, sentencepiece_ops())
    assert done.stdout == "loaded\n"


def test_that_loader_would_see_an_op_that_is_missing():
    folder = tiny.saved_model("sde")
    done = run_python("-I", HERE / "load_through_c.py", folder, check=False)
    assert done.returncode != 0
    assert "Sentencepiece" in done.stderr
