"""Pins of `samtone plan`: flags reach the plan, and bad ones are one line."""

import pytest

from samtone_tf.config import ModelConfig
from samtone_tf.training.plan import plan
from tests.cli.runner import refuse, succeed


def test_every_flag_reaches_the_plan():
    flags = (
        "--batch=32",
        "--replicas=2",
        "--strategy=mirrored",
        "--device=gpu-l4",
        "--optimizer=adam",
        "--query_length=16",
        "--document_length=32",
        "--negatives=2",
        "--chunk=4",
        "--vocabulary_size=900",
        "--model.architecture=ade_spl",
        "--model.dtype=mixed_bfloat16",
        "--model.remat=true",
        "--model.lora_rank=4",
        "--model.lora_targets=all",
        "--model.embedding_dim=64",
    )
    want = plan(
        ModelConfig(
            architecture="ade_spl",
            dtype="mixed_bfloat16",
            remat=True,
            lora_rank=4,
            lora_targets="all",
            embedding_dim=64,
        ),
        batch_size=32,
        replicas=2,
        strategy="mirrored",
        device="gpu-l4",
        optimizer="adam",
        query_length=16,
        document_length=32,
        num_negatives=2,
        gradient_cache_chunk=4,
        vocabulary_size=900,
    )
    assert succeed("plan", *flags).out == f"{want}\n"
    for flag in flags:
        fewer = succeed("plan", *(other for other in flags if other != flag)).out
        # T4 and L4 differ in what is there, and the strategy only where no device is named.
        assert (fewer != f"{want}\n") == (not flag.startswith("--strategy")), flag
    assert "8.0 GB" not in succeed("plan", "--memory=5").out


def test_a_model_too_large_is_a_plan_and_no_error():
    flags = ("--model.size", "t5.1.1-xxl", "--strategy", "tpu", "--replicas", "8", "--batch", "512")
    done = succeed("plan", *flags)
    assert "does not fit" in done.out
    assert "tpu-v2" in done.out


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--batch", "many"], ["many"]),
        (["--batch", "10", "--replicas", "4"], ["batch_size=10, replicas=4"]),
        (["--chunk", "3", "--batch", "32"], ["gradient_cache_chunk=3", "32 pairs"]),
        (["--device", "abacus"], ["'abacus'", "tpu-v2"]),
        (["--memory=-1"], ["memory=-1"]),
        (["--optimizer", "lion"], ["'lion'"]),
        (["--strategy", "gpus"], ["'gpus'"]),
        (["--model.size", "huge"], ["'huge'", "t5.1.1-xxl"]),
        (["--model.lora_rank", "9999"], ["lora_rank=9999"]),
        (["--model.lora_rank", "8", "--model.freeze", "encoder"], ["`freeze`"]),
        (["--model.init", "run:x"], ["init"]),
        (["--batch_size", "8"], ["--batch_size"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_what_plan_cannot_use(flags, named):
    line = refuse("plan", *flags)
    for words in named:
        assert words in line
