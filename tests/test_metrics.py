"""Pins of metrics: alignment and uniformity against loops, the first bad step, running means."""

import math

import numpy as np
import pytest
import tensorflow as tf

from samtone_tf import metrics
from samtone_tf.metrics import FirstBadStep, StepMetrics, alignment, uniformity


def unit_rows(num, dim=6, seed=0):
    vectors = np.random.default_rng(seed).normal(size=(num, dim))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype("float32")


def uniformity_by_loops(vectors):
    """log of the mean of exp(-2 ‖x - y‖²), over the pairs of different rows."""
    vectors = np.asarray(vectors, "float64")
    values = [
        math.exp(-2 * np.sum((x - y) ** 2))
        for i, x in enumerate(vectors)
        for j, y in enumerate(vectors)
        if i != j
    ]
    return math.log(np.mean(values))


def alignment_by_loops(query, document):
    pairs = zip(np.asarray(query, "float64"), np.asarray(document, "float64"), strict=True)
    return np.mean([sum((a - b) ** 2 for a, b in zip(q, d, strict=True)) for q, d in pairs])


@pytest.mark.parametrize("num", [2, 3, 40])
def test_against_loops(num):
    query, document = unit_rows(num), unit_rows(num, seed=1)
    assert float(alignment(query, document)) == pytest.approx(
        alignment_by_loops(query, document), rel=1e-5
    )
    assert float(uniformity(query)) == pytest.approx(uniformity_by_loops(query), rel=1e-5)


def test_by_hand():
    ahead, up = np.array([[1, 0]] * 3, "float32"), np.array([[0, 1]] * 3, "float32")
    assert float(alignment(ahead, ahead)) == 0
    assert float(alignment(ahead, up)) == pytest.approx(2)
    assert float(alignment(ahead, -ahead)) == pytest.approx(4)
    assert float(uniformity(ahead)) == pytest.approx(0, abs=1e-6)
    opposite = np.array([[1, 0], [-1, 0]], "float32")
    assert float(uniformity(opposite)) == pytest.approx(-8)


def test_one_vector_alone_gives_a_number():
    assert float(uniformity(unit_rows(1))) == 0


def test_of_many_vectors_the_first_count(monkeypatch):
    monkeypatch.setattr(metrics, "UNIFORMITY_ROWS", 5)
    vectors = unit_rows(9)
    assert float(uniformity(vectors)) == pytest.approx(uniformity_by_loops(vectors[:5]), rel=1e-5)
    assert uniformity_by_loops(vectors[:5]) != pytest.approx(uniformity_by_loops(vectors), 1e-3)


def test_rows_of_unknown_number():
    graph = tf.function(uniformity, input_signature=[tf.TensorSpec((None, 6))])
    assert float(graph(unit_rows(7))) == pytest.approx(uniformity_by_loops(unit_rows(7)), rel=1e-5)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_the_first_bad_step_is_kept_until_the_reset(jit_compile):
    metric = FirstBadStep()
    update = tf.function(metric.update_state, jit_compile=jit_compile)
    found = []
    for step, loss in enumerate([1.0, 2.0, float("nan"), float("inf"), 1.0], start=1):
        update(tf.constant(loss), tf.constant(step, "int64"))
        found.append(int(metric.result()))
    assert found == [0, 0, 3, 3, 3]
    metric.reset_state()
    update(tf.constant(1.0), tf.constant(6, "int64"))
    assert int(metric.result()) == 0
    update(tf.constant(-float("inf")), tf.constant(2**40, "int64"))
    assert int(metric.result()) == 2**40


def test_means_are_weighted_by_the_pairs_of_a_step():
    step_metrics = StepMetrics()
    step_metrics.update({"loss": tf.constant(1.0), "mrr": tf.constant(0.5)}, tf.constant(2.0))
    found = step_metrics.update({"loss": tf.constant(4.0)}, tf.constant(1.0))
    assert {name: float(value) for name, value in found.items()} == {"loss": 2.0}
    assert float(step_metrics.means["mrr"].result()) == 0.5
    for metric in step_metrics.all():
        metric.reset_state()
    found = step_metrics.update({"loss": tf.constant(4.0)}, tf.constant(1.0))
    assert float(found["loss"]) == 4
