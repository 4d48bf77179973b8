"""Pins of losses.tiled: the numbers and gradients of `loss.rows`, any tile size, one graph, XLA."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from samtone_tf.losses.contrastive import InBatchSoftmax, SamToNe
from samtone_tf.losses.inputs import PairVectors
from samtone_tf.losses.tiled import tiled_rows
from tests import checks
from tests.losses import oracle
from tests.losses.cases import CASES, SOFTMAX, as_pairs, make_ids, make_log_q, make_vectors
from tests.losses.test_contrastive import ALL, FORMS, make_loss

FIRST, NUM_ROWS, NUM_PAIRS = 3, 7, 12  # the local rows are 3 to 9 of 12 pairs
TILES = [1, 3, 4, 7, 100]  # 3 and 4 do not divide 7: the last tile is padded


def make_columns(seed=0, num_pairs=NUM_PAIRS, num_negatives=2, given=None):
    """Pairs whose ids collide; of the ids, only the `given` ones."""
    rng = np.random.default_rng(seed)
    ids = make_ids(rng, num_pairs, num_negatives)
    ids = {name: value for name, value in ids.items() if given is None or name in given}
    vectors = make_vectors(rng, num_pairs, num_negatives)
    return as_pairs(vectors, {**ids, **make_log_q(rng, num_pairs)})


def slice_rows(pairs, first=FIRST, size=NUM_ROWS):
    return tf.nest.map_structure(lambda x: None if x is None else x[first : first + size], pairs)


def results(function, rows, columns, first_row, weights):
    """RowLosses, and gradients of the weighted loss with respect to all vectors, one by one."""
    with tf.GradientTape() as tape:
        vectors = {
            f"{name} of {side}": tf.identity(getattr(pairs, name))
            for side, pairs in [("rows", rows), ("columns", columns)]
            for name in ("query", "document", "negative")
            if getattr(pairs, name) is not None
        }
        tape.watch(vectors)
        rows, columns = (
            pairs._replace(**{n.split()[0]: v for n, v in vectors.items() if n.endswith(side)})
            for side, pairs in [("rows", rows), ("columns", columns)]
        )
        found = function(rows, columns, first_row)
        total = tf.reduce_sum(found.loss * weights)
    gradients = tape.gradient(total, vectors, unconnected_gradients="zero")
    return found, gradients


def in_a_graph(loss, tile_size, **arguments):
    """`tiled_rows` with first_row as a tensor, as a replica has it."""

    def function(rows, columns, first_row):
        return tiled_rows(loss, rows, columns, first_row, tile_size=tile_size)

    @tf.function(**arguments)
    def graph(rows, columns, first_row, weights):
        return results(function, rows, columns, first_row, weights)

    return graph


def check_equal(got, want, temperature):
    """Values to 1e-6 / temperature, gradients to 1e-5 of the largest."""
    rows, gradients = got
    wanted_rows, wanted_gradients = want
    assert rows.loss.dtype == tf.float32
    np.testing.assert_allclose(rows.loss, wanted_rows.loss, rtol=0, atol=1e-6 / temperature)
    np.testing.assert_array_equal(rows.correct, wanted_rows.correct)
    np.testing.assert_allclose(rows.masked, wanted_rows.masked, rtol=1e-6)
    assert set(gradients) == set(wanted_gradients)
    for name, wanted in wanted_gradients.items():
        # The rest is 0 in some losses: then the tiles must give exactly 0, too.
        if name in ("query of rows", "document of rows", "document of columns"):
            checks.assert_nonzero(wanted, name)
        checks.assert_near(gradients[name], wanted, 1e-5, name)


def check_against_rows(loss, columns, tile_size, graph=in_a_graph):
    rows = slice_rows(columns)
    weights = tf.constant(np.random.default_rng(1).uniform(0.2, 2, NUM_ROWS).astype("float32"))
    want = results(loss.rows, rows, columns, FIRST, weights)
    got = graph(loss, tile_size)(rows, columns, tf.constant(FIRST), weights)
    check_equal(got, want, loss.temperature)
    return want


# --- the numbers of loss.rows ----------------------------------------------------------------


@pytest.mark.parametrize("tile_size", TILES)
@pytest.mark.parametrize(("same_tower", "bidirectional"), FORMS)
def test_values_and_gradients_are_those_of_rows(same_tower, bidirectional, tile_size):
    loss = make_loss(same_tower, temperature=0.05, bidirectional=bidirectional)
    found, _ = check_against_rows(loss, make_columns(), tile_size)
    assert 0 < found.masked.numpy().max() < 1


@pytest.mark.parametrize("directions", ["sum", "mean"])
@pytest.mark.parametrize("scope", ["global", "own"])
@pytest.mark.parametrize("num_negatives", [0, 1, 3])
def test_every_option_of_negatives_and_directions(num_negatives, scope, directions):
    loss = SamToNe(0.05, "both", directions=directions, negatives_scope=scope)
    check_against_rows(loss, make_columns(2, num_negatives=num_negatives), 3)


@pytest.mark.parametrize("masks", [ALL, ("id",), ("positives",), ()], ids="+".join)
def test_every_mask_rule(masks):
    check_against_rows(SamToNe(0.05, "both", masks=masks), make_columns(3), 3)


@pytest.mark.parametrize(
    "given", [(), ("query_id",), ("document_id", "positive_ids"), ("negative_id",)], ids="+".join
)
def test_ids_that_are_absent_mask_nothing(given):
    check_against_rows(SamToNe(0.05, "both"), make_columns(4, given=given), 3)


@pytest.mark.parametrize("temperature", [1.0, 0.01])
def test_other_temperatures(temperature):
    check_against_rows(SamToNe(temperature, "both"), make_columns(5), 3)


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_every_loss_with_margin_and_log_q(case):
    options = {"log_q": True} if case.has_temperature else {"margin": 1.2}
    found, _ = check_against_rows(case.make(similarity_margin=0.5, **options), make_columns(8), 3)
    assert 0 < found.masked.numpy().max() < 1


@pytest.mark.parametrize(
    ("name", "jit_compile"), [*((name, False) for name in SOFTMAX), ("samtone", True)]
)
def test_a_temperature_that_is_given_has_a_gradient(name, jit_compile):
    loss, columns = SOFTMAX[name].make(), make_columns(9)
    rows, weights = slice_rows(columns), tf.random.uniform((NUM_ROWS,), seed=1)

    @tf.function(jit_compile=jit_compile)
    def both(temperature):
        found = []
        for function in (loss.rows, lambda *a: tiled_rows(loss, *a, tile_size=3)):
            with tf.GradientTape() as tape:
                tape.watch(temperature)
                value = function(rows, columns, FIRST, temperature).loss
                total = tf.reduce_sum(value * weights)
            found.append((value, tape.gradient(total, temperature)))
        return found

    (want, slope), (got, slope_of_tiles) = both(tf.constant(0.2))
    np.testing.assert_allclose(got, want, atol=1e-5)
    assert np.abs(got - loss.rows(rows, columns, FIRST).loss).max() > 0.1  # not its own, 0.05
    checks.assert_nonzero(slope)
    np.testing.assert_allclose(slope_of_tiles, slope, rtol=1e-5)


def test_without_a_graph():
    def eager(loss, tile_size):
        def function(rows, columns, first_row):
            return tiled_rows(loss, rows, columns, first_row, tile_size=tile_size)

        return lambda *arguments: results(function, *arguments)

    check_against_rows(SamToNe(0.05, "both"), make_columns(), 3, eager)


def test_under_xla():
    def compiled(loss, tile_size):
        return in_a_graph(loss, tile_size, jit_compile=True)

    check_against_rows(SamToNe(0.05, "both"), make_columns(), 3, compiled)


def test_rows_of_unknown_number():
    # A dataset with a ragged last batch: the number of rows is known in the graph only.
    def ragged(loss, tile_size):
        rows = slice_rows(make_columns())
        spec = tf.nest.map_structure(lambda x: tf.TensorSpec((None, *x.shape[1:]), x.dtype), rows)
        specs = [spec, spec, tf.TensorSpec((), "int32"), tf.TensorSpec((None,), "float32")]
        return in_a_graph(loss, tile_size, input_signature=specs)

    check_against_rows(SamToNe(0.05, "both"), make_columns(), 3, ragged)


@pytest.mark.parametrize(("same_tower", "bidirectional"), FORMS)
def test_where_rows_are_the_columns_both_gradients_add_up(same_tower, bidirectional):
    columns = make_columns(6)
    loss = make_loss(same_tower, temperature=0.05, bidirectional=bidirectional)

    def gradients(function):
        vectors = dict(zip(("query", "document", "negative"), columns[:3], strict=True))
        with tf.GradientTape() as tape:
            tape.watch(vectors)
            pairs = columns._replace(**vectors)
            value = tf.reduce_sum(function(pairs, pairs).loss)
        return tape.gradient(value, vectors)

    want = gradients(loss.rows)
    got = gradients(lambda rows, columns: tiled_rows(loss, rows, columns, tile_size=5))
    for name in want:
        checks.assert_nonzero(want[name], name)
        checks.assert_near(got[name], want[name], 1e-5, name)


def test_embeddings_of_half_precision_get_gradients_of_their_own_type():
    columns = make_columns(given=())._replace(negative=None)
    half = PairVectors(tf.cast(columns.query, "bfloat16"), tf.cast(columns.document, "bfloat16"))
    loss = SamToNe(0.05)
    with tf.GradientTape() as tape:
        tape.watch(half.query)
        found = tiled_rows(loss, half, half, tile_size=5)
    np.testing.assert_allclose(found.loss, loss.rows(half, half).loss, atol=1e-6 / 0.05)
    assert tape.gradient(found.loss, half.query).dtype == tf.bfloat16


class LearnsItsTemperature(InBatchSoftmax):
    """A loss with a variable: what it learns must see every tile."""

    def __init__(self):
        super().__init__()
        self.temperature = keras.Variable(0.05)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_variables_of_the_loss_get_their_gradient(jit_compile):
    loss, columns = LearnsItsTemperature(), make_columns()

    @tf.function(jit_compile=jit_compile)
    def both():
        found = []
        for function in (loss.rows, lambda *a: tiled_rows(loss, *a, tile_size=5)):
            with tf.GradientTape() as tape:
                value = tf.reduce_sum(function(columns, columns).loss)
            found.append(tape.gradient(value, loss.temperature.value))
        return found

    want, got = both()
    checks.assert_nonzero(want)
    np.testing.assert_allclose(got, want, rtol=1e-5)


# --- precision and edges ---------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [1.0, 0.05, 0.01])
@pytest.mark.parametrize("same_tower", [None, "query", "both"])
def test_error_against_float64_is_at_most_a_millionth_over_the_temperature(same_tower, temperature):
    rng = np.random.default_rng(7)
    vectors, ids = make_vectors(rng, 40, 1, dim=64), make_ids(rng, 40, 1)
    arguments = {"same_tower": same_tower, "temperature": temperature}
    want, correct = oracle.contrastive(**vectors, **ids, **arguments)
    pairs = as_pairs(vectors, ids)
    found = tiled_rows(make_loss(**arguments), pairs, pairs, tile_size=16)
    # The number itself, 8.7 here, has a last place of 1e-6: at temperature 1 that counts, too.
    last_place = np.finfo("float32").eps
    np.testing.assert_allclose(found.loss, want, rtol=last_place, atol=1e-6 / temperature)
    np.testing.assert_array_equal(found.correct, correct)


@pytest.mark.parametrize(("same_tower", "bidirectional"), FORMS)
def test_one_pair_alone_has_loss_0_and_gradient_0(same_tower, bidirectional):
    loss = make_loss(same_tower, temperature=0.01, bidirectional=bidirectional)
    pairs = make_columns(num_pairs=1, num_negatives=0)
    found, gradients = results(
        lambda *a: tiled_rows(loss, *a, tile_size=4), pairs, pairs, 0, tf.ones(1)
    )
    assert found.loss.numpy().tolist() == [0.0]
    assert found.correct.numpy().tolist() == [1.0]
    for name in ("query", "document"):  # a pair is row and column at once
        both = gradients[f"{name} of rows"] + gradients[f"{name} of columns"]
        np.testing.assert_array_equal(both, 0)


def test_the_graph_does_not_grow_with_the_number_of_tiles():
    columns = make_columns(num_pairs=64)

    def count(num_rows):
        rows = slice_rows(columns, 0, num_rows)
        graph = in_a_graph(SamToNe(0.05, "both"), 4)
        traced = graph.get_concrete_function(rows, columns, tf.constant(0), tf.ones(num_rows))
        definition = traced.graph.as_graph_def()
        inner = sum(len(function.node_def) for function in definition.library.function)
        return len(definition.node) + inner

    assert count(8) == count(64) > 100  # 2 tiles and 16


def test_no_logit_outlives_its_tile():
    # Every tensor outside the loops, and every value they carry, has fewer than B·G numbers.
    columns = make_columns(num_pairs=64, num_negatives=0)
    graph = in_a_graph(SamToNe(0.05, "both"), 4)
    traced = graph.get_concrete_function(columns, columns, tf.constant(0), tf.ones(64))
    loops = [op for op in traced.graph.get_operations() if op.type in ("While", "StatelessWhile")]
    assert len(loops) == 2
    for operation in traced.graph.get_operations():
        for output in operation.outputs:
            assert output.shape.num_elements() is None or output.shape.num_elements() < 64 * 64
        if operation in loops:
            assert operation.get_attr("parallel_iterations") == 1


def test_a_tile_of_no_rows_is_refused():
    columns = make_columns()
    with pytest.raises(ValueError, match="Received: tile_size=0"):
        tiled_rows(SamToNe(), columns, columns, tile_size=0)
