"""Pins of evaluation.suite_results: groups first, averages, published cells, missing sets."""

import json

import numpy as np
import pytest

from samtone_tf.evaluation.references import references
from samtone_tf.evaluation.suite import SuiteSet, make_suite
from samtone_tf.evaluation.suite_results import gather

RNG = np.random.default_rng(0)
VALUES = {
    name: {
        "exact": (["nDCG@10"], RNG.random((num, 1))),
        "bm25": (["nDCG@10"], RNG.random((num, 1))),
    }
    for name, num in {"scifact": 20, "cqadupstack-tex": 30, "cqadupstack-gis": 5, "mine": 8}.items()
}
SUITE = make_suite(
    "mine",
    [
        SuiteSet("scifact", "docstrings"),
        SuiteSet("cqadupstack-tex", "docstrings", group="cqadupstack"),
        SuiteSet("cqadupstack-gis", "docstrings", group="cqadupstack"),
        SuiteSet("mine", "docstrings"),
    ],
    measures=("nDCG@10",),
    references="beir",
)


def result(name):
    """What `Evaluation.to_json` gives, as far as a suite looks at it."""
    rows = [
        {
            "system": system,
            "scores": {"nDCG@10": {"value": v.mean(), "low": 0.1, "high": 0.9, "n": len(v)}},
        }
        for system, (_, v) in VALUES[name].items()
    ]
    model = {"folder": "saved/1", "fingerprint": "abc"}
    return {"model": model, "num_queries": len(VALUES[name]["exact"][1]), "rows": rows}


def gathered(*names, **more):
    return gather(SUITE, {n: result(n) for n in names}, {n: VALUES[n] for n in names}, **more)


def mean(name, system="exact"):
    return VALUES[name][system][1].mean()


def test_a_group_is_averaged_first_and_counts_once():
    found = gathered(*VALUES)
    group = (mean("cqadupstack-tex") + mean("cqadupstack-gis")) / 2
    assert list(found.rows) == ["scifact", "cqadupstack", "mine"]
    assert found.rows["cqadupstack"]["exact"]["nDCG@10"].value == pytest.approx(group)
    average = found.averages["exact"]["nDCG@10"]
    assert average.value == pytest.approx((mean("scifact") + group + mean("mine")) / 3)
    assert average.n == 3
    assert found.rows["scifact"]["exact"]["nDCG@10"][1:] == (0.1, 0.9, 20)  # the set's own


def test_the_interval_of_an_average_is_that_of_independent_sets():
    """The variance of a mean of independent means: the sum of theirs over the square of 3."""
    found = gathered(*VALUES).averages["exact"]["nDCG@10"]
    weights = {"scifact": 1 / 3, "cqadupstack-tex": 1 / 6, "cqadupstack-gis": 1 / 6, "mine": 1 / 3}
    parts = [
        weight**2 * VALUES[name]["exact"][1].var() / len(VALUES[name]["exact"][1])
        for name, weight in weights.items()
    ]
    half = 1.96 * sum(parts) ** 0.5
    assert found.high - found.value == pytest.approx(half, rel=0.08)
    assert found.value - found.low == pytest.approx(half, rel=0.08)
    assert gathered(*VALUES).averages["exact"]["nDCG@10"] == found


def test_published_values_stand_beside_the_rows_that_have_them():
    found = gathered(*VALUES)
    bm25 = next(r for r in references("beir") if (r.system, r.measure) == ("BM25", "nDCG@10"))
    assert [found.cell(bm25, row) for row in found.rows] == [0.665, 0.299, None]
    assert found.published_average(bm25) is None  # not over the same rows
    text = found.markdown()
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    header = ["set", "queries", "exact", "bm25", "BM25 (publ.)", "GTR-Base (publ.)"]
    assert header + ["GTR-XXL (publ.)"] in lines
    assert ["cqadupstack", "35"] in [line[:2] for line in lines]
    row = next(line for line in lines if line[:1] == ["scifact"])
    assert row[2] == f"{mean('scifact'):.4f} [.1000, .9000]"
    assert row[4:] == ["0.665", "0.600", "0.662"]
    assert next(line for line in lines if line[:1] == ["mine"])[4:] == ["-", "-", "-"]
    assert next(line for line in lines if line[:1] == ["average of 3"])[4:] == ["-", "-", "-"]
    assert "arXiv:2104.08663" in text
    assert "R@100" not in text  # published, but not measured here


def test_missing_sets_are_named_and_averages_are_over_the_same_rows():
    found = gathered("scifact", "cqadupstack-tex", missing=("cqadupstack-gis", "mine"))
    bm25 = references("beir")[0]
    assert found.cell(bm25, "cqadupstack") is None
    text = found.markdown()
    assert "| cqadupstack (1 of 2 parts) |" in text
    assert "Not there and left out: cqadupstack-gis, mine." in text
    alone = gathered("scifact", missing=("cqadupstack-tex", "cqadupstack-gis", "mine"))
    assert alone.published_average(bm25) == 0.665
    assert alone.averages["exact"]["nDCG@10"].value == pytest.approx(mean("scifact"))


def test_json_holds_the_table():
    found = gathered(*VALUES)
    said = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert (said["format"], said["kind"], said["suite"]) == (2, "suite", "mine")
    assert said["systems"] == ["exact", "bm25"]
    group = said["sets"][1]
    assert (group["set"], group["num_queries"]) == ("cqadupstack", 35)
    assert group["parts"] == ["cqadupstack-tex", "cqadupstack-gis"]
    assert group["rows"][1]["system"] == "bm25"
    assert said["averages"]["over"] == 3
    average = said["averages"]["rows"][0]["scores"]["nDCG@10"]
    assert average["low"] < average["value"] < average["high"]
    assert [r["system"] for r in said["references"]] == ["BM25", "GTR-Base", "GTR-XXL"]
    assert said["missing"] == []
