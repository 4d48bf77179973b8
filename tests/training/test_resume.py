"""Pins of training.resume: a run that was stopped ends as the undisturbed one, to the bit."""

import errno
import json
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from samtone_tf.config import LossConfig
from samtone_tf.data.tokenizer import Tokenizer
from samtone_tf.dual_encoder import DualEncoder
from samtone_tf.training import callbacks, resume
from samtone_tf.training import train as training
from samtone_tf.training.run_folder import (
    MODEL_FILE,
    PREVIOUS_FILE,
    WRITING_FOLDER,
    load_model,
    save_model,
)
from tests import tiny

ROOT = Path(__file__).parent.parent.parent


def start(out, *kills):
    """A process that trains a run in one life more than there are kills."""
    command = [sys.executable, "-m", "tests.training.killed_run", str(out), *kills]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


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


def random_kills():
    """Ten random moments, spread over 52 of the 60 steps, and two in the middle of a save."""
    random = np.random.default_rng(20230712)
    kills = []
    for slot in range(12):
        step = int(4.5 * slot) + random.integers(1, 3)
        kills.append(f"{step}+{random.uniform(0, 2):.2f}")
    for slot, moment in ((4, "half"), (8, "names")):
        kills[slot] = kills[slot].split("+")[0] + f"@{moment}"
    return kills


@pytest.fixture(scope="module")
def lives(tmp_path_factory):
    """Folder and output of two undisturbed runs and of one that was killed twelve times."""
    folder = tmp_path_factory.mktemp("runs")
    runs = {name: folder / name for name in ("undisturbed", "again", "killed")}
    processes = {
        name: start(out, *(random_kills() if name == "killed" else ()))
        for name, out in runs.items()
    }
    done = {name: process.communicate() for name, process in processes.items()}
    for name, process in processes.items():
        assert process.returncode == 0, done[name][1]
    return {name: (out, *done[name]) for name, out in runs.items()}


def endings(output):
    return [int(line.split()[-1]) for line in output.splitlines() if line.startswith("life ")]


@pytest.mark.slow
def test_two_undisturbed_runs_are_equal_to_the_bit(lives):
    (one, output, _), (other, *_) = lives["undisturbed"], lives["again"]
    assert endings(output) == [0]
    assert int(load_model(one).optimizer.iterations) == 60
    check_equal(state(other), state(one))


@pytest.mark.slow
def test_a_run_killed_at_ten_random_moments_ends_as_an_undisturbed_one(lives):
    run, output, errors = lives["killed"]
    assert endings(output) == [-signal.SIGKILL] * 12 + [0], errors
    resumed = [int(line.split()[-1]) for line in output.splitlines() if "going on with" in line]
    assert len(resumed) == 12
    assert resumed == sorted(resumed)
    assert resumed[-1] > 40
    assert "model.keras, which does not exist" in errors  # killed between the two renames
    check_equal(state(run), state(lives["undisturbed"][0]))


@pytest.mark.slow
def test_a_killed_run_reports_each_step_once(lives):
    lines = (lives["killed"][0] / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [10, 20, 30, 40, 50, 60]
    names = {path.name for path in (lives["killed"][0] / "checkpoints").iterdir()}
    assert names == {"model.keras", "previous.keras"}


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
    loss = LossConfig(learn_temperature=True, log_q=True, similarity_margin=0.1)
    config = replace(config, loss=loss)
    out = stopped(tmp_path / "run", config, 5, monkeypatch)
    half = out / WRITING_FOLDER / "model.keras"
    half.parent.mkdir()
    half.write_bytes(b"half of it")
    train(out, config, resume=True)
    assert "going on with" in capsys.readouterr().out
    assert not half.parent.exists()
    train(tmp_path / "whole", config)
    check_equal(state(out), state(tmp_path / "whole"))


def test_a_run_with_adapters_goes_on_to_the_bit(tmp_path, monkeypatch):
    config = tiny.config("ade", steps=6, save_every=2)
    adapted = replace(config.model, lora_rank=4, lora_targets="all", dropout=0.2)
    config = replace(config, model=adapted)
    out = stopped(tmp_path / "run", config, 5, monkeypatch)
    train(out, config, resume=True)
    train(tmp_path / "whole", config)
    check_equal(state(out), state(tmp_path / "whole"))
    names = {variable.name for variable in load_model(out).trainable_variables}
    assert names == {"lora_a", "lora_b", "kernel"}  # the last one of the projections


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


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("keras", "9.9", "keras was 3.* and is 9.9 now"),
        ("processors", 1000, r"processors was \d+ when the run started and is 1000 now"),
        ("processor", "Z80", "processor was .* and is Z80 now"),
        ("new", 1, "new was None when the run started and is 1 now"),
    ],
)
def test_another_machine_is_warned_about(monkeypatch, name, value, message):
    now = {**resume.describe_environment(), name: value}
    monkeypatch.setattr(resume, "describe_environment", lambda: now)
    with pytest.warns(UserWarning, match=message) as caught:
        resume.warn_of_changes(tiny.run("sde"))
    assert len(caught) == 1


def test_the_same_machine_is_not_warned_about(recwarn):
    resume.warn_of_changes(tiny.run("sde"))
    assert not recwarn.list


# --- damaged and foreign checkpoints ---------------------------------------------------------


@pytest.fixture(scope="module")
def saved_twice(tmp_path_factory):
    """A run of 6 steps that stopped in step 5: saved after steps 2 and 4."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        out = tmp_path_factory.mktemp("runs") / "run"
        return stopped(out, tiny.config(steps=6, save_every=2), 5, monkeypatch)


@pytest.fixture
def run(saved_twice, tmp_path):
    return Path(shutil.copytree(saved_twice, tmp_path / "run"))


def cut(content):
    return content[: len(content) * 2 // 3]


def zero_in_the_middle(content):
    """A page that never reached the disk, in the middle of the weights."""
    middle = len(content) // 2
    return content[:middle] + bytes(4096) + content[middle + 4096 :]


DAMAGE = {
    "truncated": cut,
    "empty": lambda content: b"",
    "zeroed": lambda content: bytes(len(content)),
    "a page of zeros": zero_in_the_middle,
    "another file": lambda content: b"dear reader",
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_checkpoint_gives_way_to_the_one_before(run, kind):
    path = run / MODEL_FILE
    path.write_bytes(DAMAGE[kind](path.read_bytes()))
    with pytest.warns(UserWarning, match=r"model.keras cannot be used; .*previous.keras is taken"):
        assert int(load_model(run).optimizer.iterations) == 2
    with pytest.raises(ValueError, match=r"Received: .*model.keras"):
        load_model(path)


def test_a_run_goes_on_from_the_checkpoint_before(run, tmp_path, capsys):
    path = run / MODEL_FILE
    path.write_bytes(damaged := cut(path.read_bytes()))
    with pytest.warns(UserWarning, match="saved before it, after step 2"):
        train(run, tiny.config(steps=6, save_every=2), resume=True)
    assert "after step 2" in capsys.readouterr().out
    train(tmp_path / "whole", tiny.config(steps=6, save_every=2))
    check_equal(state(run), state(tmp_path / "whole"))
    # It was not put in the place of the whole one by the saves that followed.
    assert (run / resume.DAMAGED_FILE).read_bytes() == damaged
    assert int(load_model(run / PREVIOUS_FILE).optimizer.iterations) == 4


def test_two_damaged_checkpoints_are_both_named(run):
    for name in (MODEL_FILE, PREVIOUS_FILE):
        (run / name).write_bytes(cut((run / name).read_bytes()))
    with pytest.raises(ValueError, match=r"none. .*model.keras.* .*previous.keras") as caught:
        train(run, tiny.config(steps=6, save_every=2), resume=True)
    assert "\n" not in str(caught.value)
    assert (run / MODEL_FILE).exists()


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (tiny.config("ade_spl"), "model.architecture is ade_spl and not sde"),
        (tiny.config(optimizer="adafactor"), "optimizer.class_name is Adafactor and not Adam"),
        (tiny.config(learning_rate=0.5), "learning_rate is 0.5 and not 0.01"),
    ],
    ids=["architecture", "optimizer", "learning rate"],
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path, other, message):
    run = Path(shutil.copytree(tiny.run("sde"), tmp_path / "run"))
    model = training.make_model(other, tiny.tokenizer())
    model.optimizer.build(model.trainable_variables)
    save_model(model, run)
    with pytest.raises(ValueError, match=message):
        train(run, tiny.config("sde"), resume=True)


def test_a_vocabulary_larger_than_the_table_is_refused(run):
    texts = [*tiny.docstring_texts(200), *tiny.data().documents.values()]
    Tokenizer.train(texts, 300).save(run / "vocabulary.spm")
    with pytest.raises(ValueError, match=r"as many pieces .* Received: \d+ pieces, \d+ rows"):
        train(run, tiny.config(steps=6, save_every=2), resume=True)


def test_a_full_disk_stops_the_run_and_leaves_the_checkpoint(tmp_path, monkeypatch):
    whole_save = DualEncoder.save

    def save(model, path):
        if int(model.optimizer.iterations) == 4:
            path.write_bytes(bytes(1000))
            raise OSError(errno.ENOSPC, "No space left on device")
        whole_save(model, path)

    config = tiny.config(steps=6, save_every=2)
    with monkeypatch.context() as patched:
        patched.setattr(DualEncoder, "save", save)
        with pytest.raises(OSError, match="No space left on device") as caught:
            train(tmp_path / "run", config)
    folder = (tmp_path / "run" / MODEL_FILE).parent
    message = str(caught.value)
    assert f"cannot be written to {folder}: " in message
    needed, free = (
        int(n.replace(",", "")) for n in re.findall(r"([0-9,]+) (?:bytes|are free)", message)
    )
    # Adam: three numbers a weight, and a few besides.
    least = 4 * 3 * load_model(tmp_path / "run").count_params()
    assert least <= needed < 1.1 * least + 4000
    assert free > 0
    assert [path.name for path in folder.iterdir()] == ["model.keras"]
    assert int(load_model(tmp_path / "run").optimizer.iterations) == 2
    train(tmp_path / "run", config, resume=True)
    assert int(load_model(tmp_path / "run").optimizer.iterations) == 6
