"""Pins of training with low-rank adapters: gradients, what is at rest, saving, kinds of step."""

import keras
import numpy as np
import pytest

from samtone_tf.dual_encoder import DualEncoder
from samtone_tf.encoder_config import EncoderConfig
from samtone_tf.losses.contrastive import SamToNe
from samtone_tf.merge import merged
from samtone_tf.optimizers.adafactor import Adafactor
from tests import checks

RANK, ALPHA = 4, 6.0
RATE = 0.01


def make_model(
    architecture="sde", optimizer=None, fill=True, remat=False, dropout=0.0, **arguments
):
    keras.utils.set_random_seed(0)
    encoder = EncoderConfig.make(
        checks.TINY,
        lora_rank=RANK,
        lora_alpha=ALPHA,
        lora_targets="all",
        remat=remat,
        dropout=dropout,
    )
    model = DualEncoder(encoder, architecture, embedding_dim=8, name="model", **arguments)
    random = np.random.default_rng(0)
    for variable in model.trainable_variables if fill else []:
        if variable.name == "lora_b":
            variable.assign(random.normal(size=variable.shape) * 0.3)
    model.compile(optimizer or keras.optimizers.SGD(RATE), loss=SamToNe(0.05, same_tower="both"))
    return model


def values(model):
    return {v.path: v.numpy() for v in model.weights}


def change(model, batch):
    """What one step adds to each variable."""
    before = values(model)
    checks.fit(model, [batch])
    return {path: value - before[path] for path, value in values(model).items()}


@pytest.mark.parametrize("architecture", ["sde", pytest.param("ade", marks=pytest.mark.slow)])
def test_a_step_is_that_of_the_sum_by_the_chain_rule(architecture):
    """With W' = W + s A B: dA = s dW' Bᵀ and dB = s Aᵀ dW'; dW' is a plain model's, with SGD."""
    model = make_model(architecture)
    plain = merged(model)
    plain.compile(keras.optimizers.SGD(RATE), loss=SamToNe(0.05, same_tower="both"))
    before, batch = values(model), checks.make_batch(6)
    of_sum, found = change(plain, batch), change(model, batch)
    scale = ALPHA / RANK
    seen = 0
    for path, kernel_change in of_sum.items():
        a, b = (before.get(path.replace("kernel", name)) for name in ("lora_a", "lora_b"))
        if a is None or a is before[path]:
            continue
        seen += 1
        got = [found[path.replace("kernel", name)] for name in ("lora_a", "lora_b")]
        for one, want in zip(
            got, [scale * kernel_change @ b.T, scale * a.T @ kernel_change], strict=True
        ):
            checks.assert_nonzero(want, path)
            checks.assert_near(one, want, 2e-3, path)  # differences of float32 weights
        assert not found[path].any(), path
    assert seen == 7 * (1 + (architecture == "ade"))


@pytest.mark.parametrize(
    ("architecture", "optimizer"), [("ade", keras.optimizers.Adam), ("ade_spl", Adafactor)]
)
def test_adapters_and_projection_train_and_all_else_stays_to_the_bit(architecture, optimizer):
    model = make_model(architecture, optimizer(0.01), fill=False)
    batches = [checks.make_batch(4, seed=seed) for seed in range(2)]
    before = values(model)
    checks.fit(model, batches)
    for path, value in values(model).items():
        trains = path.endswith(("lora_a", "lora_b", "projection/kernel"))
        assert np.array_equal(value, before[path]) != trains, path
    trainable = sum(int(np.prod(v.shape)) for v in model.trainable_variables)
    slots = sum(int(np.prod(v.shape)) for v in model.optimizer.variables)
    assert slots == (2 if optimizer is keras.optimizers.Adam else 1) * trainable + 2


def test_a_frozen_projection_leaves_the_adapters():
    model = make_model("ade", freeze="projection,token_embedding")
    assert {v.name for v in model.trainable_variables} == {"lora_a", "lora_b"}
    parts = [tower.projection.kernel for tower in (model.query_tower, model.document_tower)]
    np.testing.assert_array_equal(*parts)


def test_adapters_and_a_frozen_encoder_contradict_each_other():
    with pytest.raises(ValueError, match=r"`freeze` must not hold encoder.*lora_rank=4.*Take"):
        make_model(freeze="encoder")


def test_what_two_towers_do_not_train_starts_equal_and_their_adapters_apart():
    model = make_model("ade", fill=False)
    query, document = (
        {v.path.partition("_tower/")[2]: v for v in tower.weights}
        for tower in (model.query_tower, model.document_tower)
    )
    for name, variable in query.items():
        assert variable is not document[name]
        apart = name.endswith("lora_a") or name == "projection/kernel"
        assert np.array_equal(variable, document[name]) != apart, name
    shared = make_model(["encoder"])
    assert shared.query_tower.parts["encoder"] is shared.document_tower.parts["encoder"]
    assert sum(v.name == "lora_a" for v in shared.trainable_variables) == 7


@pytest.mark.parametrize(
    "arguments",
    [
        {"remat": True, "gradient_cache_chunk": 2},
        pytest.param({"remat": True}, marks=pytest.mark.slow),
        pytest.param({"gradient_cache_chunk": 2}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_recomputed_and_in_chunks_the_step_is_the_same(arguments):
    batch = checks.make_batch(4)
    want, got = (change(make_model("ade_spl", **a), batch) for a in ({}, arguments))
    for path, difference in want.items():
        np.testing.assert_allclose(got[path], difference, atol=1e-6, err_msg=path)
    assert max(np.abs(x).max() for x in want.values()) > 1e-3


@pytest.mark.slow
def test_dropout_in_recomputed_chunks_repeats_to_the_bit():
    batch = checks.make_batch(4)
    first, again = (
        change(make_model(dropout=0.3, remat=True, gradient_cache_chunk=2), batch) for _ in range(2)
    )
    dry = change(make_model(remat=True, gradient_cache_chunk=2), batch)
    for path, difference in first.items():
        np.testing.assert_array_equal(again[path], difference)
    assert max(np.abs(dry[path] - first[path]).max() for path in first) > 1e-4


def test_mixed_bfloat16_trains_close_to_float32():
    batch = checks.make_batch(6)
    full, half = (make_model(dtype=dtype) for dtype in ("float32", "mixed_bfloat16"))
    for side, vectors in full(batch).items():
        assert (np.sum(half(batch)[side] * vectors, axis=-1) > 0.999).all()
    found = change(half, batch)
    trains = [x for path, x in found.items() if path.endswith(("lora_a", "lora_b"))]
    assert all(np.isfinite(x).all() and x.any() for x in trains)


def test_a_saved_model_goes_on_to_the_bit(tmp_path):
    model = make_model("ade", keras.optimizers.Adam(0.01), dropout=0.2)
    batch = checks.make_batch(4)
    checks.fit(model, [batch] * 2)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.encoder_config == model.encoder_config
    for step in range(2):
        if step:
            for one in (model, loaded):
                checks.fit(one, [batch])
        assert list(values(loaded)) == list(values(model))
        for path, value in values(model).items():
            np.testing.assert_array_equal(values(loaded)[path], value, f"{step} {path}")
    places = [[v.trainable for v in one.weights] for one in (loaded, model)]
    assert places[0] == places[1]
