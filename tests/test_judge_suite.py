"""Pins of judge_suite: files of a suite, resuming, other models and settings, missing sets."""

import json
import shutil

import pytest

from samtone_tf import judge_suite
from samtone_tf.evaluation.comparison import compare_runs
from samtone_tf.evaluation.per_query import read_per_query
from samtone_tf.evaluation.suite import SuiteSet, make_suite
from samtone_tf.evaluation.trec import read_run
from samtone_tf.export.saved_encoder import SavedEncoder
from samtone_tf.judge import evaluate_model
from samtone_tf.judge_suite import evaluate_suite
from tests import tiny

SUITE = make_suite(
    "two",
    [
        SuiteSet("first", "beir:{root}/first"),
        SuiteSet("second", "beir:{root}/second", split="train", document_length=2),
    ],
    measures=("nDCG@10", "P@1"),
)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Two BEIR folders; read them only."""
    top = tmp_path_factory.mktemp("root")
    for name in ("first", "second"):
        tiny.write_beir(top / name)
    return top


@pytest.fixture(scope="module")
def done(root, tmp_path_factory):
    """A finished suite with BM25; read it only."""
    out = tmp_path_factory.mktemp("done") / "out"
    return out, judge(out, root)


def judge(out, root, model="sde", suite=SUITE, **more):
    settings = {"search": "exact", "bm25": True} | more
    return evaluate_suite(tiny.saved_model(model), suite, out, root=root, **settings)


def everything(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_each_set_is_judged_as_it_is_alone(done, root):
    out, results = done
    data = tiny.data()
    lengths = {"first": tiny.DOCUMENT_LENGTH, "second": 2}
    for name, length in lengths.items():
        encoder = SavedEncoder(tiny.saved_model("sde"), None, length)
        alone = evaluate_model(encoder, data, search="exact", measures=SUITE.measures)
        mean = alone.scores["exact"].mean
        found = results.rows[name]["exact"]
        assert {measure: one.value for measure, one in found.items()} == pytest.approx(mean)
        assert results.sets[name]["model"]["lengths"]["document"] == length
    assert results.rows["first"]["exact"] != results.rows["second"]["exact"]
    assert results.sets["second"]["split"] == "train"


def test_the_folder_holds_the_results_of_each_set_and_of_all(done):
    out, results = done
    assert {str(path.relative_to(out)) for path in everything(out)} == {
        "suite.json",
        "results.json",
        "table.md",
        *(f"sets/{name}.json" for name in ("first", "second")),
        *(f"sets/{name}.per_query.tsv" for name in ("first", "second")),
        *(f"runs/{s}/{n}.trec" for s in ("exact", "bm25") for n in ("first", "second")),
    }
    assert json.loads((out / "results.json").read_text()) == results.to_json()
    assert (out / "table.md").read_text() == results.markdown()
    one = json.loads((out / "sets" / "first.json").read_text())
    assert (one["format"], one["kind"], one["per_query"]) == (
        2,
        "evaluation",
        "first.per_query.tsv",
    )
    measures, values = read_per_query(out / "sets" / one["per_query"])["bm25"]
    assert measures == ["nDCG@10", "P@1"]
    bm25 = next(row for row in one["rows"] if row["system"] == "bm25")
    assert values.mean(axis=0) == pytest.approx([bm25["scores"][m]["value"] for m in measures])


def test_its_runs_can_be_compared(done):
    out, results = done
    runs = {name: read_run(out / "runs" / name / "first.trec") for name in ("exact", "bm25")}
    found = compare_runs(runs, tiny.data(), measures="P@1")
    for name in runs:
        assert found.estimates[name]["P@1"] == results.rows["first"][name]["P@1"]


def test_finished_sets_are_not_judged_again(done, root, tmp_path, monkeypatch):
    out = tmp_path / "out"
    shutil.copytree(done[0], out)
    (out / "sets" / "second.json").unlink()  # as if it had been stopped in the second set
    judged = []

    def note(encoder, data, **settings):
        judged.append(data.source)
        return evaluate_model(encoder, data, **settings)

    monkeypatch.setattr(judge_suite, "evaluate_model", note)
    assert judge(out, root).to_json() == done[1].to_json()
    assert judged == [f"beir:{root}/second"]
    judge(out, root / ".." / root.name)  # the data may have been moved
    assert len(judged) == 1
    judge(out, root, overwrite=True)
    assert len(judged) == 3


def test_a_finished_suite_needs_no_data(done, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(done[0], out)
    (tmp_path / "nothing").mkdir()
    assert judge(out, tmp_path / "nothing").to_json() == done[1].to_json()


def test_a_set_that_failed_leaves_the_others(root, tmp_path, monkeypatch):
    def fail_on_second(encoder, data, **settings):
        if data.source.endswith("second"):
            raise RuntimeError("killed")
        return evaluate_model(encoder, data, **settings)

    monkeypatch.setattr(judge_suite, "evaluate_model", fail_on_second)
    with pytest.raises(RuntimeError, match="killed"):
        judge(tmp_path / "out", root)
    assert (tmp_path / "out" / "sets" / "first.json").is_file()
    assert not (tmp_path / "out" / "sets" / "second.json").exists()


def test_another_model_is_refused_until_it_may_overwrite(done, root, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(done[0], out)
    before = everything(out)
    with pytest.raises(ValueError, match="one of the same model.*fingerprint") as raised:
        judge(out, root, model="ade_spl")
    assert str(tiny.saved_model("sde")) in str(raised.value)
    assert everything(out) == before
    found = judge(out, root, model="ade_spl", overwrite=True)
    fingerprint = SavedEncoder(tiny.saved_model("ade_spl")).fingerprint
    assert {one["model"]["fingerprint"] for one in found.sets.values()} == {fingerprint}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"depth": 7}, "with depth=1000, not 7"),
        ({"bm25": False}, "with bm25=True, not False"),
        ({"measures": "P@1"}, r"with measures=\['nDCG@10', 'P@1'\], not \['P@1'\]"),
        ({"document_length": 9}, "with document_length=None, not 9"),
        ({"seed": 1}, "with seed=0, not 1"),
    ],
    ids=str,
)
def test_other_settings_are_refused(done, root, change, message):
    before = everything(done[0])
    with pytest.raises(ValueError, match=f"results of the same settings. .*{message}"):
        judge(done[0], root, **change)
    assert everything(done[0]) == before


def with_gone():
    return make_suite("three", [*SUITE.sets, SuiteSet("gone", "beir:{root}/gone")])


def test_a_missing_set_is_an_error_before_any_work_or_left_out(root, tmp_path, monkeypatch):
    monkeypatch.setattr(judge_suite, "evaluate_model", lambda *_, **__: pytest.fail("too early"))
    with pytest.raises(FileNotFoundError, match="1 of 3 sets are not there: gone. .*allow_missing"):
        judge(tmp_path / "out", root, suite=with_gone())
    assert not (tmp_path / "out").exists()
    monkeypatch.undo()
    found = judge(tmp_path / "out", root, suite=with_gone(), allow_missing=True, bm25=False)
    assert list(found.rows) == ["first", "second"]
    assert found.missing == ("gone",)
    assert "left out: gone" in (tmp_path / "out" / "table.md").read_text()


def test_a_wrong_split_is_an_error_even_where_sets_may_be_missing(root, tmp_path):
    suite = make_suite("one", [SuiteSet("first", "beir:{root}/first", split="dev")])
    with pytest.raises(ValueError, match="`split` must be one of those.*Received: dev"):
        judge(tmp_path / "out", root, suite=suite, allow_missing=True)
    assert not (tmp_path / "out").exists()


def test_no_set_at_all_is_an_error(root, tmp_path):
    suite = make_suite("one", [SuiteSet("gone", "beir:{root}/gone")])
    with pytest.raises(FileNotFoundError, match="None of the sets is there: gone"):
        judge(tmp_path / "out", root, suite=suite, allow_missing=True)


def test_a_folder_of_someone_else_is_never_touched(root, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(FileExistsError, match="which holds something else"):
            judge(tmp_path, root, overwrite=overwrite)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(FileExistsError, match="which is a file"):
        judge(tmp_path / "thesis.tex", root)


def test_a_damaged_result_says_what_to_do(done, root, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(done[0], out)
    (out / "sets" / "first.json").write_text("{")
    with pytest.raises(ValueError, match="first.json.*Remove it, and its set is judged again"):
        judge(out, root)


def test_bad_arguments_are_refused_before_any_work(root, tmp_path):
    for change, message in (
        ({"search": "faiss"}, "'faiss'"),
        ({"depth": 0}, "depth=0"),
        ({"measures": "ndcg"}, "'ndcg'"),
        ({"suite": "bier"}, "'bier'"),
    ):
        with pytest.raises(ValueError, match=f"Received: .*{message}"):
            judge(tmp_path / "out", root, **change)
    with pytest.raises(FileNotFoundError, match="`model` must be a SavedModel folder"):
        evaluate_suite(tmp_path / "gone", SUITE, tmp_path / "out", root=root)
    assert not (tmp_path / "out").exists()
