"""Pins of index.merged: equal to one index over everything, and what may not be merged."""

import numpy as np
import pytest

from samtone_tf.index.conditions import Crowding
from samtone_tf.index.exact import ExactIndex
from samtone_tf.index.merged import MergedIndex


@pytest.fixture
def parts(unit_rows, names):
    """(three shards, one index over all of them), with ties between shards."""
    vectors, ids = unit_rows(90, 6), names(90)
    vectors[60:75] = vectors[:15]
    cuts = [slice(0, 1), slice(1, 50), slice(50, 90)]
    shards = [ExactIndex.build(vectors[cut], ids[cut], model="m") for cut in cuts]
    return shards, ExactIndex.build(vectors, ids, model="m")


@pytest.mark.parametrize("k", [1, 10, 89, 200])
def test_merged_equals_one_index(parts, k, unit_rows):
    shards, whole = parts
    queries = unit_rows(12, 6, seed=1)
    queries[0] = whole.vectors.array()[3]  # its two best documents tie
    merged = MergedIndex(shards)
    found, want = merged.search(queries, k), whole.search(queries, k)
    assert found.document_ids == want.document_ids
    for got, scores in zip(found.scores, want.scores, strict=True):
        np.testing.assert_array_equal(got, scores)
    assert (merged.num_documents, merged.dim, merged.model, merged.kind) == (90, 6, "m", "merged")


@pytest.mark.parametrize("limit", [None, 1, 2])
def test_conditions_hold_over_all_indexes(parts, limit, unit_rows, names):
    shards, whole = parts
    allowed = set(names(90)[::2])
    groups = {name: int(name[1:]) % 5 for name in names(90)}
    given = {"allowed": allowed} | ({} if limit is None else {"crowding": Crowding(groups, limit)})
    queries = unit_rows(5, 6, seed=2)
    found, want = MergedIndex(shards).search(queries, 7, **given), whole.search(queries, 7, **given)
    assert found.document_ids == want.document_ids


def test_what_cannot_be_merged_is_refused(unit_rows):
    first = ExactIndex.build(unit_rows(2, 4), ["a", "b"], model="aaa")
    with pytest.raises(ValueError, match="one model. Received: fingerprints aaa and bbb"):
        MergedIndex([first, ExactIndex.build(unit_rows(1, 4), ["c"], model="bbb")])
    with pytest.raises(ValueError, match="fingerprints aaa and unknown"):
        MergedIndex([first, ExactIndex.build(unit_rows(1, 4), ["c"])])
    with pytest.raises(ValueError, match="one size. Received: 4 and 5"):
        MergedIndex([first, ExactIndex.build(unit_rows(1, 5), ["c"], model="aaa")])
    with pytest.raises(ValueError, match="not share document ids. Received: 'b' in two"):
        MergedIndex([first, ExactIndex.build(unit_rows(1, 4), ["b"], model="aaa")])
    with pytest.raises(ValueError, match="at least one index"):
        MergedIndex([])
