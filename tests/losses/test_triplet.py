"""Pins of losses.triplet: by hand, hardest and mean, same-tower terms, errors. See test_base."""

import numpy as np
import pytest

from samtone_tf.losses.triplet import Triplet
from tests import checks
from tests.losses.cases import gradients, make_vectors

QUERY = np.array([[1, 0], [0, 1]], "float32")
DOCUMENT = np.array([[1, 0], [0.6, 0.8]], "float32")
# q_0: d_0 1, d_1 0.6. q_1: d_1 0.8, d_0 0. q_0 to q_1: 0. d_0 to d_1: 0.6.


@pytest.mark.parametrize(
    ("options", "want"),
    [
        ({"bidirectional": False}, [0.1, 0.0]),  # 0.5 - 1 + 0.6; 0.5 - 0.8 + 0
        ({}, [0.1, 0.3]),  # back: 0.5 - 1 + 0; 0.5 - 0.8 + 0.6
        ({"directions": "mean"}, [0.05, 0.15]),
        ({"same_tower": "document"}, [0.2, 0.3]),  # back of row 0: d_1, 0.5 - 1 + 0.6
        ({"same_tower": "document", "reduction": "mean"}, [0.15, 0.3]),  # (0 + 0.1)/2; 0.3
        ({"same_tower": "query", "bidirectional": False, "reduction": "mean"}, [0.05, 0.0]),
    ],
    ids=str,
)
def test_two_pairs_by_hand(options, want):
    got = Triplet(0.5, **options)(QUERY, DOCUMENT)
    np.testing.assert_allclose(got, want, atol=1e-6)


def test_only_the_hardest_negative_is_pushed():
    vectors = make_vectors(np.random.default_rng(1), 5)
    cosines = [float(vectors["query"][0] @ d / np.linalg.norm(d)) for d in vectors["document"][1:]]
    loss = Triplet(1.9, bidirectional=False)
    found = gradients(loss, vectors, {}, row=0)["document"][1:]
    pushed = np.abs(found).max(axis=1) > 0
    assert pushed.tolist() == [cosine == max(cosines) for cosine in cosines]
    mean = Triplet(1.9, reduction="mean", bidirectional=False)
    assert (np.abs(gradients(mean, vectors, {}, row=0)["document"]).max(axis=1) > 0).all()


def test_beyond_the_margin_there_is_neither_loss_nor_gradient():
    vectors = {"query": np.eye(3, dtype="float32"), "document": np.eye(3, dtype="float32")}
    for options in ({}, {"same_tower": "both"}, {"reduction": "mean"}):
        loss = Triplet(0.2, **options)
        assert loss(**vectors).numpy().tolist() == [0, 0, 0]
        for value in gradients(loss, vectors, {}).values():
            np.testing.assert_array_equal(value, 0)
        checks.assert_nonzero(Triplet(1.2, **options)(**vectors))


@pytest.mark.parametrize("reduction", ["hardest", "mean"])
def test_a_row_without_a_negative_has_loss_0_and_gradient_0(reduction):
    vectors = make_vectors(np.random.default_rng(2), 2)
    ids = {"document_id": np.array([7, 7])}
    loss = Triplet(1.9, "both", reduction)
    assert loss(**vectors, **ids).numpy().tolist() == [0, 0]
    for value in gradients(loss, vectors, ids).values():
        np.testing.assert_array_equal(value, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"margin": 0}, "greater than 0 and less than 2.*margin=0"),
        ({"margin": 5}, "margin=5"),
        ({"same_tower": "passage"}, "same_tower='passage'"),
        ({"reduction": "sum"}, "hardest, mean. Received: reduction='sum'"),
        ({"directions": "max"}, "sum, mean"),
        ({"same_tower": "document", "bidirectional": False}, "bidirectional=False"),
    ],
    ids=str,
)
def test_arguments_that_cannot_be_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Triplet(**options)


def test_it_has_no_temperature():
    with pytest.raises(TypeError, match="temperature"):
        Triplet(temperature=0.05)
    assert "temperature" not in Triplet().get_config()
