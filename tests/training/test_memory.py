"""Pins of training.memory: sizes that are known exactly, and the measured ones."""

import keras
import pytest

from samtone_tf.dual_encoder import DualEncoder
from samtone_tf.encoder_config import EncoderConfig
from samtone_tf.losses.contrastive import SamToNe
from samtone_tf.optimizers.adafactor import Adafactor
from samtone_tf.training.memory import Batch, expected_memory, loss_memory, step_memory
from samtone_tf.training.shapes import model_shapes

# Of `mini` with 8,000 pieces, D = 768.
TABLE, PROJECTION, BIAS, NORM = 8000 * 256, 256 * 768, 32 * 4, 256
BLOCK = 4 * 256 * 256 + 3 * 256 * 512 + 2 * NORM


def make_model(layers=2, optimizer=None, architecture="sde"):
    encoder = EncoderConfig.make("mini", vocabulary_size=8000, num_layers=layers)
    model = DualEncoder(encoder, architecture)
    model.compile(optimizer or keras.optimizers.SGD(), loss=SamToNe())
    model.optimizer.build(model.trainable_variables)
    return model


def test_weights_gradients_and_slots_are_counted():
    num = TABLE + 2 * BLOCK + BIAS + NORM + PROJECTION
    found = step_memory(make_model(optimizer=keras.optimizers.Adam()), 8, 16, 16)
    assert found.weights == 4 * num
    assert found.gradients == 4 * (num + TABLE)
    # Two slots for each weight; the step (int64) and the rate.
    assert found.slots == pytest.approx(2 * 4 * num, abs=32)
    way_back = found.gradients + found.activations + found.loss
    assert found.update == 3.5 * 4 * num > way_back
    assert found.total == found.weights + found.slots + found.update
    large = step_memory(make_model(), 8, 256, 256)
    assert large.update == 2 * 4 * num
    assert large.total == sum(large) - large.update
    chunks = step_memory(make_model(), 8, 16, 16, gradient_cache_chunk=4)
    assert chunks.gradients == 4 * (3.5 * num + TABLE)
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


def shapes_of(size, lora=0, targets="query_value", architecture="sde", **fields):
    config = EncoderConfig.make(size, lora_rank=lora, lora_targets=targets, **fields)
    return config, model_shapes(config, architecture, 768)


@pytest.mark.parametrize(
    # Peak MB that benchmarks/step_memory.py measured on a CPU, with --vocabulary 1000 where
    # `layers` are given. A second run gives up to a tenth more or less.
    ("size", "layers", "batch", "chunk", "lengths", "optimizer", "settings", "megabytes"),
    [
        ("t5.1.1-small", 1, 16, None, (64, 64), "sgd", {}, 173),
        ("t5.1.1-small", 4, 16, None, (64, 64), "sgd", {}, 593),
        ("t5.1.1-small", 4, 4, None, (256, 256), "sgd", {}, 598),
        ("t5.1.1-base", 1, 16, None, (64, 64), "sgd", {}, 318),
        ("t5.1.1-base", 4, 16, None, (64, 64), "sgd", {}, 989),
        ("t5.1.1-base", 4, 4, None, (256, 256), "sgd", {}, 1128),
        ("t5.1.1-small", 4, 16, None, (64, 64), "sgd", {"dropout": 0.1}, 661),
        ("t5.1.1-small", 4, 4, None, (256, 256), "sgd", {"dropout": 0.1}, 775),
        ("t5.1.1-small", 4, 16, None, (64, 64), "sgd", {"lora": 8}, 433),
        ("t5.1.1-small", 4, 16, None, (64, 64), "sgd", {"lora": 8, "targets": "all"}, 541),
        ("t5.1.1-small", 4, 16, None, (64, 64), "sgd", {"remat": True}, 241),
        ("t5.1.1-small", 8, 16, None, (64, 64), "sgd", {"remat": True}, 384),
        ("t5.1.1-small", 8, 16, None, (64, 64), "sgd", {"dropout": 0.1, "remat": True}, 434),
        ("t5.1.1-base", 4, 16, None, (64, 64), "sgd", {"remat": True}, 496),
        ("t5.1.1-base", 4, 4, None, (256, 256), "sgd", {"remat": True}, 588),
        ("t5.1.1-small", None, 16, 4, (64, 64), "adafactor", {}, 888),
        ("t5.1.1-small", None, 16, 4, (64, 64), "adam", {}, 1272),
        ("t5.1.1-small", None, 2, None, (64, 64), "adafactor", {}, 557),
        ("t5.1.1-small", None, 2, None, (64, 64), "adam", {}, 898),
        ("t5.1.1-base", None, 8, None, (64, 64), "adafactor", {}, 2252),
        ("t5.1.1-small", None, 16, None, (64, 64), "adafactor", {}, 1332),
        ("t5.1.1-base", None, 8, 2, (64, 64), "adafactor", {}, 2067),
        ("t5.1.1-base", None, 4, None, (64, 256), "adam", {}, 3080),
        (
            "t5.1.1-base",
            None,
            8,
            None,
            (64, 256),
            "adafactor",
            {"dropout": 0.1, "remat": True},
            1911,
        ),
        ("t5.1.1-base", None, 8, None, (64, 64), "adafactor", {"lora": 8}, 1482),
        ("t5.1.1-small", None, 16, 4, (64, 64), "adafactor", {"dropout": 0.1, "remat": True}, 895),
        ("t5.1.1-small", None, 32, 8, (64, 64), "adafactor", {"dropout": 0.1, "remat": True}, 819),
        ("t5.1.1-small", None, 8, None, (64, 256), "adafactor", {"dropout": 0.1}, 2276),
        ("t5.1.1-small", None, 16, 4, (64, 64), "sgd", {}, 822),
        ("t5.1.1-small", None, 2, 1, (8, 8), "adafactor", {}, 649),
        ("t5.1.1-small", None, 2, 1, (8, 8), "sgd", {}, 634),
        ("t5.1.1-small", None, 32, 16, (64, 64), "adafactor", {}, 1355),
    ],
)
def test_what_is_expected_is_within_15_percent_of_what_was_measured(
    size, layers, batch, chunk, lengths, optimizer, settings, megabytes
):
    fields = {"num_layers": layers, "vocabulary_size": 1000} if layers else {}
    config, weights = shapes_of(size, **fields, **settings)
    found = expected_memory(weights, config, optimizer, Batch(batch, *lengths), chunk)
    assert found.total / 1e6 == pytest.approx(megabytes, rel=0.15)


def test_bfloat16_halves_what_is_kept_and_copies_the_weights():
    config, weights = shapes_of("t5.1.1-small", num_layers=4, vocabulary_size=1000)
    found = expected_memory(weights, config, "sgd", Batch(16, 64, 64), compute_bytes=2)
    assert found.weights == 6 * sum(weight.size for weight in weights)
    assert found.total / 1e6 == pytest.approx(417, rel=0.15)


@pytest.mark.parametrize("optimizer", [Adafactor(), keras.optimizers.Adam()], ids=["t5", "adam"])
@pytest.mark.parametrize(
    ("architecture", "fields"),
    [("sde", {}), ("ade", {"lora_rank": 8}), ("ade_spl", {"lora_rank": 8, "lora_targets": "all"})],
    ids=str,
)
def test_a_model_that_is_there_needs_what_its_numbers_say(architecture, fields, optimizer):
    config = EncoderConfig.make("mini", vocabulary_size=300, **fields)
    model = DualEncoder(config, architecture)
    model.compile(type(optimizer)(), loss=SamToNe())
    model.optimizer.build(model.trainable_variables)
    found = step_memory(model, 8, 16, 32, num_negatives=1, num_replicas=2)
    name = type(optimizer).__name__.lower()
    weights = model_shapes(config, architecture, 768)
    want = expected_memory(weights, config, name, Batch(8, 16, 32, 1, 2))
    # Of the model's own slots two more: the step (int64) and the rate.
    assert found == want._replace(slots=want.slots + 12)
