"""Pins of losses.base, on every loss: value and gradient, masks, margin, log Q, slices, errors."""

import numpy as np
import pytest
import tensorflow as tf

from samtone_tf.losses.base import DualEncoderLoss
from samtone_tf.losses.contrastive import InBatchSoftmax, SamToNe
from samtone_tf.losses.triplet import Triplet
from tests import checks
from tests.losses import oracle
from tests.losses.cases import (
    BASE,
    CASES,
    SOFTMAX,
    as_pairs,
    gradients,
    make_ids,
    make_log_q,
    make_vectors,
)

every_loss = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
every_softmax = pytest.mark.parametrize("case", SOFTMAX.values(), ids=list(SOFTMAX))
MARGINS = [(0.1, "absolute"), (-0.1, "absolute"), (0.3, "relative"), (-0.1, "relative")]
every_margin = pytest.mark.parametrize(("margin", "kind"), MARGINS)


def tolerance(case, temperature):
    """A cosine in float32 is known to 1e-7 or so, and is then divided by the temperature."""
    return 5e-7 / (temperature if case.has_temperature else 1.0)


def check_value(case, vectors, batch, temperature=0.05, **more):
    want, correct = case.want(vectors, batch, temperature=temperature, **more)
    loss = case.make(temperature=temperature, **more)
    pairs = as_pairs(vectors, batch)
    got = loss.rows(pairs, pairs)
    assert got.loss.dtype == tf.float32
    np.testing.assert_allclose(got.loss, want, rtol=1e-5, atol=tolerance(case, temperature))
    np.testing.assert_array_equal(got.correct, correct)
    np.testing.assert_array_equal(loss(**vectors, **batch), got.loss)
    checks.assert_nonzero(want)
    return got


def check_gradient(case, vectors, batch, temperature=0.05, **more):
    found = gradients(case.make(temperature=temperature, **more), vectors, batch)
    for name in vectors:

        def total(array, name=name):
            moved = {**vectors, name: array}
            return case.want(moved, batch, temperature=temperature, **more)[0].sum()

        want = oracle.gradient(total, vectors[name])
        if name != "negative":
            checks.assert_nonzero(want, name)
        limit = 1e-5 + (1e-7 / temperature if case.has_temperature else 0)
        assert np.abs(found[name] - want).max() <= limit * max(np.abs(want).max(), 0.1), name


# --- value and gradient ----------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [1.0, 0.05, 0.01])
@every_loss
def test_value_equals_the_formula(case, temperature):
    rng = np.random.default_rng(1)
    check_value(case, make_vectors(rng, 8, 2), make_ids(rng, 8, 2), temperature)


@pytest.mark.parametrize("scope", ["global", "own"])
@pytest.mark.parametrize("num_negatives", [0, 1, 3])
@every_loss
def test_value_with_hard_negatives(case, num_negatives, scope):
    rng = np.random.default_rng(num_negatives)
    vectors, ids = make_vectors(rng, 7, num_negatives), make_ids(rng, 7, num_negatives)
    check_value(case, vectors, ids, negatives_scope=scope)


@pytest.mark.parametrize("masks", [("id",), ("positives",), ()], ids=lambda rules: "+".join(rules))
@every_loss
def test_value_with_each_mask_rule(case, masks):
    rng = np.random.default_rng(2)
    vectors, ids = make_vectors(rng, 7, 2), make_ids(rng, 7, 2)
    got = check_value(case, vectors, ids, masks=masks)
    assert (got.masked.numpy().max() > 0) == bool(masks)


@every_loss
def test_value_without_ids(case):
    check_value(case, make_vectors(np.random.default_rng(3), 6, 2), {})


@pytest.mark.parametrize("temperature", [1.0, 0.05, 0.01])
@every_loss
def test_gradient_equals_finite_differences(case, temperature):
    rng = np.random.default_rng(4)
    check_gradient(case, make_vectors(rng, 5, 2, dim=3), make_ids(rng, 5, 2), temperature)


@every_loss
def test_rows_of_any_length_are_compared_by_cosine(case):
    rng = np.random.default_rng(5)
    vectors, ids = make_vectors(rng, 6, 2), make_ids(rng, 6, 2)
    long = {n: v * rng.uniform(0.01, 100, (*v.shape[:-1], 1)) for n, v in vectors.items()}
    want = case.make()(**vectors, **ids)
    got = case.make()(**{n: v.astype("float32") for n, v in long.items()}, **ids)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@every_loss
def test_c06_a_zero_row_gives_finite_numbers(case):
    rng = np.random.default_rng(6)
    for side in ("query", "document", "negative"):
        vectors, ids = make_vectors(rng, 4, 1), make_ids(rng, 4, 1)
        vectors[side][1] = 0
        check_value(case, vectors, ids)
        found = gradients(case.make(), vectors, ids)
        assert all(np.isfinite(value).all() for value in found.values())
        np.testing.assert_array_equal(found[side][1], 0)


@every_loss
def test_slices_of_rows_against_all_columns_are_the_whole(case):
    rng = np.random.default_rng(7)
    batch = {**make_ids(rng, 6, 2), **make_log_q(rng, 6)}
    vectors = make_vectors(rng, 6, 2)
    loss = case.make(similarity_margin=0.1, **({"log_q": True} if case.has_temperature else {}))
    columns = as_pairs(vectors, batch)
    whole = loss.rows(columns, columns)
    parts = []
    for first, last in [(0, 2), (2, 5), (5, 6)]:
        rows = as_pairs(*({n: v[first:last] for n, v in p.items()} for p in (vectors, batch)))
        parts.append(loss.rows(rows, columns, tf.constant(first)))
    for name in whole._fields:
        joined = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_allclose(joined, getattr(whole, name), rtol=1e-5, atol=1e-6)


# --- similarity margin -------------------------------------------------------------------------


@every_margin
@every_loss
def test_value_with_a_similarity_margin(case, margin, kind):
    rng = np.random.default_rng(8)
    vectors, ids = make_vectors(rng, 8, 2), make_ids(rng, 8, 2)
    options = {"similarity_margin": margin, "similarity_margin_kind": kind}
    got = check_value(case, vectors, ids, **options)
    pairs = as_pairs(vectors, ids)
    assert (got.masked > case.make().rows(pairs, pairs).masked).numpy().any()


@every_margin
@every_loss
def test_a_similarity_margin_has_no_gradient_of_its_own(case, margin, kind):
    rng = np.random.default_rng(9)
    vectors, ids = make_vectors(rng, 5, 2, dim=3), make_ids(rng, 5, 2)
    check_gradient(case, vectors, ids, similarity_margin=margin, similarity_margin_kind=kind)


def test_a_similarity_margin_by_hand():
    # Each query has cosine 0.6 with its own document and 0.8 with the other.
    query = np.array([[1, 0], [0, 1]], "float32")
    document = np.array([[0.6, 0.8], [0.8, 0.6]], "float32")
    pairs = as_pairs({"query": query, "document": document}, {})
    one = np.log1p(np.exp(0.2 - 0))  # s⁺ and one rival that is 0.2 nearer

    def row(**options):
        loss = InBatchSoftmax(1.0, bidirectional=False, **options)
        return loss.rows(pairs, pairs)

    for options, masked in [
        ({"similarity_margin": 0.3}, False),
        ({"similarity_margin": 0.1}, True),
        ({"similarity_margin": 0.4, "similarity_margin_kind": "relative"}, False),  # 0.84
        ({"similarity_margin": 0.3, "similarity_margin_kind": "relative"}, True),  # 0.78
    ]:
        found = row(**options)
        np.testing.assert_allclose(found.loss, [0, 0] if masked else [one, one], atol=1e-6)
        assert found.masked.numpy().tolist() == [float(masked)] * 2
        assert found.correct.numpy().tolist() == [float(masked)] * 2


def test_a_relative_margin_of_a_negative_cosine_is_wider_too():
    # s⁺ = -0.6 and m = 0.5: above -0.3, and not above -0.9, which would mask a worse column.
    query = np.array([[1, 0], [1, 0]], "float32")
    document = np.array([[-0.6, 0.8], [-0.4, np.sqrt(0.84)]], "float32")
    pairs = as_pairs({"query": query, "document": document}, {})
    loss = InBatchSoftmax(
        1.0, False, masks=(), similarity_margin=0.5, similarity_margin_kind="relative"
    )
    assert loss.rows(pairs, pairs).masked.numpy().tolist() == [0, 0]
    loss = InBatchSoftmax(
        1.0, False, masks=(), similarity_margin=0.2, similarity_margin_kind="relative"
    )
    assert loss.rows(pairs, pairs).masked.numpy().tolist() == [1, 0]


# --- deletion ------------------------------------------------------------------------------------


def rows_with_and_without_the_last_pair(loss, vectors, batch):
    row = as_pairs(*({n: v[:1] for n, v in part.items()} for part in (vectors, batch)))
    without = as_pairs(*({n: v[:-1] for n, v in part.items()} for part in (vectors, batch)))
    return loss.rows(row, as_pairs(vectors, batch)).loss, loss.rows(row, without).loss


@every_loss
def test_a_column_masked_by_id_equals_a_deleted_column(case):
    rng = np.random.default_rng(10)
    vectors = make_vectors(rng, 5, 2)
    for name in ("query", "document"):  # nearer than all others: the hardest, if it counted
        vectors[name][4] = vectors["query"][0] + vectors["document"][0]
    ids = {
        "query_id": np.arange(5),
        "document_id": np.array([10, 11, 12, 13, 10]),  # pair 4 has the document of pair 0
        "negative_id": np.array([[20, 21], [22, 23], [24, 25], [26, 27], [10, -1]]),
        "positive_ids": np.array([[10], [11], [12], [13], [10]]),
    }
    loss = case.make(**({"margin": 1.5} if case.kind is Triplet else {}))
    masked, deleted = rows_with_and_without_the_last_pair(loss, vectors, ids)
    checks.assert_nonzero(deleted)
    np.testing.assert_allclose(masked, deleted, rtol=1e-6)
    counted, _ = rows_with_and_without_the_last_pair(case.make(masks=()), vectors, ids)
    assert abs(float(counted[0] - deleted[0])) > 1e-3


@every_loss
def test_a_column_masked_by_similarity_equals_a_deleted_column(case):
    rng = np.random.default_rng(11)
    vectors = make_vectors(rng, 5, 1)
    # Half way between query and document: nearer to both than they are to each other.
    half = sum(vectors[n][0] / np.linalg.norm(vectors[n][0]) for n in ("query", "document"))
    vectors["query"][4] = vectors["document"][4] = vectors["negative"][4] = half
    more = {"similarity_margin": 0.05, **({"margin": 1.9} if case.kind is Triplet else {})}
    masked, deleted = rows_with_and_without_the_last_pair(case.make(**more), vectors, {})
    np.testing.assert_allclose(masked, deleted, rtol=1e-6)
    found = gradients(case.make(**more), vectors, {}, row=0)
    for name in found:
        np.testing.assert_array_equal(found[name][4], 0)
    checks.assert_nonzero(found["query"][0])


# --- log Q ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [1.0, 0.05])
@every_softmax
def test_value_and_gradient_with_log_q(case, temperature):
    rng = np.random.default_rng(12)
    vectors = make_vectors(rng, 5, 2, dim=3)
    batch = {**make_ids(rng, 5, 2), **make_log_q(rng, 5)}
    check_value(case, vectors, batch, temperature, log_q=True)
    check_gradient(case, vectors, batch, temperature, log_q=True)


@every_softmax
def test_a_factor_common_to_all_q_changes_nothing_without_hard_negatives(case):
    rng = np.random.default_rng(13)
    vectors, log_q = make_vectors(rng, 6), make_log_q(rng, 6)
    loss = case.make(log_q=True)
    more = {name: value + np.float32(3) for name, value in log_q.items()}
    np.testing.assert_allclose(loss(**vectors, **more), loss(**vectors, **log_q), atol=2e-5)
    even = {name: np.zeros_like(value) for name, value in log_q.items()}
    np.testing.assert_array_equal(loss(**vectors, **even), case.make()(**vectors))
    assert np.abs(loss(**vectors, **log_q) - case.make()(**vectors)).max() > 0.1


def test_log_q_by_hand():
    # All cosines 1, t = 1. Q of the documents 3/4 and 1/4: the softmax is over 4/3 and 4.
    ones = np.ones((2, 2), "float32")
    log_q = {"document_log_q": np.log([0.75, 0.25]), "query_log_q": np.zeros(2)}
    loss = InBatchSoftmax(1.0, bidirectional=False, log_q=True)
    np.testing.assert_allclose(loss(ones, ones, **log_q), np.log([4, 4 / 3]), rtol=1e-6)


def test_log_q_leaves_accuracy_alone():
    rng = np.random.default_rng(14)
    pairs = as_pairs(make_vectors(rng, 8, 1), make_log_q(rng, 8))
    plain, corrected = (SamToNe(0.05, log_q=on).rows(pairs, pairs) for on in (False, True))
    np.testing.assert_array_equal(plain.correct, corrected.correct)


# --- arguments -----------------------------------------------------------------------------------


@every_loss
def test_config_round_trip(case):
    more = {"negatives_scope": "own", "masks": ("id",), "similarity_margin": 0.2}
    more["similarity_margin_kind"] = "relative"
    if case.has_temperature:
        more |= {"learn_temperature": True, "min_temperature": 0.02, "max_temperature": 0.5}
    loss = case.make(**more)
    revived = checks.assert_config_round_trip(loss)
    given = {**case.options(), **more, "masks": ["id"]}
    assert given.items() <= revived.get_config().items()
    rng = np.random.default_rng(15)
    vectors, ids = make_vectors(rng, 5, 2), make_ids(rng, 5, 2)
    np.testing.assert_array_equal(revived(**vectors, **ids), loss(**vectors, **ids))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"similarity_margin": float("nan")}, ValueError, "finite. Received: .*nan"),
        ({"similarity_margin": "0.1"}, TypeError, "must be a number. Received: .*'0.1'"),
        ({"similarity_margin": True}, TypeError, "must be a number. Received: .*True"),
        (
            {"similarity_margin": 0.1, "similarity_margin_kind": "both"},
            ValueError,
            "absolute, relative. Received: similarity_margin_kind='both'",
        ),
        ({"similarity_margin_kind": "relative"}, ValueError, "needs a `similarity_margin`"),
        ({"negatives_scope": "none"}, ValueError, "global, own"),
        ({"masks": "ids"}, ValueError, "id, text, positives.*'ids'"),
        ({"alfa": 0.1}, TypeError, "alfa"),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", sorted({case.kind for case in CASES.values()}, key=str))
def test_options_that_cannot_be_are_refused(kind, options, error, message):
    with pytest.raises(error, match=message):
        kind(**options)


def test_log_probabilities_that_are_absent_not_wanted_or_misshapen_are_refused():
    unit = np.eye(3, dtype="float32")
    with pytest.raises(ValueError, match=r"PairBatches\(..., log_q=True\)"):
        InBatchSoftmax(log_q=True)(unit, unit, document_log_q=np.zeros(3))
    for loss in (InBatchSoftmax(), Triplet()):
        with pytest.raises(ValueError, match=f"log_q=True only. .*{type(loss).__name__}"):
            loss(unit, unit, document_log_q=np.zeros(3))
    with pytest.raises(ValueError, match=r"each of the 3 pairs. Received: shape \(2,\)"):
        InBatchSoftmax(log_q=True)(unit, unit, query_log_q=np.zeros(2))


def test_the_base_has_no_loss_of_its_own():
    unit = np.eye(3, dtype="float32")
    with pytest.raises(NotImplementedError, match="DualEncoderLoss must define `compute`"):
        DualEncoderLoss()(unit, unit)


def test_fingerprints_stay_integers_in_every_loss():
    vectors = make_vectors(np.random.default_rng(16), 2)
    for case in CASES.values():
        near = {"document_id": np.array([BASE, BASE + 1])}
        np.testing.assert_array_equal(case.make()(**vectors, **near), case.make()(**vectors))
