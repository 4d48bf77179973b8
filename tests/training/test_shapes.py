"""Pins of training.shapes: names and shapes of built models, and the counts that are published."""

import pytest

from samtone_tf.dual_encoder import DualEncoder
from samtone_tf.encoder_config import EncoderConfig
from samtone_tf.training.shapes import model_shapes
from tests import checks


def built(config, architecture, embedding_dim, freeze):
    model = DualEncoder(config, architecture, embedding_dim=embedding_dim, freeze=freeze)
    trainable = {id(v) for v in model.trainable_variables}
    # As checkpoints name them: without tower, and without what a part is held by.
    return sorted(
        (
            v.path.partition("_tower/")[2]
            .replace("encoder/token_embedding", "token_embedding")
            .replace("encoder/stack", "encoder"),
            tuple(v.shape),
            id(v) in trainable,
        )
        for v in model.weights
    )


@pytest.mark.parametrize(
    ("architecture", "freeze", "fields"),
    [
        ("sde", (), {}),
        ("ade", (), {"gated": False}),
        ("ade_spl", "encoder", {}),
        ("ade_fte", "projection", {}),
        (["encoder"], (), {"lora_rank": 4}),
        ("sde", (), {"lora_rank": 4, "lora_targets": "all"}),
        ("ade_ste", "projection", {"lora_rank": 3, "lora_targets": "all", "gated": False}),
    ],
    ids=str,
)
def test_shapes_are_those_of_a_built_model(architecture, freeze, fields):
    config = EncoderConfig.make(checks.TINY, num_layers=2, **fields)
    counted = sorted(tuple(w) for w in model_shapes(config, architecture, 8, freeze))
    assert counted == built(config, architecture, 8, freeze)


def count(config, architecture="sde", embedding_dim=768, trains=False):
    weights = model_shapes(EncoderConfig.make(config), architecture, embedding_dim)
    return sum(weight.size for weight in weights if weight.trains or not trains)


@pytest.mark.parametrize("size", ["mini", "t5.1.1-small"])
def test_sizes_with_a_name_are_counted_as_they_are_built(size):
    model = DualEncoder(size, "ade_spl")
    assert count(size, "ade_spl") == model.count_params()


@pytest.mark.parametrize(
    ("size", "published"),
    # Of the whole T5 v1.1, encoder and decoder: what KerasHub says of its presets.
    [
        ("t5.1.1-small", 76_961_152),
        ("t5.1.1-base", 247_577_856),
        ("t5.1.1-large", 783_150_080),
        ("t5.1.1-xl", 2_849_757_184),
        ("t5.1.1-xxl", 11_135_332_352),
    ],
)
def test_encoders_are_what_published_models_say(size, published):
    """A decoder is an encoder with cross-attention, and has an output table of its own."""
    config = EncoderConfig.make(size)
    hidden, inner = config.hidden_dim, config.num_heads * config.head_dim
    table, projection = 32128 * hidden, hidden * 768
    encoder = count(size) - projection
    cross = config.num_layers * (4 * hidden * inner + hidden)
    assert encoder + (encoder - table) + cross + table == published


def test_adapters_are_few():
    adapted = EncoderConfig.make("t5.1.1-base", lora_rank=8)
    per_kernel, projection = 8 * 768 + 8 * 768, 768 * 768
    assert count(adapted, trains=True) == 12 * 2 * per_kernel + projection
    assert count(adapted) == count("t5.1.1-base") + 12 * 2 * per_kernel
