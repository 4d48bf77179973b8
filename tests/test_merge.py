"""Pins of merge: a model without adapters that gives the vectors of the one with them."""

import keras
import numpy as np
import pytest

from samtone_tf.dual_encoder import DualEncoder
from samtone_tf.encoder_config import EncoderConfig
from samtone_tf.losses.contrastive import SamToNe
from samtone_tf.merge import merged
from tests import checks


def make_model(architecture="ade_spl", targets="all", **arguments):
    encoder = EncoderConfig.make(
        checks.TINY, num_layers=2, lora_rank=4, lora_alpha=6.0, lora_targets=targets
    )
    model = DualEncoder(encoder, architecture, embedding_dim=8, **arguments)
    random = np.random.default_rng(0)
    for variable in model.trainable_variables:
        if variable.name == "lora_b":  # as after many steps
            variable.assign(random.normal(size=variable.shape) * 0.3)
    return model


@pytest.mark.parametrize(
    ("architecture", "targets"),
    [("sde", "query_value"), ("ade", "all"), ("ade_spl", "all"), (["encoder"], "all")],
    ids=str,
)
def test_a_merged_model_gives_the_same_vectors_without_adapters(architecture, targets):
    model = make_model(architecture, targets)
    plain = merged(model)
    assert not [v.path for v in plain.weights if "lora" in v.path]
    assert plain.encoder_config == EncoderConfig.make(checks.TINY, num_layers=2)
    assert plain.architecture == model.architecture
    batch = checks.make_batch(5)
    for side, vectors in model(batch).items():
        np.testing.assert_allclose(plain(batch)[side], vectors, atol=2e-6, err_msg=side)
    assert np.abs(without_adapters(model)(batch)["query"] - model(batch)["query"]).max() > 0.01


def without_adapters(model):
    """The same model with every B at 0."""
    other = DualEncoder.from_config(model.get_config())
    for ours, theirs in zip(other.weights, model.weights, strict=True):
        ours.assign(theirs.numpy() * (ours.name != "lora_b"))
    return other


def test_a_kernel_is_w_and_its_adapter_and_all_else_is_the_same():
    model = make_model("ade")
    plain = {v.path: v for v in merged(model).weights}
    theirs = {v.path: v.numpy().astype("float64") for v in model.weights}
    for path, variable in plain.items():
        want = theirs[path]
        if path.replace("kernel", "lora_a") in theirs and path.endswith("/kernel"):
            a, b = (theirs[path.replace("kernel", name)] for name in ("lora_a", "lora_b"))
            want = want + 6.0 / 4 * a @ b
            assert np.abs(want - theirs[path]).max() > 0.01, path
        np.testing.assert_allclose(variable, want, atol=1e-7, err_msg=path)
    assert len(plain) == 2 * (3 + 2 * 9 + 1)


def test_the_model_itself_is_left_alone_and_is_returned_without_adapters():
    model = make_model()
    before = model.get_weights()
    plain = merged(model)
    for value, old in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(value, old)
    assert merged(plain) is plain
    assert all(variable.trainable for variable in plain.weights)


def test_a_merged_model_trains_on():
    plain = merged(make_model(dtype="mixed_bfloat16", seed=5))
    assert (plain.seed, plain.dtype_policy.name) == (5, "mixed_bfloat16")
    plain.compile(keras.optimizers.SGD(0.1), loss=SamToNe(0.05))
    before = plain.get_weights()
    checks.fit(plain, [checks.make_batch(4)])
    assert all(np.abs(a - b).max() > 0 for a, b in zip(plain.get_weights(), before, strict=True))
