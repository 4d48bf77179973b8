"""Pins of towers.low_rank: the formula and its gradients, what trains, what it begins with."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from samtone_tf.encoder_config import EncoderConfig
from samtone_tf.towers.encoder import T5Encoder
from samtone_tf.towers.low_rank import LowRankDense, dense
from tests import checks

INPUTS, WIDTH, RANK, ALPHA = 6, 5, 3, 7.0


def make_layer(fill=True, **arguments):
    """A built layer; with `fill`, B is not 0, as after some steps."""
    layer = LowRankDense(
        WIDTH, RANK, ALPHA, keras.initializers.RandomNormal(stddev=1.0), **arguments
    )
    layer.build((None, INPUTS))
    if fill:
        layer.lora_b.assign(np.random.default_rng(1).normal(size=(RANK, WIDTH)))
    return layer


def in_float64(layer):
    return [v.numpy().astype("float64") for v in (layer.kernel, layer.lora_a, layer.lora_b)]


def test_output_and_gradients_equal_the_formula():
    layer = make_layer()
    kernel, a, b = in_float64(layer)
    x, upstream = (np.random.default_rng(2).normal(size=(2, 4, n)) for n in (INPUTS, WIDTH))
    scale = ALPHA / RANK
    given = tf.constant(x, "float32")
    with tf.GradientTape() as tape:
        tape.watch(given)
        y = layer(given)
        value = tf.reduce_sum(y * upstream.astype("float32"))
    checks.assert_near(y, x @ kernel + scale * (x @ a) @ b, 1e-6)
    x_gradient, a_gradient, b_gradient = tape.gradient(
        value, [given, layer.lora_a.value, layer.lora_b.value]
    )
    checks.assert_near(x_gradient, upstream @ (kernel + scale * a @ b).T, 1e-6)
    rows, out = x.reshape(-1, INPUTS), upstream.reshape(-1, WIDTH)
    checks.assert_near(a_gradient, scale * rows.T @ out @ b.T, 1e-6)
    checks.assert_near(b_gradient, scale * (rows @ a).T @ out, 1e-6)


def test_a_new_adapter_changes_no_bit():
    layer = make_layer(fill=False)
    plain = keras.layers.Dense(WIDTH, use_bias=False)
    plain.build((None, INPUTS))
    plain.kernel.assign(layer.kernel)
    x = np.random.default_rng(2).normal(size=(3, INPUTS)).astype("float32")
    np.testing.assert_array_equal(layer(x), plain(x))
    np.testing.assert_array_equal(layer.lora_b, np.zeros((RANK, WIDTH)))


def test_a_begins_uniform_in_one_over_the_root_of_the_inputs():
    layer = LowRankDense(8, 64, 16.0, "zeros")
    layer.build((None, 400))
    a = layer.lora_a.numpy()
    assert 0.0495 < np.abs(a).max() <= 0.05
    assert a.std() == pytest.approx(0.05 / 3**0.5, rel=0.02)
    assert abs(a.mean()) < 0.001


def test_names_shapes_and_what_trains():
    layer = make_layer(name="query")
    assert {v.path: tuple(v.shape) for v in layer.trainable_variables} == {
        "query/lora_a": (INPUTS, RANK),
        "query/lora_b": (RANK, WIDTH),
    }
    assert {v.path: tuple(v.shape) for v in layer.non_trainable_variables} == {
        "query/kernel": (INPUTS, WIDTH)
    }


def test_without_a_rank_it_is_a_plain_kernel():
    made = dense("wo", 4, "zeros", keras.DTypePolicy("mixed_bfloat16"))
    assert isinstance(made, keras.layers.Dense)
    assert (made.name, made.use_bias, made.dtype_policy.name) == ("wo", False, "mixed_bfloat16")


def test_mixed_bfloat16_multiplies_in_bfloat16_and_keeps_float32():
    layer = make_layer(dtype="mixed_bfloat16")
    assert {v.dtype for v in layer.weights} == {"float32"}
    x = np.random.default_rng(2).normal(size=(3, INPUTS))
    got = layer(tf.constant(x, "bfloat16"))
    assert got.dtype == tf.bfloat16
    kernel, a, b = in_float64(layer)
    checks.assert_near(tf.cast(got, "float32"), x @ (kernel + ALPHA / RANK * a @ b), 0.03)


# --- in the encoder ------------------------------------------------------------------------

TWO_BLOCKS = {**checks.TINY, "num_layers": 2}


def make_encoder(**fields):
    keras.utils.set_random_seed(0)
    encoder = T5Encoder(EncoderConfig.make(TWO_BLOCKS, **fields), name="encoder")
    encoder.build()
    return encoder


@pytest.mark.parametrize(
    ("fields", "adapted"),
    [
        ({}, ["query", "value"]),
        ({"lora_targets": "all"}, ["query", "key", "value", "output", "wi_0", "wi_1", "wo"]),
        (
            {"lora_targets": "all", "gated": False},
            ["query", "key", "value", "output", "wi_0", "wo"],
        ),
    ],
    ids=["query_value", "all", "all, not gated"],
)
def test_the_named_kernels_have_adapters_and_nothing_else_trains(fields, adapted):
    encoder = make_encoder(lora_rank=4, **fields)
    paths = [v.path for v in encoder.trainable_variables]
    assert [path.split("/")[-2:] for path in paths] == [
        [name, variable] for name in adapted for variable in ("lora_a", "lora_b")
    ] * 2
    plain = make_encoder(**{k: v for k, v in fields.items() if k == "gated"})
    at_rest = [v.path for v in encoder.non_trainable_variables]
    assert sorted(at_rest) == sorted(v.path for v in plain.weights)


@pytest.mark.parametrize("targets", ["query_value", "all"])
def test_an_encoder_with_new_adapters_is_the_plain_one_of_its_seed_to_the_bit(targets):
    plain, adapted = make_encoder(), make_encoder(lora_rank=4, lora_targets=targets)
    values = {v.path: v.numpy() for v in adapted.weights}
    for variable in plain.weights:
        np.testing.assert_array_equal(values[variable.path], variable, variable.path)
    tokens = checks.make_tokens(np.random.default_rng(0), 3, 7)
    np.testing.assert_array_equal(adapted(**tokens), plain(**tokens))


@pytest.mark.parametrize("targets", ["query_value", "all"])
def test_every_adapter_changes_the_states(targets):
    encoder = make_encoder(lora_rank=4, lora_targets=targets)
    tokens = checks.make_tokens(np.random.default_rng(0), 3, 7)
    before = encoder(**tokens).numpy()
    for variable in encoder.trainable_variables:
        if variable.name == "lora_b":
            variable.assign(np.random.default_rng(1).normal(size=variable.shape))
            assert np.abs(encoder(**tokens) - before).max() > 1e-3, variable.path
            variable.assign(0 * variable.numpy())


def test_config_round_trip():
    encoder = make_encoder(lora_rank=4, lora_alpha=3.0, lora_targets="all")
    for layer in (encoder, encoder.stack.blocks[0].attention, encoder.stack.blocks[0].feedforward):
        checks.assert_config_round_trip(layer)
