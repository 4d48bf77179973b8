"""Pins of the training step under XLA: what a TPU asks of a program, seen on a CPU.

The graph holds no string, no op whose result has a size that depends on values, and no unknown
dimension, in functions and loop bodies, too; XLA compiles it, and its numbers stay.
"""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from samtone_tf import tensorflow_step
from samtone_tf.dual_encoder import DualEncoder
from samtone_tf.losses.contrastive import InBatchSoftmax, SamToNe
from samtone_tf.optimizers.adafactor import Adafactor
from samtone_tf.training import train as training
from samtone_tf.training.run_folder import load_model
from tests import checks, tiny
from tests.test_tensorflow_step import MASKED, assert_same_run, read_runs

ROOT = Path(__file__).parent.parent


# --- the graph -------------------------------------------------------------------------------


def make_model(chunk=None, dtype="float32", loss=None):
    numbers = {"embedding_dim": 8, "dropout": 0.5, "gradient_cache_chunk": chunk}
    model = DualEncoder(checks.TINY, "ade_spl", **numbers, dtype=dtype)
    model.compile(Adafactor(0.01, min_dim_size_to_factor=8), loss=loss or SamToNe(0.05, "both"))
    model.optimizer.build(model.trainable_variables)
    return model


def graph_of(step, batch):
    """What is compiled when `step` is: every node, those of functions and loop bodies included."""
    specs = tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), batch)
    function = tf.function(step, autograph=False).get_concrete_function(specs)
    graph = function.graph.as_graph_def(add_shapes=True)
    return [*graph.node, *(node for part in graph.library.function for node in part.node_def)]


NO_RESULT = ("NoOp", "AssignVariableOp", "AssignAddVariableOp")


def faults(nodes):
    """Ops that a TPU cannot run: strings, and results whose size depends on values."""
    string = tf.string.as_datatype_enum
    found = set()
    for node in nodes:
        known = "_output_shapes" in node.attr or node.op in NO_RESULT
        assert known, f"the shapes of {node.op} are not known"
        shapes = node.attr["_output_shapes"].list.shape
        kinds = [part for value in node.attr.values() for part in (value.type, *value.list.type)]
        if string in kinds or "String" in node.op:
            found.add(f"{node.op} has a string")
        if any(shape.unknown_rank or any(dim.size < 0 for dim in shape.dim) for shape in shapes):
            found.add(f"{node.op} has an unknown size")
    return found


CASES = {
    "plain": {},
    "no negatives": {"negatives": 0},
    "cached": {"chunk": 2},
    "cached and tiled": {"chunk": 3, "tiled": True},
    "tiled": {"tiled": True},
    "bfloat16": {"chunk": 2, "dtype": "mixed_bfloat16"},
    "own negatives": {"loss": InBatchSoftmax(negatives_scope="own", directions="mean")},
}


@pytest.mark.parametrize("case", CASES)
def test_the_step_has_static_shapes_and_no_string(case, monkeypatch):
    arguments = dict(CASES[case])
    if arguments.pop("tiled", False):
        monkeypatch.setattr(tensorflow_step, "MOST_LOGITS", 0)
    batch = checks.as_tensors(checks.make_batch(6, arguments.pop("negatives", 2)))
    nodes = graph_of(make_model(**arguments).train_step, batch)
    assert len(nodes) > 1500
    ops = {node.op for node in nodes}
    looped = "chunk" in CASES[case] or "tiled" in CASES[case]
    assert bool({"While", "StatelessWhile"} & ops) == looped
    assert {"Equal", "MatMul", "AssignVariableOp"} <= ops
    assert faults(nodes) == set()


def in_a_loop(step):
    return lambda x: tf.while_loop(lambda i: i < 3, lambda i: i + step(x), [tf.constant(0)])


BAD = {
    "rows by value": (lambda x: tf.shape(tf.where(x))[0], "Where has an unknown size"),
    "rows by mask": (lambda x: tf.size(tf.boolean_mask(x, x)), "Where has an unknown size"),
    "a slice": (lambda x: tf.size(x[: tf.math.count_nonzero(x)]), "StridedSlice has an unknown"),
    "distinct": (lambda x: tf.size(tf.unique(tf.cast(x, "int32"))[0]), "Unique has an unknown"),
    "a string": (lambda x: tf.strings.length(tf.strings.as_string(x))[0], "AsString has a string"),
}


@pytest.mark.parametrize("nest", [lambda step: step, in_a_loop], ids=["straight", "in a loop"])
@pytest.mark.parametrize("case", BAD)
def test_what_a_tpu_cannot_run_is_found(case, nest):
    step, message = BAD[case]
    nodes = graph_of(nest(step), tf.constant([True, False, True]))
    assert any(fault.startswith(message) for fault in faults(nodes)), faults(nodes)


# --- the compiled step -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """The folder that tests/compiled_step.py wrote, with XLA's programs in `xla`."""
    folder = tmp_path_factory.mktemp("compiled")
    flags = f"--xla_dump_to={folder / 'xla'} --xla_dump_hlo_as_text"
    done = subprocess.run(
        [sys.executable, "-m", "tests.compiled_step", str(folder)],
        cwd=ROOT,
        env={**os.environ, "XLA_FLAGS": flags},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


@pytest.fixture(scope="module")
def programs(compiled):
    """The training steps that `fit` had XLA compile, as text, in the order in which it did."""
    paths = sorted((compiled / "xla").glob("*one_step_on_data*before_optimizations.txt"))
    return [path.read_text() for path in paths]


@pytest.mark.slow
@pytest.mark.parametrize("case", ["plain", "cached"])
def test_compiled_updates_are_those_of_the_plain_step(compiled, case):
    runs = read_runs(compiled / "numbers.npz")
    assert_same_run(runs[f"{case} True"], runs[f"{case} False"])


@pytest.mark.slow
def test_both_passes_of_a_compiled_step_draw_the_same_dropout(compiled):
    runs = read_runs(compiled / "numbers.npz")
    assert_same_run(runs["dropout 6"], runs["dropout None"])


@pytest.mark.slow
def test_every_step_that_asked_for_xla_was_compiled_by_it(programs):
    assert len(programs) == 6  # plain, cached, two with dropout, fingerprints, a whole run
    for program in programs:
        assert program.count(" dot(") > 20
        assert "<=" not in program, "a size is known as a bound only"
        assert not re.findall(r"(infeed|outfeed|custom-call|send|recv)\(", program)


def test_a_size_that_depends_on_values_would_show_in_the_program():
    rows = tf.function(lambda x: tf.reduce_sum(tf.where(x)), jit_compile=True)
    program = rows.experimental_get_compiler_ir(tf.constant([True, False, True]))(stage="hlo")
    assert "<=3" in program


@pytest.mark.slow
def test_fingerprints_keep_their_64_bits(compiled, programs):
    masked = read_runs(compiled / "numbers.npz")["fingerprints"]["metrics"][:, MASKED]
    assert masked[0] == 0  # they differ by one, and stay apart
    assert masked[1] > 0  # then two documents are one
    assert all("s64[" in program for program in programs)


@pytest.mark.slow
# Where another test has switched op determinism on, a model that is loaded does without XLA.
@pytest.mark.filterwarnings("ignore:Model doesn't support `jit_compile=True`")
def test_a_whole_run_compiles(compiled):
    runs = read_runs(compiled / "numbers.npz")
    plain, xla = (load_model(compiled / f"run_{jit}") for jit in (False, True))
    assert (plain.steps_per_execution, xla.steps_per_execution) == (3, 3)
    assert not plain.jit_compile
    assert runs["run True"]["updates"] == runs["run False"]["updates"] == 7
    losses = [
        [json.loads(line)["loss"] for line in (path / "metrics.jsonl").read_text().splitlines()]
        for path in (compiled / "run_False", compiled / "run_True")
    ]
    assert len(losses[0]) == 3
    np.testing.assert_allclose(losses[1], losses[0], rtol=0.01)  # Adam makes more of a difference


# --- what else a TPU run sets ------------------------------------------------------------------


def train(out, config):
    return training.train(config, out, data=tiny.data(), tokenizer=tiny.tokenizer())


def test_several_steps_per_execution_are_the_same_run(tmp_path):
    """5 steps, 3 at a time: neither a step nor a report nor a save is missed."""
    train(tmp_path / "run", tiny.config(steps_per_execution=3, save_every=2))
    one, several = load_model(tiny.run("sde")), load_model(tmp_path / "run")
    assert int(several.optimizer.iterations) == tiny.STEPS == 5
    for a, b in zip(one.trainable_variables, several.trainable_variables, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [3, 5]  # 2 and 4 are due by then
    before = load_model(tmp_path / "run" / "checkpoints" / "previous.keras")
    assert int(before.optimizer.iterations) == 3
    assert before.steps_per_execution == 3


def test_bfloat16_trains_a_whole_run(tmp_path):
    base = tiny.config(learning_rate=1e-3, report_every=1)
    base = replace(base, model=replace(base.model, dropout=0.0))
    train(tmp_path / "float32", base)
    config = replace(base, model=replace(base.model, dtype="mixed_bfloat16"))
    model = train(tmp_path / "bfloat16", config)
    assert {keras.backend.standardize_dtype(v.dtype) for v in model.trainable_variables} == {
        "float32"
    }
    assert model.query_tower.encoder.compute_dtype == "bfloat16"
    losses = [
        [json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()]
        for run in (tmp_path / "float32", tmp_path / "bfloat16")
    ]
    np.testing.assert_allclose(losses[1], losses[0], rtol=0.02)
    assert np.abs(np.subtract(*losses)).max() > 1e-5, "nothing was rounded"
