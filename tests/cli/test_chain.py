"""Pins of the commands one after another on a BEIR folder, from `train` to `evaluate`."""

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from samtone_tf.evaluation.per_query import read_per_query
from samtone_tf.evaluation.trec import read_run
from samtone_tf.retriever import Retriever
from samtone_tf.training.run_folder import load_config
from tests import tiny
from tests.cli.runner import TINY_FLAGS, refuse, samtone, succeed

QUESTIONS = ("the old harbour", "the famous tunnel")


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """Every folder and printed text of one pass through the commands; read it only."""
    top = tmp_path_factory.mktemp("chain")
    beir = tiny.write_beir(top / "beir")
    with (beir / "qrels" / "test.tsv").open("a") as file:
        file.write("q999\td1\t1\nq1\td999\t1\n")
    run, model, index = top / "runs" / "a", top / "saved_models" / "a" / "1", top / "index"
    results, trec = top / "results.json", top / "run.trec"
    data = f"beir:{beir}"
    printed = {
        "train": succeed(
            "train", "--data", data, "--out", run, "--model.architecture", "ade_spl", *TINY_FLAGS
        ),
        "export": succeed("export", run, model, "--query_length", "10", "--document_length", "18"),
        "index": succeed("index", "--model", model, "--data", data, "--out", index),
        "evaluate": succeed(
            *("evaluate", "--model", model, "--data", data, "--split", "test", "--bm25"),
            *("--search", "scann", "--out", results, "--run", trec),
        ),
    }
    return SimpleNamespace(
        top=top,
        data=data,
        run=run,
        model=model,
        index=index,
        results=results,
        trec=trec,
        printed={name: done.out for name, done in printed.items()},
    )


def test_train_says_what_it_does_and_writes_the_run(chain):
    config = load_config(chain.run)
    assert (config.model.architecture, config.train.steps) == ("ade_spl", 5)
    for line in ("training pairs       60", "negatives per query  7 documents and 7 queries"):
        assert line in chain.printed["train"].splitlines()
    assert "step 5  " in chain.printed["train"]


def test_export_keeps_the_lengths_it_was_given(chain):
    about = json.loads((chain.model / "assets.extra" / "samtone.json").read_text())
    assert about["lengths"] == {"query": 10, "document": 18}
    assert str(chain.model) in chain.printed["export"]
    assert f"from {chain.run}" in chain.printed["export"]


def test_a_checkpoint_that_is_not_there_is_refused(chain):
    line = refuse("export", chain.run, chain.top / "2", "--checkpoint", "best")
    assert "checkpoints/best.keras" in line
    assert "`checkpoint` must be last" in line


def test_index_prints_its_recall_and_what_is_odd_in_the_data(chain):
    printed = chain.printed["index"]
    assert (
        "60 documents, scann (brute force below 20,000 documents), recall@10 1.0000 and" in printed
    )
    assert "note: 1 judged queries are not in the queries file and were dropped: " in printed
    assert "note: 1 judged documents are not in the corpus" in printed
    assert "q999" in printed
    assert "d999" in printed
    assert json.loads((chain.index / "report.json").read_text())["num_documents"] == 60


def test_search_prints_questions_and_hits(chain):
    want = Retriever.load(chain.index).search(QUESTIONS, 3)
    lines = succeed("search", chain.index, *QUESTIONS, "--k", "3").out.splitlines()
    assert [line for line in lines if line and not line.startswith(" ")] == list(QUESTIONS)
    shown = [line.split() for line in lines if line.startswith(" ")]
    hits = [hit for found in want for hit in found]
    assert [columns[0] for columns in shown] == ["1", "2", "3"] * 2
    assert [columns[1] for columns in shown] == [f"{hit.score:.4f}" for hit in hits]
    assert [columns[2] for columns in shown] == [hit.document_id for hit in hits]
    assert all(hit.text.split()[0] == columns[3] for hit, columns in zip(hits, shown, strict=True))


def test_ten_hits_unless_asked_and_long_texts_are_cut(chain):
    lines = succeed("search", chain.index, QUESTIONS[0]).out.splitlines()
    assert len([line for line in lines if line.startswith(" ")]) == 10
    assert max(map(len, lines)) < 130


def test_search_as_json(chain):
    want = Retriever.load(chain.index).search(QUESTIONS, 2)
    out = succeed("search", chain.index, *QUESTIONS, "--k", "2", "--json").out
    records = [json.loads(line) for line in out.splitlines()]
    assert [record["query"] for record in records] == list(QUESTIONS)
    for record, hits in zip(records, want, strict=True):
        assert record["hits"] == [
            {"document_id": hit.document_id, "score": hit.score, "text": hit.text} for hit in hits
        ]


def test_search_reads_questions_from_standard_input(chain):
    # A line each, an empty one too: answers must line up with what was asked.
    want = succeed("search", chain.index, QUESTIONS[0], "", QUESTIONS[1], "--json").out
    assert len(want.splitlines()) == 3
    stdin = f"{QUESTIONS[0]}\n\n{QUESTIONS[1]}\n"
    assert succeed("search", chain.index, "-", "--json", stdin=stdin).out == want
    mixed = succeed("search", chain.index, QUESTIONS[0], "-", "--json", stdin=QUESTIONS[1]).out
    assert mixed == succeed("search", chain.index, *QUESTIONS, "--json").out
    assert "only empty ones" in refuse("search", chain.index, "-", stdin="\n \n")


def test_evaluate_writes_what_it_prints(chain):
    result = json.loads(chain.results.read_text())
    assert [row["system"] for row in result["rows"]] == ["exact", "scann", "bm25"]
    assert (result["split"], result["depth"]) == ("test", 1000)
    assert any("q999" in note for note in result["notes"])
    table = chain.printed["evaluate"].splitlines()
    for row in result["rows"]:
        for name in ("P@1", "MRR", "MRR@10", "nDCG@10", "R@100", "MAP"):
            score = row["scores"][name]
            assert 0 <= score["low"] <= score["value"] <= score["high"] <= 1
            assert score["n"] == 60
        line = next(line for line in table if line.split()[0] == row["system"])
        assert f"{row['scores']['MRR']['value']:.4f}" in line
    assert "60 queries, depth 1000" in chain.printed["evaluate"]
    assert "against exact search: recall@10 1.0000" in chain.printed["evaluate"]


def test_evaluate_writes_the_run_of_the_search_it_names(chain):
    run = read_run(chain.trec)
    assert len(run) == 60
    assert {len(found) for found in run.values()} == {60}
    reciprocal = [1 / (sorted(run[q], key=run[q].get)[::-1].index(f"d{q[1:]}") + 1) for q in run]
    (row,) = [r for r in json.loads(chain.results.read_text())["rows"] if r["system"] == "scann"]
    assert sum(reciprocal) / 60 == pytest.approx(row["scores"]["MRR"]["value"], abs=0.01)


def test_evaluate_with_exact_search_alone(chain):
    out = succeed(
        "evaluate",
        "--model",
        chain.model,
        "--data",
        chain.data,
        "--search",
        "exact",
        "--depth",
        "5",
    ).out
    assert "depth 5" in out
    assert [line.split()[0] for line in out.splitlines()[:2]] == ["system", "exact"]
    assert "scann" not in out


def test_evaluate_takes_other_lengths(chain):
    """Two tokens of a document, the end one of them, tell little: other measures come out."""
    flags = ("evaluate", "--model", chain.model, "--data", chain.data, "--search", "exact")
    short = succeed(*flags, "--document_length", "2", "--query_length", "2").out
    assert short.splitlines()[1] != succeed(*flags).out.splitlines()[1]


def test_evaluate_writes_the_measures_runs_and_single_queries_that_are_asked_for(chain, tmp_path):
    out, side, runs = tmp_path / "r.json", tmp_path / "q.tsv", tmp_path / "new" / "runs"
    flags = ("evaluate", "--model", chain.model, "--data", chain.data, "--search", "exact")
    files = ("--out", out, "--per_query", side, "--runs", runs)
    printed = succeed(*flags, "--bm25", *files, "--measures", "AP@100 Judged@10").out
    assert printed.splitlines()[0].split() == ["system", "AP@100", "Judged@10"]
    assert {path.name for path in runs.iterdir()} == {"exact.trec", "bm25.trec"}
    said = json.loads(out.read_text())
    assert said["per_query"] == str(side)
    for row in said["rows"]:
        measures, values = read_per_query(side)[row["system"]]
        assert measures == ["AP@100", "Judged@10"]
        want = [row["scores"][name]["value"] for name in measures]
        assert values.mean(axis=0) == pytest.approx(want)
        assert len(read_run(runs / f"{row['system']}.trec")) == 60
    for flag, path in (("--per_query", side), ("--runs", runs)):
        assert "is not overwritten" in refuse(*flags, flag, path)
    assert "'AP@x'" in refuse(*flags, "--measures", "AP@x")


def everything(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_nothing_is_overwritten(chain):
    before = everything(chain.top)
    assert str(chain.run) in refuse("train", "--data", chain.data, "--out", chain.run)
    assert str(chain.model) in refuse("export", chain.run, chain.model)
    flags = ("--model", chain.model, "--data", chain.data)
    assert str(chain.index) in refuse("index", *flags, "--out", chain.index)
    assert str(chain.results) in refuse("evaluate", *flags, "--out", chain.results)
    assert str(chain.trec) in refuse("evaluate", *flags, "--run", chain.trec)
    assert everything(chain.top) == before


def test_results_need_a_folder_that_is_there(chain, tmp_path):
    flags = ("--model", chain.model, "--data", chain.data)
    for flag in ("--out", "--run"):
        assert "gone" in refuse("evaluate", *flags, flag, tmp_path / "gone" / "file")


def test_an_index_is_replaced_when_asked_for(chain, tmp_path):
    flags = ("index", "--model", chain.model, "--data", chain.data, "--out", tmp_path / "index")
    succeed(*flags, "--kind", "exact")
    assert json.loads((tmp_path / "index" / "index.json").read_text())["kind"] == "exact"
    succeed(*flags, "--overwrite")
    assert json.loads((tmp_path / "index" / "index.json").read_text())["kind"] == "scann"


def test_a_moved_model_is_named_to_search(chain, tmp_path):
    shutil.copytree(chain.index, tmp_path / "index")
    about = tmp_path / "index" / "retriever.json"
    content = json.loads(about.read_text()) | {"model": "/gone/1", "model_relative": "gone"}
    about.write_text(json.dumps(content))
    assert "--model" in refuse("search", tmp_path / "index", QUESTIONS[0])
    found = succeed("search", tmp_path / "index", QUESTIONS[0], "--model", chain.model).out
    assert found == succeed("search", chain.index, QUESTIONS[0]).out
    other = tiny.saved_model("sde")
    assert "fingerprint" in refuse("search", chain.index, QUESTIONS[0], "--model", other)


@pytest.mark.slow
def test_a_file_of_pairs_goes_the_same_way(tmp_path):
    lines = [
        json.dumps(
            {"query": tiny.data().queries[q], "document": tiny.data().documents[f"d{q[1:]}"]}
        )
        for q in tiny.data().queries
    ]
    (tmp_path / "faq.jsonl").write_text("\n".join(lines))
    data = f"pairs:{tmp_path / 'faq.jsonl'}"
    succeed("train", f"--data={data}", "--out", tmp_path / "run", *TINY_FLAGS)
    succeed("export", tmp_path / "run", tmp_path / "new" / "folders" / "1")
    model = ("--model", tmp_path / "new" / "folders" / "1")
    succeed("index", *model, "--data", data, "--out", tmp_path / "index", "--kind", "exact")
    found = samtone("search", tmp_path / "index", "the old harbour", "--json")
    assert len(json.loads(found.out)["hits"]) == 10
    out = succeed("evaluate", *model, "--data", data, "--search", "exact").out
    assert "60 queries" in out


@pytest.fixture(scope="module")
def tree(chain, tmp_path_factory):
    """An index with settings of its own; a test that tunes it copies it first."""
    folder = tmp_path_factory.mktemp("tree") / "index"
    done = succeed(
        *("index", "--model", chain.model, "--data", chain.data, "--out", folder),
        *("--kind", "scann", "--num_leaves", "6", "--num_leaves_to_search", "5"),
        *("--reorder", "50", "--dims_per_block", "3", "--anisotropic_threshold", "0.1"),
        *("--training_sample_size", "55", "--storage", "int8"),
    )
    return folder, done.out


def test_every_setting_of_the_index_has_a_flag(tree):
    folder, printed = tree
    assert json.loads((folder / "index.json").read_text())["settings"] == {
        "num_leaves": 6,
        "num_leaves_to_search": 5,
        "reorder": 50,
        "dims_per_block": 3,
        "anisotropic_threshold": 0.1,
        "training_sample_size": 55,
    }
    report = json.loads((folder / "report.json").read_text())
    assert report["storage"] == "int8"
    assert "scann (tree + codes + reorder), int8, recall@10" in printed


def test_search_over_two_indexes_is_the_merge(chain, tmp_path):
    lines = (chain.top / "beir" / "corpus.jsonl").read_text().splitlines()
    for name, part in {"a": lines[:20], "b": lines[20:]}.items():
        shutil.copytree(chain.top / "beir", tmp_path / name)
        (tmp_path / name / "corpus.jsonl").write_text("\n".join(part) + "\n")
        flags = ("--data", f"beir:{tmp_path / name}", "--out", tmp_path / f"index_{name}")
        succeed("index", "--model", chain.model, *flags, "--kind", "exact")
    both = (tmp_path / "index_a", tmp_path / "index_b")
    want = succeed("search", chain.index, *QUESTIONS, "--k", "30").out
    assert succeed("search", *both, *QUESTIONS, "--k", "30").out == want
    assert "question behind the indexes" in refuse("search", *both)
    assert "two of them" in refuse("search", both[0], chain.index, "x")
    (tmp_path / "empty").mkdir()
    line = refuse("search", both[0], tmp_path / "empty", "x")
    assert "`index` must be a folder of `samtone index`" in line
    assert "without index.json" in line


def test_tune_index_keeps_what_it_prints(chain, tree, tmp_path):
    index = shutil.copytree(tree[0], tmp_path / "index")
    out = succeed("tune-index", index, "--recall", "0.9", "--data", chain.data).out
    tuned = json.loads((index / "tuning.json").read_text())
    chosen = next(point for point in tuned["points"] if point["chosen"])
    kept = json.loads((index / "index.json").read_text())["settings"]
    assert (kept["num_leaves_to_search"], kept["reorder"]) == (
        chosen["num_leaves_to_search"],
        chosen["reorder"],
    )
    assert "60 queries, judged queries of beir:" in out
    assert "compared with exact search over int8 vectors, as the index has" in out
    assert chosen["ndcg_at_10"] == pytest.approx(
        tuned["exact"]["ndcg_at_10"] - chosen["ndcg_at_10_lost"]
    )
    assert out.splitlines()[-1].startswith("chosen: ")
    hits = succeed("search", index, QUESTIONS[0], "--k", "3", "--json").out
    assert len(json.loads(hits)["hits"]) == 3
    np.save(tmp_path / "queries.npy", np.eye(3, 12, dtype=np.float32))
    assert "3 queries, given as vectors" in (
        succeed("tune-index", index, "--queries", tmp_path / "queries.npy").out
    )
    (tmp_path / "questions.txt").write_text("the old harbour\n\nthe small bakery\n")
    assert "2 queries, given;" in (
        succeed("tune-index", index, "--queries", tmp_path / "questions.txt").out
    )


def test_bad_input_to_tune_index(chain, tree, tmp_path):
    index = tree[0]
    before = everything(index)
    assert "no index.json" in refuse("tune-index", tmp_path / "gone")
    assert "recall=2" in refuse("tune-index", index, "--recall", "2")
    (tmp_path / "questions.txt").write_text("why\n")
    assert "cannot both be given" in refuse(
        "tune-index", index, "--data", chain.data, "--queries", tmp_path / "questions.txt"
    )
    assert "must be a file" in refuse("tune-index", index, "--queries", tmp_path / "gone.txt")
    (tmp_path / "broken.npy").write_text("no array")
    assert "NumPy cannot read" in refuse("tune-index", index, "--queries", tmp_path / "broken.npy")
    (tmp_path / "empty.txt").write_text("\n\n")
    assert "must hold a question" in refuse(
        "tune-index", index, "--queries", tmp_path / "empty.txt"
    )
    np.save(tmp_path / "wide.npy", np.ones((2, 5), np.float32))
    assert "must have 12 columns" in refuse("tune-index", index, "--queries", tmp_path / "wide.npy")
    other = tiny.saved_model("sde")
    line = refuse("tune-index", index, "--data", chain.data, "--model", other)
    assert "must come from the index's own model" in line
    elsewhere = tmp_path / "other.jsonl"
    elsewhere.write_text('{"query": "who", "document": "somebody"}\n')
    line = refuse("tune-index", index, "--data", f"pairs:{elsewhere}", "--split", "train")
    assert "must judge documents of the index" in line
    assert everything(index) == before
