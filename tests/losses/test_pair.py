"""Pins of losses.pair: by hand, its ends alpha = 0 and 1, and what enters L_P. See test_base."""

import numpy as np
import pytest

from samtone_tf.losses.contrastive import InBatchSoftmax
from samtone_tf.losses.pair import Pair
from tests import checks
from tests.losses.cases import as_pairs, gradients, make_ids, make_vectors


def test_three_orthonormal_pairs_by_hand():
    # q = d = identity(3), t = 1: every other column has cosine 0. L_Q and L_P have two of
    # them beside the positive, and L_P with other queries has four.
    two, four = np.log(np.e + 2) - 1, np.log(np.e + 4) - 1
    unit = np.eye(3, dtype="float32")
    cases = {
        Pair(1.0, bidirectional=False): two,
        Pair(1.0, 0.25, True, bidirectional=False): 0.75 * two + 0.25 * four,
        Pair(1.0, 0.25): 0.75 * 2 * two + 0.25 * two,
        Pair(1.0, 0.25, directions="mean"): two,
    }
    for loss, want in cases.items():
        np.testing.assert_allclose(loss(unit, unit), [want] * 3, rtol=1e-6)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_without_its_passage_centric_part_it_is_the_in_batch_softmax(bidirectional):
    rng = np.random.default_rng(1)
    vectors, ids = make_vectors(rng, 6, 2), make_ids(rng, 6, 2)
    got = Pair(0.05, 0.0, bidirectional=bidirectional)(**vectors, **ids)
    want = InBatchSoftmax(0.05, bidirectional)(**vectors, **ids)
    np.testing.assert_array_equal(got, want)


def test_the_passage_centric_part_alone():
    vectors = make_vectors(np.random.default_rng(2), 3, 1)
    of_row = {
        other_queries: gradients(Pair(0.1, 1.0, other_queries), vectors, {}, row=0)
        for other_queries in (False, True)
    }
    for found in of_row.values():
        for name, row in [("query", 0), ("document", 1), ("negative", 0), ("negative", 2)]:
            checks.assert_nonzero(found[name][row], f"{name} {row}")
    np.testing.assert_array_equal(of_row[False]["query"][1:], 0)
    checks.assert_nonzero(of_row[True]["query"][1])


def test_one_pair_alone_has_loss_0_and_gradient_0():
    vectors = make_vectors(np.random.default_rng(3), 1)
    for other_queries in (False, True):
        loss = Pair(0.01, other_queries=other_queries)
        assert loss(**vectors).numpy().tolist() == [0.0]
        for value in gradients(loss, vectors, {}).values():
            np.testing.assert_array_equal(value, 0)


def test_no_block_is_counted_twice_as_masked():
    # Pairs 0 and 1 share a document: one of two negatives of each row in each block.
    vectors = make_vectors(np.random.default_rng(4), 3)
    ids = {"query_id": np.array([1, 2, 3]), "document_id": np.array([7, 7, 8])}
    pairs = as_pairs(vectors, ids)
    for other_queries in (False, True):
        for bidirectional in (False, True):
            loss = Pair(0.1, 0.1, other_queries, bidirectional=bidirectional)
            np.testing.assert_allclose(loss.rows(pairs, pairs).masked, [0.5, 0.5, 0])


@pytest.mark.parametrize("alpha", [-0.1, 1.1, float("nan")], ids=str)
def test_a_share_that_is_none_is_refused(alpha):
    with pytest.raises(ValueError, match=f"from 0 to 1. Received: alpha={alpha}"):
        Pair(alpha=alpha)
