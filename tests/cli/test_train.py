"""Pins of cli.train: flags and YAML become the run's configuration; what is unknown is refused."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import yaml

from samtone_tf.cli.main import main
from samtone_tf.config import (
    DataConfig,
    LossConfig,
    ModelConfig,
    RunConfig,
    TrainConfig,
    ValidationConfig,
)
from samtone_tf.training import train as training
from samtone_tf.training.run_folder import load_config, load_model
from tests import tiny
from tests.cli.runner import TINY_FLAGS, refuse, samtone, succeed


@pytest.fixture
def started(monkeypatch):
    """The configurations that `train` was called with, instead of training."""
    calls = []

    def train(config, out, resume):
        calls.append((config, out))
        return SimpleNamespace(distribute_strategy=None)

    monkeypatch.setattr(training, "train", train)
    return calls


def write_yaml(path, content):
    path.write_text(yaml.safe_dump(content))
    return path


def test_no_flag_gives_the_defaults(started):
    succeed("train", "--data", "pairs:faq.jsonl", "--out", "R")
    assert started == [(RunConfig(data=DataConfig(source="pairs:faq.jsonl")), "R")]


@pytest.mark.parametrize("data", [["--data", "beir:x"], ["--data=beir:x"]], ids=str)
def test_every_flag_arrives(started, data):
    succeed(
        "train", *data, "--out", "R",
        "--data.split", "dev", "--data.query_length", "9", "--data.document_length", "10",
        "--data.num_negatives", "2", "--data.max_positives", "3", "--data.vocabulary", "v.spm",
        "--data.vocabulary_size", "99", "--data.no_duplicates", "true", "--data.cache", "C",
        "--data.query_prompt", "query: ", "--data.document_prompt", "passage: ",
        "--model.size", "t5.1.1-small",
        "--model.architecture", "ade_spl", "--model.embedding_dim", "7", "--model.num_layers", "1",
        "--model.dropout", "0.25", "--model.dtype", "mixed_bfloat16",
        "--model.gated", "false", "--model.activation", "relu",
        "--model.num_buckets", "16", "--model.max_distance", "64",
        "--model.vocabulary_size", "32256",
        "--model.freeze", "encoder",
        "--model.remat", "true", "--model.init", "run:R0", "--loss.name", "samtone",
        "--loss.same_tower", "both", "--loss.temperature", "0.01", "--loss.bidirectional", "true",
        "--loss.directions", "mean", "--loss.masks", "id,text", "--loss.negatives_scope", "own",
        "--train.steps", "7", "--train.batch_size", "512", "--train.optimizer", "adafactor",
        "--train.learning_rate", "1e-4", "--train.warmup_steps", "3", "--train.seed", "5",
        "--train.report_every", "2", "--train.save_every", "4", "--train.save_minutes", "6",
        "--train.gradient_cache_chunk", "64", "--train.deterministic", "false",
        "--train.jit_compile", "true", "--train.steps_per_execution", "8",
        "--train.strategy", "tpu", "--train.tpu", "v5",
        "--validation.split", "held_out",
        "--validation.every", "6", "--validation.queries", "50", "--validation.documents", "all",
        "--validation.measure", "MRR@10", "--validation.patience", "4",
    )  # fmt: skip
    assert started[0][0] == RunConfig(
        data=DataConfig(
            "beir:x", "dev", 9, 10, 2, 3, "v.spm", 99, True, "C", "query: ", "passage: "
        ),
        model=ModelConfig(
            size="t5.1.1-small",
            architecture="ade_spl",
            embedding_dim=7,
            num_layers=1,
            dropout=0.25,
            dtype="mixed_bfloat16",
            gated=False,
            activation="relu",
            num_buckets=16,
            max_distance=64,
            vocabulary_size=32256,
            freeze="encoder",
            remat=True,
            init="run:R0",
        ),
        loss=LossConfig("samtone", "both", 0.01, True, "mean", ["id", "text"], "own"),
        train=TrainConfig(
            7, 512, "adafactor", 1e-4, 3, 5, 2, 4, 6.0, False, True, 64, 8, "tpu", "v5"
        ),
        validation=ValidationConfig("held_out", 6, 50, "all", "MRR@10", 4),
    )


@pytest.mark.parametrize(
    ("flags", "loss"),
    [
        ("--loss.name pair --loss.alpha 0.2 --loss.other_queries true",
         LossConfig("pair", alpha=0.2, other_queries=True)),
        ("--loss.name triplet --loss.margin 0.4 --loss.reduction mean --loss.same_tower both",
         LossConfig("triplet", margin=0.4, reduction="mean", same_tower="both")),
        ("--loss.name gte --loss.log_q true", LossConfig("gte", log_q=True)),
        ("--loss.similarity_margin 0.1 --loss.similarity_margin_kind relative",
         LossConfig(similarity_margin=0.1, similarity_margin_kind="relative")),
        ("--loss.learn_temperature true --loss.min_temperature 0.02 --loss.max_temperature 0.5",
         LossConfig(learn_temperature=True, min_temperature=0.02, max_temperature=0.5)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_flags_of_each_loss(started, flags, loss):
    succeed("train", "--out", "R", *flags.split())
    assert started[0][0].loss == RunConfig(loss=loss).loss


def test_a_flag_of_another_loss_is_refused(started):
    assert "`loss.alpha` is no option of the loss samtone" in refuse(
        "train", "--out", "R", "--loss.alpha", "0.2"
    )
    assert "`loss.temperature` is no option of the loss triplet" in refuse(
        "train", "--out", "R", "--loss.name", "triplet", "--loss.temperature", "0.05"
    )
    assert started == []


def test_lists_of_parts_and_no_masks(started):
    flags = ("--model.architecture", "[encoder, projection]", "--loss.masks", "none")
    succeed("train", "--out", "R", *flags, "--model.freeze", "[encoder, token_embedding]")
    assert started[0][0].model.freeze == ["encoder", "token_embedding"]
    assert started[0][0].model.architecture == ["encoder", "projection"]
    assert started[0][0].loss.masks == []


@pytest.mark.parametrize("flags_first", [False, True])
def test_flags_override_the_file_wherever_they_stand(started, tmp_path, flags_first):
    content = {"data": {"source": "beir:x"}, "train": {"steps": 7, "seed": 3}}
    file = ["--config", write_yaml(tmp_path / "run.yaml", content)]
    flags = ["--train.steps", "9", "--data", "beir:y", "--out", "R"]
    succeed("train", *(flags + file if flags_first else file + flags))
    ((config, _),) = started
    assert (config.train.steps, config.train.seed, config.data.source) == (9, 3, "beir:y")


def test_the_papers_preset_is_what_the_paper_says_and_flags_override_it(started):
    """Moiseev et al. 2023, section 3: 20,000 steps, Adafactor, 1e-3 → 0, τ = 0.01, batch 512."""
    for flags in (["--preset", "paper"], ["--preset=paper"]):
        succeed("train", "--out", "R", "--train.steps", "100", *flags, "--model.init", "hf:t5")
    (config, _), again = started
    assert again == (config, "R")
    train, loss = config.train, config.loss
    assert (train.steps, train.batch_size, train.optimizer) == (100, 512, "adafactor")
    assert (train.peak_rate, train.warmup_steps, loss.temperature) == (0.001, 0, 0.01)
    assert (loss.name, loss.same_tower, loss.bidirectional, loss.masks) == (
        "samtone",
        "query",
        True,
        [],
    )
    assert "`--preset` must be one of paper. Received: --preset='papper'" in refuse(
        "train", "--out", "R", "--preset", "papper"
    )


def test_a_printed_configuration_reads_back_equal(started, tmp_path):
    flags = ("--data", "beir:x", "--model.architecture", "ade", "--loss.masks", "id,positives")
    more = ("--train.learning_rate", "3e-4", "--loss.temperature", "0.01")
    printed = succeed("train", *flags, *more, "--print_config").out
    assert yaml.safe_load(printed)["train"]["learning_rate"] == 3e-4
    (tmp_path / "run.yaml").write_text(printed)
    succeed("train", *flags, *more, "--out", "A")
    succeed("train", "--config", tmp_path / "run.yaml", "--out", "A")
    assert started[0] == started[1]
    assert started[0][0].model.architecture == "ade"


@pytest.mark.slow
def test_a_runs_own_configuration_trains_it_again(tmp_path):
    """From a run folder to the same weights, to the bit, with one flag."""
    beir = tiny.write_beir(tmp_path / "beir")
    succeed("train", "--data", f"beir:{beir}", "--out", tmp_path / "one", *TINY_FLAGS)
    file = tmp_path / "one" / "config.yaml"
    done = succeed("train", "--config", file, "--out", tmp_path / "two")
    assert f"next: samtone export {tmp_path / 'two'}" in done.out
    assert load_config(tmp_path / "one") == load_config(tmp_path / "two")
    one, two = load_model(tmp_path / "one"), load_model(tmp_path / "two")
    for a, b in zip(one.trainable_variables, two.trainable_variables, strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    last = json.loads((tmp_path / "two" / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["step"] == 5


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--model.arch", "ade"], "--model.arch"),
        (["--model.arch=ade"], "--model.arch"),
        (["--train.step", "5"], "--train.step"),
        (["--learning_rate", "5"], "--learning_rate"),
        (["--train.steps", "many"], "many"),
        (["--train.steps", "1.5"], "1.5"),
        (["--train.optimizer", "sgd"], "sgd"),
        (["--loss.name", "ranknet"], "ranknet"),
        (["--loss.same_tower", "none"], "none"),
        (["--validation.measure", "ndcg"], "ndcg"),
        (["--validation.documents", "some"], "some"),
        (["--model.dtype", "float16"], "float16"),
        (["extra"], "extra"),
    ],
    ids=str,
)
def test_unknown_flags_and_values_are_refused(started, flags, named):
    line = refuse("train", "--data", "beir:x", "--out", "R", *flags)
    assert named in line
    assert line.endswith("(see `samtone train --help`)")
    assert started == []


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ({"train": {"stepz": 5}}, "stepz"),
        ({"trian": {"steps": 5}}, "trian"),
        ({"model": {"architecture": "tied"}}, "tied"),
        ({"loss": {"temperature": 0}}, "temperature=0"),
    ],
    ids=str,
)
def test_unknown_keys_and_values_of_a_file_are_refused(started, tmp_path, content, named):
    file = write_yaml(tmp_path / "run.yaml", content)
    assert named in refuse("train", "--config", file, "--out", "R")
    assert started == []


def test_a_file_that_is_absent_or_no_yaml_is_refused(started, tmp_path):
    assert "gone.yaml" in refuse("train", "--config", tmp_path / "gone.yaml", "--out", "R")
    (tmp_path / "odd.yaml").write_text("train: [1, 2\nloss: {")
    assert "odd.yaml" in refuse("train", "--config", tmp_path / "odd.yaml", "--out", "R")
    assert started == []


def test_the_folder_to_write_must_be_named(started):
    assert "out" in refuse("train", "--data", "beir:x")
    assert started == []


def test_c07_a_scale_as_temperature_warns_loudly_and_once(started):
    flags = ("--data", "beir:x", "--out", "R", "--loss.temperature", "20")
    done = samtone("train", *flags, show_warnings=True)
    assert done.code == 0
    (line,) = done.err.splitlines()
    assert line.startswith("warning: `temperature` is 20.0: ")
    assert "temperature=0.05" in line
    assert started[0][0].loss.temperature == 20


def test_resume_takes_the_runs_own_configuration(tmp_path, capsys):
    """Without a flag it goes on; with another value it is refused, and says which."""
    from tests import tiny

    folder = tiny.write_beir(tmp_path / "beir")
    out = str(tmp_path / "run")
    small = ["--model.num_layers=1", "--model.hidden_dim=16", "--train.batch_size=8"]
    assert main(["train", f"--data=beir:{folder}", "--out", out, *small, "--train.steps=2"]) == 0
    assert main(["train", "--out", out, "--resume"]) == 0
    assert "has all its 2 steps already" in capsys.readouterr().out
    assert main(["train", "--out", out, "--resume", "--train.steps=3"]) == 2
    assert "- steps: 2; + steps: 3" in capsys.readouterr().err
