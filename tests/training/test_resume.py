"""Pins of training.resume: a run that was stopped ends as the undisturbed one, to the bit."""

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from samtone_tf.config import LossConfig
from samtone_tf.training import callbacks, resume
from samtone_tf.training import train as training
from samtone_tf.training.run_folder import MODEL_FILE, load_model
from tests import tiny

ROOT = Path(__file__).parent.parent.parent


def run_process(*arguments):
    command = [sys.executable, "-m", "tests.training.killed_run", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def train(out, config, **arguments):
    return training.train(config, out, data=tiny.data(), tokenizer=tiny.tokenizer(), **arguments)


def state(run):
    """Weights and optimizer slots."""
    model = load_model(run)
    variables = [*model.trainable_variables, *model.optimizer.variables]
    # Places and not paths: Keras counts a model's name up in one process.
    return {f"variable {i}": variable.numpy() for i, variable in enumerate(variables)}


def check_equal(got, want):
    assert got.keys() == want.keys()
    assert len(want) > 20
    for name, value in want.items():
        np.testing.assert_array_equal(got[name], value, err_msg=name)


def stopped(out, config, step, monkeypatch):
    """A run that stops at `step`, with its last save before that."""

    class Stop(training.Report):
        def on_train_batch_end(self, batch, logs=None):
            super().on_train_batch_end(batch, logs)
            if int(self.model.optimizer.iterations) == step:
                raise OSError("the machine is gone")

    with monkeypatch.context() as patched:
        patched.setattr(training, "Report", Stop)
        with pytest.raises(OSError, match="gone"):
            train(out, config)
    return out


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "undisturbed"
    done = run_process(out, 0)
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.slow
@pytest.mark.parametrize("step", [2, 7, 8], ids=["before a save", "after a save", "at a save"])
def test_a_killed_run_ends_with_the_weights_of_an_undisturbed_one(undisturbed, tmp_path, step):
    assert run_process(tmp_path / "run", step).returncode == -signal.SIGKILL
    done = run_process(tmp_path / "run", 0, "resume")
    assert done.returncode == 0, done.stderr
    assert f"after step {4 * ((step - 1) // 4)}" in done.stdout
    check_equal(state(tmp_path / "run"), state(undisturbed))
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line)["step"] for line in lines]
    assert steps == [3, 6, 9, 12]


def test_sigterm_saves_the_step_in_progress(tmp_path):
    # The mark is set by the handler itself; the rest is the callback's.
    class Model:
        class optimizer:
            iterations = 5

    saved, before = [], signal.getsignal(signal.SIGTERM)
    save = callbacks.SaveEvery(tmp_path, 100)
    save.set_model(Model)
    save.save_now = lambda: saved.append(5)
    save.on_train_begin()
    try:
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(SystemExit) as stop:
            save.on_train_batch_end(4, {"loss": 1.0})
    finally:
        save.restore_handler()
    assert (saved, stop.value.code) == ([5], 143)
    assert signal.getsignal(signal.SIGTERM) == before


def test_time_saves_too(tmp_path, monkeypatch):
    saved = []
    save = callbacks.SaveEvery(tmp_path, 100, minutes=1.0)
    monkeypatch.setattr(callbacks, "save_model", lambda model, run: saved.append(run))

    class Model:
        class optimizer:
            iterations = 5

    save.set_model(Model)
    save.on_train_batch_end(4, {"loss": 1.0})
    assert not saved
    save.saved_time -= 61
    save.on_train_batch_end(4, {"loss": 1.0})
    assert saved == [tmp_path]


def test_a_stopped_run_goes_on_in_its_folder(tmp_path, monkeypatch, capsys):
    config = tiny.config(steps=6, save_every=2)
    out = stopped(tmp_path / "run", config, 5, monkeypatch)
    (out / "checkpoints" / "writing.keras").write_bytes(b"half of it")
    train(out, config, resume=True)
    assert "going on with" in capsys.readouterr().out
    assert not (out / "checkpoints" / "writing.keras").exists()
    train(tmp_path / "whole", config)
    check_equal(state(out), state(tmp_path / "whole"))


def test_a_finished_run_has_nothing_to_do(capsys):
    before = (tiny.run("sde") / MODEL_FILE).stat().st_mtime_ns
    train(tiny.run("sde"), tiny.config("sde"), resume=True)
    assert "has all its 5 steps already" in capsys.readouterr().out
    assert (tiny.run("sde") / MODEL_FILE).stat().st_mtime_ns == before


def test_a_changed_configuration_is_refused_with_what_differs():
    changed = replace(tiny.config("sde"), loss=LossConfig(temperature=0.07))
    with pytest.raises(ValueError, match=r"-  temperature: 0.05; \+  temperature: 0.07"):
        train(tiny.run("sde"), changed, resume=True)


def test_other_data_is_refused():
    data = tiny.data()
    fewer = {name: judged for name, judged in list(data.qrels.items())[:40]}
    with pytest.raises(ValueError, match="`data` must hold the pairs"):
        training.train(
            tiny.config("sde"), tiny.run("sde"), data=replace(data, qrels=fewer), resume=True
        )


def test_what_is_no_run_cannot_be_resumed(tmp_path):
    with pytest.raises(FileNotFoundError, match="no config.yaml, vocabulary.spm"):
        train(tmp_path, tiny.config(), resume=True)


def test_another_machine_is_warned_about(monkeypatch):
    now = {**resume.describe_environment(), "keras": "9.9"}
    monkeypatch.setattr(resume, "describe_environment", lambda: now)
    with pytest.warns(UserWarning, match="keras was 3.* and is 9.9 now"):
        resume.warn_of_changes(tiny.run("sde"))
