"""Pins of optimizers.schedules: the rate at its ends and between (C12), warm-up, config, errors."""

import keras
import numpy as np
import pytest

from samtone_tf.optimizers.schedules import InverseSquareRoot, LinearDecay
from tests import checks


@pytest.mark.parametrize(
    ("step", "rate"),
    [
        (0, 1e-3),
        (1, 9.9995e-4),
        (5_000, 7.5e-4),
        (10_000, 5e-4),
        (19_999, 5e-8),
        (20_000, 0),
        (20_001, 0),
    ],
)
def test_c12_the_papers_rate_ends_at_zero(step, rate):
    assert float(LinearDecay(1e-3, 20_000)(step)) == pytest.approx(rate, rel=1e-6, abs=0)


@pytest.mark.parametrize(
    ("step", "rate"), [(0, 0), (1, 0.2), (5, 1), (10, 2), (60, 1), (85, 0.5), (110, 0), (200, 0)]
)
def test_warmup_rises_from_zero_and_decay_starts_at_its_end(step, rate):
    assert float(LinearDecay(2.0, 110, warmup_steps=10)(step)) == pytest.approx(rate, abs=1e-6)


@pytest.mark.parametrize(
    ("step", "rate"), [(0, 0.01), (9_999, 0.01), (10_000, 0.01), (40_000, 0.005), (10**6, 0.001)]
)
def test_t5_was_pretrained_at_one_over_the_square_root_of_the_step(step, rate):
    assert float(InverseSquareRoot()(step)) == pytest.approx(rate, rel=1e-6)
    assert float(InverseSquareRoot(3.0, 10_000)(step)) == pytest.approx(3 * rate, rel=1e-6)


def test_an_inverse_square_root_without_warmup_starts_at_its_rate():
    rates = [float(InverseSquareRoot(0.5, warmup_steps=1)(step)) for step in (0, 1, 4, 25)]
    np.testing.assert_allclose(rates, [0.5, 0.5, 0.25, 0.1], rtol=1e-6)


def test_an_optimizer_follows_it():
    """SGD on a constant gradient of 1 moves by the sum of the rates: 0.4 + 0.3 + 0.2 + 0.1 + 0."""
    weight = keras.Variable([0.0])
    optimizer = keras.optimizers.SGD(LinearDecay(0.4, 4))
    for _ in range(5):
        optimizer.apply([np.ones(1, "float32")], [weight])
    np.testing.assert_allclose(np.asarray(weight), [-1.0], rtol=1e-6)


def test_config_round_trip_gives_the_same_rates():
    revived = checks.assert_config_round_trip(LinearDecay(0.5, 30, warmup_steps=10))
    rates = [float(revived(step)) for step in (0, 5, 10, 20, 30)]
    np.testing.assert_allclose(rates, [0, 0.25, 0.5, 0.25, 0], atol=1e-7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, 10), "learning_rate=0.0"),
        ((-1.0, 10), "learning_rate=-1.0"),
        ((float("nan"), 10), "learning_rate=nan"),
        ((0.1, 0), "steps=0"),
        ((0.1, 10, -1), "warmup_steps=-1"),
        ((0.1, 10, 10), "steps=10"),
    ],
)
def test_errors_name_what_was_received(arguments, message):
    with pytest.raises(ValueError, match=f"Received: {message}"):
        LinearDecay(*arguments)


def test_inverse_square_root_round_trip_gives_the_same_rates():
    revived = checks.assert_config_round_trip(InverseSquareRoot(0.5, 4))
    rates = [float(revived(step)) for step in (0, 4, 25)]
    np.testing.assert_allclose(rates, [0.25, 0.25, 0.1], rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((0.0, 10), "learning_rate=0.0"), ((float("nan"),), "learning_rate=nan"), ((1, 0), "warmup")],
)
def test_errors_of_the_inverse_square_root_name_what_was_received(arguments, message):
    with pytest.raises(ValueError, match=f"Received: {message}"):
        InverseSquareRoot(*arguments)
