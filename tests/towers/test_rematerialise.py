"""Pins of towers.rematerialise: the layer's numbers and gradients, from a second run of it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from samtone_tf.encoder_config import EncoderConfig
from samtone_tf.towers.encoder import T5EncoderBlock
from samtone_tf.towers.rematerialise import rematerialised
from tests import checks


def make_block(dropout, **arguments):
    keras.utils.set_random_seed(0)
    block = T5EncoderBlock(EncoderConfig.make(checks.TINY, dropout=dropout), **arguments)
    block.build()
    return block


def make_inputs(dtype="float32"):
    random = np.random.default_rng(0)
    states, bias = random.normal(size=(2, 5, 16)), random.normal(size=(2, 2, 5, 5))
    return tf.constant(states, dtype), tf.constant(bias, "float32")


def output_and_gradients(call, block, inputs, seed):
    weights = [variable.value for variable in block.trainable_variables]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        output = call(*inputs, seed=seed)
        value = tf.reduce_sum(tf.sin(tf.cast(output, "float32")))
    found = tape.gradient(value, [*inputs, *weights])
    return [tf.cast(x, "float32").numpy() for x in (output, *found)]


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
def test_output_and_every_gradient_are_those_of_the_layer(graph, dropout, dtype):
    block = make_block(dropout, dtype=dtype)
    inputs = make_inputs(block.compute_dtype)
    seed = tf.constant([3, 4], "int64")

    def run(call):
        inner = tf.function(call) if graph else call
        return output_and_gradients(inner, block, inputs, seed)

    want = run(lambda *x, seed: block(*x, seed=seed))
    got = run(lambda *x, seed: rematerialised(block)(*x, seed=seed))
    assert len(want) == 1 + 2 + 9
    # In a graph TensorFlow fuses what it finds side by side, and bfloat16 keeps 8 bits.
    tolerance = 1e-6 if dtype == "float32" else 0.03
    for place, (one, other) in enumerate(zip(got, want, strict=True)):
        checks.assert_nonzero(other, place)
        checks.assert_near(one, other, tolerance, place)
    if dropout:
        dry = output_and_gradients(block, block, inputs, None)
        assert np.abs(dry[0] - want[0]).max() > 0.1, "nothing was dropped"


class Counting(keras.layers.Layer):
    """x² · w, which counts its calls."""

    calls = 0

    def build(self, input_shape=None):
        self.w = self.add_weight(shape=(), initializer="ones")
        self.built = True

    def call(self, x, seed=None):
        self.calls += 1
        return x * x * self.w


def test_the_layer_runs_again_for_a_gradient_and_only_then():
    layer = Counting()
    layer.build()
    x = tf.constant(3.0)
    rematerialised(layer)(x)
    assert layer.calls == 1
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = rematerialised(layer)(x)
    assert layer.calls == 2
    found = tape.gradient(value, [x, layer.w.value])
    assert layer.calls == 3
    assert [float(gradient) for gradient in found] == [6.0, 9.0]


def test_frozen_weights_get_no_gradient_and_let_one_through():
    layer = Counting()
    layer.build()
    layer.trainable = False
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = rematerialised(layer)(x)
    x_gradient, w_gradient = tape.gradient(value, [x, layer.w.value])
    assert (float(x_gradient), w_gradient) == (6.0, None)


# --- what waits for what, in the graph -----------------------------------------------------


def gradient_graph(block, inputs):
    """The graph of the gradients of the first input and of each weight."""

    @tf.function
    def gradients(*inputs):
        weights = [variable.value for variable in block.trainable_variables]
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            value = rematerialised(block)(*inputs, seed=tf.constant([3, 4], "int64"))
        return tape.gradient(value, [inputs[0], *weights])

    return gradients.get_concrete_function(*inputs).graph


def ancestors(tensor):
    """Names of the operations that a tensor is made from."""
    waiting, seen = [tensor], set()
    while waiting:
        one = waiting.pop()
        if one.name not in seen:
            seen.add(one.name)
            place = slice(None)
            if one.op.type == "IdentityN":  # holds nothing back: TensorFlow takes it apart
                place = slice(one.value_index, one.value_index + 1)
            waiting.extend(one.op.inputs[place])
    return {name.partition(":")[0] for name in seen}


def test_masks_are_drawn_anew_in_the_backward_pass_and_after_its_input():
    """A draw that follows from the seed alone would be one for both passes, and kept for all."""
    graph = gradient_graph(make_block(0.5), make_inputs())
    draws = [op for op in graph.get_operations() if "StatelessRandomUniform" in op.type]
    assert len(draws) == 2 * 4
    for draw in draws:
        assert graph.inputs[0].op.name in ancestors(draw.outputs[0]), draw.name


def test_a_block_is_done_with_its_weights_before_the_one_below_begins():
    graph = gradient_graph(make_block(0.5), make_inputs())
    states, *weights = graph.structured_outputs
    assert len(weights) == 9
    done = ancestors(states)
    for weight in weights:
        products = {name for name in ancestors(weight) if "MatMul" in name}
        assert products <= done, weight.name
