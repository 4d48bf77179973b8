"""Pins of tensorflow_encode: gradient caching gives the gradients of the plain step."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from samtone_tf import tensorflow_encode, tensorflow_step
from samtone_tf.dual_encoder import DualEncoder
from samtone_tf.losses.contrastive import InBatchSoftmax, SamToNe
from samtone_tf.losses.gte import Gte
from samtone_tf.losses.pair import Pair
from samtone_tf.losses.triplet import Triplet
from tests import checks

LOSSES = {
    "softmax": InBatchSoftmax(0.05),
    "query": SamToNe(0.05),
    "both": SamToNe(0.05, same_tower="both"),
    "pair": Pair(0.05, other_queries=True),
    "triplet": Triplet(0.9, "both", "mean"),
    "gte": Gte(0.05),
    "margin": SamToNe(0.05, similarity_margin=0.05),
}


def make_model(
    chunk=None,
    architecture="sde",
    dropout=0.0,
    loss=LOSSES["both"],
    num_layers=1,
    remat=False,
    freeze=(),
    dtype="float32",
    **arguments,
):
    """Equal weights at every call."""
    keras.utils.set_random_seed(0)
    model = DualEncoder(
        {**checks.TINY, "num_layers": num_layers},
        architecture,
        embedding_dim=8,
        dropout=dropout,
        gradient_cache_chunk=chunk,
        remat=remat,
        freeze=freeze,
        dtype=dtype,
        name="model",
    )
    model.compile(keras.optimizers.SGD(0.01), loss=loss, **arguments)
    return model


def step_gradients(model, batch):
    """Gradients as the step computes them, in a graph."""

    @tf.function
    def run():
        local, pull_back = tensorflow_encode.encode_for_training(model, batch)
        return pull_back(upstream_of(model, local, batch))

    return [gradient.numpy() for gradient in run()]


def upstream_of(model, local, batch):
    with tf.GradientTape() as tape:
        tape.watch(local)
        rows, columns = tensorflow_step.global_loss(model, local, batch)
        loss = tf.reduce_sum(rows.loss) / tensorflow_step.count_pairs(columns)
    return tape.gradient(loss, local)


def one_tape_gradients(model, batch, chunk):
    """One tape over the same chunks and draws, joined, and no cache."""
    num = batch["query"]["token_ids"].shape[0]
    with tf.GradientTape() as tape:
        parts = []
        for i in range(num // chunk):
            rows = tf.nest.map_structure(lambda x, i=i: x[i * chunk : (i + 1) * chunk], batch)
            parts.append(tensorflow_encode.encode(model, rows, True, chunk=i))
        local = {name: tf.concat([part[name] for part in parts], 0) for name in parts[0]}
        rows, columns = tensorflow_step.global_loss(model, local, batch)
        loss = tf.reduce_sum(rows.loss) / tensorflow_step.count_pairs(columns)
    weights = [variable.value for variable in model.trainable_variables]
    return [tf.convert_to_tensor(g).numpy() for g in tape.gradient(loss, weights)]


def check_near(got, want, names, tolerance=1e-5):
    for gradient, expected, name in zip(got, want, names, strict=True):
        assert np.abs(expected).max() > 0, name  # nothing is compared with nothing
        np.testing.assert_allclose(
            gradient, expected, rtol=0, atol=tolerance * np.abs(expected).max(), err_msg=name
        )


def nodes_of_step(model, batch):
    """Every node of a training step's graph, those of its loops' bodies included."""
    batch = checks.as_tensors(batch)
    step = tf.function(lambda: tensorflow_step.train_step(model, batch))
    graph = step.get_concrete_function().graph.as_graph_def()
    return [*graph.node, *(node for body in graph.library.function for node in body.node_def)]


def names_of(model):
    return [variable.path for variable in model.trainable_variables]


@pytest.mark.parametrize("chunk", [1, 2, 4, 8])
@pytest.mark.parametrize("architecture", ["sde", "ade_spl"])
def test_any_chunk_gives_the_plain_gradients(architecture, chunk):
    batch = checks.as_tensors(checks.make_batch(8, 2))
    plain, cached = make_model(None, architecture), make_model(chunk, architecture)
    want = step_gradients(plain, batch)
    check_near(step_gradients(cached, batch), want, names_of(plain))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("num_negatives", [0, 2])
def test_every_loss_and_hard_negatives(loss, num_negatives):
    batch = checks.as_tensors(checks.make_batch(6, num_negatives))
    plain, cached = make_model(None, loss=LOSSES[loss]), make_model(2, loss=LOSSES[loss])
    want = step_gradients(plain, batch)
    check_near(step_gradients(cached, batch), want, names_of(plain))


@pytest.mark.parametrize("chunk", [2, 4, 8])
@pytest.mark.parametrize("architecture", ["sde", "ade"])
def test_c10_the_second_pass_draws_the_masks_of_the_first(architecture, chunk):
    batch = checks.as_tensors(checks.make_batch(8, 1))
    model = make_model(chunk, architecture, dropout=0.5)
    want = one_tape_gradients(model, batch, chunk)
    check_near(step_gradients(model, batch), want, names_of(model))
    # The draws matter: without dropout, or in other chunks, it is another gradient.
    dry = step_gradients(make_model(chunk, architecture), batch)
    assert np.abs(dry[0] - want[0]).max() > 1e-2 * np.abs(want[0]).max()


def test_training_in_chunks_is_training():
    batches = [checks.make_batch(8, 2, seed) for seed in range(4)]
    plain, cached = make_model(None), make_model(4)
    for model in (plain, cached):
        checks.fit(model, batches)
    for got, want, name in zip(
        cached.get_weights(), plain.get_weights(), [w.path for w in plain.weights], strict=True
    ):
        np.testing.assert_allclose(got, want, atol=1e-5 * np.abs(want).max(), err_msg=name)


def test_metrics_in_chunks_are_those_of_the_whole():
    batch = checks.make_batch(8, 2)
    plain, cached = checks.fit(make_model(None), [batch]), checks.fit(make_model(2), [batch])
    assert cached == pytest.approx(plain, rel=1e-5)


def test_the_graph_does_not_grow_with_the_number_of_chunks():
    def num_nodes(size):
        return len(nodes_of_step(make_model(2, dropout=0.1), checks.make_batch(size, 1)))

    assert num_nodes(4) == num_nodes(16)


def test_the_chunk_must_divide_the_rows():
    batch = checks.as_tensors(checks.make_batch(6))
    with pytest.raises(ValueError, match="must divide.*gradient_cache_chunk=4, 6 rows"):
        tensorflow_encode.encode_for_training(make_model(4), batch)


def test_rows_of_a_varying_number_are_chunked_if_they_divide():
    """As two processes see them: TensorFlow's split of a dataset has no static shape."""
    model, plain = make_model(4), make_model(None)
    batches = [checks.as_tensors(checks.make_batch(size, 1)) for size in (8, 4, 6)]
    spec = tf.nest.map_structure(lambda x: tf.TensorSpec([None, *x.shape[1:]], x.dtype), batches[0])

    @tf.function(input_signature=[spec])
    def gradients(batch):
        local, pull_back = tensorflow_encode.encode_for_training(model, batch)
        return pull_back(upstream_of(model, local, batch))

    for batch in batches[:2]:
        got = [gradient.numpy() for gradient in gradients(batch)]
        check_near(got, step_gradients(plain, batch), names_of(plain))
    with pytest.raises(tf.errors.InvalidArgumentError, match="must divide the rows"):
        gradients(batches[2])


def test_a_chunk_below_one_is_refused():
    with pytest.raises(ValueError, match="`gradient_cache_chunk` must be at least 1"):
        DualEncoder(checks.TINY, gradient_cache_chunk=0)


def test_run_eagerly():
    batch = checks.make_batch(4)
    graph, eager = make_model(2), make_model(2, run_eagerly=True)
    assert checks.fit(eager, [batch]) == pytest.approx(checks.fit(graph, [batch]), rel=1e-5)


def test_texts_outside_of_training_have_no_dropout_and_the_weights_of_now():
    model = make_model(architecture="ade", dropout=0.5)
    batch = checks.make_batch(4, 0)
    state = [variable.numpy() for variable in model.non_trainable_variables]
    for side, encode in (("query", model.encode_query), ("document", model.encode_document)):
        to_vectors = tensorflow_encode.make_text_encoder(model, side)
        for change in (0.0, 0.5):
            for variable in model.trainable_variables:
                variable.assign_add(change * tf.ones_like(variable.value))
            found = to_vectors(batch[side])
            assert isinstance(found, np.ndarray)
            np.testing.assert_allclose(found, encode(batch[side]), atol=1e-6)
    for variable, before in zip(model.non_trainable_variables, state, strict=True):
        np.testing.assert_array_equal(variable.numpy(), before)


# --- rematerialisation ---------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [None, 4])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_recomputed_activations_give_the_plain_gradients(dropout, chunk):
    batch = checks.as_tensors(checks.make_batch(8, 1))
    arguments = dict(chunk=chunk, architecture="ade_spl", dropout=dropout, num_layers=3)
    plain = make_model(**arguments)
    want = step_gradients(plain, batch)
    got = step_gradients(make_model(**arguments, remat=True), batch)
    # Rounding: TensorFlow fuses other operations in the larger graph. Outside of a graph the
    # two are equal to 1e-6 (towers/test_rematerialise.py).
    check_near(got, want, names_of(plain), tolerance=3e-6)


@pytest.mark.parametrize("chunk", [None, 4])
def test_recomputing_trains_as_keeping_does(chunk):
    batches = [checks.make_batch(8, 2, seed) for seed in range(3)]
    models = [make_model(chunk, dropout=0.5, num_layers=2, remat=remat) for remat in (False, True)]
    start = models[0].get_weights()
    for model in models:
        checks.fit(model, batches)
    for before, want, got, weight in zip(
        start, *(model.get_weights() for model in models), models[0].weights, strict=True
    ):
        assert np.abs(want - before).max() > 0, weight.path
        checks.assert_near(got, want, 3e-6, weight.path)


@pytest.mark.parametrize("chunk", [None, 4])
def test_recomputing_makes_the_graph_larger_by_less_than_itself(chunk):
    batch = checks.make_batch(8, 1)
    plain, remat = (
        len(nodes_of_step(make_model(chunk, dropout=0.1, num_layers=4, remat=remat), batch))
        for remat in (False, True)
    )
    assert 1.05 * plain < remat < 1.8 * plain


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("mixed_bfloat16", 0.05)])
def test_recomputing_works_under_xla_in_chunks_and_in_bfloat16(dtype, tolerance):
    batch = checks.as_tensors(checks.make_batch(4, 0))
    arguments = dict(chunk=2, dropout=0.5, dtype=dtype)
    plain, remat = make_model(**arguments), make_model(**arguments, remat=True)

    def gradients(model):
        @tf.function(jit_compile=True)
        def run():
            local, pull_back = tensorflow_encode.encode_for_training(model, batch)
            return pull_back(upstream_of(model, local, batch))

        return [gradient.numpy() for gradient in run()]

    check_near(gradients(remat), gradients(plain), names_of(plain), tolerance)


# --- frozen parts --------------------------------------------------------------------------


@pytest.mark.parametrize("remat", [False, True])
@pytest.mark.parametrize("chunk", [None, 4])
@pytest.mark.parametrize("part", ["token_embedding", "encoder", "projection"])
def test_what_is_not_frozen_has_the_gradient_it_always_had(part, chunk, remat):
    batch = checks.as_tensors(checks.make_batch(8, 1))
    plain = make_model(None, dropout=0.0)
    want = dict(zip(names_of(plain), step_gradients(plain, batch), strict=True))
    frozen = make_model(chunk, freeze=[part], remat=remat)
    held = {v.path for v in frozen.query_tower.parts[part].weights}
    assert held
    assert names_of(frozen) == [name for name in names_of(plain) if name not in held]
    got = step_gradients(frozen, batch)
    check_near(got, [want[name] for name in names_of(frozen)], names_of(frozen))


def test_a_frozen_table_costs_no_gradient_of_its_size():
    batch = checks.as_tensors(checks.make_batch(8, 1))
    shape = (checks.TINY["vocabulary_size"], checks.TINY["hidden_dim"])

    def table_sized(**arguments):
        model = make_model(None, "ade", **arguments)
        step = tf.function(lambda: tensorflow_step.train_step(model, batch))
        operations = step.get_concrete_function().graph.get_operations()
        return [
            operation.type
            for operation in operations
            if [x for x in operation.outputs if x.dtype == tf.float32 and x.shape == shape]
        ]

    assert set(table_sized()) - {"ReadVariableOp"}
    assert set(table_sized(freeze="token_embedding")) <= {"ReadVariableOp"}
