"""Pins of losses.gte: by hand, the positive twice, every kind of column. See test_base."""

import numpy as np
import pytest

from samtone_tf.losses.gte import Gte
from tests import checks
from tests.losses.cases import gradients, make_vectors


def test_two_orthonormal_pairs_by_hand():
    # q = d = identity(2), t = 1: Z = e + 1, and 1, and e + 1, and 1.
    unit = np.eye(2, dtype="float32")
    np.testing.assert_allclose(Gte(1.0)(unit, unit), [np.log(2 * np.e + 4) - 1] * 2, rtol=1e-6)


def test_one_pair_alone_has_loss_log_2_and_gradient_0():
    # Its positive is in the denominator twice.
    vectors = make_vectors(np.random.default_rng(1), 1)
    np.testing.assert_allclose(Gte(0.05)(**vectors), [np.log(2)], rtol=1e-5)
    for value in gradients(Gte(0.05), vectors, {}).values():
        np.testing.assert_allclose(value, 0, atol=1e-5)


def test_every_other_vector_is_a_negative():
    vectors = make_vectors(np.random.default_rng(2), 3, 1)
    found = gradients(Gte(0.1), vectors, {}, row=0)
    for name in vectors:
        for row in range(3):
            checks.assert_nonzero(found[name][row], f"{name} {row}")


def test_there_is_one_direction_only():
    with pytest.raises(TypeError, match="bidirectional"):
        Gte(bidirectional=False)
