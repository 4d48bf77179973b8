"""Pins of optimizers.adafactor: T5's formulas, optax's numbers, memory, zeros, saving, XLA."""

import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from samtone_tf.optimizers.adafactor import Adafactor
from samtone_tf.optimizers.schedules import InverseSquareRoot, LinearDecay
from tests import checks
from tests.optimizers import optax_numbers

ROOT = Path(__file__).parent.parent.parent

# The two axes that share a factored moment, or None: written down, not worked out.
FACTORED = {
    (160, 130): (0, 1),
    (130, 160): (0, 1),
    (128, 128): (0, 1),
    (128, 127): None,
    (32, 12): None,
    (200,): None,
    (): None,
    (3, 4, 5): None,
    (300, 3, 4): None,
    (2, 140, 130): (1, 2),
    (140, 2, 130): (0, 2),
}


class Oracle:
    """The formulas in float64, for one weight: V is formed in full, with no rsqrt."""

    def __init__(self, weight, axes, scaled=True, clip=1.0, exponent=0.8, epsilon2=1e-3):
        self.weight = np.asarray(weight, "float64")
        self.axes, self.scaled, self.clip = axes, scaled, clip
        self.exponent, self.epsilon2 = exponent, epsilon2
        self.t, self.row, self.column, self.moment = 0, 0.0, 0.0, 0.0

    def step(self, gradient, rate):
        self.t += 1
        beta = 1 - self.t**-self.exponent
        squared = np.square(np.asarray(gradient, "float64")) + 1e-30
        if self.axes is None:
            self.moment = beta * self.moment + (1 - beta) * squared
        else:
            one, two = self.axes
            self.row = beta * self.row + (1 - beta) * squared.mean(two, keepdims=True)
            self.column = beta * self.column + (1 - beta) * squared.mean(one, keepdims=True)
            self.moment = self.row * self.column / self.row.mean(one, keepdims=True)
        update = gradient / np.sqrt(self.moment)
        update = update / max(1.0, np.sqrt(np.mean(update**2)) / self.clip)
        if self.scaled:
            rate = rate * max(self.epsilon2, np.sqrt(np.mean(self.weight**2)))
        self.weight = self.weight - rate * update


def variable(value, dtype="float32"):
    return keras.Variable(np.asarray(value, "float32"), dtype=dtype)


def moments(optimizer):
    """All state but the counter and the rate."""
    return [v for v in optimizer.variables if v.path.endswith("_moment")]


def compiled(optimizer, weights, **arguments):
    """A step as a graph, which is how training runs it."""
    optimizer.build(weights)

    @tf.function(**arguments)
    def step(gradients):
        optimizer.apply(gradients, weights)

    return lambda gradients: step([tf.constant(g, "float32") for g in gradients])


# --- the numbers ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rate",
    [1e-3, LinearDecay(1e-2, 150, 20), InverseSquareRoot(0.1, 50)],
    ids=lambda r: str(r)[:20],
)
@pytest.mark.parametrize("scaled", [True, False])
def test_200_steps_are_those_of_the_formulas(scaled, rate):
    rng = np.random.default_rng(1)
    starts = [rng.normal(0, 0.1, shape).astype("float32") for shape in FACTORED]
    oracles = [
        Oracle(start, axes, scaled) for start, axes in zip(starts, FACTORED.values(), strict=True)
    ]
    weights = [variable(start) for start in starts]
    optimizer = Adafactor(rate, multiply_by_parameter_scale=scaled)
    step = compiled(optimizer, weights)
    for number in range(200):
        now = rate if isinstance(rate, float) else float(rate(number))
        # Of changing size, so that clipping acts in some steps and not in others.
        size = np.exp(np.sin(number))
        gradients = [size * rng.normal(size=shape).astype("float32") for shape in FACTORED]
        step(gradients)
        for oracle, gradient in zip(oracles, gradients, strict=True):
            oracle.step(gradient, now)
    for shape, start, weight, oracle in zip(FACTORED, starts, weights, oracles, strict=True):
        np.testing.assert_allclose(weight.numpy(), oracle.weight, rtol=0, atol=1e-6, err_msg=shape)
        assert np.abs(oracle.weight - start).max() > 1e-4, f"{shape} hardly moved"


def test_other_settings_are_those_of_the_formulas():
    rng = np.random.default_rng(2)
    start = rng.normal(0, 0.01, (32, 12)).astype("float32")
    settings = {"clip": 0.5, "exponent": 0.6, "epsilon2": 0.1}
    for smallest, axes in [(12, (0, 1)), (13, None)]:
        oracle, weight = Oracle(start, axes, **settings), variable(start)
        optimizer = Adafactor(
            1e-2,
            clip_threshold=0.5,
            decay_exponent=0.6,
            epsilon2=0.1,
            min_dim_size_to_factor=smallest,
        )
        for _ in range(10):
            gradient = rng.normal(size=start.shape).astype("float32")
            optimizer.apply([gradient], [weight])
            oracle.step(gradient, 1e-2)
        np.testing.assert_allclose(weight.numpy(), oracle.weight, rtol=0, atol=1e-6)


# Made by `python -m tests.optimizers.optax_numbers` with optax 0.2.8 and jax 0.10.2: by shape and
# parameter scaling, four of the weights after 200 steps and the sum of all.
OPTAX = {
    ("130x160", True): [0.0639917701, 0.039276123, -0.0998321697, 0.0514827557, 0.105967997],
    ("140x2x130", True): [0.0640252456, -0.042764619, -0.0994383618, -0.0401383191, 0.034800373],
    ("160x130", True): [0.0640217811, 0.0392721333, -0.0998307168, 0.0513515249, 0.104894437],
    ("200", True): [0.0641589016, -0.0412971452, 0.102351651, -0.0898598805, 0.246660508],
    ("2x140x130", True): [0.0640371963, -0.04278237, -0.0994165465, -0.0401384272, 0.0372767382],
    ("32x12", True): [0.0641489178, -0.0936330259, -0.00117159099, 0.0914545208, 0.0936974422],
    ("3x4x5", True): [0.0640207008, -0.0983650908, 0.0269568246, 0.0704267845, 0.200263464],
    ("scalar", True): [0.0642373934, 0.0642373934],
    ("130x160", False): [0.05833707, 0.0365543924, -0.0999168828, 0.0705825388, -1.44237623],
    ("140x2x130", False): [0.0588110909, -0.0332596637, -0.0926103741, -0.0656590462, -2.16098986],
    ("160x130", False): [0.0587612242, 0.0364973769, -0.099895522, 0.0687265471, -1.45750571],
    ("200", False): [0.0607041344, 0.607898593, 0.133285791, -0.0912567228, 0.684847765],
    ("2x140x130", False): [0.0589807928, -0.0335105956, -0.0923003703, -0.0656604916, -2.12604741],
    ("32x12", False): [0.060564734, -0.0922543034, -0.00142119848, 0.0512904637, 0.514833532],
    ("3x4x5", False): [0.0586783476, -0.10429018, 0.00401773164, 0.0679603815, 0.91094371],
    ("scalar", False): [0.063523069, 0.063523069],
}


def our_weights(scaled):
    weights = {
        optax_numbers.name_of(shape): variable(optax_numbers.start(shape))
        for shape in optax_numbers.SHAPES
    }
    schedule = LinearDecay(optax_numbers.RATE, optax_numbers.STEPS)
    optimizer = Adafactor(schedule, multiply_by_parameter_scale=scaled)
    step = compiled(optimizer, list(weights.values()))
    for number in range(optax_numbers.STEPS):
        step([optax_numbers.gradient(shape, number) for shape in optax_numbers.SHAPES])
    return {name: weight.numpy() for name, weight in weights.items()}


@pytest.mark.parametrize("scaled", [True, False])
def test_200_steps_give_the_numbers_that_optax_gave(scaled):
    for name, weight in our_weights(scaled).items():
        *got, total = optax_numbers.sample(weight)
        *want, want_total = OPTAX[name, scaled]
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-6, err_msg=name)
        assert abs(total - want_total) / weight.size < 1e-7, name


@pytest.mark.filterwarnings("default")  # jax's own
@pytest.mark.parametrize("scaled", [True, False])
def test_200_steps_equal_optax(scaled):
    pytest.importorskip("optax", exc_type=ImportError)
    theirs = optax_numbers.optax_weights(scaled)
    for name, weight in our_weights(scaled).items():
        np.testing.assert_allclose(weight, theirs[name], rtol=0, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("rate", [10.0, keras.optimizers.schedules.PolynomialDecay(10.0, 9, 10.0)])
def test_the_rate_is_not_clamped(rate):
    """ones(4, 3) and a gradient of ones: T5 moves by 10, Keras's Adafactor by 1."""
    weight = variable(np.ones((4, 3)))
    Adafactor(rate).apply([np.ones((4, 3), "float32")], [weight])
    np.testing.assert_allclose(weight.numpy(), -9.0, rtol=1e-6)


def test_nothing_moves_when_the_rate_has_come_to_zero():
    rng = np.random.default_rng(3)
    weights = [variable(rng.normal(size=shape)) for shape in FACTORED]
    optimizer = Adafactor(LinearDecay(1e-2, 3))
    seen = []
    for _ in range(6):
        optimizer.apply([rng.normal(size=shape).astype("float32") for shape in FACTORED], weights)
        seen.append([weight.numpy() for weight in weights])
    for place, shape in enumerate(FACTORED):
        assert not np.array_equal(seen[1][place], seen[2][place]), shape
        for later in seen[3:]:
            np.testing.assert_array_equal(later[place], seen[2][place], err_msg=shape)


# --- state ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ((1000, 512), [512, 1000]),
        ((32128, 768), [768, 32128]),
        ((128, 128), [128, 128]),
        ((128, 127), [128 * 127]),
        ((32, 12), [384]),
        ((200,), [200]),
        ((), [1]),
        ((2, 140, 130), [2 * 130, 2 * 140]),
        ((300, 3, 4), [3600]),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_state_is_two_vectors_or_one_full_moment_in_float32(shape, sizes, dtype):
    optimizer = Adafactor(1e-3)
    optimizer.build([keras.Variable(initializer="zeros", shape=shape, dtype=dtype)])
    found = moments(optimizer)
    assert [int(np.prod(v.shape)) for v in found] == sizes
    assert {v.dtype for v in found} == {"float32"}
    assert len(optimizer.variables) == len(found) + 2  # the counter and the rate


def test_a_bfloat16_weight_is_the_float32_one_rounded_once():
    rng = np.random.default_rng(4)
    for shape in FACTORED:
        start, gradient = (
            keras.ops.cast(keras.ops.cast(rng.normal(size=shape), "bfloat16"), "float32").numpy()
            for _ in range(2)
        )
        wide, narrow = variable(start), variable(start, "bfloat16")
        for weight in (wide, narrow):
            Adafactor(0.05).apply([keras.ops.cast(gradient, weight.dtype)], [weight])
        assert narrow.dtype == "bfloat16"
        want = keras.ops.cast(wide, "bfloat16")
        assert bool(keras.ops.all(want == narrow)), shape
        checks.assert_nonzero(wide.numpy() - start)


def test_late_moments_do_not_freeze_under_bfloat16():
    """At step 5,001 beta is 0.9989, which bfloat16 rounds to 1."""
    weight = variable(np.ones((8,)), "bfloat16")
    optimizer = Adafactor(1e-3)
    optimizer.build([weight])
    optimizer.iterations.assign(5000)
    optimizer.apply([keras.ops.full((8,), 2.0, "bfloat16")])
    np.testing.assert_allclose(moments(optimizer)[0].numpy(), 4 * 5001**-0.8, rtol=1e-5)


# --- zeros ---------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e-20, 1.0, 1e12])
@pytest.mark.parametrize("shape", [(160, 130), (2, 140, 130)])
@pytest.mark.parametrize("jit_compile", [False, True])
def test_rows_and_columns_of_zeros_stay_and_the_others_move(shape, size, jit_compile):
    """At 1e12 the zero row's share of the mean, 1e-30 / 1e24, is 0 in float32."""
    rng = np.random.default_rng(5)
    start = rng.normal(size=shape).astype("float32")
    weight, oracle = variable(start), Oracle(start, (len(shape) - 2, len(shape) - 1))
    step = compiled(Adafactor(1e-2), [weight], jit_compile=jit_compile)
    for _ in range(5):
        gradient = (size * rng.normal(size=shape)).astype("float32")
        gradient[..., 7, :] = gradient[..., :, 11] = 0
        step([gradient])
        oracle.step(gradient, 1e-2)
    np.testing.assert_array_equal(weight.numpy()[..., 7, :], start[..., 7, :])
    np.testing.assert_array_equal(weight.numpy()[..., :, 11], start[..., :, 11])
    np.testing.assert_allclose(weight.numpy(), oracle.weight, rtol=0, atol=1e-6)


@pytest.mark.parametrize("other", [1.0, 1e15])
def test_a_row_that_wakes_up_moves_by_a_finite_step(other):
    rng = np.random.default_rng(6)
    weight = variable(rng.normal(size=(160, 130)))
    step = compiled(Adafactor(1e-2), [weight])
    for size in (0, 0, 1e-15, 1e-8, 1.0, 1e9, 0):
        gradient = rng.normal(size=(160, 130)).astype("float32")
        gradient[5:, 5:] *= other
        gradient[:5] *= size
        gradient[:, :5] *= size
        before = weight.numpy()
        step([gradient])
        change = weight.numpy() - before
        assert np.isfinite(change).all(), size
        assert np.sqrt(np.mean(change**2)) < 1.01e-2 * np.sqrt(np.mean(before**2)), size


def test_a_gradient_of_zeros_moves_nothing():
    weights = [variable(np.ones(shape)) for shape in FACTORED]
    step = compiled(Adafactor(1.0), weights)
    for _ in range(3):
        step([np.zeros(shape, "float32") for shape in FACTORED])
    for shape, weight in zip(FACTORED, weights, strict=True):
        np.testing.assert_array_equal(weight.numpy(), np.ones(shape), err_msg=shape)
    step([np.ones(shape, "float32") for shape in FACTORED])
    for shape, weight in zip(FACTORED, weights, strict=True):
        assert np.isfinite(weight.numpy()).all(), shape
        checks.assert_nonzero(weight.numpy() - 1, shape)


def test_a_weight_of_zeros_leaves_zero_by_epsilon2():
    weight = variable(np.zeros(3))
    Adafactor(0.5).apply([np.ones(3, "float32")], [weight])
    np.testing.assert_allclose(weight.numpy(), -0.5e-3, rtol=1e-6)


# --- in Keras ------------------------------------------------------------------------------


def test_repeated_tokens_count_with_the_sum_of_their_gradients():
    """Keras gives a table's gradient as a list of rows."""
    table = keras.layers.Embedding(140, 130)
    token_ids = np.array([[3, 3, 3, 5], [5, 139, 3, 0]])
    table.build()
    start, factor = table.embeddings.numpy(), np.arange(1, 9).reshape(2, 4, 1)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(table(token_ids) * tf.constant(factor, "float32"))
    gradient = tape.gradient(loss, table.embeddings.value)
    assert isinstance(gradient, tf.IndexedSlices)
    dense = np.zeros((140, 130))
    np.add.at(dense, token_ids, np.broadcast_to(factor, (2, 4, 130)))
    oracle = Oracle(start, (0, 1))
    oracle.step(dense, 0.1)
    Adafactor(0.1).apply([gradient], [table.embeddings])
    np.testing.assert_allclose(table.embeddings.numpy(), oracle.weight, rtol=0, atol=1e-6)
    checks.assert_nonzero(oracle.weight - start)


@pytest.mark.parametrize("clip", ["clipnorm", "global_clipnorm", "clipvalue"])
def test_the_gradient_is_clipped_before_the_moments(clip):
    """On one device; on several the training step clips what it has reduced.

    The update hardly shows it, the moment does.
    """
    gradient = np.array([3.0, -4.0], "float32")
    clipped = np.sign(gradient) * 1e-2 if clip == "clipvalue" else gradient / 5 * 1e-2
    weight, oracle = variable([1.0, 1.0]), Oracle([1.0, 1.0], None)
    optimizer = Adafactor(0.1, **{clip: 1e-2})
    for value, wanted in [(gradient, clipped), (clipped / 10, clipped / 10)]:
        optimizer.apply([value], [weight])
        oracle.step(wanted, 0.1)
    np.testing.assert_allclose(moments(optimizer)[0].numpy(), oracle.moment, rtol=1e-5)
    np.testing.assert_allclose(weight.numpy(), oracle.weight, rtol=1e-6)


def test_accumulated_gradients_count_as_one_step():
    weight, oracle = variable(np.ones(3)), Oracle(np.ones(3), None)
    optimizer = Adafactor(0.1, gradient_accumulation_steps=2)
    for number in range(4):
        optimizer.apply([np.full(3, 1.0 + number, "float32")], [weight])
    for mean in (1.5, 3.5):
        oracle.step(np.full(3, mean), 0.1)
    np.testing.assert_allclose(weight.numpy(), oracle.weight, rtol=1e-6)


def test_a_step_under_xla_equals_an_eager_one():
    rng = np.random.default_rng(7)
    starts = [rng.normal(size=shape).astype("float32") for shape in FACTORED]
    eager, under_xla = ([variable(start) for start in starts] for _ in range(2))
    optimizers = [Adafactor(LinearDecay(1e-2, 10)) for _ in range(2)]
    step = compiled(optimizers[1], under_xla, jit_compile=True)
    for _ in range(3):
        gradients = [rng.normal(size=shape).astype("float32") for shape in FACTORED]
        optimizers[0].apply(gradients, eager)
        step(gradients)
    pairs = [*zip(eager, under_xla, strict=True)]
    pairs += zip(*map(moments, optimizers), strict=True)
    for one, other in pairs:
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)
    assert int(optimizers[1].iterations) == 3


def test_a_saved_model_continues_with_the_same_steps(tmp_path):
    rng = np.random.default_rng(8)
    model = keras.Sequential([keras.Input((160,)), keras.layers.Dense(130), keras.layers.Dense(3)])
    model.compile(Adafactor(LinearDecay(1e-2, 10, 2), clipnorm=1.0), loss="mse")
    batches = [(rng.normal(size=(4, 160)), rng.normal(size=(4, 3))) for _ in range(6)]
    for batch in batches[:3]:
        model.train_on_batch(*batch)
    model.save(tmp_path / "model.keras")
    revived = keras.saving.load_model(tmp_path / "model.keras")
    assert type(revived.optimizer) is Adafactor
    assert revived.optimizer.get_config() == model.optimizer.get_config()
    assert int(revived.optimizer.iterations) == 3
    for one, other in zip(moments(model.optimizer), moments(revived.optimizer), strict=True):
        checks.assert_nonzero(one.numpy() * 1e12)
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    for batch in batches[3:]:
        model.train_on_batch(*batch)
        revived.train_on_batch(*batch)
    for one, other in zip(model.weights, revived.weights, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_config_round_trip():
    settings = {
        "decay_exponent": 0.7,
        "clip_threshold": 2.0,
        "epsilon1": 1e-20,
        "epsilon2": 0.0,
        "multiply_by_parameter_scale": False,
        "min_dim_size_to_factor": 32,
        "global_clipnorm": 1.0,
    }
    optimizer = Adafactor(InverseSquareRoot(0.5, 7), name="mine", **settings)
    config = checks.assert_config_round_trip(optimizer).get_config()
    assert {name: config[name] for name in settings} == settings
    checks.assert_config_round_trip(Adafactor(0.25))


@pytest.mark.multi_device
def test_two_replicas_take_the_steps_of_one_device(tmp_path):
    found = {}
    for replicas in (1, 2):
        path = tmp_path / f"{replicas}.npz"
        command = [sys.executable, "-m", "tests.optimizers.two_replicas", str(replicas), str(path)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-3000:]
        found[replicas] = dict(np.load(path))
    assert found[1].keys() == found[2].keys()
    assert len(found[1]) == 3 + 4 + 1  # weights, moments, counter
    for name, (one, *_) in found[1].items():
        two = found[2][name]
        np.testing.assert_array_equal(two[0], two[-1], err_msg=name)
        np.testing.assert_allclose(two[0], one, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("decay_exponent", 0),
        ("clip_threshold", 0.0),
        ("clip_threshold", float("nan")),
        ("epsilon1", 0.0),
        ("epsilon1", 1e-31),
        ("epsilon2", -1e-3),
        ("min_dim_size_to_factor", 0),
    ],
)
def test_errors_name_what_was_received(name, value):
    with pytest.raises(ValueError, match=f"Received: {name}={value}"):
        Adafactor(1e-3, **{name: value})


def test_unknown_arguments_are_refused():
    with pytest.raises(ValueError, match="relative_step"):
        Adafactor(1e-3, relative_step=False)
