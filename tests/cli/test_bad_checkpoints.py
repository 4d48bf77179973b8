"""Pins of damaged and foreign checkpoints at the command line: one line, exit code 2."""

import errno
import shutil
from pathlib import Path

import pytest

from samtone_tf.data.tokenizer import Tokenizer
from samtone_tf.dual_encoder import DualEncoder
from samtone_tf.training.run_folder import MODEL_FILE, PREVIOUS_FILE, load_model
from tests import tiny
from tests.cli.runner import TINY_FLAGS, refuse, samtone, succeed

TWO_SAVES = (*TINY_FLAGS, "--train.save_every=2")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run from the command line that saved after steps 2, 4 and 5."""
    folder = tmp_path_factory.mktemp("checkpoints")
    beir = tiny.write_beir(folder / "beir")
    succeed("train", "--data", f"beir:{beir}", "--out", folder / "run", *TWO_SAVES)
    return folder / "run"


@pytest.fixture
def run(finished, tmp_path):
    return Path(shutil.copytree(finished, tmp_path / "run"))


def cut(path):
    path.write_bytes(path.read_bytes()[:5000])


def test_export_of_a_damaged_checkpoint_says_which_one_it_took(run, tmp_path):
    cut(run / MODEL_FILE)
    done = samtone("export", run, tmp_path / "1", show_warnings=True)
    assert done.code == 0
    lines = [line for line in done.err.splitlines() if "cannot be used" in line]
    assert len(lines) == 1
    assert lines[0].startswith(f"warning: {run / MODEL_FILE} cannot be used")
    assert f"{run / PREVIOUS_FILE} is taken, which was saved before it, after step 4" in lines[0]


def test_resume_of_a_damaged_checkpoint_takes_the_one_before(run):
    want = load_model(run)
    cut(run / MODEL_FILE)
    done = samtone("train", "--out", run, "--resume", show_warnings=True)
    assert done.code == 0
    assert "is taken, which was saved before it, after step 4" in done.err
    assert "after step 4" in done.out
    got = load_model(run)
    for one, other in zip(want.trainable_variables, got.trainable_variables, strict=True):
        assert (one.numpy() == other.numpy()).all()


@pytest.mark.parametrize("command", ["train", "export"])
def test_two_damaged_checkpoints(run, tmp_path, command):
    cut(run / MODEL_FILE)
    (run / PREVIOUS_FILE).write_bytes(b"")
    flags = {"train": ("--out", run, "--resume"), "export": (run, tmp_path / "1")}
    line = refuse(command, *flags[command])
    assert str(run / MODEL_FILE) in line
    assert str(run / PREVIOUS_FILE) in line


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (["--model.architecture", "ade"], "model.architecture is ade and not sde"),
        (["--train.optimizer", "adam"], "optimizer.class_name is Adam and not Adafactor"),
    ],
    ids=["architecture", "optimizer"],
)
def test_a_checkpoint_of_another_run(run, tmp_path, other, words):
    data = ("--data", f"beir:{tiny.write_beir(tmp_path / 'beir')}")
    succeed("train", *data, "--out", tmp_path / "other", *TINY_FLAGS, *other)
    shutil.copy(tmp_path / "other" / MODEL_FILE, run / MODEL_FILE)
    line = refuse("train", "--out", run, "--resume")
    assert words in line
    assert str(run) in line


def test_a_vocabulary_larger_than_the_table(run, tmp_path):
    texts = [*tiny.docstring_texts(200), *tiny.data().documents.values()]
    Tokenizer.train(texts, 300).save(run / "vocabulary.spm")
    rows = load_model(run).encoder_config.vocabulary_size
    for flags in (("train", "--out", run, "--resume"), ("export", run, tmp_path / "1")):
        line = refuse(*flags)
        assert "`tokenizer` must have at most as many pieces" in line
        assert f"{rows} rows" in line


def test_a_full_disk(tmp_path, monkeypatch):
    whole_save = DualEncoder.save

    def save(model, path):
        if int(model.optimizer.iterations) == 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        whole_save(model, path)

    monkeypatch.setattr(DualEncoder, "save", save)
    data = ("--data", f"beir:{tiny.write_beir(tmp_path / 'beir')}")
    line = refuse("train", *data, "--out", tmp_path / "run", *TWO_SAVES)
    assert str(tmp_path / "run" / "checkpoints") in line
    assert "No space left on device" in line
    assert "bytes" in line
    assert "--resume" in line
    assert int(load_model(tmp_path / "run").optimizer.iterations) == 2
