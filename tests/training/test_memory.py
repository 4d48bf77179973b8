"""Pins of training.memory: sizes that are known exactly, and the measured ones."""

import keras
import pytest

from samtone_tf.dual_encoder import DualEncoder
from samtone_tf.encoder_config import EncoderConfig
from samtone_tf.losses.contrastive import SamToNe
from samtone_tf.optimizers.adafactor import Adafactor
from samtone_tf.training.memory import loss_memory, step_memory

# Of `mini` with 8,000 pieces, D = 768.
TABLE, PROJECTION, BIAS, NORM = 8000 * 256, 256 * 768, 32 * 4, 256
BLOCK = 4 * 256 * 256 + 3 * 256 * 512 + 2 * NORM


def make_model(
    layers=2, optimizer=None, dtype="float32", dropout=0.0, architecture="sde", remat=False
):
    encoder = EncoderConfig.make(
        "mini", vocabulary_size=8000, num_layers=layers, dropout=dropout, remat=remat
    )
    model = DualEncoder(encoder, architecture, dtype=dtype)
    model.compile(optimizer or keras.optimizers.SGD(), loss=SamToNe())
    model.optimizer.build(model.trainable_variables)
    return model


def test_weights_gradients_and_slots_are_counted():
    num = TABLE + 2 * BLOCK + BIAS + NORM + PROJECTION
    found = step_memory(make_model(optimizer=keras.optimizers.Adam()), 8, 16, 16)
    assert found.weights == found.gradients == 4 * num
    # Two slots for each weight; the step (int64) and the rate.
    assert found.slots == pytest.approx(2 * 4 * num, abs=32)
    assert found.total == sum(found)
    assert step_memory(make_model(), 8, 16, 16, gradient_cache_chunk=4).gradients == 3 * 4 * num
    two_towers = step_memory(make_model(architecture="ade"), 8, 16, 16)
    assert two_towers.weights == 2 * 4 * num


def test_adafactor_keeps_little():
    model = make_model(optimizer=Adafactor())
    found = step_memory(model, 8, 16, 16)
    assert found.slots < 0.02 * found.weights


def test_activations_follow_the_chunk_and_the_texts():
    model = make_model()
    whole = step_memory(model, 64, 16, 32).activations
    assert step_memory(model, 64, 16, 32, gradient_cache_chunk=16).activations == whole / 4
    with_negatives = step_memory(model, 64, 16, 32, num_negatives=2).activations
    only_documents = step_memory(model, 64, 32, 32).activations / 2
    assert with_negatives == whole + 2 * only_documents


def test_a_large_loss_is_tiled():
    assert loss_memory(512, 1024) == 40 * 512 * 1024
    assert loss_memory(4096, 4096) == 40 * 4096 * 4096
    assert loss_memory(4096, 8192) == 40 * 128 * 8192
    found = step_memory(make_model(), 8, 16, 16, num_negatives=2, num_replicas=4)
    assert found.loss == 40 * 8 * 8 * 4 * 3


@pytest.mark.parametrize(
    # What benchmarks/step_memory.py measured on a CPU, weights not counted.
    ("batch", "chunk", "length", "settings", "megabytes"),
    [
        (64, None, 64, {}, 516),
        (128, None, 64, {}, 997),
        (64, 32, 64, {}, 357),
        (64, None, 64, {"dropout": 0.1}, 567),
        (64, 16, 64, {"dropout": 0.1}, 229),
        (32, None, 64, {"layers": 6}, 753),
        (32, 16, 64, {"layers": 6}, 485),
        (16, None, 256, {"dropout": 0.1}, 697),
        (16, 8, 256, {"dropout": 0.1}, 409),
        (64, None, 64, {"dtype": "mixed_bfloat16"}, 366),
        (32, None, 64, {"layers": 4, "dropout": 0.1, "remat": True}, 256),
        (32, None, 64, {"layers": 16, "dropout": 0.1, "remat": True}, 457),
    ],
)
def test_what_is_expected_is_within_a_quarter_of_what_was_measured(
    batch, chunk, length, settings, megabytes
):
    found = step_memory(make_model(**settings), batch, length, length, gradient_cache_chunk=chunk)
    assert (found.total - found.weights) / 1e6 == pytest.approx(megabytes, rel=0.25)
