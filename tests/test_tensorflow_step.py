"""Pins of tensorflow_step: one step by hand, dropout, metrics, and equality over replicas."""

import socket
import subprocess
import sys
import zlib
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from samtone_tf import tensorflow_encode, tensorflow_step
from samtone_tf.data.pipeline import PairBatches
from samtone_tf.data.records import RetrievalData
from samtone_tf.data.tokenizer import Tokenizer
from samtone_tf.dual_encoder import DualEncoder, pair_vectors
from samtone_tf.losses.contrastive import SamToNe
from samtone_tf.metrics import StepMetrics
from samtone_tf.unit_norm import unit_norm
from tests import checks
from tests.losses import oracle
from tests.test_metrics import alignment_by_loops, uniformity_by_loops

ROOT = Path(__file__).parent.parent
MASKED = StepMetrics.NAMES.index("masked_fraction")


def make_model(architecture="sde", rate=0.1, dropout=0.0, seed=0, optimizer=None, **arguments):
    """Equal weights at every call."""
    keras.utils.set_random_seed(0)
    numbers = {"embedding_dim": 8, "dropout": dropout, "seed": seed}
    model = DualEncoder(checks.TINY, architecture, **numbers, name="model")
    loss = SamToNe(0.05, same_tower="both")
    model.compile(optimizer or keras.optimizers.SGD(rate), loss=loss, **arguments)
    return model


def make_pairs(num_pairs, **arguments):
    """`PairBatches` over texts that all differ."""
    names = [f"{i} {'abcdefghij'[i % 10]}" for i in range(num_pairs)]
    data = RetrievalData(
        "made here",
        "train",
        {f"q{i}": f"query {name}" for i, name in enumerate(names)},
        {f"d{i}": f"document {name}" for i, name in enumerate(names)},
        {f"q{i}": {f"d{i}": 1} for i in range(num_pairs)},
        {f"q{i}": (f"d{(i + 1) % num_pairs}",) for i in range(0, num_pairs, 2)},
    )
    tokenizer = Tokenizer.train(["query document abcdefghij 0123456789"], vocabulary_size=40)
    return PairBatches(data, tokenizer, query_length=8, document_length=12, **arguments)


def mean_loss(model, batch, training=False):
    batch = checks.as_tensors(batch)
    return model.compute_loss(x=batch, y_pred=model(batch, training=training))


def weights_of(model):
    return {variable.path: variable.numpy() for variable in model.trainable_variables}


def assert_same_weights(one, other, tolerance):
    assert one.keys() == other.keys()
    for name, value in one.items():
        checks.assert_near(value, other[name], tolerance, name)


# --- one step ------------------------------------------------------------------------------


@pytest.mark.parametrize("num_negatives", [0, 2])
@pytest.mark.parametrize("architecture", ["sde", "ade", "ade_spl", ["token_embedding"]], ids=str)
def test_one_step_is_the_full_gradient_of_the_mean_loss(architecture, num_negatives):
    model = make_model(architecture, rate=0.1)
    batch = checks.make_batch(6, num_negatives)
    variables = model.trainable_variables
    with tf.GradientTape() as tape:
        loss = mean_loss(model, batch, training=True)
    gradients = tape.gradient(loss, [variable.value for variable in variables])
    gradients = [tf.convert_to_tensor(gradient).numpy() for gradient in gradients]
    want = {}
    for variable, gradient in zip(variables, gradients, strict=True):
        checks.assert_nonzero(gradient, variable.path)
        want[variable.path] = variable.numpy() - np.float32(0.1) * gradient
    logs = checks.fit(model, [batch])
    np.testing.assert_allclose(logs["loss"], loss, rtol=1e-6)
    assert_same_weights(weights_of(model), want, 1e-6)


def step_of_the_table(model, batch):
    table = model.query_tower.encoder.token_embedding.embeddings
    before = table.numpy()
    checks.fit(model, [batch])
    return before - table.numpy()


def test_a_token_that_comes_often_gets_the_sum_of_its_gradients():
    model = make_model(rate=1.0)
    batch = checks.make_batch(6, 0)
    for side in ("query", "document"):  # six tokens only, each many times
        ids = batch[side]["token_ids"]
        ids[...] = np.where(batch[side]["padding_mask"], 3 + ids % 6, 0)
    tower = model.query_tower
    table = tower.encoder.token_embedding.embeddings.value

    def encode(tokens):  # a dense look-up: one row of ones and zeros per token
        states = tf.one_hot(tokens["token_ids"], 50) @ table
        states = tower.encoder.stack(states, padding_mask=tokens["padding_mask"])
        pooled = tower.pooling(states, padding_mask=tokens["padding_mask"])
        return unit_norm(tower.projection(pooled))

    tensors = checks.as_tensors(batch)
    with tf.GradientTape() as tape:
        vectors = {side: encode(tensors[side]) for side in ("query", "document")}
        loss = model.compute_loss(x=tensors, y_pred=vectors)
    want = tape.gradient(loss, table).numpy()
    assert (np.abs(want).max(axis=1) > 0).sum() == 6
    checks.assert_near(step_of_the_table(model, batch), want, 1e-5)


def test_clipping_sees_the_summed_gradient_of_the_table():
    # With repeated rows left apart, the norm is another one and the step is too short or too long.
    model = make_model(optimizer=keras.optimizers.SGD(1.0, global_clipnorm=0.1))
    before = weights_of(model)
    checks.fit(model, [checks.make_batch(6, 2)])
    after = weights_of(model)
    step = np.sqrt(sum(np.sum((after[name] - before[name]) ** 2) for name in before))
    assert step == pytest.approx(0.1, rel=1e-4)


def test_a_model_learns_its_batch():
    model = make_model(optimizer=keras.optimizers.Adam(0.01))
    batch = checks.make_batch(8, 1)
    first = checks.fit(model, [batch])
    last = checks.evaluate(model, [batch]) if checks.fit(model, [batch] * 60) else {}
    assert last["loss"] < 0.5 * first["loss"]
    assert last["accuracy"] > first["accuracy"]


def test_c06_an_empty_document_in_a_batch_leaves_the_weights_finite():
    model = make_model()
    batch = checks.make_batch(4, 1)
    batch["document"]["token_ids"][1] = 0
    batch["document"]["padding_mask"][1] = False
    before = weights_of(model)
    logs = checks.fit(model, [batch] * 2)
    assert np.isfinite(logs["loss"])
    for name, value in weights_of(model).items():
        assert np.isfinite(value).all(), name
        assert np.abs(value - before[name]).max() > 0, name


@pytest.mark.parametrize("num_pairs", [8, 9])
def test_c03_a_remainder_does_not_dilute_the_loss(num_pairs):
    batches = make_pairs(num_pairs, batch_size=8)
    model = make_model(rate=0.0)
    want = mean_loss(model, batches.batch(0))
    assert len(batches.batch(0)["query_id"]) == 8
    dataset = batches.dataset(num_steps=batches.steps_per_epoch)
    history = model.fit(dataset, shuffle=False, verbose=0).history
    np.testing.assert_allclose(history["loss"], [want], rtol=1e-6)
    assert int(model.optimizer.iterations) == 1


def test_c18_no_string_reaches_fit():
    spec = make_pairs(8, batch_size=8, num_negatives=1).element_spec
    assert {x.dtype for x in tf.nest.flatten(spec)} == {tf.int32, tf.bool, tf.int64}
    assert all(x.shape.is_fully_defined() for x in tf.nest.flatten(spec))


# --- dropout -------------------------------------------------------------------------------


def draws(seed=0, step=0, side="query", model=None):
    model = model or make_model(dropout=0.5, seed=seed)
    model.optimizer.iterations.assign(step)
    batch = checks.make_batch(4, 0)
    batch["document"] = batch["query"]  # equal texts: what differs is the dropout
    return tensorflow_encode.encode(model, checks.as_tensors(batch), training=True)[side].numpy()


def test_dropout_is_a_function_of_seed_step_and_tower():
    first = draws()
    np.testing.assert_array_equal(draws(), first)  # another model, equal weights
    for change in ({"seed": 1}, {"step": 1}, {"side": "document"}):
        assert np.abs(draws(**change) - first).max() > 0.05, change


def test_dropout_carries_nothing_from_call_to_call():
    model = make_model(dropout=0.5)
    first = draws(model=model)
    draws(step=4, model=model)
    np.testing.assert_array_equal(draws(model=model), first)


def test_equal_seeds_train_equally_and_other_seeds_do_not():
    batches = [checks.make_batch(6, 2, seed) for seed in range(3)]
    results = []
    for seed in (0, 0, 1):
        model = make_model(dropout=0.5, seed=seed)
        checks.fit(model, batches)
        results.append(weights_of(model))
    for name, value in results[0].items():
        np.testing.assert_array_equal(results[1][name], value)
    assert any(np.abs(results[2][name] - value).max() > 1e-3 for name, value in results[0].items())


def test_no_state_of_dropout_is_trained():
    paths = [variable.path for variable in make_model(dropout=0.5).trainable_variables]
    assert not [path for path in paths if "seed" in path]


@pytest.mark.parametrize("chunk", [0, 1, 2**31, 2**32 - 1])
def test_the_seed_of_a_pass_in_numbers(chunk):
    model = make_model(dropout=0.5, seed=3)
    model.optimizer.iterations.assign(5)
    got = tensorflow_encode.dropout_seed(model, "document", tf.constant(chunk, "int64"))
    assert got.numpy().tolist() == [zlib.crc32(b"3 document") ^ (chunk * 2654435761 % 2**32), 5]


# --- metrics -------------------------------------------------------------------------------


def expected_metrics(model, batches):
    """By the definitions, from embeddings, ranks by loops and a tape over everything."""
    return {
        name: np.mean([metrics_of(model, checks.as_tensors(batch))[name] for batch in batches])
        for name in StepMetrics.NAMES
    }


def metrics_of(model, batch):
    with tf.GradientTape() as tape:
        vectors = model(batch)
        loss = model.compute_loss(x=batch, y_pred=vectors)
    weights = [variable.value for variable in model.trainable_variables]
    gradients = [tf.convert_to_tensor(gradient) for gradient in tape.gradient(loss, weights)]
    ids = {name: batch[name].numpy() for name in batch if name.endswith(("_id", "_ids"))}
    arrays = {name: np.asarray(value, "float64") for name, value in vectors.items()}
    negative = arrays.pop("negatives")
    rows = oracle.contrastive_rows(
        **arrays, negative=negative, **ids, temperature=0.05, same_tower="both"
    )
    pairs = pair_vectors(vectors, batch)
    return {
        "loss": np.mean(rows["loss"]),
        "accuracy": np.mean(rows["correct"]),
        "mrr": np.mean(rows["reciprocal_rank"]),
        "masked_fraction": np.mean(model.loss.rows(pairs, pairs).masked),
        "negatives_per_query": np.mean(rows["negatives"]),
        "temperature": 0.05,
        "alignment": alignment_by_loops(arrays["query"], arrays["document"]),
        "uniformity": np.mean([uniformity_by_loops(x) for x in arrays.values()]),
        "gradient_norm": np.sqrt(sum(np.sum(np.square(x, dtype="float64")) for x in gradients)),
    }


@pytest.mark.parametrize("run", [checks.fit, checks.evaluate], ids=["fit", "evaluate"])
def test_metrics_are_means_over_the_steps(run):
    model = make_model(rate=0.0)
    batches = [checks.make_batch(6, 2, seed) for seed in range(3)]
    want = expected_metrics(model, batches)
    if run == checks.evaluate:
        del want["gradient_norm"]
    assert 0 < want["accuracy"] < want["mrr"] < 1
    assert 0 < want["masked_fraction"] < 1
    for _ in range(2):  # every epoch starts anew
        got = run(model, batches)
        assert got.keys() == want.keys()
        for name, value in want.items():
            assert got[name] == pytest.approx(value, rel=1e-5), name


def test_the_gradient_is_measured_before_it_is_clipped():
    batch = checks.make_batch(6, 2)
    want = metrics_of(make_model(), checks.as_tensors(batch))["gradient_norm"]
    for setting in ({"global_clipnorm": 0.1}, {"clipnorm": 0.1}, {"clipvalue": 0.01}):
        model = make_model(optimizer=keras.optimizers.SGD(1.0, **setting))
        assert checks.fit(model, [batch])["gradient_norm"] == pytest.approx(want, rel=1e-5)
    assert want > 0.2


@pytest.mark.parametrize("chunk", [None, 2])
def test_the_first_step_with_a_bad_loss_is_known(chunk):
    """Token 49 has an infinite vector; no batch but the third has it."""
    batches = [checks.make_batch(6, 2, seed) for seed in range(5)]
    for batch in batches:
        for side in ("query", "document", "negatives"):
            ids = batch[side]["token_ids"]
            ids[...] = np.where(ids == 49, 48, ids)
    batches[2]["document"]["token_ids"][4, 0] = 49
    model = make_model(rate=0.0)
    model.gradient_cache_chunk = chunk
    table = model.query_tower.encoder.token_embedding.embeddings
    table.assign(np.where(np.arange(50)[:, None] == 49, np.inf, table.numpy()))
    seen = []
    look = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: seen.append(
            int(model.step_metrics.first_bad_step.result())
        )
    )
    logs = checks.fit(model, batches, callbacks=[look])
    assert not np.isfinite(logs["loss"])
    assert seen == [0, 0, 3, 3, 3]


def test_evaluate_uses_no_dropout_and_updates_nothing():
    model = make_model(dropout=0.5)
    batch = checks.make_batch(6, 2)
    before = weights_of(model)
    assert checks.evaluate(model, [batch])["loss"] == pytest.approx(
        float(mean_loss(model, batch)), rel=1e-6
    )
    assert abs(checks.fit(model, [batch])["loss"] - float(mean_loss(model, batch))) > 1e-3
    other = make_model(dropout=0.5)
    checks.evaluate(other, [batch])
    for name, value in weights_of(other).items():
        np.testing.assert_array_equal(value, before[name])
    assert int(other.optimizer.iterations) == 0


def test_validation_data_of_fit():
    model = make_model(rate=0.0)
    train, held_out = checks.make_batch(6, 2), checks.make_batch(6, 2, seed=1)
    logs = checks.fit(model, [train], validation_data=checks.as_dataset([held_out]))
    assert logs["val_loss"] == pytest.approx(float(mean_loss(model, held_out)), rel=1e-6)
    assert logs["loss"] == pytest.approx(float(mean_loss(model, train)), rel=1e-6)
    assert abs(logs["loss"] - logs["val_loss"]) > 1e-3


# --- Keras's ways to run a step --------------------------------------------------------------


@pytest.fixture(scope="module")
def seven_steps():
    """Batches, and the weights after them, one step at a time."""
    batches = [checks.make_batch(6, 2, seed) for seed in range(7)]
    model = make_model(rate=0.01)
    checks.fit(model, batches)
    return batches, weights_of(model)


@pytest.mark.parametrize(
    "arguments",
    [{"run_eagerly": True}, {"steps_per_execution": 3}],
    ids=["run_eagerly", "steps_per_execution"],
)
def test_every_way_to_run_gives_the_same_seven_updates(seven_steps, arguments):
    batches, want = seven_steps
    model = make_model(rate=0.01, **arguments)
    logs = checks.fit(model, batches)
    assert int(model.optimizer.iterations) == 7
    assert_same_weights(weights_of(model), want, 1e-5)
    assert np.isfinite(logs["loss"])


@pytest.mark.parametrize("method", ["train_on_batch", "test_on_batch"])
def test_one_batch_by_itself(method):
    model, batch = make_model(), checks.make_batch(6, 2)
    want = float(mean_loss(model, batch))
    logs = getattr(model, method)(batch, return_dict=True)
    assert logs["loss"] == pytest.approx(want, rel=1e-6)


def test_fit_takes_a_dict_of_arrays():
    model, batch = make_model(rate=0.0), checks.make_batch(6, 2)
    history = model.fit(batch, batch_size=6, shuffle=False, verbose=0).history
    assert history["loss"] == pytest.approx([float(mean_loss(model, batch))], rel=1e-6)


# --- replicas ------------------------------------------------------------------------------


def run_replicas(number, path, *parts):
    """The numbers of tests/replicas.py: run → {part → array}."""
    command = [sys.executable, "-m", "tests.replicas", str(number), str(path), *parts]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return read_runs(path)


def read_runs(path):
    runs: dict = {}
    with np.load(path) as arrays:
        for name in arrays.files:
            run, _, part = name.partition("|")
            runs.setdefault(run, {})[part.replace("|", "/")] = arrays[name]
    return runs


@pytest.fixture(scope="module")
def replicas(tmp_path_factory):
    """Number of replicas → what `run_replicas` gives."""
    folder = tmp_path_factory.mktemp("replicas")
    return {number: run_replicas(number, folder / f"{number}.npz") for number in (1, 2, 4)}


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    """What each of two processes gives that train together."""
    folder = tmp_path_factory.mktemp("workers")
    paths = [folder / f"{rank}.npz" for rank in range(2)]
    ports = free_ports(2)
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.worker", str(rank), str(path), *ports],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, path in enumerate(paths)
    ]
    try:
        errors = [process.communicate(timeout=400)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], errors[0][-4000:]
    return [read_runs(path) for path in paths]


def free_ports(number):
    sockets = [socket.socket() for _ in range(number)]
    try:
        for each in sockets:
            each.bind(("localhost", 0))
        return [str(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


def assert_same_run(got, want, tolerance=1e-5, weights="weight"):
    assert got.keys() == want.keys()
    assert got["updates"] == want["updates"] > 0
    np.testing.assert_allclose(got["metrics"], want["metrics"], rtol=1e-5, atol=1e-6)
    assert len(got["metrics"]) > 0
    compared = [name for name in want if name.startswith(weights)]
    assert len(compared) >= 13
    for name in compared:
        checks.assert_nonzero(want[name], name)
        checks.assert_near(got[name], want[name], tolerance, name)


@pytest.mark.multi_device
@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["sde", "ade", "ade_spl"])
def test_five_steps_on_two_replicas_equal_one_device(replicas, architecture):
    one, two = (replicas[number][architecture] for number in (1, 2))
    assert_same_run(two, one)
    assert one["metrics"].shape == (5, len(StepMetrics.NAMES))
    assert (one["metrics"][:, MASKED] > 0).all(), "nothing is masked"
    assert np.ptp(one["metrics"][:, 0]) > 0.01
    # The steps are short: what changed is compared by itself, too.
    assert_same_run(two, one, tolerance=1e-3, weights="change")


@pytest.mark.multi_device
@pytest.mark.slow
def test_frozen_and_rematerialised_in_chunks_two_replicas_equal_one_device(replicas):
    one, two = (replicas[number]["frozen"] for number in (1, 2))
    assert_same_run(two, one)
    assert_same_run(two, one, tolerance=1e-3, weights="change")
    assert not [name for name in one if "token_embedding" in name]
    for tables in (one["tables"], two["tables"]):  # of each tower, before and after
        checks.assert_nonzero(tables)
        for table in tables[1:]:
            np.testing.assert_array_equal(table, tables[0])


@pytest.mark.multi_device
@pytest.mark.slow
def test_with_adapters_two_replicas_equal_one_device(replicas):
    one, two = (replicas[number]["adapted"] for number in (1, 2))
    # An adapter's B begins at 0: all of it is what changed.
    assert_same_run(two, one, tolerance=1e-4)
    assert_same_run(two, one, tolerance=1e-3, weights="change")
    trained = [name for name in one if name.startswith("weight")]
    assert len(trained) == 2 * (7 * 2 + 1)
    for kernels in (one["kernels"], two["kernels"]):  # of both towers
        checks.assert_nonzero(kernels)
        np.testing.assert_array_equal(kernels[0], kernels[1])


@pytest.mark.multi_device
@pytest.mark.slow
@pytest.mark.parametrize("number", [2, 4])
def test_c13_negatives_come_from_every_replica(replicas, number):
    one, several = replicas[1], replicas[number]
    want = one["no rate"]["metrics"]
    np.testing.assert_allclose(several["no rate"]["metrics"], want, rtol=1e-5)
    np.testing.assert_allclose(several["evaluate"][""], one["evaluate"][""], rtol=1e-5)
    batch = checks.make_batch(8, 2)
    assert want[0, 0] == pytest.approx(float(mean_loss(make_model(), batch)), rel=1e-5)
    halves = [tf.nest.map_structure(lambda x, k=k: x[k : k + 4], batch) for k in (0, 4)]
    few = np.mean([mean_loss(make_model(), half) for half in halves])
    assert want[0, 0] > few + 0.5, "the 4 candidates of one replica would do as well"


@pytest.mark.multi_device
@pytest.mark.slow
@pytest.mark.parametrize("number", [2, 4])
def test_c14_the_gradient_is_that_of_one_device(replicas, number):
    assert_same_run(replicas[number]["gradient"], replicas[1]["gradient"], weights="change")


@pytest.mark.multi_device
@pytest.mark.slow
@pytest.mark.parametrize("number", [2, 4])
def test_c19_clipping_sees_the_gradient_of_the_global_batch(replicas, number):
    got, want = replicas[number]["clipped"], replicas[1]["clipped"]
    changes = {name: value for name, value in got.items() if name.startswith("change")}
    step = np.sqrt(sum(np.sum(value.astype("float64") ** 2) for value in changes.values()))
    assert step == pytest.approx(0.1, rel=1e-3)
    for name, value in changes.items():
        checks.assert_near(value, want[name], 1e-3, name)


@pytest.mark.multi_device
@pytest.mark.slow
@pytest.mark.parametrize("run", ["nine", "thirteen"])
def test_a_ragged_batch_equals_one_device(replicas, run):
    assert_same_run(replicas[2][run], replicas[1][run])
    assert replicas[1][run]["updates"] == {"nine": 1, "thirteen": 2}[run]


@pytest.mark.multi_device
@pytest.mark.slow
def test_replicas_draw_different_dropout_but_the_same_in_every_run(replicas):
    runs = replicas[2]
    dry, wet = ([runs[f"dropout {rate} replica {i}"][""] for i in (0, 1)] for rate in (0.0, 0.5))
    np.testing.assert_array_equal(dry[0], dry[1])  # equal rows on both
    assert np.abs(wet[0] - wet[1]).max() > 0.05
    assert_same_run(runs["dropout first"], runs["dropout again"], 1e-6)


def test_c22_steps_per_execution_is_refused_on_replicas():
    # Keras 3.15 fails there with "You must feed a value for placeholder tensor".
    strategy = SimpleNamespace(num_replicas_in_sync=2)
    model = SimpleNamespace(distribute_strategy=strategy, steps_per_execution=3, jit_compile=False)
    with pytest.raises(ValueError, match="must be 1 on 2 replicas.*Received: steps_per_exec"):
        tensorflow_step.check_replicas(model)


@pytest.mark.multi_device
@pytest.mark.slow
@pytest.mark.parametrize("run", ["chunks of 2", "chunks of 4"])
def test_equal_global_chunks_draw_equally_on_any_number_of_replicas(replicas, run):
    assert_same_run(replicas[2][run], replicas[1][run])


@pytest.mark.multi_device
@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2])
def test_a_large_batch_is_tiled_and_trains_alike(replicas, number):
    assert_same_run(replicas[number]["tiled"], replicas[1]["ade_spl"])


LOSSES = ["pair", "triplet", "gte", "log q", "learned", "learned, tiled", "learned, clipped"]


@pytest.mark.multi_device
@pytest.mark.slow
@pytest.mark.parametrize("run", LOSSES)
def test_every_loss_trains_on_two_replicas_as_on_one_device(replicas, run):
    got, want = (replicas[number][f"loss {run}"] for number in (2, 1))
    assert_same_run(got, want)
    assert_same_run(got, want, tolerance=1e-3, weights="change")
    learned = [name for name in want if "learned_temperature" in name or "temperature/" in name]
    assert len(learned) == (2 if "learned" in run else 0)


@pytest.mark.multi_device
@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2])
def test_a_learned_temperature_keeps_its_range_on_any_number_of_replicas(replicas, number):
    run = replicas[number]["loss learned, to its end"]
    (weight,) = (run[name] for name in run if name.startswith("weight") and "temperature" in name)
    assert weight == 1.0
    assert run["temperature"] == 0.5


@pytest.mark.multi_device
@pytest.mark.slow
@pytest.mark.parametrize("side", ["query", "document"])
def test_replicas_share_texts_outside_of_training(replicas, side):
    one, two = (replicas[number][f"texts {side}"][""] for number in (1, 2))
    assert one.shape == (8, 8)
    np.testing.assert_allclose(two, one, atol=1e-6)


@pytest.mark.multi_device
@pytest.mark.slow
@pytest.mark.parametrize("run", ["sde", "ade", "ade_spl", "chunks of 2", "chunks of 4"])
def test_c17_two_processes_train_as_one_device(workers, replicas, run):
    for worker in workers:
        assert_same_run(worker[run], replicas[1][run])


@pytest.mark.multi_device
@pytest.mark.slow
def test_c17_two_processes_evaluate_as_one_device(workers, replicas):
    for worker in workers:
        np.testing.assert_allclose(
            worker["evaluate"][""], replicas[1]["evaluate"][""], rtol=1e-5, atol=1e-7
        )


@pytest.mark.parametrize(
    ("rows", "columns", "slots", "large"),
    [(4096, 4096, 0, False), (4096, 4097, 0, True), (4096, 4096, 1, True), (None, 9999, 0, False)],
)
def test_what_counts_as_large(rows, columns, slots, large):
    def pairs(num):
        vectors = SimpleNamespace(shape=(num, 8))
        negative = SimpleNamespace(shape=(num, slots, 8)) if slots else None
        return SimpleNamespace(query=vectors, negative=negative)

    assert tensorflow_step.is_large(pairs(rows), pairs(columns)) == large


@pytest.mark.multi_device
@pytest.mark.slow
def test_c22_jit_compile_is_switched_off_with_a_message(replicas):
    messages = [str(x) for x in replicas[2]["jit warnings"][""]]
    assert [m for m in messages if "`jit_compile` is switched off" in m and "2 replicas" in m]
    weights = {name: x for name, x in replicas[2]["jit"].items() if name.startswith("weight")}
    assert all(np.isfinite(x).all() for x in weights.values())
    # The first of the five steps has the same batch.
    np.testing.assert_allclose(
        replicas[2]["jit"]["metrics"][0], replicas[2]["sde"]["metrics"][0], rtol=1e-6
    )


@pytest.mark.multi_device
@pytest.mark.slow
def test_c18_pair_batches_train_on_two_replicas(replicas):
    runs = [dict(replicas[number]["pairs"]) for number in (2, 1)]
    # All vectors are nearly one: which is nearest, rounding decides.
    ranks = [StepMetrics.NAMES.index(name) for name in ("accuracy", "mrr")]
    for run in runs:
        run["metrics"] = np.delete(run["metrics"], ranks, axis=1)
    assert_same_run(*runs)


def test_labels_and_weights_are_refused():
    model, batch = make_model(), checks.make_batch(4)
    dataset = checks.as_dataset([batch]).map(lambda pairs: (pairs, tf.zeros(4)))
    with pytest.raises(ValueError, match="their own labels"):
        model.fit(dataset, verbose=0, shuffle=False)


def test_a_loss_scale_optimizer_is_refused():
    model = make_model(optimizer=keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD()))
    with pytest.raises(ValueError, match="must not be a LossScaleOptimizer"):
        checks.fit(model, [checks.make_batch(4)])


def test_c05_products_are_not_rounded_to_tf32():
    tf.config.experimental.enable_tensor_float_32_execution(True)
    checks.fit(make_model(), [checks.make_batch(4)])
    assert not tf.config.experimental.tensor_float_32_execution_enabled()
