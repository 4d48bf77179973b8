"""Pins of losses.temperature: range, step, gradient in every form, saving, optimizers."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from samtone_tf.dual_encoder import DualEncoder
from samtone_tf.losses.contrastive import InBatchSoftmax, SamToNe
from samtone_tf.losses.temperature import Temperature
from samtone_tf.losses.triplet import Triplet
from samtone_tf.optimizers.adafactor import Adafactor
from samtone_tf.training.run_folder import load_model
from tests import checks
from tests.losses import oracle
from tests.losses.cases import SOFTMAX

RATE = 0.003  # of SGD: the gradient of the weight is about 40 here
LEARNED = {"learn_temperature": True, "min_temperature": 0.02, "max_temperature": 0.5}
every_softmax = pytest.mark.parametrize("case", SOFTMAX.values(), ids=list(SOFTMAX))


def learned_loss(temperature=0.05, **more):
    return SamToNe(temperature, same_tower="both", **{**LEARNED, **more})


def make_model(loss=None, optimizer=None, chunk=None):
    """Equal weights at every call."""
    keras.utils.set_random_seed(0)
    model = DualEncoder(checks.TINY, embedding_dim=8, gradient_cache_chunk=chunk, name="model")
    model.compile(optimizer or keras.optimizers.SGD(RATE), loss=loss or learned_loss())
    return model


def weight_of(model):
    (weight,) = model.learned_temperature.trainable_variables
    return weight


def oracle_gradient(case, model, batch):
    """dL/dw of the mean loss, by finite differences of the oracle at the model's vectors."""
    vectors = {name.rstrip("s"): value.numpy() for name, value in model(batch).items()}
    names = ("query_id", "document_id", "negative_id", "positive_ids")
    ids = {name: batch[name] for name in names}

    def mean(w):
        temperature = LEARNED["max_temperature"] * np.exp(1 - w)
        return case.want(vectors, ids, temperature=float(temperature))[0].mean()

    return oracle.gradient(mean, weight_of(model).numpy())


# --- the layer ----------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.02, 0.05, 0.5])
def test_it_starts_at_the_losss_temperature(temperature):
    layer = Temperature()
    layer.start(learned_loss(temperature))
    assert float(layer.value()) == pytest.approx(temperature, rel=1e-6)
    assert [w.dtype for w in layer.trainable_variables] == ["float32"]


def test_a_step_of_the_weight_is_a_step_of_minus_log_temperature():
    layer = Temperature()
    layer.start(learned_loss(0.05))
    layer.weight.assign_add(0.25)
    assert float(layer.value()) == pytest.approx(0.05 * np.exp(-0.25), rel=1e-6)


def test_a_loss_that_learns_none_gives_the_model_no_weight():
    for loss in (SamToNe(0.05), Triplet()):
        model = make_model(loss)
        assert model.learned_temperature.variables == []
        assert model.temperature == loss.temperature
    assert Triplet().temperature == 1


# --- the gradient ---------------------------------------------------------------------------


@every_softmax
def test_one_step_is_the_gradient_of_the_mean_loss(case):
    model = make_model(case.make(**LEARNED))
    batch = checks.make_batch(6, 2)
    before, want = weight_of(model).numpy(), oracle_gradient(case, model, batch)
    assert abs(want) > 0.1
    logs = checks.fit(model, [batch])
    assert before - weight_of(model).numpy() == pytest.approx(RATE * want, rel=1e-4)
    now = float(model.temperature)
    assert now == pytest.approx(0.5 * np.exp(1 - (before - RATE * want)), rel=1e-4)
    assert logs["temperature"] == pytest.approx(now, rel=1e-6)


def test_towers_get_the_gradient_that_they_get_at_a_constant_temperature():
    batch = checks.make_batch(6, 2)
    models = [make_model(), make_model(SamToNe(0.05, same_tower="both"))]
    for model in models:
        checks.fit(model, [batch])
    learned, constant = ([v.numpy() for v in m.query_tower.trainable_variables] for m in models)
    for got, want in zip(learned, constant, strict=True):
        checks.assert_near(got, want, 1e-6)


@pytest.mark.parametrize("form", ["chunks", "tiles", "chunks and tiles"])
def test_every_form_of_the_step_gives_the_same(form, monkeypatch):
    from samtone_tf import tensorflow_step

    batches = [checks.make_batch(6, 2, seed) for seed in range(3)]
    plain, other = make_model(), make_model(chunk=2 if "chunks" in form else None)
    checks.fit(plain, batches)
    start = weight_of(other).numpy()
    if "tiles" in form:
        monkeypatch.setattr(tensorflow_step, "MOST_LOGITS", 0)
    checks.fit(other, batches)
    moved = weight_of(plain).numpy() - start
    assert 0.01 < abs(moved) < 1  # and no end of the range
    assert weight_of(other).numpy() - start == pytest.approx(moved, rel=1e-4)
    for got, want in zip(other.get_weights(), plain.get_weights(), strict=True):
        checks.assert_near(got, want, 1e-5)


def test_compute_loss_the_way_of_other_backends_has_the_gradient():
    model, batch = make_model(SOFTMAX["softmax"].make(**LEARNED)), checks.make_batch(6, 2)
    tensors = checks.as_tensors(batch)
    with tf.GradientTape() as tape:
        loss = model.compute_loss(x=tensors, y_pred=model(tensors, training=True))
    got = tape.gradient(loss, weight_of(model).value)
    want = oracle_gradient(SOFTMAX["softmax"], model, batch)
    np.testing.assert_allclose(got, want, rtol=1e-4)


# --- the range and the optimizers ----------------------------------------------------------------


@pytest.mark.parametrize(("start", "end"), [(0.45, 0.5), (0.025, 0.02)])
def test_it_stays_within_its_range_and_comes_back(start, end):
    layer = Temperature()
    layer.start(learned_loss(start))
    optimizer = keras.optimizers.SGD(1.0)
    sign = np.sign(end - start)
    optimizer.apply([tf.constant(sign * 9.0)], layer.trainable_variables)
    assert float(layer.value()) == pytest.approx(end, rel=1e-6)
    optimizer.apply([tf.constant(-sign * 0.5)], layer.trainable_variables)
    assert float(layer.value()) == pytest.approx(end * np.exp(-sign * 0.5), rel=1e-5)


@pytest.mark.parametrize("start", [0.01, 0.05, 1.0])
@pytest.mark.parametrize("gradient", [1e-3, -1e-3, 100.0, -100.0], ids=str)
def test_adafactor_neither_freezes_nor_explodes_it(start, gradient):
    # A step is the rate times the weight, from 1 to 5.6 here, whatever the gradient's scale.
    layer, rate, steps = Temperature(), 0.02, 10
    layer.start(InBatchSoftmax(start, learn_temperature=True))
    optimizer = Adafactor(rate)
    before = float(layer.value())
    for _ in range(steps):
        weight = float(layer.weight)
        optimizer.apply([tf.constant(gradient)], layer.trainable_variables)
        assert abs(float(layer.weight) - weight) <= rate * weight * 1.001
    moved = np.log(float(layer.value()) / before)
    at_its_end = (start == 0.01 and gradient < 0) or (start == 1.0 and gradient > 0)
    if at_its_end:
        assert moved == pytest.approx(0, abs=1e-5)
    else:
        assert np.sign(moved) == np.sign(gradient)
        assert 0.5 * rate * steps < abs(moved) < 7 * rate * steps


def test_a_model_learns_its_temperature_with_adafactor():
    model = make_model(learned_loss(0.3, min_temperature=0.01), Adafactor(0.05))
    logs = checks.fit(model, [checks.make_batch(8, 1)] * 60)
    assert 0.01 <= float(model.temperature) < 0.2
    assert np.isfinite(logs["loss"])


# --- saving and compiling -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "optimizer", [lambda: keras.optimizers.Adam(0.01), lambda: Adafactor(0.02)], ids=["adam", "a"]
)
def test_a_saved_model_goes_on_to_the_bit(tmp_path, optimizer):
    batches = [checks.make_batch(6, 2, seed) for seed in range(5)]
    whole, first = make_model(optimizer=optimizer()), make_model(optimizer=optimizer())
    checks.fit(whole, batches)
    checks.fit(first, batches[:3])
    first.save(tmp_path / "model.keras")
    second = load_model(tmp_path / "model.keras")
    assert float(second.temperature) == float(first.temperature) != 0.05
    assert second.loss.get_config() == first.loss.get_config()
    checks.fit(second, batches[3:])
    assert len(second.variables) == len(whole.variables)
    for got, want in zip(
        [*second.variables, *second.optimizer.variables],
        [*whole.variables, *whole.optimizer.variables],
        strict=True,
    ):
        np.testing.assert_array_equal(got, want)


def test_compiling_again_keeps_a_learned_temperature_and_a_new_loss_begins_anew():
    loss = learned_loss()
    model = make_model(loss)
    checks.fit(model, [checks.make_batch(6, 2)])
    learned = float(model.temperature)
    assert abs(learned - 0.05) > 1e-3
    model.compile(keras.optimizers.SGD(0.1), loss=loss)
    assert float(model.temperature) == learned
    model.compile(keras.optimizers.SGD(0.1), loss=learned_loss(0.3, max_temperature=0.9))
    assert float(model.temperature) == pytest.approx(0.3, rel=1e-6)
    model.compile(keras.optimizers.SGD(0.1), loss=SamToNe(0.07))
    assert model.temperature == 0.07
    assert len(model.trainable_variables) == len(model.query_tower.trainable_variables)
    checks.fit(model, [checks.make_batch(6, 2)])


def test_two_models_of_one_loss_learn_apart():
    loss = learned_loss()
    one, two = make_model(loss), make_model(loss)
    checks.fit(one, [checks.make_batch(6, 2)])
    assert float(two.temperature) == pytest.approx(0.05, rel=1e-6)
    assert abs(float(one.temperature) - 0.05) > 1e-3


def test_mixed_bfloat16_learns_it_in_float32():
    keras.utils.set_random_seed(0)
    model = DualEncoder(checks.TINY, embedding_dim=8, dtype="mixed_bfloat16")
    model.compile(keras.optimizers.SGD(1e-3), loss=learned_loss())
    assert model.temperature.dtype == tf.float32
    checks.fit(model, [checks.make_batch(6, 2)])
    assert 1e-7 < abs(float(model.temperature) - 0.05) < 1e-2


# --- arguments ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_temperature": 0.02}, "that is learned.*min_temperature=0.02"),
        ({"learn_temperature": True, "min_temperature": 0}, "greater than 0.*min_temperature=0"),
        ({"learn_temperature": True, "min_temperature": 2}, "less than `max_temperature`"),
        ({"learn_temperature": True, "min_temperature": 0.1}, "temperature=0.05"),
        ({"learn_temperature": True, "max_temperature": float("inf")}, "max_temperature=inf"),
    ],
    ids=str,
)
def test_a_range_that_cannot_be_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        InBatchSoftmax(0.05, **options)
