"""Trains tiny runs on one device, on two logical CPUs, or as one of two processes.

`python -m tests.training.devices STRATEGY FOLDER RANK PART [ARGUMENT ...]`; a worker finds
TF_CONFIG in its environment. What a process saw goes to FOLDER/PART.RANK.json, and what
`train` wrote lies beside it; tests/training/test_devices.py compares.

One process for each strategy: TensorFlow's collectives do not survive a second one.
"""

import json
import os
import shutil
import sys
import warnings
from dataclasses import replace
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import tensorflow as tf

from samtone_tf import distribution
from samtone_tf.training import train as training
from samtone_tf.workers import Workers
from tests import tiny

BATCH, STEPS = 8, 12


class Process:
    """What every part knows: the strategy's name, where to write, and which worker this is."""

    def __init__(self, strategy: str, folder: str, rank: str):
        self.strategy, self.folder, self.rank = strategy, Path(folder), int(rank)

    def train(self, name, dropout=0.0, tokenizer=True, resume=False, **changes):
        config = tiny.config(strategy=self.strategy, batch_size=BATCH, **changes)
        config = replace(config, model=replace(config.model, dropout=dropout))
        tokenizer = tiny.tokenizer() if tokenizer else None
        return training.train(
            config, self.folder / name, data=tiny.data(), tokenizer=tokenizer, resume=resume
        )

    def make_strategy(self):
        return distribution.make_strategy(self.strategy)


def parity(process: Process) -> dict:
    """Runs that must not depend on the devices, with SGD, which shows the gradient's scale."""
    optimizer = training.make_optimizer
    training.make_optimizer = lambda config: keras.optimizers.SGD(training.make_schedule(config))
    process.train("whole", report_every=1, learning_rate=0.01)
    process.train("chunks", 0.5, report_every=1, learning_rate=0.01, gradient_cache_chunk=2)
    training.make_optimizer = optimizer
    return {}


def rows(process: Process) -> dict:
    """The ids that each replica of this process gets in two steps, and their static shapes."""
    batches = training.make_batches(tiny.config(), tiny.data(), tiny.tokenizer())
    shapes = []
    strategy = process.make_strategy()
    local = strategy.experimental_local_results
    iterator = iter(distribution.distribute(strategy, batches.dataset(), BATCH))

    @tf.function
    def static():
        batch = next(iterator)
        shapes.extend(list(x.shape) for x in local(batch["query_id"]))
        return batch["query_id"]

    seen = [[list(map(int, x)) for x in local(static())] for _ in range(2)]
    whole = [batches.batch(step)["query_id"].tolist() for step in range(2)]
    return {"seen": seen, "shapes": shapes, "whole": whole}


def jit(process: Process) -> dict:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        process.train("jit", steps=1, jit_compile=True, deterministic=False)
    return {"warnings": [str(warning.message) for warning in caught]}


def talk(process: Process) -> dict:
    """What workers tell each other."""

    def only_the_chief() -> bytes:
        if process.rank:
            raise AssertionError("called on a worker")
        return bytes(range(256))

    workers = Workers(process.make_strategy())
    told = list(workers.from_chief(only_the_chief))
    workers.agree({"step": 7, "text": "as the others"})
    messages = []
    for facts in ({"step": 7, "text": str(process.rank)}, {"step": 10 * (process.rank + 1)}):
        try:
            workers.agree(facts)
        except ValueError as error:
            messages.append(str(error))
    return {"told": told, "messages": messages, "chief": workers.is_chief}


def vocabulary(process: Process) -> dict:
    """A run whose vocabulary the chief trains for all."""
    seen, make_batches = [], training.make_batches
    make = training.make_tokenizer

    def note(config, data, tokenizer, cache=None):
        seen.append(tokenizer.fingerprint)
        return make_batches(config, data, tokenizer, cache)

    def make_here(config, data):
        if process.rank:
            raise AssertionError("a worker trained a vocabulary")
        return make(config, data)

    training.make_batches, training.make_tokenizer = note, make_here
    process.train("vocabulary", tokenizer=False, steps=1)
    training.make_batches, training.make_tokenizer = make_batches, make
    return {"fingerprints": seen}


def elsewhere(process: Process) -> dict:
    """Resuming from a folder that is not shared: the second worker's has no checkpoint."""
    own = process.folder / f"copy{process.rank}"
    shutil.copytree(process.folder / "whole", own)
    if process.rank:
        (own / "checkpoints" / "model.keras").unlink()
    try:
        process.train(own.name, report_every=1, learning_rate=0.01, resume=True)
    except ValueError as error:
        return {"message": str(error)}
    return {"message": "it began"}


def lost(process: Process, name: str, rank: str, step: str, number: str, resume: str = "") -> dict:
    """A run in which worker `rank` gets a signal after `step`; all that has state is on."""

    class Stop(training.Report):
        def on_train_batch_end(self, batch, logs=None):
            super().on_train_batch_end(batch, logs)
            here = process.rank == int(rank)
            if here and training.step_of(self.model) == int(step):
                os.kill(os.getpid(), int(number))

    training.Report = Stop
    changes = {"steps": STEPS, "save_every": 4, "report_every": 3, "gradient_cache_chunk": 2}
    process.train(
        name, 0.1, optimizer="adafactor", resume=resume == "resume", learning_rate=None, **changes
    )
    training.Report = Stop.__bases__[0]
    return {}


def main(strategy: str, folder: str, rank: str, *parts: str) -> None:
    if strategy == "mirrored":
        cpu = tf.config.list_physical_devices("CPU")[0]
        devices = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(cpu, devices)
    process = Process(strategy, folder, rank)
    for part in parts:
        name, *arguments = part.split(",")
        found = globals()[name](process, *arguments)
        (process.folder / f"{name}.{rank}.json").write_text(json.dumps(found))
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
