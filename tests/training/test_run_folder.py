"""Pins of training.run_folder: files of a run, reading them back, atomic saves, refusals."""

import json
import os
import zipfile
from importlib import metadata
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from samtone_tf.metrics import StepMetrics
from samtone_tf.training import run_folder
from samtone_tf.training.run_folder import (
    check_new_run,
    load_config,
    load_model,
    load_tokenizer,
    save_model,
)
from tests import tiny


def encode(model):
    tokens = {"token_ids": np.array([[5, 9, 1]]), "padding_mask": np.ones((1, 3), bool)}
    return np.asarray(model.encode_query(tokens)), np.asarray(model.encode_document(tokens))


@pytest.mark.parametrize("architecture", tiny.ARCHITECTURES)
def test_a_run_folder_holds_what_it_says(architecture):
    run = tiny.run(architecture)
    assert {path.name for path in run.iterdir()} == tiny.RUN_FILES
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["model.keras"]
    assert [path for path in (run / "tensorboard").rglob("events.out.*") if path.stat().st_size]


@pytest.mark.parametrize("architecture", tiny.ARCHITECTURES)
def test_config_and_vocabulary_read_back_equal(architecture):
    run = tiny.run(architecture)
    assert load_config(run) == tiny.config(architecture)
    assert load_tokenizer(run).model == tiny.tokenizer().model


def test_environment_names_versions():
    about = json.loads((tiny.run("sde") / "environment.json").read_text())
    assert {"samtone_tf", "python", "platform", "processor", "processors"} < set(about)
    assert about["processor"]
    assert 1 <= about["processors"] <= os.cpu_count()
    for package in ("tensorflow", "keras", "numpy", "sentencepiece"):
        assert about[package] == metadata.version(package)


def test_metrics_are_lines_of_json_with_finite_numbers():
    lines = (tiny.run("sde") / "metrics.jsonl").read_text().splitlines()
    for line in map(json.loads, lines):
        names = {"step", "learning_rate", "pairs_per_second", "seconds"}
        assert set(line) == names | set(StepMetrics.NAMES)
        assert all(np.isfinite(value) for value in line.values())
    assert json.loads(lines[-1])["step"] == tiny.STEPS
    # 0.01 falling to 0 over 5 steps: the last update is made at a fifth of it.
    assert json.loads(lines[-1])["learning_rate"] == pytest.approx(0.002)


@pytest.mark.parametrize("architecture", tiny.ARCHITECTURES)
def test_a_folder_and_its_file_load_as_the_same_model(architecture):
    run = tiny.run(architecture)
    by_folder, by_file = load_model(str(run)), load_model(run / "checkpoints" / "model.keras")
    assert by_folder.architecture == architecture
    assert by_folder.encoder_config.hidden_dim == 16
    for one, other in zip(encode(by_folder), encode(by_file), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_loaded_model_can_train_on(tmp_path):
    """Optimizer and loss are in the file: its steps are counted, its rate has decayed to 0."""
    model = load_model(tiny.run("sde"))
    assert int(model.optimizer.iterations) == tiny.STEPS
    assert float(model.optimizer.learning_rate) == 0
    assert model.pair_loss.get_config()["temperature"] == 0.05


def no_model(folder):
    return folder / "gone"


def no_checkpoint(folder):
    (folder / "config.yaml").write_text("{}")
    return folder


def text_file(folder):
    path = folder / "model.keras"
    path.write_text("not a zip")
    return path


def zip_of_something(folder):
    path = folder / "model.keras"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("letter.txt", "dear reader")
    return path


def cut_off(folder):
    whole = (tiny.run("sde") / "checkpoints" / "model.keras").read_bytes()
    path = folder / "model.keras"
    path.write_bytes(whole[: len(whole) // 2])
    return path


def other_model(folder):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.save(folder / "model.keras")
    return folder / "model.keras"


def other_ending(folder):
    (folder / "model.bin").write_bytes((tiny.run("sde") / "README.md").read_bytes())
    return folder / "model.bin"


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (no_model, FileNotFoundError, "gone, which does not exist"),
        (no_checkpoint, FileNotFoundError, "has no vocabulary.spm, checkpoints/model.keras"),
        (text_file, ValueError, "a .keras file with a DualEncoder.*model.keras"),
        (zip_of_something, ValueError, "a .keras file with a DualEncoder.*model.keras"),
        (cut_off, ValueError, "a .keras file with a DualEncoder.*model.keras"),
        (other_model, ValueError, "model.keras, a Sequential"),
        (other_ending, ValueError, "model.bin"),
    ],
)
def test_what_is_no_model_is_refused_in_one_line(tmp_path, make, kind, message):
    with pytest.raises(kind, match=message) as caught:
        load_model(make(tmp_path))
    assert "\n" not in str(caught.value)


def test_a_new_run_needs_a_new_or_empty_folder(tmp_path):
    assert check_new_run(tmp_path) == tmp_path
    assert check_new_run(tmp_path / "new") == tmp_path / "new"
    assert not (tmp_path / "new").exists()
    (tmp_path / "file").write_text("x")
    for taken in (tmp_path, tmp_path / "file"):
        with pytest.raises(FileExistsError, match=f"nothing is overwritten. Received: {taken}"):
            check_new_run(taken)


class Model:
    """What a save sees of a model."""

    variables = ()
    optimizer = SimpleNamespace(variables=())


class HalfWritten(Model):
    """A model whose `save` writes half a file and dies."""

    def save(self, path):
        path.write_bytes(b"half")
        raise OSError("disk full")


class Whole(Model):
    def save(self, path):
        path.write_bytes(b"new")


@pytest.fixture
def checkpoint(tmp_path):
    """A run that already saved once."""
    (tmp_path / "checkpoints").mkdir()
    path = tmp_path / "checkpoints" / "model.keras"
    path.write_bytes(b"old")
    return path


def test_a_failed_save_leaves_the_checkpoint_before(tmp_path, checkpoint):
    with pytest.raises(OSError, match="disk full"):
        save_model(HalfWritten(), tmp_path)
    assert checkpoint.read_bytes() == b"old"


def contents(checkpoint):
    return {path.name: path.read_bytes() for path in checkpoint.parent.iterdir() if path.is_file()}


@pytest.mark.parametrize(
    ("moves", "left"),
    [
        (0, {"model.keras": b"old", "previous.keras": b"older"}),
        (1, {"previous.keras": b"old"}),
        (2, {"model.keras": b"new", "previous.keras": b"old"}),
    ],
)
def test_wherever_a_save_is_stopped_one_checkpoint_is_whole(
    tmp_path, checkpoint, monkeypatch, moves, left
):
    checkpoint.with_name("previous.keras").write_bytes(b"older")
    replace, done = os.replace, []

    def stop(*names):
        if len(done) == moves:
            raise KeyboardInterrupt
        done.append(names)
        replace(*names)

    with monkeypatch.context() as patch:
        patch.setattr(run_folder.os, "replace", stop)
        if moves < 2:
            with pytest.raises(KeyboardInterrupt):
                save_model(Whole(), tmp_path)
        else:
            save_model(Whole(), tmp_path)
    assert contents(checkpoint) == left
    save_model(Whole(), tmp_path)  # what is left over is no hindrance
    assert contents(checkpoint)["model.keras"] == b"new"
    assert not (tmp_path / run_folder.WRITING_FOLDER).exists()


def test_a_checkpoint_is_on_the_disk_before_it_has_its_name(tmp_path, checkpoint, monkeypatch):
    calls = []
    flush, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda number: (calls.append("flush"), flush(number)))
    monkeypatch.setattr(os, "replace", lambda *names: (calls.append("name"), replace(*names)))
    save_model(Whole(), tmp_path)
    assert calls == ["flush", "name", "name", "flush"]
