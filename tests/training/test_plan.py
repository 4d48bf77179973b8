"""Pins of training.plan: what is counted, what fits, what it suggests, and what it refuses."""

import re
import subprocess
import sys

import pytest

from samtone_tf.config import ModelConfig
from samtone_tf.training.plan import DEVICES, USABLE, default_chunk, plan


def test_a_model_that_no_device_here_could_hold_is_counted():
    found = plan("t5.1.1-xxl", batch_size=512, replicas=8, strategy="tpu")
    assert (found.parameters, found.trainable) == (4_765_456_384, 4_765_456_384)
    assert (found.device, found.capacity) == ("tpu-v2", 8e9)
    assert found.memory.weights == 4 * found.parameters
    assert not found.fits
    assert found.advice() == []
    text = str(found)
    assert "4,765,456,384, all train" in text
    assert "the weights alone take 19.1 GB" in text
    assert "64 of 512 pairs, 64 and 256 tokens" in text


def test_nothing_is_built_and_tensorflow_is_not_needed():
    code = (
        "import sys, samtone_tf; samtone_tf.plan('t5.1.1-xxl'); "
        "print({'tensorflow', 'keras'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_the_table_has_four_settings_and_marks_what_was_asked_for():
    model = ModelConfig(size="t5.1.1-base", remat=True)
    found = plan(model, batch_size=64, gradient_cache_chunk=8, memory=1000)
    settings = [(setup.chunk, setup.model.remat) for setup in found.table]
    assert settings == [(None, False), (None, True), (8, False), (8, True)]
    sizes = [setup.memory().activations for setup in found.table]
    assert sizes[0] > sizes[1] > sizes[3]
    assert sizes[0] == 8 * sizes[2]
    lines = str(found).splitlines()
    marked = [line for line in lines if "asked for" in line]
    assert len(marked) == 1
    assert marked[0].startswith("8 pairs, remat ")
    assert sum(bool(re.match(r"\d+ pairs?(, remat)? .* (yes|no)\b", line)) for line in lines) == 4
    assert found.fits
    assert lines[-2].startswith("It fits: ")


def test_what_is_suggested_fits_and_nothing_smaller_does():
    found = plan("t5.1.1-base", batch_size=256, device="gpu-t4")
    assert not found.fits
    advice = found.advice()
    assert advice
    for flags in advice:
        assert changed(found, flags).fits, flags
    for name in ("--chunk", "--batch"):  # the largest that fits
        flags = next(flags for flags in advice if name in flags)
        size = int(flags.rpartition(" ")[2])
        larger = changed(found, flags.removesuffix(f" {size}") + f" {2 * size}")
        assert not larger.fits or (name == "--chunk" and 2 * size == 256)


def changed(found, flags):
    values = dict(zip(flags.split()[::2], flags.split()[1::2], strict=True))
    fields = {"--model.remat": ("remat", lambda _: True), "--model.dtype": ("dtype", str)}
    fields["--model.lora_rank"] = ("lora_rank", int)
    model = {f: kind(values[flag]) for flag, (f, kind) in fields.items() if flag in values}
    return plan(
        ModelConfig(size=found.setup.model.size, **model),
        batch_size=int(values.get("--batch", found.setup.batch.num_pairs)),
        optimizer=values.get("--optimizer", found.setup.optimizer),
        gradient_cache_chunk=int(values["--chunk"]) if "--chunk" in values else None,
        memory=found.capacity / 1e9,
    )


def test_adapters_are_suggested_where_gradients_and_slots_are_too_much():
    found = plan("t5.1.1-xl", batch_size=2, optimizer="adam", device="tpu-v3")
    assert found.memory.weights + found.memory.gradients + found.memory.slots > found.capacity
    assert any("--model.lora_rank 8" in flags for flags in found.advice())
    frozen = plan(
        ModelConfig(size="t5.1.1-xl", freeze="encoder"), batch_size=256, memory=6, optimizer="adam"
    )
    assert not any("lora" in flags for flags in frozen.advice())


def test_what_it_needs_decides_on_which_devices_it_fits():
    found = plan("t5.1.1-small", batch_size=32, memory=0.1)
    fitting = found.devices()
    assert fitting
    for name, gigabytes in DEVICES.items():
        assert (name in fitting) == (found.memory.total <= USABLE * gigabytes * 1e9)
    big = plan("t5.1.1-large", batch_size=16, memory=1)
    assert 0 < len(big.devices()) < len(DEVICES)
    assert "As asked for, it fits on: " + ", ".join(big.devices()) in str(big)


@pytest.mark.parametrize(
    ("arguments", "device"),
    [
        ({}, "gpu-t4"),
        ({"strategy": "tpu"}, "tpu-v2"),
        ({"strategy": "tpu", "device": "tpu-v4"}, "tpu-v4"),
        ({"strategy": "mirrored", "memory": 12.5}, "12.5 GB"),
    ],
    ids=str,
)
def test_the_device_that_is_planned_for(arguments, device):
    found = plan(**arguments)
    assert found.device == device
    gigabytes = arguments.get("memory") or DEVICES[device]
    assert found.capacity == gigabytes * 1e9


@pytest.mark.parametrize(
    ("rows", "chunk"), [(512, 32), (64, 32), (32, 16), (24, 12), (7, 1), (1, 1), (50, 25)]
)
def test_the_chunk_of_the_table_unless_one_is_asked_for(rows, chunk):
    assert default_chunk(rows) == chunk


def test_adapters_and_frozen_parts_are_counted_apart():
    found = plan(ModelConfig(size="t5.1.1-base", lora_rank=8), batch_size=8)
    assert found.trainable == 884_736
    assert f"{found.parameters:,}, 884,736 train" in str(found)
    assert found.memory.gradients == 4 * (884_736 + 768 * 768)
    towers = plan(ModelConfig(size="t5.1.1-base", architecture=["projection"]), batch_size=8)
    assert "towers share projection" in str(towers)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "huge"}, "size='huge'"),
        ({"optimizer": "lion"}, "`optimizer` must be one of adafactor, adam, sgd.*'lion'"),
        ({"strategy": "gpus"}, "`strategy` must be one of auto.*'gpus'"),
        ({"device": "h200"}, "`device` must be one of tpu-v2.*device='h200'. Give the GB"),
        ({"memory": 0}, "`memory` must be greater than 0, in GB.*memory=0"),
        ({"memory": float("nan")}, "memory=nan"),
        ({"replicas": 0}, "`replicas` must be at least 1"),
        ({"replicas": 3}, "whole number for each replica.*batch_size=256, replicas=3"),
        ({"batch_size": 1}, "`batch_size` must be at least 2"),
        ({"gradient_cache_chunk": 0}, "gradient_cache_chunk=0"),
        ({"gradient_cache_chunk": 7}, "must divide the pairs.*gradient_cache_chunk=7, 256 pairs"),
        ({"query_length": 1}, "`query_length` must be at least 2"),
        ({"document_length": 0}, "`document_length`"),
        ({"num_negatives": -1}, "`num_negatives`"),
        ({"vocabulary_size": 0}, "`vocabulary_size`"),
    ],
    ids=str,
)
def test_what_cannot_be_planned(arguments, message):
    with pytest.raises(ValueError, match=message):
        plan(**arguments)
