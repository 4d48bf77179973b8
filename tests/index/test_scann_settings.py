"""Pins of index.scann_settings: the three layouts, overrides, refusals."""

import pytest

from samtone_tf.index.scann_settings import ScannSettings, scann_settings


@pytest.mark.parametrize(
    ("num", "leaves", "dims_per_block", "reorder"),
    # A million documents: sqrt = 1000 leaves.
    [(1, 0, 0, 0), (19_999, 0, 0, 0), (20_000, 0, 2, 500), (1_000_000, 1000, 2, 500)],
)
def test_layout_follows_size(num, leaves, dims_per_block, reorder):
    settings = scann_settings(num, 768)
    assert settings.num_leaves == leaves
    assert settings.dims_per_block == dims_per_block
    assert settings.reorder == reorder
    assert settings.is_brute_force == (num < 20_000)


def test_a_sixth_of_the_leaves_is_read():
    assert scann_settings(1_000_000, 768).num_leaves_to_search == 167  # 1000 / 6, rounded up


def test_given_fields_stay_and_the_rest_follows():
    settings = scann_settings(5_000, 64, ScannSettings(num_leaves=70))
    assert (settings.num_leaves, settings.dims_per_block, settings.reorder) == (70, 2, 500)
    assert settings.num_leaves_to_search == 12


@pytest.mark.parametrize(
    ("num", "given", "search"),
    [
        (19_999, {}, "brute force"),
        (20_000, {}, "codes + reorder"),
        (100_000, {}, "tree + codes + reorder"),
        (5_000, {"num_leaves": 70, "reorder": 0}, "tree + codes"),
        (5_000, {"num_leaves": 70, "dims_per_block": 0}, "tree"),
    ],
)
def test_the_search_is_named_by_what_it_does(num, given, search):
    settings = scann_settings(num, 64, ScannSettings(**given))
    assert settings.search == search
    assert settings.is_brute_force == (search == "brute force")


def test_too_few_documents_for_codes_have_none():
    assert scann_settings(15, 8, ScannSettings(num_leaves=3)).search == "tree"
    assert scann_settings(16, 8, ScannSettings(num_leaves=3)).search == "tree + codes + reorder"


@pytest.mark.parametrize(("num", "sample"), [(1_000, 1_000), (400_000, 100_000)])
def test_the_tree_is_learned_from_a_sample(num, sample):
    assert scann_settings(num, 64).training_sample_size == sample
    # 50 documents a leaf, where that is more.
    assert (
        scann_settings(10**6, 64, ScannSettings(num_leaves=5_000)).training_sample_size == 250_000
    )


def test_one_dimension_has_blocks_of_one():
    assert scann_settings(30_000, 1).dims_per_block == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"num_leaves": 11}, "number of documents, 10. Received: num_leaves=11"),
        ({"num_leaves": 3, "num_leaves_to_search": 4}, "num_leaves=3. Received: .*search=4"),
        ({"num_leaves_to_search": 4}, "num_leaves=0. Received: .*search=4"),
        ({"dims_per_block": 9}, "8 dimensions. Received: dims_per_block=9"),
        ({"dims_per_block": 2}, "0 below 16 documents.*Received: dims_per_block=2 for 10"),
        ({"num_leaves": 5, "training_sample_size": 4}, "at least num_leaves=5. .*sample_size=4"),
        ({"dims_per_block": 0, "reorder": 5}, "`reorder` must be 0.*Received: reorder=5"),
    ],
)
def test_what_does_not_fit_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        scann_settings(10, 8, ScannSettings(**given))


@pytest.mark.parametrize(
    "given",
    [{"num_leaves": -1}, {"num_leaves_to_search": 0}, {"reorder": 1.5}, {"dims_per_block": True}],
)
def test_bad_numbers_are_refused(given):
    with pytest.raises(ValueError, match="Received: " + next(iter(given))):
        ScannSettings(**given)


def test_threshold_is_below_one():
    with pytest.raises(ValueError, match="anisotropic_threshold=1.0"):
        ScannSettings(anisotropic_threshold=1.0)
