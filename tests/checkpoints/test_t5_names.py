"""Pins of checkpoints.t5_names: every variable has one name elsewhere."""

import pytest

from samtone_tf.checkpoints.source import encoder_shapes
from samtone_tf.checkpoints.t5_names import huggingface_names, is_transposed, mesh_names
from samtone_tf.encoder_config import EncoderConfig

NUMBERS = {
    "num_layers": 12,
    "hidden_dim": 16,
    "num_heads": 2,
    "head_dim": 4,
    "feedforward_dim": 24,
}


@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize("names", [huggingface_names, mesh_names])
def test_every_variable_has_a_name_of_its_own(names, gated):
    config = EncoderConfig(**NUMBERS, gated=gated)
    found = names(config)
    assert set(found) == set(encoder_shapes(config))
    assert len(set(found.values())) == len(found)
    assert any("wi_1" in name for name in found.values()) == gated


def test_the_names_are_those_of_the_published_files():
    gated = EncoderConfig(**NUMBERS)
    assert huggingface_names(gated)["encoder/block_11/feedforward/wi_1/kernel"] == (
        "encoder.block.11.layer.1.DenseReluDense.wi_1.weight"
    )
    assert mesh_names(gated)["encoder/block_11/feedforward/wi_1/kernel"] == (
        "encoder/block_011/layer_001/DenseReluDense/wi_1/kernel"
    )
    plain = EncoderConfig(**NUMBERS, gated=False, activation="relu")
    assert huggingface_names(plain)["encoder/block_0/feedforward/wi_0/kernel"] == (
        "encoder.block.0.layer.1.DenseReluDense.wi.weight"
    )


def test_kernels_alone_lie_the_other_way_round():
    shapes = encoder_shapes(EncoderConfig(**NUMBERS))
    turned = {name for name in shapes if is_transposed(name)}
    assert len(turned) == 12 * 7
    assert not {name.rsplit("/")[-1] for name in turned} - {"kernel"}
