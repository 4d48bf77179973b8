"""Pins of data.pipeline: order as a function of (seed, step), static shapes, hard negatives."""

import numpy as np
import pytest
import tensorflow as tf

from samtone_tf.data.cache import Cache
from samtone_tf.data.fingerprints import fingerprint, normalise
from samtone_tf.data.pipeline import PairBatches, check_local, log_frequencies
from samtone_tf.data.records import RetrievalData
from samtone_tf.data.tokenizer import Tokenizer

NUM_PAIRS = 21


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(["query document negative number 0123456789"], vocabulary_size=40)


def make_data(num_negatives=0, num_pairs=NUM_PAIRS):
    queries = {f"q{i}": f"query number {i}" for i in range(num_pairs)}
    documents = {f"d{i}": f"document number {i}" for i in range(num_pairs)}
    documents |= {f"n{i}": f"negative number {i}" for i in range(num_negatives)}
    qrels = {f"q{i}": {f"d{i}": 1} for i in range(num_pairs)}
    negatives = {f"q{i}": tuple(f"n{j}" for j in range(num_negatives)) for i in range(num_pairs)}
    return RetrievalData("made here", "train", queries, documents, qrels, negatives)


def make(tokenizer, data=None, **arguments):
    arguments = {"batch_size": 4, "query_length": 8, "document_length": 12} | arguments
    return PairBatches(data or make_data(), tokenizer, **arguments)


def assert_same(one, other):
    tf.nest.assert_same_structure(one, other)
    for a, b in zip(tf.nest.flatten(one), tf.nest.flatten(other), strict=True):
        np.testing.assert_array_equal(a, b)


def epoch_ids(batches, epoch):
    first = epoch * batches.steps_per_epoch
    steps = range(first, first + batches.steps_per_epoch)
    return np.concatenate([batches.batch(step)["query_id"] for step in steps])


def test_c03_every_batch_is_full_and_the_remainder_is_dropped(tokenizer):
    batches = make(tokenizer)
    assert batches.num_pairs == 21
    assert batches.steps_per_epoch == 5
    assert all(len(batches.batch(step)["query_id"]) == 4 for step in range(12))


def test_every_pair_comes_at_most_once_per_epoch(tokenizer):
    batches = make(tokenizer)
    everything = set(batches._table.query_fingerprints.tolist())
    for epoch in range(3):
        ids = epoch_ids(batches, epoch)
        assert len(set(ids.tolist())) == len(ids) == 20
        assert set(ids.tolist()) < everything
    whole = make(tokenizer, batch_size=7)  # divides the 21 pairs
    assert set(epoch_ids(whole, 0).tolist()) == everything


def test_c02_the_remainder_differs_between_epochs(tokenizer):
    batches = make(tokenizer)
    left = {frozenset(epoch_ids(batches, epoch).tolist()) for epoch in range(6)}
    assert len(left) > 1


def test_order_depends_on_seed_and_epoch(tokenizer):
    batches = make(tokenizer)
    assert epoch_ids(batches, 0).tolist() != epoch_ids(batches, 1).tolist()
    assert epoch_ids(batches, 0).tolist() != epoch_ids(make(tokenizer, seed=1), 0).tolist()
    assert epoch_ids(batches, 0).tolist() != batches._table.query_fingerprints[:20].tolist()


def test_a_batch_is_a_function_of_seed_and_step_alone(tokenizer):
    arguments = {"data": make_data(6), "num_negatives": 2, "seed": 3}
    batches = make(tokenizer, **arguments)
    inorder = [batches.batch(step) for step in range(12)]
    restarted = make(tokenizer, **arguments)
    for step in (11, 0, 7, 3):
        assert_same(restarted.batch(step), inorder[step])


def test_rows_of_a_batch_belong_together(tokenizer):
    batches = make(tokenizer, data=make_data(3), num_negatives=2)
    by_query = {fingerprint(f"query number {i}"): i for i in range(NUM_PAIRS)}
    batch = batches.batch(6)
    for row in range(4):
        i = by_query[int(batch["query_id"][row])]
        document = f"document number {i}"
        assert batch["document_id"][row] == fingerprint(document)
        assert batch["positive_ids"][row].tolist() == [fingerprint(document)]
        for part, text in (("query", f"query number {i}"), ("document", document)):
            length = {"query": 8, "document": 12}[part]
            want = tokenizer.encode([text], length)[0]
            mask = batch[part]["padding_mask"][row]
            assert batch[part]["token_ids"][row][mask].tolist() == want.tolist()
            assert mask.sum() == len(want)
        for slot in range(2):
            j = [fingerprint(f"negative number {n}") for n in range(3)].index(
                batch["negative_id"][row, slot]
            )
            want = tokenizer.encode([f"negative number {j}"], 12)[0]
            mask = batch["negatives"]["padding_mask"][row, slot]
            assert batch["negatives"]["token_ids"][row, slot][mask].tolist() == want.tolist()


def test_negatives_are_drawn_without_repeats_and_anew(tokenizer):
    batches = make(tokenizer, data=make_data(6), num_negatives=3)
    draws = np.concatenate([batches.batch(step)["negative_id"] for step in range(10)])
    assert all(len(set(row)) == 3 for row in draws.tolist())
    assert len({tuple(sorted(row)) for row in draws.tolist()}) > 5
    assert len(set(draws.ravel().tolist())) == 6
    assert -1 not in draws
    assert batches.statistics["absent_negatives"] == 0
    assert batches.statistics["negatives_per_query"] == 3


def test_c54_too_few_negatives_leave_marked_empty_slots(tokenizer):
    data = make_data(2)
    del data.negatives["q0"]
    batches = make(tokenizer, data=data, num_negatives=5)
    assert batches.num_pairs == NUM_PAIRS  # no query vanishes
    for step in range(batches.steps_per_epoch):
        batch = batches.batch(step)
        absent = batch["negative_id"] == -1
        is_first = batch["query_id"] == fingerprint("query number 0")
        np.testing.assert_array_equal(absent.sum(axis=1), np.where(is_first, 5, 3))
        np.testing.assert_array_equal(absent, ~batch["negatives"]["padding_mask"].any(axis=-1))
        assert not batch["negatives"]["token_ids"][absent].any()
    assert batches.statistics["absent_negatives"] == 20 * 3 + 5
    assert batches.statistics["negatives_per_query"] == 20 * 2 / 21
    assert any("65 of 105 slots" in note for note in batches.notes)


def test_c54_an_empty_slot_is_never_drawn_before_a_negative(tokenizer):
    data = make_data(6)
    for i in range(NUM_PAIRS):
        data.negatives[f"q{i}"] = data.negatives[f"q{i}"][: 6 if i % 2 else 2]
    batches = make(tokenizer, data=data, num_negatives=2)
    assert all((batches.batch(step)["negative_id"] != -1).all() for step in range(5))


@pytest.mark.parametrize(
    ("negatives", "why"),
    [
        ({}, ""),
        ({"q0": (), "unjudged": ("d1",)}, ""),
        ({"q0": ("d0", "gone")}, r" \(1 hard negatives are empty .*; 1 .* known positives; .*\)"),
    ],
    ids=["none given", "none of a judged query", "none usable"],
)
def test_negatives_asked_for_and_absent_are_refused_before_the_work(negatives, why):
    data = make_data()
    data.negatives.clear()
    data.negatives.update(negatives)
    match = (
        r"`num_negatives` must be 0 for made here: no query .*\. "
        rf"Received: num_negatives=2{why}\. Add hard negatives.* or set it to 0\."
    )
    with pytest.raises(ValueError, match=match):
        make(None, data=data, num_negatives=2)  # no tokenizer: no text is looked at


def test_negatives_of_a_pair_are_those_of_its_query(tokenizer):
    data = make_data(NUM_PAIRS)
    for i in range(NUM_PAIRS):
        data.negatives[f"q{i}"] = (f"n{i}",) if i % 3 else ()
    data.qrels["q4"] = {"d4": 1, "d5": 1}  # more pairs than queries
    batches = make(tokenizer, data=data, num_negatives=2)
    number = {fingerprint(f"query number {i}"): i for i in range(NUM_PAIRS)}
    for step in range(batches.steps_per_epoch):
        batch = batches.batch(step)
        for query, drawn in zip(batch["query_id"].tolist(), batch["negative_id"], strict=True):
            i = number[query]
            own = fingerprint(f"negative number {i}") if i % 3 else -1
            assert drawn.tolist() == [own, -1]
    # 14 queries have one, and q4 has two pairs
    assert batches.statistics["negatives_per_query"] == 15 / 22
    assert batches.statistics["absent_negatives"] == 2 * 22 - 15


def test_c02_duplicates_in_a_batch_carry_what_the_mask_needs(tokenizer):
    # q = [a, a, b], d = [x, y, z]: x and y are both positives of a.
    data = RetrievalData(
        "made here",
        "train",
        {"a": "a", "b": "b"},
        {"x": "x", "y": "y", "z": "z"},
        {"a": {"x": 1, "y": 1}, "b": {"z": 1}},
    )
    batch = make(tokenizer, data=data, batch_size=3).batch(0)
    x, y, z = map(fingerprint, "xyz")
    known = {x: {x, y}, y: {x, y}, z: {z, -1}}
    for document, positives in zip(batch["document_id"], batch["positive_ids"], strict=True):
        assert set(positives.tolist()) == known[int(document)]
        assert positives[0] == document


def test_prompts_stand_before_queries_and_documents_and_change_no_identity(tokenizer, tmp_path):
    prompts = {"query_prompt": "query ", "document_prompt": "number "}
    for cache in (None, Cache(tmp_path)):
        settings = {"data": make_data(2), "num_negatives": 1, "cache": cache}
        plain, prompted = make(tokenizer, **settings), make(tokenizer, **settings, **prompts)
        one, other = plain.batch(3), prompted.batch(3)
        for name in ("query_id", "document_id", "negative_id", "positive_ids"):
            np.testing.assert_array_equal(one[name], other[name])
        for part, prompt, length in (
            ("query", "query ", 8),
            ("document", "number ", 12),
            ("negatives", "number ", 12),
        ):
            ids, mask = other[part]["token_ids"], other[part]["padding_mask"]
            found = [row[kept].tolist() for row, kept in zip(rows(ids), rows(mask), strict=True)]
            kind = {"negatives": "negative"}.get(part, part)
            texts = [f"{prompt}{kind} number {i}" for i in range(NUM_PAIRS)]
            assert {tuple(row) for row in found} <= {
                tuple(row.tolist()) for row in tokenizer.encode(texts, length)
            }
        assert plain.fingerprint != prompted.fingerprint


def rows(array):
    return array.reshape(-1, array.shape[-1])


def test_dataset_has_static_shapes_and_the_batches_of_its_steps(tokenizer):
    batches = make(tokenizer, data=make_data(3), num_negatives=2)
    dataset = batches.dataset(first_step=3, num_steps=4)
    shapes = tf.nest.map_structure(lambda s: (tuple(s.shape), s.dtype.name), dataset.element_spec)
    text = {"token_ids": ((4, 8), "int32"), "padding_mask": ((4, 8), "bool")}
    document = {"token_ids": ((4, 12), "int32"), "padding_mask": ((4, 12), "bool")}
    negatives = {"token_ids": ((4, 2, 12), "int32"), "padding_mask": ((4, 2, 12), "bool")}
    assert shapes == {
        "query": text,
        "document": document,
        "negatives": negatives,
        "query_id": ((4,), "int64"),
        "document_id": ((4,), "int64"),
        "negative_id": ((4, 2), "int64"),
        "positive_ids": ((4, 1), "int64"),
    }
    assert dataset.cardinality() == 4
    elements = list(dataset.as_numpy_iterator())
    assert len(elements) == 4
    for step, element in enumerate(elements, start=3):
        assert_same(element, batches.batch(step))


def test_dataset_without_num_steps_never_ends(tokenizer):
    dataset = make(tokenizer).dataset()
    assert dataset.cardinality() == tf.data.INFINITE_CARDINALITY
    assert len(list(dataset.take(12))) == 12  # more than two epochs of 5
    assert "negatives" not in dataset.element_spec
    assert "negative_id" not in dataset.element_spec


def test_masks_off_use_ids_and_own_documents_only(tokenizer):
    batch = make(tokenizer, masks=()).batch(0)
    assert set(batch["query_id"].tolist()) <= {fingerprint(f"q{i}") for i in range(NUM_PAIRS)}
    assert batch["positive_ids"].shape == (4, 1)


def test_statistics_count_what_was_cut(tokenizer):
    data = make_data()
    data.queries["q3"] = "number " * 30
    data.documents["d5"] = normalise(data.documents["d4"])
    batches = make(tokenizer, data=data, document_length=64, query_length=40)
    assert batches.statistics == {
        "pairs": 21,
        "steps_per_epoch": 5,
        "left_out_per_epoch": 1,
        "queries": 21,
        "documents": 21,
        "truncated_queries": 1,
        "truncated_documents": 0,
        "positives_overflow": 0,
        "unique_document_share": 20 / 21,
        "negatives_per_query": 0.0,
    }
    assert batches.notes == ()


def make_repeated_data():
    """Sixty pairs; every query is asked twice and every document answers three of them."""
    queries = {f"q{i}": f"{'Query' if i % 2 else 'query'} number {i // 2}" for i in range(60)}
    documents = {f"d{i}": f"document  number {i}" for i in range(20)}
    qrels = {f"q{i}": {f"d{i * 7 % 20}": 1} for i in range(60)}
    return RetrievalData("made here", "train", queries, documents, qrels)


@pytest.mark.parametrize("masks", [("id", "text", "positives"), ()])
def test_batches_without_duplicates_have_none_in_any_epoch(tokenizer, masks):
    data = make_repeated_data()
    arguments = {"data": data, "batch_size": 8, "document_length": 40}
    batches = make(tokenizer, **arguments, no_duplicates=True, masks=masks)
    assert batches.steps_per_epoch == 7
    for epoch in range(3):
        pairs = []
        for step in range(epoch * 7, epoch * 7 + 7):
            batch = batches.batch(step)
            documents = {tuple(row) for row in batch["document"]["token_ids"].tolist()}
            assert len(documents) == 8
            if masks:
                assert len(set(batch["query_id"].tolist())) == 8
                assert len(set(batch["document_id"].tolist())) == 8
            pairs += zip(batch["query_id"].tolist(), batch["document_id"].tolist(), strict=True)
        if not masks:  # ids tell the pairs apart
            assert len(set(pairs)) == 56
    plain = make(tokenizer, **arguments)
    assert any(len(set(plain.batch(step)["query_id"].tolist())) < 8 for step in range(7))


def test_batches_without_duplicates_resume_at_any_step(tokenizer):
    arguments = {"data": make_repeated_data(), "batch_size": 8, "no_duplicates": True}
    want = list(make(tokenizer, **arguments).dataset(0, 20).as_numpy_iterator())
    resumed = make(tokenizer, **arguments).dataset(9, 11).as_numpy_iterator()
    for one, other in zip(resumed, want[9:], strict=True):
        assert_same(one, other)


def test_pairs_that_no_batch_can_take_are_counted(tokenizer):
    data = make_data()
    for i in range(12):
        data.documents[f"d{i}"] = "one answer"
    batches = make(tokenizer, data=data, no_duplicates=True)
    # S batches of 4 take S of the 12 and at most 9 others: 4 S ≤ S + 9.
    assert batches.steps_per_epoch == 3
    assert batches.statistics["left_out_per_epoch"] == 9
    (note,) = batches.notes
    assert note.startswith("9 of 21 pairs are left out of each epoch, drawn anew")


def test_one_document_everywhere_is_refused_without_duplicates(tokenizer):
    data = make_data()
    data.documents.update(dict.fromkeys(data.documents, "one answer"))
    with pytest.raises(ValueError, match="`no_duplicates` is set. Received: batch_size=4, 21"):
        make(tokenizer, data=data, no_duplicates=True)


def test_a_tpu_over_the_network_is_refused():
    check_local(["/job:localhost/replica:0/task:0/device:TPU:0", "/device:CPU:0"])
    with pytest.raises(ValueError, match=r"Received: /job:worker/.*TPU:0.*tpu=\"local\""):
        check_local(["/job:worker/replica:0/task:0/device:TPU:0"])


def test_overflow_of_positives_is_noted(tokenizer):
    data = make_data(num_pairs=4)
    data.qrels["q0"] = {f"d{i}": 1 for i in range(4)}
    batches = make(tokenizer, data=data, max_positives=2)
    assert batches.statistics["positives_overflow"] == 4
    assert any("4 pairs have more known positives" in note for note in batches.notes)
    assert batches.batch(0)["positive_ids"].shape == (4, 2)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"batch_size": 22}, r"number of pairs, 21\. Received: batch_size=22\. Lower it to 21"),
        ({"batch_size": 1}, "`batch_size` must be at least 2.*Received: batch_size=1"),
        ({"num_negatives": -1}, "Received: num_negatives=-1"),
        ({"seed": -1}, "Received: seed=-1"),
        ({"query_length": 1}, "Received: length=1"),
        ({"masks": ("texts",)}, "Received: .*texts"),
    ],
)
def test_wrong_arguments_say_what_was_received(tokenizer, arguments, match):
    with pytest.raises(ValueError, match=match):
        make(tokenizer, **arguments)


def test_wrong_steps_are_refused(tokenizer):
    batches = make(tokenizer)
    with pytest.raises(ValueError, match="Received: step=-1"):
        batches.batch(-1)
    with pytest.raises(ValueError, match="Received: first_step=-1"):
        batches.dataset(-1)


# --- log Q ------------------------------------------------------------------------------------


def test_log_frequencies_by_hand():
    # Six pairs, three documents, 2 pairs each on average: these come 3, 2 and 1 times.
    numbers = np.array([7, 9, 7, 2**62, 9, 7])
    want = np.log(np.array([3, 2, 3, 1, 2, 3]) / 2)
    got = log_frequencies(numbers)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_each_pair_brings_its_log_frequencies(tokenizer):
    data = make_data()
    data.qrels["q0"] |= {f"d{i}": 1 for i in range(5)}  # q0 four times more, d1 to d4 once more
    batches = make(tokenizer, data=data, log_q=True)
    seen = set()
    for step in range(6):
        batch = batches.batch(step)
        rows = zip(*(batch[f"{s}_{what}"].tolist() for s in ("query", "document")
                     for what in ("id", "log_q")), strict=True)  # fmt: skip
        for query, query_log_q, document, document_log_q in rows:
            times = 5 if query == fingerprint("query number 0") else 1
            assert query_log_q == pytest.approx(np.log(times * 21 / 25), rel=1e-5)
            often = document in [fingerprint(f"document number {i}") for i in range(1, 5)]
            assert document_log_q == pytest.approx(np.log((2 if often else 1) * 21 / 25), rel=1e-5)
            seen.add((times, often))
    assert seen == {(5, True), (5, False), (1, True), (1, False)}
    spec = batches.element_spec
    assert spec["query_log_q"] == spec["document_log_q"] == tf.TensorSpec((4,), tf.float32)
    assert "query_log_q" not in make(tokenizer).batch(0)
