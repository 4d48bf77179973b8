"""Pins of a report's small parts: escaping, names, ticks, bins, the place of a cut."""

import numpy as np
import pytest

from samtone_tf.analysis.axes import short, ticks
from samtone_tf.analysis.compared_section import p_value
from samtone_tf.analysis.data_section import position
from samtone_tf.analysis.markup import Html, join, tag
from samtone_tf.analysis.names import short_names
from samtone_tf.analysis.scores_section import bin_edges, chosen_measure, shares
from samtone_tf.analysis.tables import best_of
from samtone_tf.evaluation.bootstrap import Estimate


def test_elements_escape_texts_and_keep_elements():
    made = tag("td", "a < b & c", tag("b", '"'), None, ["x", Html("<i></i>")], class_='q"', id=None)
    assert made == ('<td class="q&quot;">a &lt; b &amp; c<b>&quot;</b>x<i></i></td>')
    assert tag("meta", name="n", http_equiv="x") == '<meta name="n" http-equiv="x">'
    # What was glued together without `join` is a text again.
    assert join(f"{tag('b')}") == "&lt;b&gt;&lt;/b&gt;"


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (0, 1, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (0, 0.05, ["0", "0.01", "0.02", "0.03", "0.04", "0.05"]),
        (-0.3, 0.1, ["-0.3", "-0.2", "-0.1", "0", "0.1"]),
        (0, 7578, ["0", "2,000", "4,000", "6,000"]),
        (0.31, 0.33, ["0.31", "0.315", "0.32", "0.325", "0.33"]),
    ],
)
def test_ticks_are_round(low, high, wanted):
    assert [short(tick) for tick in ticks(low, high)] == wanted


def test_names_are_as_short_as_tells_them_apart():
    assert short_names(["beir:a/x", "beir:b/y"]) == {"beir:a/x": "x", "beir:b/y": "y"}
    assert short_names(["beir:a/x", "tfds:x"]) == {"beir:a/x": "a/x", "tfds:x": "tfds/x"}
    assert short_names(["saved/gtr/1"], least=2) == {"saved/gtr/1": "gtr/1"}
    assert short_names(["x", "x"]) == {"x": "x"}
    assert short_names(["", "a"]) == {"": "", "a": "a"}
    assert short_names(["a:b", "a/b"]) == {"a:b": "a:b", "a/b": "a/b"}


@pytest.mark.parametrize(
    ("limit", "wanted"), [(8, 1.0), (16, 2.0), (12, 1.5), (4, 0.5), (100, 2.0), (9, 1.125)]
)
def test_the_cut_lies_after_the_last_token_that_is_kept(limit, wanted):
    assert position([(1, 8, 3), (9, 16, 5)], limit) == wanted


def test_a_cut_before_the_first_bin_is_at_its_left():
    assert position([(17, 32, 3)], 8) == 0.0


def test_bins_hold_both_ends():
    edges = bin_edges([np.array([0.0, 1.0]), np.array([0.5])])
    np.testing.assert_allclose(edges, np.arange(11) / 10)
    found = shares(np.array([0.0, 0.05, 0.1, 1.0]), edges)
    np.testing.assert_allclose(found, [0.5, 0.25, 0, 0, 0, 0, 0, 0, 0, 0.25])
    np.testing.assert_allclose(shares(np.array([0.3, 0.6, 0.7]), edges)[[3, 6, 7]], 1 / 3)
    assert bin_edges([np.array([-1.0, 3.0])])[[0, -1]].tolist() == [-1.0, 3.0]


def test_ndcg_is_preferred():
    assert chosen_measure(["P@1", "nDCG@10", "nDCG@5"]) == "nDCG@10"
    assert chosen_measure(["P@1", "MRR"]) == "P@1"


def test_the_best_needs_a_choice():
    def of(*values):
        return [None if value is None else Estimate(value, None, None, 3) for value in values]

    assert best_of(of(0.1, 0.3, None, 0.3)) == [False, True, False, True]
    assert best_of(of(0.3, None)) == [False, False]
    assert best_of(of(0.3, 0.3)) == [False, False]


def test_p_values():
    assert [p_value(p) for p in (None, 0.00001, 0.04996)] == ["–", "<.0001", "0.0500"]
