"""Pins of training.validation: what is measured, and that a tested run is the untested one."""

import json
from dataclasses import replace

import numpy as np
import pytest

from samtone_tf.config import DataConfig, ValidationConfig
from samtone_tf.data.table import as_table
from samtone_tf.data.validation_set import choose
from samtone_tf.training import callbacks, validation
from samtone_tf.training import train as training
from samtone_tf.training.run_folder import BEST_FILE, choose_checkpoint, load_model
from samtone_tf.training.validation import Validation, batches, read_data
from tests import tiny
from tests.training.test_resume import check_equal, state

DEV = replace(tiny.data(), split="dev", qrels=dict(list(tiny.data().qrels.items())[:20]))


def config(steps=tiny.STEPS, train=None, **settings):
    base = tiny.config(steps=steps, **(train or {}))
    return replace(base, validation=ValidationConfig(**settings))


def train(out, settings, **arguments):
    return training.train(
        settings,
        out,
        data=tiny.data(),
        tokenizer=tiny.tokenizer(),
        validation_data=DEV,
        **arguments,
    )


def lines(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def scores(run):
    name = "val_nDCG@10"
    return {line["step"]: line[name] for line in lines(run) if name in line}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The run of `tiny.run("sde")`, tested after every step."""
    out = tmp_path_factory.mktemp("runs") / "tested"
    train(out, config(every=1))
    return out


# --- what is measured ------------------------------------------------------------------------


def ndcg_at_10(query, documents, positive):
    """Of one query with one relevant document: 1 / log2(1 + rank), or 0 below rank 10."""
    scores = documents @ query
    rank = 1 + np.sum(scores > scores[positive])
    return 1 / np.log2(1 + rank) if rank <= 10 else 0.0


@pytest.mark.parametrize("num_rows", [128, 7])
def test_measures_are_those_of_exact_search(run, num_rows, monkeypatch):
    monkeypatch.setattr(validation, "ROWS", num_rows)
    model = load_model(run)
    lengths = DataConfig(query_length=tiny.QUERY_LENGTH, document_length=tiny.DOCUMENT_LENGTH)
    test = Validation(model, choose(DEV, 1000, "all", 0), tiny.tokenizer(), lengths)
    found = test()

    def encode(encode, texts, length):
        ids = tiny.tokenizer().encode(list(texts), length)
        token_ids = np.stack([np.pad(row, (0, length - len(row))) for row in ids])
        mask = np.arange(length) < np.array([[len(row)] for row in ids])
        return np.asarray(encode({"token_ids": token_ids, "padding_mask": mask}), "float64")

    documents = encode(model.encode_document, DEV.documents.values(), tiny.DOCUMENT_LENGTH)
    asked = [DEV.queries[query_id] for query_id in DEV.qrels]
    queries = encode(model.encode_query, asked, tiny.QUERY_LENGTH)
    ids = list(DEV.documents)
    answers = [ids.index(answer) for judged in DEV.qrels.values() for answer in judged]
    each = [ndcg_at_10(q, documents, answer) for q, answer in zip(queries, answers, strict=True)]
    assert found["nDCG@10"] == pytest.approx(np.mean(each), abs=1e-6)
    assert found["P@1"] == pytest.approx(np.mean(np.equal(each, 1)), abs=1e-6)
    assert found["R@100"] == 1  # all sixty documents
    assert 0 < found["P@1"] < found["MRR@10"] < found["nDCG@10"] < 1
    assert scores(run)[tiny.STEPS] == pytest.approx(found["nDCG@10"], abs=1e-6)


def test_texts_of_one_width_share_batches_and_every_text_is_in_one():
    sizes = np.random.default_rng(0).integers(1, 31, 100)
    found = list(batches(sizes, 30, 16))
    assert {width for _, width in found} == {8, 15, 30}
    assert sorted(np.concatenate([rows for rows, _ in found])) == list(range(100))
    for rows, width in found:
        assert len(rows) <= 16
        assert sizes[rows].max() <= width
        assert (sizes[rows] > {8: 0, 15: 8, 30: 15}[width]).all()


# --- the run ---------------------------------------------------------------------------------


def test_a_run_that_is_tested_ends_with_the_weights_of_one_that_is_not(run):
    check_equal(state(run), state(tiny.run("sde")))


def test_the_best_checkpoint_is_that_of_the_highest_score(run):
    assert list(scores(run)) == [1, 2, 3, 4, 5]
    best = max(scores(run), key=scores(run).get)
    model = load_model(run / BEST_FILE)
    assert int(model.optimizer.iterations) == best
    assert int(load_model(run).optimizer.iterations) == 5
    lengths = DataConfig(query_length=tiny.QUERY_LENGTH, document_length=tiny.DOCUMENT_LENGTH)
    found = Validation(model, choose(DEV, 1000, "all", 0), tiny.tokenizer(), lengths)()
    assert scores(run)[best] == pytest.approx(found["nDCG@10"], abs=1e-6)
    card = (run / "README.md").read_text().splitlines()
    best_line = f"| best nDCG@10 | {scores(run)[best]:.4f} at step {best}, in {BEST_FILE} |"
    assert best_line in card
    assert "| validation | nDCG@10 every 1 steps, 20 dev queries over 60 documents |" in card


def test_the_best_checkpoint_is_chosen_where_there_is_one(run):
    assert choose_checkpoint(run) == choose_checkpoint(run, "best") == run / BEST_FILE
    assert choose_checkpoint(run, "last") == run
    other = tiny.run("sde")
    assert choose_checkpoint(other) == choose_checkpoint(other, "last")
    with pytest.raises(FileNotFoundError, match=f"{other} has no checkpoints/best.keras"):
        choose_checkpoint(other, "best")
    with pytest.raises(ValueError, match="checkpoint='newest'"):
        choose_checkpoint(run, "newest")


class Falling(Validation):
    """A model that gets worse after its second test."""

    values = {2: 0.5, 4: 0.75, 6: 0.25, 8: 0.5, 10: 0.9}

    def __init__(self, model, *others):
        super().__init__(model, *others)
        self.model = model

    def __call__(self):
        return {**super().__call__(), "nDCG@10": self.values[int(self.model.optimizer.iterations)]}


STOPPING = dict(steps=10, train={"save_every": 3, "report_every": 5}, every=2, patience=2)


@pytest.fixture(scope="module")
def ended_early(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "early"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "Validation", Falling)
        train(out, config(**STOPPING))
    return out


def check_ended_early(run, like):
    assert scores(run) == {2: 0.5, 4: 0.75, 6: 0.25, 8: 0.5}
    assert int(load_model(run).optimizer.iterations) == 8
    assert int(load_model(run / BEST_FILE).optimizer.iterations) == 4
    card = (run / "README.md").read_text()
    assert "| best nDCG@10 | 0.7500 at step 4, in checkpoints/best.keras |" in card
    assert "| ended early | at step 8 of 10: no better nDCG@10 in 2 validations |" in card
    assert "| last step | 8 |" in card
    check_equal(state(run), state(like))


def test_a_run_that_gets_no_better_ends(ended_early, capsys):
    check_ended_early(ended_early, ended_early)
    assert [line["step"] for line in lines(ended_early) if "loss" in line] == [5, 8]
    train(ended_early, config(**STOPPING), resume=True)
    assert "has all its 8 steps already" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("owner", "name", "step"),
    [
        pytest.param(training.Report, "on_train_batch_end", 3, id="after the first best"),
        pytest.param(training.Report, "on_train_batch_end", 5, id="after the second best"),
        pytest.param(training.Report, "on_train_batch_end", 8, id="before the last test's save"),
        pytest.param(callbacks.Validate, "_test", 8, id="before the last test"),
        pytest.param(training, "write_model_card", 8, id="before the card"),
    ],
)
def test_a_stopped_run_keeps_its_best_and_ends_at_the_same_step(
    ended_early, tmp_path, monkeypatch, owner, name, step
):
    monkeypatch.setattr(training, "Validation", Falling)
    whole = getattr(owner, name)

    def stop(self, *arguments, **others):
        if owner is training or int(self.model.optimizer.iterations) == step:
            raise OSError("the machine is gone")
        whole(self, *arguments, **others)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, stop)
        with pytest.raises(OSError, match="gone"):
            train(tmp_path / "run", config(**STOPPING))
    train(tmp_path / "run", config(**STOPPING), resume=True)
    check_ended_early(tmp_path / "run", ended_early)


# --- where the judgements come from ----------------------------------------------------------


def source(tmp_path, splits, **changes):
    folder = tiny.write_beir(tmp_path / "beir", splits)
    base = config(**changes)
    return replace(base, data=replace(base.data, source=f"beir:{folder}"))


@pytest.mark.parametrize(
    ("splits", "named", "split"),
    [
        (("train", "dev", "test"), None, "dev"),
        (("train", "test"), None, None),
        (("train", "dev"), "none", None),
        (("train", "test"), "test", "test"),
        (("train",), "held_out", "held_out"),
    ],
)
def test_which_judgements_are_taken(tmp_path, splits, named, split):
    data, held_out = read_data(source(tmp_path, splits, split=named))
    if split is None:
        assert held_out is None
    else:
        assert held_out.data.split == split
        assert held_out.all_documents == len(held_out.data.documents) == 60
    taken = len(held_out.data.qrels) if split == "held_out" else 0
    assert taken == (3 if split == "held_out" else 0)
    assert len(as_table(data).relevant()) == 60 - taken


def test_data_that_was_read_already_is_validated_only_when_that_is_asked_for(tmp_path):
    settings = source(tmp_path, ("train", "dev"))
    assert read_data(settings, tiny.data())[1] is None
    named = replace(settings, validation=ValidationConfig(split="dev"))
    assert read_data(named, tiny.data())[1].data.split == "dev"
    assert read_data(settings, tiny.data(), DEV)[1].data.qrels == DEV.qrels


def test_sizes_of_the_configuration_are_kept(tmp_path):
    settings = source(tmp_path, ("train", "dev"), queries=4, documents=6)
    assert str(read_data(settings)[1]).startswith("4 of 60 dev queries over 10 of 60 documents:")


def test_the_training_split_is_no_test(tmp_path):
    with pytest.raises(ValueError, match="Received: train for both"):
        read_data(source(tmp_path, ("train", "dev"), split="train"))
