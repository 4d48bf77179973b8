"""Pins of towers.encoder: numbers of KerasHub's T5, padding, initialisers, dropout, precision."""

import keras
import numpy as np
import pytest

from samtone_tf.encoder_config import EncoderConfig
from samtone_tf.towers import tensorflow_dropout
from samtone_tf.towers.encoder import T5Encoder, T5FeedForward
from tests import checks

HIDDEN, LENGTH = 32, 150  # long enough for the most distant buckets (91 tokens and more)
TWO_BLOCKS = {
    "num_layers": 2,
    "hidden_dim": HIDDEN,
    "num_heads": 4,
    "head_dim": 16,  # heads * head_dim is not H: a transposed kernel does not fit
    "feedforward_dim": 48,
    "vocabulary_size": 60,
}


# KerasHub hands its padding mask over as an argument, too: nothing is lost.
quiet_keras_hub = pytest.mark.filterwarnings("ignore:.*destroy the mask information")


def exact_gelu(x):
    return keras.ops.gelu(x, approximate=False)


def tanh_gelu(x):
    return keras.ops.gelu(x, approximate=True)


def keras_hub_t5(gated, activation):
    """KerasHub's T5 with weights wide enough that every part of it matters."""
    from keras_hub.models import T5Backbone  # takes seconds

    backbone = T5Backbone(
        vocabulary_size=60,
        num_layers=2,
        num_heads=4,
        hidden_dim=HIDDEN,
        intermediate_dim=48,
        key_value_dim=16,
        dropout=0.0,
        activation=activation,
        use_gated_activation=gated,
    )
    rng = np.random.default_rng(1)
    for weight in backbone.weights:
        if len(weight.shape) == 1:  # a norm
            weight.assign(rng.uniform(0.5, 1.5, weight.shape))
        elif "kernel" in weight.path:
            weight.assign(rng.normal(size=weight.shape) * 1.3 * weight.shape[0] ** -0.5)
        else:  # token table and position bias
            weight.assign(rng.normal(size=weight.shape))
    return backbone


def copy_weights(backbone, encoder):
    encoder.build()
    stack = encoder.stack
    pairs = [(encoder.token_embedding, backbone.token_embedding)]
    for ours, theirs in zip(stack.blocks, backbone.encoder_transformer_layers, strict=True):
        attention = theirs.self_attention
        pairs += [
            (ours.attention_norm, theirs.self_attention_layer_norm),
            (ours.attention.query, attention.query_projector),
            (ours.attention.key, attention.key_projector),
            (ours.attention.value, attention.value_projector),
            (ours.attention.output_projection, attention.output_projector),
            (ours.feedforward_norm, theirs.layer_norm),
            (ours.feedforward.wi_0, theirs.input_projector),
            (ours.feedforward.wo, theirs.output_projector),
        ]
        if ours.feedforward.gated:
            pairs.append((ours.feedforward.wi_1, theirs.gate_projector))
    pairs.append((stack.final_norm, backbone.encoder_layer_norm))
    for ours, theirs in pairs:
        ours.set_weights(theirs.get_weights())
    bias = backbone.encoder_transformer_layers[0].self_attention.relative_attention_bias
    stack.position_bias.table.assign(bias)


def keras_hub_states(backbone, tokens):
    mask = tokens["padding_mask"].astype("int32")
    inputs = {
        "encoder_token_ids": tokens["token_ids"],
        "encoder_padding_mask": mask,
        "decoder_token_ids": tokens["token_ids"][:, :2],
        "decoder_padding_mask": mask[:, :2],
    }
    return backbone(inputs)["encoder_sequence_output"].numpy()


def ragged_tokens():
    tokens = checks.make_tokens(np.random.default_rng(2), 4, LENGTH, vocabulary_size=60)
    tokens["token_ids"][0] = np.random.default_rng(3).integers(3, 60, LENGTH)
    tokens["padding_mask"][0] = True  # one row uses every distance
    return tokens


@quiet_keras_hub
@pytest.mark.parametrize(
    ("gated", "activation"), [(True, "gelu"), (False, "relu"), (False, "gelu"), (True, "relu")]
)
def test_states_equal_keras_hubs_t5(gated, activation):
    theirs = keras_hub_t5(gated, tanh_gelu if activation == "gelu" else activation)
    ours = T5Encoder({**TWO_BLOCKS, "gated": gated, "activation": activation})
    copy_weights(theirs, ours)
    tokens = ragged_tokens()
    mask = tokens["padding_mask"]
    assert mask.sum(1).max() == LENGTH
    assert mask.sum(1).min() < LENGTH
    want = keras_hub_states(theirs, tokens)[mask]
    checks.assert_nonzero(want)
    np.testing.assert_allclose(ours(**tokens).numpy()[mask], want, atol=1e-5, rtol=1e-5)


@quiet_keras_hub
def test_the_comparison_would_see_a_wrong_gelu_a_transposed_kernel_or_a_wrong_bucket():
    theirs = keras_hub_t5(True, exact_gelu)
    ours = T5Encoder(TWO_BLOCKS)
    copy_weights(theirs, ours)
    tokens = ragged_tokens()
    mask = tokens["padding_mask"]
    want = keras_hub_states(theirs, tokens)[mask]
    assert np.abs(ours(**tokens).numpy()[mask] - want).max() > 5e-5

    base = ours(**tokens).numpy()[mask]
    table = ours.stack.position_bias.table
    attention = ours.stack.blocks[1].attention
    swaps = [
        (table, np.roll(table.numpy(), 16, axis=0)),  # left and right exchanged
        (attention.output_projection.kernel, attention.output_projection.kernel.numpy()[::-1]),
        (attention.query.kernel, attention.key.kernel.numpy()),
    ]
    for weight, value in swaps:
        kept = weight.numpy()
        weight.assign(value)
        assert np.abs(ours(**tokens).numpy()[mask] - base).max() > 1e-2, weight.path
        weight.assign(kept)


def feed_forward_by_formula(x, layer):
    wi_0, wo = layer.wi_0.kernel.numpy(), layer.wo.kernel.numpy()
    inner = x @ wi_0
    if layer.activation == "gelu":  # Hendrycks and Gimpel 2016, tanh form
        inner = 0.5 * inner * (1 + np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3)))
    else:
        inner = np.maximum(inner, 0)
    return (inner * (x @ layer.wi_1.kernel.numpy()) if layer.gated else inner) @ wo


@pytest.mark.parametrize("activation", ["gelu", "relu"])
@pytest.mark.parametrize("gated", [True, False], ids=["gated", "plain"])
def test_feed_forward_equals_the_formula(gated, activation):
    layer = T5FeedForward(6, 10, activation, gated)
    x = np.random.default_rng(4).normal(size=(2, 3, 6)) * 2
    got = layer(x.astype("float32"))
    checks.assert_near(got, feed_forward_by_formula(x, layer), 1e-6)


# --- padding (C25) -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def encoder():
    keras.utils.set_random_seed(0)
    made = T5Encoder(TWO_BLOCKS)
    made.build()
    for weight in made.weights:  # wider than at the start: attention looks at something
        if "kernel" in weight.path:
            weight.assign(weight.numpy() * 2)
    return made


def padded(token_ids, length):
    ids = np.zeros((1, length), "int32")
    ids[0, : len(token_ids)] = token_ids
    return {"token_ids": ids, "padding_mask": np.arange(length)[None] < len(token_ids)}


@pytest.mark.parametrize("length", [7, 8, 64, 500])
def test_c25_padding_changes_no_state(encoder, length):
    ids = np.array([5, 9, 33, 7, 41, 1])
    alone = encoder(**padded(ids, 6)).numpy()[0]
    np.testing.assert_allclose(encoder(**padded(ids, length)).numpy()[0, :6], alone, atol=1e-5)


def test_masked_ids_change_nothing_and_real_ids_do(encoder):
    tokens = padded(np.array([5, 9, 33, 7, 41, 1]), 10)
    mask = tokens["padding_mask"]
    before = encoder(**tokens).numpy()[mask]
    other = {**tokens, "token_ids": np.where(mask, tokens["token_ids"], 17).astype("int32")}
    np.testing.assert_array_equal(encoder(**other).numpy()[mask], before)
    for place in range(6):
        changed = tokens["token_ids"].copy()
        changed[0, place] = 50
        after = encoder(changed, padding_mask=tokens["padding_mask"]).numpy()[mask]
        assert (np.abs(after - before).max(axis=1) > 1e-3).all(), "every token sees every other"


def test_order_matters(encoder):
    orders = ([5, 9, 7, 1], [9, 5, 7, 1])
    states = [encoder(**padded(np.array(ids), 4)).numpy()[0] for ids in orders]
    assert np.abs(states[0][3] - states[1][3]).max() > 1e-3


def test_a_text_without_tokens_gives_finite_states(encoder):
    tokens = {"token_ids": np.zeros((1, 4), "int32"), "padding_mask": np.zeros((1, 4), bool)}
    assert np.isfinite(encoder(**tokens)).all()


# --- initialisers, dropout, dtype ----------------------------------------------------------


def test_initial_widths():
    config = {**TWO_BLOCKS, "hidden_dim": 128, "feedforward_dim": 256, "vocabulary_size": 1000}
    encoder = T5Encoder(config)
    encoder.build()
    feedforward = encoder.stack.blocks[1].feedforward
    widths = {
        "table": (encoder.token_embedding.embeddings, 1.0),
        "wi_0": (feedforward.wi_0.kernel, 128**-0.5),
        "wi_1": (feedforward.wi_1.kernel, 128**-0.5),
        "wo": (feedforward.wo.kernel, 256**-0.5),
    }
    for name, (weight, width) in widths.items():
        value = weight.numpy()
        assert value.std() == pytest.approx(width, rel=0.02), name
        assert abs(value.mean()) < 0.02 * width, name
    for block in encoder.stack.blocks:
        np.testing.assert_array_equal(block.attention_norm.weights[0], np.ones(128))


def test_there_is_one_position_bias_and_no_decoder():
    encoder = T5Encoder(TWO_BLOCKS)
    encoder.build()
    paths = [weight.path for weight in encoder.weights]
    # table, bias, final norm, and per block two norms, four attention kernels and three more
    assert len(paths) == 3 + 2 * 9
    assert sum("position_bias" in path for path in paths) == 1
    assert len(set(paths)) == len(paths)


def test_dropout_acts_in_training_only():
    encoder = T5Encoder({**TWO_BLOCKS, "dropout": 0.3})
    tokens = padded(np.array([5, 9, 33, 1]), 4)
    still = encoder(**tokens, training=False).numpy()
    np.testing.assert_array_equal(encoder(**tokens).numpy(), still)
    draws = [encoder(**tokens, training=True).numpy() for _ in range(2)]
    assert np.abs(draws[0] - still).max() > 1e-2
    assert np.abs(draws[0] - draws[1]).max() > 1e-2
    dry = T5Encoder(TWO_BLOCKS)
    np.testing.assert_array_equal(dry(**tokens, training=True), dry(**tokens, training=False))


def test_dropout_stands_at_t5s_six_places(monkeypatch):
    """Embeddings, attention weights, attention output, inner and outer feed-forward, final norm."""
    shapes = []

    def record(inputs, rate, seed):
        shapes.append((rate, tuple(inputs.shape), seed.numpy().tolist()))
        return inputs

    encoder = T5Encoder({**TWO_BLOCKS, "dropout": 0.3})
    tokens = padded(np.array([5, 9, 33, 1]), 4)
    still = encoder(**tokens).numpy()
    monkeypatch.setattr(tensorflow_dropout, "dropout", record)
    seed = keras.ops.convert_to_tensor([1, 2], "int64")
    np.testing.assert_array_equal(encoder(**tokens, training=True, seed=seed), still)
    states = (1, 4, HIDDEN)
    block = [(1, 4, 4, 4), states, (1, 4, 48), states]
    assert [shape for _, shape, _ in shapes] == [states, *block, *block, states]
    assert {rate for rate, _, _ in shapes} == {0.3}
    assert len({tuple(drawn) for _, _, drawn in shapes}) == 10, "two places draw the same mask"
    assert {drawn[1] for _, _, drawn in shapes} == {2}


def test_a_given_seed_decides_the_masks_and_none_takes_the_next_of_a_stream():
    encoder = T5Encoder({**TWO_BLOCKS, "dropout": 0.3})
    tokens = padded(np.array([5, 9, 33, 1]), 4)

    def run(*seed):
        given = keras.ops.convert_to_tensor(seed, "int64") if seed else None
        return encoder(**tokens, training=True, seed=given).numpy()

    np.testing.assert_array_equal(run(1, 2), run(1, 2))
    draws = [run(1, 2), run(1, 3), run(2, 2), run(), run()]
    for i, one in enumerate(draws):
        for other in draws[:i]:
            assert np.abs(one - other).max() > 1e-2
    np.testing.assert_array_equal(
        encoder(**tokens, training=False, seed=keras.ops.convert_to_tensor([1, 2], "int64")),
        encoder(**tokens),
    )


def test_a_text_without_tokens_gives_finite_states_in_mixed_bfloat16():
    half = T5Encoder(TWO_BLOCKS, dtype="mixed_bfloat16")
    tokens = {"token_ids": np.zeros((1, 4), "int32"), "padding_mask": np.zeros((1, 4), bool)}
    assert np.isfinite(keras.ops.cast(half(**tokens), "float32")).all()


def test_mixed_bfloat16_states_are_close_to_float32():
    full = T5Encoder(TWO_BLOCKS)
    half = T5Encoder(TWO_BLOCKS, dtype="mixed_bfloat16")
    tokens = padded(np.array([5, 9, 33, 1]), 4)
    want = full(**tokens).numpy()
    half.build()
    half.set_weights(full.get_weights())
    got = half(**tokens)
    assert keras.backend.standardize_dtype(got.dtype) == "bfloat16"
    got = keras.ops.cast(got, "float32").numpy()
    assert np.abs(got - want).max() > 0
    cosine = (got * want).sum(-1) / np.linalg.norm(got, axis=-1) / np.linalg.norm(want, axis=-1)
    assert cosine.min() > 0.999


@pytest.mark.parametrize(
    "layer",
    [
        T5FeedForward(16, 32, "relu", False, 0.25),
        T5Encoder("mini", dtype="mixed_bfloat16"),
        T5Encoder({**TWO_BLOCKS, "gated": False, "activation": "relu", "dropout": 0.2}),
    ],
    ids=["feed-forward", "encoder by name", "encoder by numbers"],
)
def test_config_round_trip(layer):
    revived = checks.assert_config_round_trip(layer)
    assert revived.dtype_policy == layer.dtype_policy


@pytest.mark.parametrize(
    "config", [EncoderConfig(**TWO_BLOCKS), TWO_BLOCKS], ids=["object", "dict"]
)
def test_config_may_be_an_object_or_a_dict(config):
    assert T5Encoder(config).config == EncoderConfig(**TWO_BLOCKS)
