"""Pins of training.callbacks: what is reported, saved and tested when, and the stop at a NaN."""

import json
from types import SimpleNamespace

import keras
import pytest

from samtone_tf.training import callbacks
from samtone_tf.training.run_log import RunLog

RATES = [0.5, 0.25, 0.125, 0.0625, 0.03125]


class Model:
    """What a callback sees of a model: a step, a reset that is counted, the first bad step."""

    def __init__(self, bad_step=0):
        self.optimizer = SimpleNamespace(iterations=0)
        self.step_metrics = SimpleNamespace(first_bad_step=SimpleNamespace(result=lambda: bad_step))
        self.resets = 0
        self.stop_training = False

    def reset_metrics(self):
        self.resets += 1


def play(callback, losses, end=True, stride=1, first=0, **arguments):
    """`stride` steps per loss."""
    model = Model(**arguments)
    model.optimizer.iterations = first
    callback.set_model(model)
    callback.on_train_begin()
    for batch, loss in enumerate(losses):
        callback.on_train_batch_begin(batch)
        model.optimizer.iterations += stride
        logs = {"loss": loss, "accuracy": 0.25, "mrr": 0.5, "masked_fraction": 0.125}
        callback.on_train_batch_end(batch, logs)
        if model.stop_training:
            break
    if end:
        callback.on_train_end(logs)
    return model


def make_report(path, every, steps, **arguments):
    return callbacks.Report(RunLog(path), every, steps, RATES.__getitem__, 8, **arguments)


@pytest.mark.parametrize(
    ("every", "steps", "reported"),
    [(2, 5, [2, 4, 5]), (2, 4, [2, 4]), (1, 3, [1, 2, 3]), (10, 3, [3])],
)
def test_every_few_steps_and_the_last_are_reported(tmp_path, every, steps, reported):
    model = play(make_report(tmp_path, every, steps), [1.5] * steps)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == reported
    assert model.resets == len(reported)
    assert RunLog(tmp_path).last_report() == lines[-1]
    names = ("loss", "accuracy", "mrr", "masked_fraction", "learning_rate")
    assert {name: lines[0][name] for name in names} == {
        "loss": 1.5,
        "accuracy": 0.25,
        "mrr": 0.5,
        "masked_fraction": 0.125,
        "learning_rate": RATES[reported[0] - 1],  # of the update just made, counted from 0
    }


def test_a_run_that_ends_early_reports_its_last_steps(tmp_path):
    play(make_report(tmp_path, 3, 100), [1.0] * 5)
    assert [line["step"] for line in RunLog(tmp_path).read()] == [3, 5]


class Clock:
    """Time that passes when it is told to."""

    now = 100.0

    def perf_counter(self):
        return self.now


@pytest.mark.parametrize(
    ("every", "rates"),
    # The first step takes 30 seconds, each other one 2, and what happens between them 10.
    [(1, [8 / 30, 8 / 2, 8 / 2, 8 / 2]), (2, [8 / 2, 16 / 4]), (4, [24 / 6])],
)
def test_speed_is_that_of_training_alone(tmp_path, monkeypatch, every, rates):
    clock, report = Clock(), make_report(tmp_path, every, 4)
    monkeypatch.setattr(callbacks, "time", clock)
    report.set_model(model := Model())
    report.on_train_begin()
    for batch in range(4):
        clock.now += 10 if batch else 0
        report.on_train_batch_begin(batch)
        clock.now += 2 if batch else 30
        model.optimizer.iterations += 1
        report.on_train_batch_end(batch, {"loss": 1.0})
    lines = RunLog(tmp_path).read()
    assert [line["pairs_per_second"] for line in lines] == [round(rate, 2) for rate in rates]
    assert lines[-1]["seconds"] == 30 + 3 * 12


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_the_first_loss_that_is_no_number_stops_the_run(tmp_path, loss):
    report = make_report(tmp_path, 10, 100)
    with pytest.raises(FloatingPointError, match=rf"The loss became {loss} at step 3\. "):
        play(report, [1.0, 1.0, loss, 1.0], bad_step=3)
    assert RunLog(tmp_path).read() == []


def test_a_gradient_that_is_no_number_stops_the_run_too():
    with pytest.raises(FloatingPointError, match="The gradient norm became inf at step 7"):
        callbacks.check_finite({"loss": 1.0, "gradient_norm": float("inf")}, Model(bad_step=7))


def test_a_good_checkpoint_does_not_give_way_to_a_bad_one(tmp_path, monkeypatch):
    saved = []
    monkeypatch.setattr(callbacks, "save_model", lambda model, run: saved.append(run))
    with pytest.raises(FloatingPointError):
        play(callbacks.SaveEvery(tmp_path, 2), [1.0, 1.0, 1.0, float("nan")])
    assert len(saved) == 1


def test_lines_are_printed_only_where_there_is_no_progress_bar(tmp_path, capsys):
    play(make_report(tmp_path, 2, 2), [1.5, 1.5])
    assert capsys.readouterr().out == ""
    play(make_report(tmp_path, 2, 2, print_lines=True), [1.5, 1.5])
    printed = capsys.readouterr().out
    assert printed.startswith("step 2  loss 1.5  accuracy 0.25  mrr 0.5  learning_rate 0.25  ")
    assert "masked_fraction" not in printed


def test_a_progress_bar_shows_three_metrics(monkeypatch):
    seen = []
    monkeypatch.setattr(
        keras.callbacks.ProgbarLogger,
        "on_train_batch_end",
        lambda self, batch, logs: seen.append(logs),
    )
    callbacks.Progress().on_train_batch_end(0, {"alignment": 1, "loss": 2, "mrr": 3, "accuracy": 4})
    assert seen == [{"loss": 2, "accuracy": 4, "mrr": 3}]


@pytest.mark.parametrize(
    ("every", "steps", "saved"),
    [(2, 5, [2, 4, 5]), (2, 4, [2, 4]), (10, 3, [3]), (1, 2, [1, 2])],
)
def test_every_few_steps_and_the_end_are_saved_once(tmp_path, monkeypatch, every, steps, saved):
    done = []
    monkeypatch.setattr(
        callbacks, "save_model", lambda model, run: done.append((model.optimizer.iterations, run))
    )
    play(callbacks.SaveEvery(tmp_path, every), [1.0] * steps)
    assert done == [(step, tmp_path) for step in saved]


# --- validation ------------------------------------------------------------------------------


class Saves:
    """Where a checkpoint and a best model would be: the step of each."""

    def __init__(self, model_steps=(), best=()):
        self.saved, self.best = list(model_steps), list(best)

    def save_now(self):
        self.saved.append(self.step())


def make_validate(run, scores, patience=None, every=2, steps=10, monkeypatch=None):
    """`scores` by step; what is tested is noted in `tested`."""
    saves, tested = Saves(), []

    def validation():
        step = validate.model.optimizer.iterations
        tested.append(step)
        return {"nDCG@10": scores[step], "P@1": 0.5}

    validate = callbacks.Validate(validation, RunLog(run), "nDCG@10", every, steps, patience, saves)
    saves.step = lambda: validate.model.optimizer.iterations
    monkeypatch.setattr(callbacks, "save_best", lambda _: saves.best.append(saves.saved[-1]))
    return validate, saves, tested


def test_tests_every_few_steps_and_at_the_end_and_keeps_the_best(tmp_path, monkeypatch, capsys):
    scores = {2: 0.2, 4: 0.5, 6: 0.3, 7: 0.5}
    validate, saves, tested = make_validate(tmp_path, scores, steps=7, monkeypatch=monkeypatch)
    play(validate, [1.0] * 7)
    assert tested == [2, 4, 6, 7]
    assert saves.best == saves.saved == [2, 4]  # the first of two equal ones
    lines = RunLog(tmp_path).read()
    assert [(line["step"], line["val_nDCG@10"]) for line in lines] == list(scores.items())
    assert lines[0]["val_P@1"] == 0.5
    assert validate.facts() == {
        "best nDCG@10": "0.5000 at step 4, in checkpoints/best.keras",
        "last nDCG@10": "0.5000",
    }
    printed = capsys.readouterr().out.splitlines()
    assert printed[1] == "validation at step 4: nDCG@10 0.5000, the best so far"
    assert printed[2] == "validation at step 6: nDCG@10 0.3000"


def test_no_better_value_for_some_tests_ends_the_run(tmp_path, monkeypatch):
    scores = {2: 0.2, 4: 0.1, 6: 0.3, 8: 0.3, 10: 0.2, 12: 0.9}
    validate, saves, tested = make_validate(
        tmp_path, scores, patience=2, steps=20, monkeypatch=monkeypatch
    )
    model = play(validate, [1.0] * 20)
    assert model.stop_training
    assert tested == [2, 4, 6, 8, 10]
    assert saves.best == [2, 6]
    facts = validate.facts()
    assert facts["best nDCG@10"].startswith("0.3000 at step 6")
    assert facts["ended early"] == "at step 10 of 20: no better nDCG@10 in 2 validations"


def test_a_bad_model_is_not_tested(tmp_path, monkeypatch):
    validate, saves, tested = make_validate(tmp_path, {}, monkeypatch=monkeypatch)
    with pytest.raises(FloatingPointError):
        play(validate, [1.0, float("nan")])
    assert tested == saves.best == []


@pytest.mark.parametrize("stopped_at", range(1, 11))
def test_what_is_known_of_earlier_tests_comes_from_their_lines(tmp_path, monkeypatch, stopped_at):
    """Stopped anywhere and gone on from there, best and end are the same."""
    scores = {2: 0.2, 4: 0.6, 6: 0.1, 8: 0.3, 10: 0.2, 12: 0.7}
    first, saves, _ = make_validate(tmp_path, scores, 3, monkeypatch=monkeypatch)
    play(first, [1.0] * stopped_at, end=False)
    again, saves_again, _ = make_validate(tmp_path, scores, 3, monkeypatch=monkeypatch)
    model = Model()
    model.optimizer.iterations = stopped_at
    again.catch_up(model)
    while not again.has_lost_patience:
        model.optimizer.iterations += 1
        again.on_train_batch_end(0, {"loss": 1.0})
    assert model.optimizer.iterations == 10
    assert [line["step"] for line in RunLog(tmp_path).read()] == [2, 4, 6, 8, 10]
    assert saves.best + saves_again.best == [2, 4]
    assert again.best_step == 4


@pytest.mark.parametrize("lost", ["checkpoint", "best", "line"])
def test_a_test_that_was_cut_off_is_taken_again(tmp_path, monkeypatch, lost):
    """Whatever of its three writes is the last that came through, the next one follows."""
    scores = {2: 0.2, 4: 0.6}
    first, saves, _ = make_validate(tmp_path, scores, monkeypatch=monkeypatch)

    def stop(*_):
        raise KeyboardInterrupt

    play(first, [1.0] * 3, end=False)
    if lost == "checkpoint":
        first.save.save_now = stop
    elif lost == "best":
        monkeypatch.setattr(callbacks, "save_best", stop)
    else:
        first.log.write = stop
    first.model.optimizer.iterations = 4
    with pytest.raises(KeyboardInterrupt):
        first.on_train_batch_end(3, {"loss": 1.0})
    again, saves, tested = make_validate(tmp_path, scores, monkeypatch=monkeypatch)
    again.catch_up(first.model)
    assert tested == saves.best == [4]
    assert [line["step"] for line in RunLog(tmp_path).read()] == [2, 4]
    again.catch_up(first.model)
    assert tested == [4]


@pytest.mark.parametrize(
    ("every", "stride", "first", "due"),
    [
        (5, 3, 0, [6, 12, 15]),  # 5, 10 and 15 lie in (3, 6], (9, 12] and (12, 15]
        (2, 3, 0, [3, 6, 9, 12, 15]),
        (3, 3, 0, [3, 6, 9, 12, 15]),
        (7, 3, 6, [9, 15, 21]),  # gone on with after step 6: 7, 14, 21
        (100, 3, 0, []),
    ],
)
def test_what_is_due_between_two_looks_is_not_missed(
    tmp_path, monkeypatch, every, stride, first, due
):
    saved = []
    monkeypatch.setattr(
        callbacks, "save_model", lambda model, run: saved.append(model.optimizer.iterations)
    )
    looks = [1.0] * 5
    play(callbacks.SaveEvery(tmp_path, every), looks, end=False, stride=stride, first=first)
    assert saved == due
    report = callbacks.Report(RunLog(tmp_path), every, 1000, lambda step: 0.1, 8)
    play(report, looks, end=False, stride=stride, first=first)
    assert [line["step"] for line in RunLog(tmp_path).read()] == due
