"""Pins of BM25 on real data: the figures that the data's README states, within 0.005."""

import re
from pathlib import Path

import pytest

from samtone_tf.data.beir import read_beir
from samtone_tf.evaluation.bm25 import bm25_run
from samtone_tf.evaluation.measures import measure

SHARED = Path(__file__).parents[2].parent / "shared" / "data"


def stated(name):
    """nDCG@10, P@1, MRR@10 and R@100 of a set, from the README's table."""
    row = re.search(rf"^\| {name} \|.*$", (SHARED / "README.md").read_text(), re.MULTILINE)
    cells = [cell.strip() for cell in row[0].strip("|").split("|")]
    return dict(zip(("nDCG@10", "P@1", "MRR@10", "R@100"), map(float, cells[-4:]), strict=True))


@pytest.mark.shared_data
@pytest.mark.skipif(not SHARED.is_dir(), reason="the real data sets are not beside the checkout")
@pytest.mark.parametrize("name", ["medline", "cisi", "cranfield"])
def test_bm25_is_what_the_readme_says(name):
    pytest.importorskip("bm25s")
    pytest.importorskip("Stemmer")
    data = read_beir(SHARED / name, "test")
    queries = {query_id: data.queries[query_id] for query_id in data.qrels}
    want = stated(name)
    found = measure(bm25_run(data.documents, queries), data.qrels, want)
    assert found.mean == pytest.approx(want, abs=0.005)
