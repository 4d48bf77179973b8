"""Pins of training.callbacks: which steps are reported and saved, and the stop at the first NaN."""

import json
from types import SimpleNamespace

import pytest

from samtone_tf.training import callbacks

RATES = [0.5, 0.25, 0.125, 0.0625, 0.03125]


class Model:
    """What a callback sees of a model: a step, and a reset that is counted."""

    def __init__(self):
        self.optimizer = SimpleNamespace(iterations=0)
        self.resets = 0

    def reset_metrics(self):
        self.resets += 1


def play(callback, losses, end=True, stride=1, first=0):
    """`stride` steps per loss."""
    model = Model()
    model.optimizer.iterations = first
    callback.set_model(model)
    callback.on_train_begin()
    for batch, loss in enumerate(losses):
        model.optimizer.iterations += stride
        callback.on_train_batch_end(batch, {"loss": loss, "accuracy": 0.25})
    if end:
        callback.on_train_end()
    return model


@pytest.mark.parametrize(
    ("every", "steps", "reported"),
    [(2, 5, [2, 4, 5]), (2, 4, [2, 4]), (1, 3, [1, 2, 3]), (10, 3, [3])],
)
def test_every_few_steps_and_the_last_are_reported(tmp_path, every, steps, reported):
    report = callbacks.Report(tmp_path / "metrics.jsonl", every, steps, RATES.__getitem__)
    model = play(report, [1.5] * steps)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == reported
    assert model.resets == len(reported)
    assert report.lines == lines
    assert {name: lines[0][name] for name in ("loss", "accuracy", "learning_rate")} == {
        "loss": 1.5,
        "accuracy": 0.25,
        "learning_rate": RATES[reported[0] - 1],  # of the update just made, counted from 0
    }


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_the_first_loss_that_is_no_number_stops_the_run(tmp_path, loss):
    report = callbacks.Report(tmp_path / "metrics.jsonl", 3, 100, RATES.__getitem__)
    with pytest.raises(FloatingPointError, match=f"The loss became {loss} at or before step 3"):
        play(report, [1.0, 1.0, loss, 1.0])
    assert not (tmp_path / "metrics.jsonl").exists()


def test_a_good_checkpoint_does_not_give_way_to_a_bad_one(tmp_path, monkeypatch):
    saved = []
    monkeypatch.setattr(callbacks, "save_model", lambda model, run: saved.append(run))
    with pytest.raises(FloatingPointError):
        play(callbacks.SaveEvery(tmp_path, 2), [1.0, 1.0, 1.0, float("nan")])
    assert len(saved) == 1


@pytest.mark.parametrize(("print_lines", "shown"), [(True, "step 2  loss 1.5"), (False, "")])
def test_lines_are_printed_only_where_there_is_no_progress_bar(
    tmp_path, capsys, print_lines, shown
):
    play(
        callbacks.Report(tmp_path / "metrics.jsonl", 2, 2, RATES.__getitem__, print_lines),
        [1.5, 1.5],
    )
    assert capsys.readouterr().out.startswith(shown)
    assert bool(shown) == print_lines


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
    report = callbacks.Report(tmp_path / "metrics.jsonl", every, 1000, lambda step: 0.1)
    play(report, looks, stride=stride, first=first)
    assert [line["step"] for line in report.lines] == due
