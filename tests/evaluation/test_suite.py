"""Pins of evaluation.suite and references: the built-in lists, YAML files, published numbers."""

import re

import pytest

from samtone_tf.evaluation.references import references
from samtone_tf.evaluation.suite import (
    BEIR,
    CQADUPSTACK,
    MULTIREQA,
    Suite,
    SuiteSet,
    find_suite,
    make_suite,
    source_of,
)


def test_beir_has_18_rows_and_one_of_them_12_parts(tmp_path):
    suite = find_suite("beir", tmp_path)
    assert list(suite.rows) == list(BEIR)
    assert len(suite.rows) == 18
    assert suite.rows["cqadupstack"] == [f"cqadupstack-{part}" for part in CQADUPSTACK]
    assert len(suite.sets) == 29
    sources = {one.name: source_of(one, "/beir") for one in suite.sets}
    assert sources["scifact"] == "beir:/beir/scifact"
    assert sources["cqadupstack-tex"] == "beir:/beir/cqadupstack/tex"
    assert {one.split for one in suite.sets} == {"test"}
    assert [one.name for one in suite.sets if one.drop_self] == ["arguana", "quora"]
    assert suite.measures[0] == "nDCG@10"


def test_multireqa_has_8_sets_and_judges_dev_where_there_is_train(tmp_path):
    suite = find_suite("multireqa", tmp_path)
    assert list(suite.rows) == list(MULTIREQA)
    assert len(suite.rows) == 8
    assert suite.measures == ("P@1", "MRR")
    assert source_of(suite.sets[0], "/data") == "multireqa:/data/SearchQA"
    splits = {one.name: one.split for one in suite.sets}
    assert [name for name, split in splits.items() if split == "test"] == [
        "BioASQ",
        "RelationExtraction",
        "TextbookQA",
    ]
    assert set(splits.values()) == {"dev", "test"}


YAML = """
name: mine
measures: nDCG@10 P(rel=2)@5
references: beir
sets:
  - {name: scifact, data: "beir:{root}/scifact", query_length: 32, drop_self: false}
  - name: faq
    data: pairs:faq.jsonl
    split: dev
    group: help
"""


def test_a_yaml_file(tmp_path):
    (tmp_path / "list.yaml").write_text(YAML)
    suite = find_suite(tmp_path / "list.yaml", tmp_path)
    assert suite == Suite(
        name="mine",
        sets=(
            SuiteSet("scifact", "beir:{root}/scifact", query_length=32, drop_self=False),
            SuiteSet("faq", "pairs:faq.jsonl", split="dev", group="help"),
        ),
        measures=("nDCG@10", "P(rel=2)@5"),
        references="beir",
    )
    assert suite.rows == {"scifact": ["scifact"], "help": ["faq"]}
    assert find_suite(suite, tmp_path) is suite


def test_a_yaml_file_needs_little(tmp_path):
    (tmp_path / "few.yml").write_text("sets: [{name: a, data: docstrings}]")
    suite = find_suite(tmp_path / "few.yml")
    assert (suite.name, suite.references, suite.measures[0]) == ("few", None, "P@1")
    assert source_of(suite.sets[0], None) == "docstrings"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sets: [", "`suite` must be YAML"),
        ("- a", "must hold a list named `sets`"),
        ("sets: 3", "must hold a list named `sets`"),
        ("sets: []", "`sets` must be one or more.*Received: 0 sets"),
        ("sets: [a]", "must be a mapping with `name` and `data`. Received: 'a' in .*, set 1"),
        ("sets: [{name: a}]", "must have a text as `data`. Received: None"),
        ("sets: [{name: 1, data: docstrings}]", "must have a text as `name`. Received: 1"),
        ("sets: [{name: a, data: docstrings, split: 3}]", "a text as `split`. Received: 3"),
        ("sets: [{name: a, data: docstrings, group: [b]}]", "a text as `group`. Received"),
        ("measures: 3\nsets: [{name: a, data: docstrings}]", "text or a list. Received: 3 in"),
        ("sets: [{name: a/b, data: docstrings}]", "files are named by it. Received: 'a/b'"),
        ("sets: [{name: .., data: docstrings}]", "Received: '..'"),
        ("sets: [{name: a, data: docstrings, spilt: dev}]", "Received: spilt in .*, set 1"),
        ("sets: [{name: a, data: docstrings, query_length: x}]", "whole number. Received: 'x'"),
        ("sets: [{name: a, data: docstrings, drop_self: x}]", "true or false. Received: 'x'"),
        ("set: [{name: a, data: docstrings}]\nsets: []", "no other fields.*Received: set in"),
        (
            "sets: [{name: a, data: docstrings}, {name: a, data: docstrings}]",
            r"more than once: \['a'\]",
        ),
        (
            "sets: [{name: a, data: docstrings}, {name: b, data: docstrings, group: a}]",
            r"more than once: \['a'\]",
        ),
        ("measures: ndcg@10\nsets: [{name: a, data: docstrings}]", "Received: 'ndcg@10'"),
        (
            "references: mteb\nsets: [{name: a, data: docstrings}]",
            "`references` must be one of beir, multireqa. Received: 'mteb'",
        ),
    ],
)
def test_a_file_that_is_no_suite(tmp_path, text, message):
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(ValueError, match=message):
        find_suite(tmp_path / "x.yaml")


def test_what_stands_for_no_suite(tmp_path):
    with pytest.raises(ValueError, match="must be beir, multireqa or a file .*Received: 'bier'"):
        find_suite("bier", tmp_path)
    with pytest.raises(FileNotFoundError, match="gone.yaml, which does not exist"):
        find_suite(tmp_path / "gone.yaml")
    with pytest.raises(
        ValueError, match=r"`root` must name .* 29 sets need it, such as trec-covid"
    ):
        find_suite("beir")
    with pytest.raises(FileNotFoundError, match="`root` must be the folder.*gone"):
        find_suite("beir", tmp_path / "gone")
    with pytest.raises(ValueError, match="Received: 0 sets"):
        make_suite("none", [])


def test_published_columns_average_to_what_their_sources_state():
    found = {(r.system, r.measure): r for r in references("beir")}
    stated = {
        ("BM25", "nDCG@10"): 0.423,
        ("GTR-Base", "nDCG@10"): 0.416,
        ("GTR-XXL", "nDCG@10"): 0.458,
        ("GTR-Base", "R@100"): 0.580,
        ("GTR-Large", "R@100"): 0.609,
        ("GTR-XL", "R@100"): 0.616,
        ("GTR-XXL", "R@100"): 0.619,
    }
    assert found.keys() == stated.keys()
    for key, average in stated.items():
        assert set(found[key].scores) == set(BEIR)
        assert sum(found[key].scores.values()) / 18 == pytest.approx(average, abs=0.0006)
    for reference in (*found.values(), *references("multireqa")):
        assert re.search(r"arXiv:\d{4}\.\d{5}|github\.com", reference.source)
        assert all(0 < value < 1 for value in reference.scores.values())
    assert {name for r in references("multireqa") for name in r.scores} <= set(MULTIREQA)
    assert references(None) == ()
