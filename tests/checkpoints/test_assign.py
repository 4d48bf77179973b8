"""Pins of checkpoints.assign: every variable by its name, once, or an error that names it."""

from dataclasses import replace

import numpy as np
import pytest

from samtone_tf.checkpoints.assign import assign_towers, load_t5, part_variables
from samtone_tf.checkpoints.source import PROJECTION, LazyTensor, TowerSource, encoder_shapes
from samtone_tf.config import PARTS
from samtone_tf.dual_encoder import DualEncoder
from tests.checkpoints import made


def variables(tower):
    return {
        name: variable
        for part, layer in tower.parts.items()
        for name, variable in part_variables(part, layer).items()
    }


@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize("architecture", ["sde", "ade"])
def test_our_names_and_shapes_are_those_of_the_model(gated, architecture):
    config = replace(made.NUMBERS, gated=gated, activation="gelu" if gated else "relu")
    model = DualEncoder(config, architecture, embedding_dim=5, name="stack")
    want = encoder_shapes(config) | {PROJECTION: (config.hidden_dim, 5)}
    for tower in (model.query_tower, model.document_tower):
        assert {n: tuple(v.shape) for n, v in variables(tower).items()} == want
    counted = sum(len(variables(tower)) for tower in towers(model))
    assert counted == sum(len(tower.weights) for tower in towers(model))


def towers(model):
    return {model.query_tower, model.document_tower}


@pytest.mark.parametrize("architecture", ["sde", "ade_spl", "ade", ["token_embedding"]])
def test_both_towers_start_from_a_source_that_has_one(architecture):
    model = DualEncoder.from_pretrained(made.source(), architecture, embedding_dim=5)
    want = made.arrays()
    for tower in towers(model):
        got = variables(tower)
        assert set(got) == set(want) | {PROJECTION}
        for name, array in want.items():
            np.testing.assert_array_equal(got[name].numpy(), array, err_msg=name)


def test_a_projection_is_taken_and_its_width_too():
    with_projection = made.source(tower=made.tower(embedding_dim=7))
    model = DualEncoder.from_pretrained(with_projection)
    want = made.arrays(embedding_dim=7)[PROJECTION]
    assert model.embedding_dim == 7
    np.testing.assert_array_equal(variables(model.query_tower)[PROJECTION].numpy(), want)
    assert DualEncoder.from_pretrained(made.source()).embedding_dim == 768


def test_two_towers_give_each_its_own():
    two = made.source(document=made.tower(seed=1), architecture="ade")
    model = DualEncoder.from_pretrained(two, embedding_dim=5)
    assert model.architecture == "ade"
    for tower, seed in ((model.query_tower, 0), (model.document_tower, 1)):
        for name, array in made.arrays(seed=seed).items():
            np.testing.assert_array_equal(variables(tower)[name].numpy(), array, err_msg=name)


def test_towers_share_what_is_equal_and_nothing_else():
    two = made.source(document=made.tower(seed=1), architecture="ade")
    with pytest.raises(ValueError, match="must not share what the source does not.*'ade'"):
        DualEncoder.from_pretrained(two, "sde", embedding_dim=5)
    equal = made.source(document=made.tower(), architecture="ade")
    assert DualEncoder.from_pretrained(equal, "sde", embedding_dim=5).architecture == "sde"


def changed(change):
    tensors = dict(made.tower(embedding_dim=5).tensors)
    change(tensors)
    return made.source(tower=TowerSource(made.NUMBERS, tensors))


QUERY = "encoder/block_1/attention/query/kernel"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensors: tensors.pop(QUERY), f"it has no {QUERY}"),
        (
            lambda tensors: tensors.update({"encoder/x": tensors.pop(QUERY)}),
            f"it has no {QUERY}; this model has no place for its their/{QUERY}",
        ),
        (
            lambda tensors: tensors.update(
                {QUERY: LazyTensor("their/q", (12, 16), lambda: np.zeros((12, 16), "float32"))}
            ),
            r"their/q is \(12, 16\) where this model has \(16, 12\)",
        ),
    ],
    ids=["missing", "renamed", "turned"],
)
def test_what_does_not_fit_is_named_and_changes_nothing(change, message):
    model = DualEncoder(made.NUMBERS, embedding_dim=5)
    stack = model.query_tower.parts["encoder"]
    before = stack.get_weights()
    with pytest.raises(ValueError, match=f"made:up: {message}"):
        assign_towers(model.query_tower, model.document_tower, changed(change))
    for got, want in zip(stack.get_weights(), before, strict=True):
        np.testing.assert_array_equal(got, want)


def test_what_no_shape_shows_is_compared():
    far = replace(made.NUMBERS, max_distance=64)
    model = DualEncoder(made.NUMBERS, embedding_dim=5)
    with pytest.raises(ValueError, match="max_distance=128. Received: .*max_distance=64"):
        assign_towers(model.query_tower, model.document_tower, made.source(tower=made.tower(far)))
    two = made.source(document=made.tower(far, seed=1), architecture="ade")
    with pytest.raises(ValueError, match="two towers of the same numbers"):
        DualEncoder.from_pretrained(two)


def test_load_t5_is_the_encoder_of_the_query_tower():
    encoder = load_t5(made.source(), dropout=0.25)
    model = DualEncoder.from_pretrained(made.source(), embedding_dim=5)
    ids = np.arange(3, 3 + 12).reshape(2, 6)
    mask = np.ones_like(ids, bool)
    want = model.query_tower.encoder(ids, mask)
    np.testing.assert_array_equal(encoder(ids, mask), want)
    assert encoder.config.dropout == 0.25


@pytest.mark.parametrize("name", ["t5-base", "hf:", "zip:x", ":x"])
def test_what_names_no_source_is_refused(name):
    with pytest.raises(ValueError, match="`source` must be KIND:PLACE, with a kind out of hf"):
        load_t5(name)


def test_every_part_has_names():
    assert {name.partition("/")[0] for name in made.arrays(embedding_dim=5)} == set(PARTS)
