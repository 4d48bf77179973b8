"""Pins of towers.tower: unit vectors that depend on one text alone, shared parts, precision."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from samtone_tf.towers.tower import Tower
from tests import checks

CONFIG = {**checks.TINY, "num_layers": 2, "hidden_dim": 32}


@pytest.fixture(scope="module")
def tower():
    keras.utils.set_random_seed(0)
    made = Tower(CONFIG, embedding_dim=12)
    made.build()
    return made


def batch_of(texts, length):
    token_ids = np.zeros((len(texts), length), "int32")
    for row, ids in enumerate(texts):
        token_ids[row, : len(ids)] = ids
    return {
        "token_ids": token_ids,
        "padding_mask": np.arange(length) < np.array([[len(ids)] for ids in texts]),
    }


SHORT = [5, 9, 33, 1]
LONG = np.random.default_rng(0).integers(3, 50, 500).tolist()


def test_value_is_projection_of_the_mean_at_length_1(tower):
    tokens = batch_of([SHORT, [7, 1]], 6)
    states = tower.encoder(**tokens).numpy()
    means = np.stack([states[0, :4].mean(0), states[1, :2].mean(0)])
    want = means @ tower.projection.kernel.numpy()
    want /= np.linalg.norm(want, axis=1, keepdims=True)
    got = tower(**tokens)
    assert got.dtype == tf.float32
    checks.assert_near(got, want, 1e-5)
    assert not tower.projection.use_bias


@pytest.mark.parametrize("length", [5, 17, 128, 500])
def test_c25_padding_length_changes_no_vector(tower, length):
    alone = tower(**batch_of([SHORT], 4)).numpy()
    np.testing.assert_allclose(tower(**batch_of([SHORT], length)), alone, atol=1e-5)


def test_c25_batch_mates_and_their_order_change_no_vector(tower):
    alone = [tower(**batch_of([text], len(text))).numpy()[0] for text in (SHORT, LONG, [7, 1])]
    for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2]):
        texts = [[SHORT, LONG, [7, 1]][i] for i in order]
        together = tower(**batch_of(texts, 500)).numpy()
        np.testing.assert_allclose(together, [alone[i] for i in order], atol=1e-5)
    assert np.abs(alone[0] - alone[2]).max() > 0.1


def test_padded_ids_change_nothing_and_real_ids_do(tower):
    tokens = batch_of([SHORT], 8)
    before = tower(**tokens).numpy()
    ids = np.where(tokens["padding_mask"], tokens["token_ids"], 44).astype("int32")
    np.testing.assert_array_equal(tower(ids, padding_mask=tokens["padding_mask"]), before)
    for place in range(4):
        ids = tokens["token_ids"].copy()
        ids[0, place] = 40
        after = tower(ids, padding_mask=tokens["padding_mask"]).numpy()
        assert np.abs(after - before).max() > 1e-2


def test_c06_a_text_without_tokens_is_the_zero_vector_and_spoils_no_other(tower):
    vectors = tower(**batch_of([SHORT, []], 6)).numpy()
    np.testing.assert_array_equal(vectors[1], np.zeros(12))
    np.testing.assert_allclose(vectors[0], tower(**batch_of([SHORT], 6)).numpy()[0], atol=1e-6)
    assert np.linalg.norm(vectors[0]) == pytest.approx(1, abs=1e-6)


def test_mixed_bfloat16_vectors_are_float32_and_close(tower):
    half = Tower(CONFIG, embedding_dim=12, dtype="mixed_bfloat16")
    half.build()
    half.set_weights(tower.get_weights())
    tokens = batch_of([SHORT, LONG], 500)
    got, want = half(**tokens), tower(**tokens)
    assert got.dtype == tf.float32
    np.testing.assert_allclose(np.linalg.norm(got, axis=1), [1, 1], atol=1e-6)
    assert ((got.numpy() * want.numpy()).sum(1) > 0.999).all()
    assert np.abs(got.numpy() - want.numpy()).max() > 0
    assert half.projection.kernel.dtype == "float32"
    assert half.projection.compute_dtype == "float32"


@pytest.mark.slow
def test_mixed_bfloat16_vectors_of_twelve_blocks_are_close():
    """The depth of t5.1.1-base, at T5's initial widths; texts of 2 to 128 tokens."""
    keras.utils.set_random_seed(0)
    numbers = {"num_layers": 12, "hidden_dim": 256, "num_heads": 4, "head_dim": 64}
    config = {**numbers, "feedforward_dim": 682, "vocabulary_size": 2000}
    full, half = Tower(config, 256), Tower(config, 256, dtype="mixed_bfloat16")
    for made in (full, half):
        made.build()
    half.set_weights(full.get_weights())
    rng = np.random.default_rng(0)
    tokens = checks.make_tokens(rng, 24, 128, vocabulary_size=2000)
    tokens["token_ids"][0] = rng.integers(3, 2000, 128)
    tokens["padding_mask"][0] = True
    tokens["padding_mask"][1, 2:] = False
    want, got = full(**tokens).numpy(), half(**tokens).numpy()
    cosine = (want * got).sum(1)
    assert cosine.min() > 0.9995
    assert cosine.max() < 1 - 1e-6, "nothing was rounded"
    # The texts are no more alike than that: a cosine near 1 would say nothing.
    assert np.abs((want @ want.T)[np.triu_indices(24, 1)]).max() < 0.9


def test_shared_parts_are_the_same_objects(tower):
    other = Tower(CONFIG, 12, shared={"encoder": tower.parts["encoder"]})
    other.build()
    assert other.encoder.stack is tower.encoder.stack
    assert other.encoder.token_embedding is not tower.encoder.token_embedding
    assert other.projection is not tower.projection


def test_initial_width_of_the_projection():
    tower = Tower({**CONFIG, "hidden_dim": 128}, embedding_dim=256)
    tower.build()
    kernel = tower.projection.kernel.numpy()
    assert kernel.shape == (128, 256)
    assert kernel.std() == pytest.approx(128**-0.5, rel=0.02)


def test_config_round_trip():
    tower = Tower(CONFIG, embedding_dim=12, dtype="mixed_bfloat16", name="query_tower")
    revived = checks.assert_config_round_trip(tower)
    assert revived.embedding_dim == 12
    assert revived.encoder.config == tower.encoder.config
    assert revived.dtype_policy == tower.dtype_policy


def test_a_batch_of_length_1_is_silent(tower):
    alone = tower(**batch_of([[1]], 1)).numpy()  # warnings are errors
    np.testing.assert_allclose(alone, tower(**batch_of([[1]], 5)), atol=1e-5)
