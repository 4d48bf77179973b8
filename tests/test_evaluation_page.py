"""Pins of docs/evaluation.md: its suite file is one, and its schema names every key there is."""

import re
from pathlib import Path

import pytest

from samtone_tf.evaluation.comparison import compare_runs
from samtone_tf.evaluation.suite import find_suite, source_of
from tests.evaluation import test_comparison, test_evaluate, test_suite_results

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")
SHARED = ROOT.parent / "shared" / "data"


def suite(folder, root):
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (folder / "page.yaml").write_text(text)
    return find_suite(folder / "page.yaml", root)


def test_the_suite_file_is_one(tmp_path):
    found = suite(tmp_path, tmp_path)
    assert len(found.rows) == len(found.sets) == 12
    assert {one.split for one in found.sets} == {"test"}
    assert found.measures == ("nDCG@10", "P@1", "MRR@10", "R@100")


@pytest.mark.shared_data
@pytest.mark.skipif(not SHARED.is_dir(), reason="the real data sets are not beside the checkout")
def test_the_suite_file_names_all_sets_with_test_queries(tmp_path):
    from samtone_tf.data.sources import check_data

    found = suite(tmp_path, SHARED)
    for one in found.sets:
        check_data(source_of(one, SHARED), one.split)
    there = {path.parents[1].name for path in SHARED.glob("*/qrels/test.tsv")}
    assert there == set(found.rows)


def test_the_schema_names_every_key():
    evaluation = test_evaluate.evaluate(
        test_evaluate.DATA,
        test_evaluate.encode,
        [test_evaluate.MANY, test_evaluate.LazyForTen(test_evaluate.MANY)],
        depth=20,
    ).to_json()
    comparison = compare_runs(test_comparison.RUNS, test_comparison.DATA).to_json()
    results = test_suite_results.gathered(*test_suite_results.VALUES).to_json()
    schema = set(re.findall(r"`(\w+)`", PAGE.partition("## The JSON")[2])) | {"format", "kind"}
    for content in (evaluation, comparison, results):
        assert content["kind"] in PAGE
        assert set(content) <= schema
        for key in ("rows", "differences", "moved", "sets", "references"):
            for entry in content.get(key, [])[:2]:
                assert set(entry) <= schema, key
    assert set(evaluation["rows"][1]) >= {"index_loss", "measure_depths", "index_recall"}
