"""Pins of losses.contrastive: value and gradient against loops, masks, precision, edges, errors."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from samtone_tf.losses.contrastive import InBatchSoftmax, SamToNe
from tests import checks
from tests.losses import oracle
from tests.losses.cases import BASE, as_pairs, gradients, make_ids, make_vectors

FORMS = [
    pytest.param(same_tower, bidirectional, id=f"{same_tower}-{'both' if bidirectional else 'one'}")
    for same_tower, bidirectional in [
        (None, True),
        (None, False),
        ("query", True),
        ("query", False),
        ("document", True),
        ("both", True),
    ]
]
ALL = ("id", "text", "positives")
RULES = [ALL, ("id",), ("text",), ("positives",), ("id", "positives"), ()]


def make_loss(same_tower, **arguments):
    if same_tower is None:
        return InBatchSoftmax(**arguments)
    return SamToNe(same_tower=same_tower, **arguments)


def check_value(vectors, ids, same_tower, **arguments):
    rows = oracle.contrastive_rows(**vectors, **ids, same_tower=same_tower, **arguments)
    want = rows.pop("loss")
    loss = make_loss(same_tower, **arguments)
    got = loss(**vectors, **ids).numpy()
    assert got.dtype == np.float32
    assert got.shape == want.shape
    # A cosine in float32 is known to 1e-7 or so, and is then divided by the temperature.
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=5e-7 / arguments["temperature"])
    pairs = as_pairs(vectors, ids)
    found = loss.rows(pairs, pairs)
    for name, value in rows.items():
        np.testing.assert_allclose(getattr(found, name), value, rtol=1e-6, err_msg=name)
    return want


# --- value ---------------------------------------------------------------------------------


@pytest.mark.parametrize("directions", ["sum", "mean"])
@pytest.mark.parametrize("temperature", [1.0, 0.05, 0.01])
@pytest.mark.parametrize(("same_tower", "bidirectional"), FORMS)
def test_value_equals_the_formula(same_tower, bidirectional, temperature, directions):
    rng = np.random.default_rng(1)
    check_value(
        make_vectors(rng, 9, 2),
        make_ids(rng, 9, 2),
        same_tower,
        bidirectional=bidirectional,
        temperature=temperature,
        directions=directions,
    )


@pytest.mark.parametrize("scope", ["global", "own"])
@pytest.mark.parametrize("num_negatives", [0, 1, 2, 3])
@pytest.mark.parametrize("masks", RULES, ids=lambda rules: "+".join(rules) or "none")
def test_every_mask_rule_equals_the_formula(masks, num_negatives, scope):
    rng = np.random.default_rng(num_negatives)
    vectors, ids = make_vectors(rng, 8, num_negatives), make_ids(rng, 8, num_negatives)
    arguments = {"temperature": 0.05, "negatives_scope": scope}
    masked = check_value(vectors, ids, "both", masks=masks, **arguments)
    if masks:  # the rule does something here
        plain, _ = oracle.contrastive(**vectors, same_tower="both", masks=(), **arguments)
        assert np.abs(masked - plain).max() > 1e-3


@pytest.mark.parametrize("num_pairs", range(1, 10))
def test_value_at_every_batch_size(num_pairs):
    rng = np.random.default_rng(num_pairs)
    for seed, (same_tower, scope) in enumerate(
        [("both", "global"), ("query", "own"), (None, "own")]
    ):
        num_negatives = (num_pairs + seed) % 4
        check_value(
            make_vectors(rng, num_pairs, num_negatives),
            make_ids(rng, num_pairs, num_negatives),
            same_tower,
            temperature=0.05,
            negatives_scope=scope,
        )


@pytest.mark.parametrize(
    "given",
    [(), ("query_id",), ("document_id",), ("document_id", "positive_ids"), ("negative_id",)],
    ids=lambda given: "+".join(given) or "no ids",
)
def test_ids_that_are_absent_mask_nothing(given):
    rng = np.random.default_rng(3)
    vectors, ids = make_vectors(rng, 7, 2), make_ids(rng, 7, 2)
    check_value(vectors, {name: ids[name] for name in given}, "both", temperature=0.05)


def test_two_orthonormal_pairs_by_hand():
    # q = d = identity(2), t = 1. Query to document: log(e + e^0 + e^0) - 1 with the
    # same-tower term, log(e + e^0) - 1 without; document to query is always the latter.
    both, one = np.log(np.e + 2) - 1, np.log(np.e + 1) - 1
    unit = np.eye(2, dtype="float32")
    cases = {
        InBatchSoftmax(1.0): 2 * one,
        InBatchSoftmax(1.0, bidirectional=False): one,
        SamToNe(1.0): both + one,
        SamToNe(1.0, bidirectional=False): both,
        SamToNe(1.0, same_tower="document"): one + both,
        SamToNe(1.0, same_tower="both"): 2 * both,
        SamToNe(1.0, same_tower="both", directions="mean"): both,
    }
    for loss, want in cases.items():
        np.testing.assert_allclose(loss(unit, unit), [want, want], rtol=1e-6)


@pytest.mark.parametrize(("same_tower", "bidirectional"), FORMS)
def test_rows_of_any_length_are_compared_by_cosine(same_tower, bidirectional):
    rng = np.random.default_rng(5)
    vectors, ids = make_vectors(rng, 6, 2), make_ids(rng, 6, 2)
    unit = {n: v / np.linalg.norm(v, axis=-1, keepdims=True) for n, v in vectors.items()}
    long = {n: v * rng.uniform(0.01, 100, (*v.shape[:-1], 1)) for n, v in unit.items()}
    loss = make_loss(same_tower, temperature=0.05, bidirectional=bidirectional)
    want = loss(**unit, **ids)
    checks.assert_nonzero(want)
    got = loss(**{n: v.astype("float32") for n, v in long.items()}, **ids)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("same_tower", "bidirectional"), FORMS)
def test_loss_is_never_negative(same_tower, bidirectional):
    rng = np.random.default_rng(6)
    query = rng.normal(size=(8, 4)).astype("float32")
    for noise in (0.0, 1e-4, 0.1, 10.0):  # from perfect pairs to unrelated ones
        document = (query + noise * rng.normal(size=query.shape)).astype("float32")
        for temperature in (1.0, 0.01):
            loss = make_loss(same_tower, temperature=temperature, bidirectional=bidirectional)
            assert (loss(query, document).numpy() >= 0).all()


def test_same_tower_terms_raise_the_loss():
    vectors = make_vectors(np.random.default_rng(7), 6)
    plain, query, document, both = (
        make_loss(name, temperature=0.5)(**vectors).numpy()
        for name in (None, "query", "document", "both")
    )
    assert (query > plain).all()
    assert (document > plain).all()
    assert (both > query).all()
    np.testing.assert_allclose(both - plain, (query - plain) + (document - plain), rtol=1e-4)


@pytest.mark.parametrize(("same_tower", "bidirectional"), FORMS)
def test_one_pair_alone_has_loss_0_and_gradient_0(same_tower, bidirectional):
    vectors = make_vectors(np.random.default_rng(8), 1)
    loss = make_loss(same_tower, temperature=0.01, bidirectional=bidirectional)
    assert loss(**vectors).numpy().tolist() == [0.0]
    for value in gradients(loss, vectors, {}).values():
        np.testing.assert_array_equal(value, 0)


# --- gradient ------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [1.0, 0.05, 0.01])
@pytest.mark.parametrize(("same_tower", "bidirectional"), FORMS)
def test_gradient_equals_finite_differences(same_tower, bidirectional, temperature):
    rng = np.random.default_rng(9)
    vectors, ids = make_vectors(rng, 5, 2, dim=3), make_ids(rng, 5, 2)
    arguments = {"temperature": temperature, "bidirectional": bidirectional}
    got = gradients(make_loss(same_tower, **arguments), vectors, ids)
    for name in vectors:

        def total(array, name=name):
            losses, _ = oracle.contrastive(
                **{**vectors, name: array}, **ids, same_tower=same_tower, **arguments
            )
            return losses.sum()

        want = oracle.gradient(total, vectors[name])
        checks.assert_nonzero(want, name)
        checks.assert_near(got[name], want, 1e-5 + 1e-7 / temperature, name)


# --- false negatives -----------------------------------------------------------------------


@pytest.mark.parametrize("same_tower", [None, "query", "document", "both"])
def test_c02_two_positives_of_one_query_do_not_push_each_other(same_tower):
    vectors = make_vectors(np.random.default_rng(10), 3)
    a, b, x, y, z = range(5)
    ids = {"query_id": np.array([a, a, b]), "document_id": np.array([x, y, z])}
    loss = make_loss(same_tower, temperature=0.1)
    for row, other in [(0, 1), (1, 0)]:
        found = gradients(loss, vectors, ids, row)
        np.testing.assert_array_equal(found["query"][other], 0)
        np.testing.assert_array_equal(found["document"][other], 0)
        checks.assert_nonzero(found["document"][2], "the real negative")
    unmasked = gradients(make_loss(same_tower, temperature=0.1, masks=()), vectors, ids, 0)
    checks.assert_nonzero(unmasked["document"][1], "without masks it is pushed")


@pytest.mark.parametrize("same_tower", [None, "query", "document", "both"])
def test_c02_one_document_twice_gives_loss_0(same_tower):
    vectors = make_vectors(np.random.default_rng(11), 2)
    vectors["document"][1] = vectors["document"][0]
    ids = {"query_id": np.array([1, 2]), "document_id": np.array([7, 7])}
    loss = make_loss(same_tower, temperature=0.01)
    assert loss(**vectors, **ids).numpy().tolist() == [0.0, 0.0]
    for value in gradients(loss, vectors, ids).values():
        np.testing.assert_array_equal(value, 0)
    assert (make_loss(same_tower, temperature=0.01, masks=())(**vectors, **ids).numpy() > 0.1).any()


def test_c02_known_positives_are_masked_in_the_batch_and_among_hard_negatives():
    rng = np.random.default_rng(12)
    vectors = make_vectors(rng, 3, 1)
    # Pair 1's document and pair 2's hard negative are known positives of query 0.
    ids = {
        "query_id": np.array([1, 2, 3]),
        "document_id": np.array([10, 20, 30]),
        "negative_id": np.array([[40], [50], [60]]),
        "positive_ids": np.array([[10, 20, 60], [20, -1, -1], [30, -1, -1]]),
    }
    found = gradients(SamToNe(0.1, same_tower="both"), vectors, ids, row=0)
    np.testing.assert_array_equal(found["document"][1], 0)
    np.testing.assert_array_equal(found["negative"][2], 0)
    for name, row in [("document", 2), ("negative", 0), ("negative", 1)]:
        checks.assert_nonzero(found[name][row], name)


@pytest.mark.parametrize("same_tower", [None, "query", "document", "both"])
def test_a_masked_column_equals_a_deleted_column(same_tower):
    rng = np.random.default_rng(13)
    vectors = make_vectors(rng, 5, 2)
    ids = {
        "query_id": np.arange(5),
        "document_id": np.array([10, 11, 12, 13, 10]),  # pair 4 has the document of pair 0
        "negative_id": np.array([[20, 21], [22, 23], [24, 25], [26, 27], [10, -1]]),
        "positive_ids": np.array([[10], [11], [12], [13], [10]]),
    }
    loss = make_loss(same_tower, temperature=0.1)
    row = as_pairs(*({n: v[:1] for n, v in part.items()} for part in (vectors, ids)))
    without = as_pairs(*({n: v[:4] for n, v in part.items()} for part in (vectors, ids)))
    masked = loss.rows(row, as_pairs(vectors, ids)).loss.numpy()
    deleted = loss.rows(row, without).loss.numpy()
    checks.assert_nonzero(deleted)
    np.testing.assert_allclose(masked, deleted, rtol=1e-6)


def test_an_empty_slot_is_no_negative_even_without_masks():
    rng = np.random.default_rng(14)
    vectors = make_vectors(rng, 3, 2)
    loss = InBatchSoftmax(0.05, masks=())
    without = loss(vectors["query"], vectors["document"])
    empty = loss(**vectors, negative_id=np.full((3, 2), -1))
    np.testing.assert_allclose(empty, without, rtol=1e-6)
    assert (loss(**vectors, negative_id=np.full((3, 2), 5)) > without).numpy().any()


@pytest.mark.parametrize("base", [2**24, 2**53, 2**62], ids=["2^24", "2^53", "2^62"])
@pytest.mark.parametrize("name", ["query_id", "document_id", "positive_ids", "negative_id"])
def test_fingerprints_that_differ_by_one_do_not_collide(name, base):
    vectors = make_vectors(np.random.default_rng(16), 2, 1)
    apart = {
        "query_id": np.array([1, 2]),
        "document_id": np.array([3, 4]),
        "positive_ids": np.array([[3], [4]]),
        "negative_id": np.array([[5], [6]]),
    }
    near, equal = dict(apart), dict(apart)
    if name in ("query_id", "document_id"):
        near[name], equal[name] = np.array([base, base + 1]), np.array([base, base])
    else:  # a document of the batch, or one off
        near["document_id"] = equal["document_id"] = np.array([3, base])
        hit = {"positive_ids": lambda v: [[v], [4]], "negative_id": lambda v: [[5], [v]]}[name]
        near[name], equal[name] = np.array(hit(base + 1)), np.array(hit(base))
    loss = SamToNe(0.05, same_tower="both")
    plain = loss(**vectors, negative_id=apart["negative_id"]).numpy()
    np.testing.assert_array_equal(loss(**vectors, **near), plain)
    assert (loss(**vectors, **equal).numpy() < plain).any()


# --- rows of a replica ---------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["global", "own"])
@pytest.mark.parametrize(("same_tower", "bidirectional"), FORMS)
def test_slices_of_rows_against_all_columns_are_the_whole(same_tower, bidirectional, scope):
    rng = np.random.default_rng(17)
    vectors, ids = make_vectors(rng, 6, 2), make_ids(rng, 6, 2)
    loss = make_loss(
        same_tower, temperature=0.05, bidirectional=bidirectional, negatives_scope=scope
    )
    columns = as_pairs(vectors, ids)
    whole = loss.rows(columns, columns)
    parts = []
    for first, last in [(0, 2), (2, 5), (5, 6)]:
        rows = as_pairs(*({n: v[first:last] for n, v in p.items()} for p in (vectors, ids)))
        parts.append(loss.rows(rows, columns, tf.constant(first)))
    for name in whole._fields:
        joined = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_allclose(joined, getattr(whole, name), rtol=1e-5, atol=1e-6)
    assert np.ptp(whole.masked) > 0  # the rows differ


def test_correct_by_hand():
    # Cosines query to document: row 0 prefers its own, row 1 prefers document 0,
    # row 2 has two equal scores (document 2 = document 1, and a tie is not correct).
    query = np.array([[1, 0], [1, 0], [0, 1]], "float32")
    document = np.array([[1, 0], [0, 1], [0, 1]], "float32")
    pairs = as_pairs({"query": query, "document": document}, {})
    assert InBatchSoftmax().rows(pairs, pairs).correct.numpy().tolist() == [1, 0, 0]
    # Document 0 answers query 1, too: it is no rival any more.
    ids = {"query_id": np.array([5, 5, 6]), "document_id": np.array([1, 2, 3])}
    document = np.array([[1, 0], [0, 1], [-0.6, -0.8]], "float32")
    pairs = as_pairs({"query": query, "document": document}, ids)
    assert InBatchSoftmax().rows(pairs, pairs).correct.numpy().tolist() == [1, 1, 0]
    # A hard negative on top of query 0 beats nothing (a tie); one on query 2 neither;
    # for row 0 a better one than its own document does.
    document = np.array([[0.6, 0.8], [1, 0], [0, 1]], "float32")
    negative = np.array([[[1, 0]], [[0, -1]], [[-1, 0]]], "float32")
    vectors = {"query": query, "document": document, "negative": negative}
    own = InBatchSoftmax(negatives_scope="own", masks=())
    pairs = as_pairs(vectors, ids)
    assert own.rows(pairs, pairs).correct.numpy().tolist() == [0, 1, 1]


def test_reciprocal_rank_and_negatives_by_hand():
    # Queries 0 and 2 each have a better document than their own, and one that is as good, which
    # counts as better, too; but that one answers both, for their id is the same.
    query = np.array([[1, 0], [1, 0], [0, -1]], "float32")
    document = np.array([[0.8, 0.6], [1, 0], [0.8, 0.6]], "float32")
    ids = {"query_id": np.array([1, 2, 1]), "document_id": np.array([1, 2, 3])}
    pairs = as_pairs({"query": query, "document": document}, ids)
    found = SamToNe(same_tower="both").rows(pairs, pairs)
    np.testing.assert_allclose(found.reciprocal_rank, [1 / 2, 1, 1 / 2])
    np.testing.assert_allclose(found.negatives, [2, 4, 2])  # documents, and as many queries
    found = InBatchSoftmax(masks=()).rows(pairs, pairs)
    np.testing.assert_allclose(found.reciprocal_rank, [1 / 3, 1, 1 / 3])
    np.testing.assert_allclose(found.negatives, [2, 2, 2])


def test_a_loss_that_is_no_number_ranks_nothing_first():
    pairs = as_pairs({"query": np.eye(2, dtype="float32"), "document": np.eye(2)}, {})
    pairs = pairs._replace(query=tf.constant([[np.nan, 0], [0, 1]], "float32"))
    found = InBatchSoftmax().rows(pairs, pairs)
    assert np.isnan(found.loss[0])
    assert found.correct[0] == 0
    assert found.reciprocal_rank[0] == 0.5


def test_correct_ignores_the_same_tower():
    # Two equal queries: the same-tower column is the best of all, and no document.
    query = np.array([[1, 0], [1, 0]], "float32")
    document = np.array([[0.8, 0.6], [0.6, 0.8]], "float32")
    pairs = as_pairs({"query": query, "document": document}, {})
    assert SamToNe(same_tower="both").rows(pairs, pairs).correct.numpy().tolist() == [1, 0]


def masked_share(loss, vectors, ids):
    pairs = as_pairs(vectors, ids)
    return loss.rows(pairs, pairs).masked.numpy()


def test_masked_is_0_without_false_negatives_and_for_the_pair_itself():
    vectors = make_vectors(np.random.default_rng(18), 4, 1)
    ids = {"query_id": np.arange(4), "document_id": np.arange(4) + 10}
    loss = SamToNe(same_tower="both")
    assert masked_share(loss, vectors, ids).tolist() == [0, 0, 0, 0]
    assert masked_share(loss, vectors, {}).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(("same_tower", "bidirectional"), FORMS)
def test_masked_is_seen_in_the_rows_that_have_false_negatives(same_tower, bidirectional):
    # Pairs 0 and 1 share a document; pair 2 has nothing in common with them.
    vectors = make_vectors(np.random.default_rng(19), 3)
    ids = {"query_id": np.array([1, 2, 3]), "document_id": np.array([7, 7, 8])}
    arguments = {"temperature": 0.1, "bidirectional": bidirectional}
    share = masked_share(make_loss(same_tower, **arguments), vectors, ids)
    assert share[0] == share[1] > 0
    assert share[2] == 0
    off = make_loss(same_tower, masks=(), **arguments)
    assert masked_share(off, vectors, ids).tolist() == [0, 0, 0]


@pytest.mark.parametrize(("same_tower", "bidirectional"), FORMS)
def test_masked_is_a_share_of_the_columns_besides_the_positive(same_tower, bidirectional):
    # Each block of row 0 has two columns besides the pair itself, j = 1 and j = 2, and one of
    # them is masked: 1/2 in q-d, d-q, q-q and d-d alike.
    vectors = make_vectors(np.random.default_rng(19), 3)
    ids = {"query_id": np.array([1, 2, 3]), "document_id": np.array([7, 7, 8])}
    loss = make_loss(same_tower, temperature=0.1, bidirectional=bidirectional)
    np.testing.assert_allclose(masked_share(loss, vectors, ids), [0.5, 0.5, 0.0])


@pytest.mark.parametrize("why", ["own", "empty slot"])
def test_masked_counts_no_column_that_is_absent_for_another_reason(why):
    vectors = make_vectors(np.random.default_rng(19), 3, 1)
    ids = {"query_id": np.arange(3), "document_id": np.arange(3) + 10}
    negative = {"own": [[20], [21], [22]], "empty slot": [[20], [21], [-1]]}[why]
    loss = InBatchSoftmax(0.1, negatives_scope="own" if why == "own" else "global")
    share = masked_share(loss, vectors, {**ids, "negative_id": np.array(negative)})
    assert share.tolist() == [0, 0, 0]


# --- precision -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_vectors_are_compared_in_float32(dtype):
    rng = np.random.default_rng(20)
    vectors = make_vectors(rng, 6, 2)
    half = {name: tf.cast(value, dtype) for name, value in vectors.items()}
    loss = SamToNe(0.01, same_tower="both")
    got = loss(**half)
    assert got.dtype == tf.float32
    same_numbers = loss(**{name: tf.cast(value, "float32") for name, value in half.items()})
    np.testing.assert_array_equal(got, same_numbers)


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_c05_close_cosines_stay_apart(policy):
    # q.d = 0.851 for the positive and 0.853 for the other: log(1 + e^0.2) = 0.7981.
    # In bfloat16 the two tie and give log 2 = 0.693.
    documents = np.array([[c, np.sqrt(1 - c * c)] for c in (0.851, 0.853)], "float32")
    query = np.array([[1, 0], [1, 0]], "float32")
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        got = InBatchSoftmax(0.01, bidirectional=False)(query, documents).numpy()
    finally:
        keras.config.set_dtype_policy(before)
    np.testing.assert_allclose(got[0], np.log(1 + np.exp(0.2)), atol=1e-3)


@pytest.mark.parametrize("side", ["query", "document", "negative"])
@pytest.mark.parametrize("same_tower", [None, "both"])
def test_c06_a_zero_row_gives_finite_numbers_and_spoils_no_other(same_tower, side):
    rng = np.random.default_rng(21)
    vectors, ids = make_vectors(rng, 4, 1, dim=3), make_ids(rng, 4, 1)
    ids["negative_id"][:] = BASE + 999
    vectors[side][1] = 0
    arguments = {"temperature": 0.05}
    check_value(vectors, ids, same_tower, **arguments)  # a zero row has cosine 0
    found = gradients(make_loss(same_tower, **arguments), vectors, ids)
    assert all(np.isfinite(value).all() for value in found.values())
    np.testing.assert_array_equal(found[side][1], 0)
    for name in vectors:

        def total(array, name=name):
            losses, _ = oracle.contrastive(
                **{**vectors, name: array}, **ids, same_tower=same_tower, **arguments
            )
            return losses.sum()

        rest = [0, 2, 3]
        want = oracle.gradient(total, vectors[name])
        checks.assert_near(found[name][rest], want[rest], 1e-4, name)


# --- arguments -----------------------------------------------------------------------------


@pytest.mark.parametrize("make", [InBatchSoftmax, SamToNe])
@pytest.mark.parametrize("temperature", [0, -1, float("nan"), float("inf")], ids=str)
def test_c07_a_temperature_that_cannot_be_one(make, temperature):
    with pytest.raises(ValueError, match=f"greater than 0.*Received: temperature={temperature}"):
        make(temperature=temperature)


@pytest.mark.parametrize("make", [InBatchSoftmax, SamToNe])
@pytest.mark.parametrize("temperature", [True, "0.1", None], ids=str)
def test_c07_a_temperature_that_is_no_number(make, temperature):
    with pytest.raises(TypeError, match=f"must be a number.*Received: .*{temperature}"):
        make(temperature=temperature)


@pytest.mark.parametrize("make", [InBatchSoftmax, SamToNe])
def test_c07_a_scale_taken_for_a_temperature_warns_with_its_inverse(make):
    with pytest.warns(UserWarning, match=r"pass temperature=0\.05"):
        make(temperature=20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert make(temperature=1).temperature == 1


def test_c07_four_orthonormal_pairs():
    # One direction, t = 1: log(e + 3) - 1 = 0.7437. At t = 0.01 the others are e^-100.
    unit = np.eye(4, dtype="float32")
    warm = InBatchSoftmax(1.0, bidirectional=False)(unit, unit)
    np.testing.assert_allclose(warm, np.full(4, np.log(np.e + 3) - 1), rtol=1e-6)
    np.testing.assert_allclose(warm, np.full(4, 0.744), atol=5e-4)
    np.testing.assert_allclose(InBatchSoftmax(0.01)(unit, unit), np.zeros(4), atol=1e-6)


@pytest.mark.parametrize("same_tower", ["document", "both"])
def test_document_side_terms_need_the_document_direction(same_tower):
    with pytest.raises(ValueError, match=f"same_tower='{same_tower}', bidirectional=False"):
        SamToNe(same_tower=same_tower, bidirectional=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"same_tower": "passage"}, "query, document, both.*same_tower='passage'"),
        ({"same_tower": None}, "query, document, both.*same_tower=None"),
        ({"directions": "max"}, "sum, mean.*directions='max'"),
        ({"negatives_scope": "local"}, "global, own.*negatives_scope='local'"),
        ({"masks": ("id", "title")}, "id, text, positives.*'title'"),
        ({"masks": "ids"}, "id, text, positives.*'ids'"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_unknown_values_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        SamToNe(**arguments)


@pytest.mark.parametrize(
    ("query", "document", "negative", "message"),
    [
        ((4, 3), (5, 3), None, r"query \(4, 3\), document \(5, 3\)"),
        ((4, 3), (4, 2), None, r"query \(4, 3\), document \(4, 2\)"),
        ((3,), (3,), None, r"query \(3,\)"),
        ((4, 3), (4, 3), (4, 3), r"\(B, N, D\).*Received: negative \(4, 3\)"),
        ((4, 3), (4, 3), (5, 1, 3), r"Received: negative \(5, 1, 3\)"),
        ((4, 3), (4, 3), (4, 1, 2), r"Received: negative \(4, 1, 2\)"),
    ],
)
def test_shapes_that_do_not_fit_are_named(query, document, negative, message):
    negative = None if negative is None else np.ones(negative, "float32")
    with pytest.raises(ValueError, match=message):
        SamToNe()(np.ones(query, "float32"), np.ones(document, "float32"), negative)


@pytest.mark.parametrize(
    "loss",
    [
        InBatchSoftmax(),
        InBatchSoftmax(0.5, False, "mean", "id", "own"),
        SamToNe(),
        SamToNe(0.5, "both", True, "mean", (), "own"),
    ],
    ids=["plain default", "plain", "samtone default", "samtone"],
)
def test_config_round_trip(loss):
    revived = checks.assert_config_round_trip(loss)
    rng = np.random.default_rng(22)
    vectors, ids = make_vectors(rng, 5, 2), make_ids(rng, 5, 2)
    np.testing.assert_array_equal(revived(**vectors, **ids), loss(**vectors, **ids))


def test_config_holds_what_was_given():
    assert SamToNe(0.5, "both", True, "mean", "positives,id", "own").get_config() == {
        "temperature": 0.5,
        "same_tower": "both",
        "bidirectional": True,
        "directions": "mean",
        "masks": ["id", "positives"],
        "negatives_scope": "own",
        "learn_temperature": False,
        "min_temperature": 0.01,
        "max_temperature": 1.0,
        "log_q": False,
        "similarity_margin": None,
        "similarity_margin_kind": "absolute",
    }
    assert "same_tower" not in InBatchSoftmax().get_config()


# --- what is refused ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        ({"query_id": [7]}, ValueError, r"`query_id` does not fit.*4 pairs.*shape \(1,\)"),
        ({"document_id": [1.0, 2, 3, 4]}, TypeError, "`document_id` must be integers.*float"),
        ({"positive_ids": [1, 2, 3, 4]}, ValueError, r"`positive_ids` does not fit.*shape \(4,\)"),
        ({"negative_id": [[1]] * 4}, ValueError, "`negative_id` does not fit.*0 hard negatives"),
    ],
    ids=["length", "floats", "rank", "no negatives"],
)
def test_ids_that_do_not_fit_are_refused(ids, error, message):
    vectors = np.eye(4, dtype="float32")
    with pytest.raises(error, match=message):
        InBatchSoftmax()(vectors, vectors, **ids)


def test_ids_of_different_integer_types_are_compared():
    vectors = np.eye(2, dtype="float32")
    ids = {"document_id": np.array([5, 6], "int32"), "positive_ids": np.array([[5, 6], [6, -1]])}
    # d_1 answers q_0, too: nothing is left beside its positive.
    assert float(InBatchSoftmax(bidirectional=False)(vectors, vectors, **ids)[0]) == 0


def test_a_numpy_number_is_a_temperature():
    assert InBatchSoftmax(np.float32(0.5)).get_config()["temperature"] == 0.5
