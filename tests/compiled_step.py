"""Trains small models with XLA: `XLA_FLAGS=… python -m tests.compiled_step FOLDER`.

tests/test_compiled_step.py compares the numbers, and reads what XLA was given. In a process of
its own: Keras drops XLA wherever op determinism was ever switched on.
"""

import os
import sys
from dataclasses import replace
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy as np
import tensorflow as tf

from tests import checks, replicas, tiny

CASES = {"plain": {}, "cached": {"architecture": "ade_spl", "chunk": 2}}
RUN = {"steps": 7, "steps_per_execution": 3, "gradient_cache_chunk": 4, "deterministic": False}


def with_and_without():
    """The same steps, compiled and not: hard negatives and masks, in one pass and in chunks."""
    batches = [checks.make_batch(6, 2, seed) for seed in range(3)]
    for name, arguments in CASES.items():
        for jit_compile in (False, True):
            strategy = tf.distribute.get_strategy()
            model = replicas.make_model(strategy, jit_compile=jit_compile, **arguments)
            replicas.trained(f"{name} {jit_compile}", model, checks.as_dataset(batches))


def dropout():
    """One chunk is the whole batch: encoded twice with the same draws, or once.

    Both compiled: XLA draws other numbers from a seed than TensorFlow's own op.
    """
    batches = [checks.make_batch(6, 2, seed) for seed in range(3)]
    for chunk in (None, 6):
        strategy = tf.distribute.get_strategy()
        model = replicas.make_model(strategy, dropout=0.5, chunk=chunk, jit_compile=True)
        replicas.trained(f"dropout {chunk}", model, checks.as_dataset(batches))


def large_fingerprints():
    """A batch whose ids are next to each other, and the same with one document twice."""
    apart = checks.make_batch(4, 1)
    apart["query_id"] = 2**62 + np.arange(4)
    apart["document_id"] = 2**61 + np.arange(4)
    apart["positive_ids"] = apart["document_id"][:, None]
    apart["negative_id"] = 2**60 + np.arange(4)[:, None]
    twice = dict(apart, document_id=apart["document_id"] - [0, 1, 0, 0])
    model = replicas.make_model(tf.distribute.get_strategy(), jit_compile=True)
    replicas.trained("fingerprints", model, checks.as_dataset([apart, twice]))


def whole_run(folder: Path):
    """`train` itself, with and without XLA, several steps at a time."""
    from samtone_tf.training.train import train

    for jit_compile in (False, True):
        config = tiny.config(jit_compile=jit_compile, **RUN)
        config = replace(config, model=replace(config.model, dropout=0.0))
        arguments = {"data": tiny.data(), "tokenizer": tiny.tokenizer()}
        model = train(config, folder / f"run_{jit_compile}", **arguments)
        replicas.found[f"run {jit_compile}/updates"] = model.optimizer.iterations.numpy()


def main(folder: str) -> None:
    keras.config.disable_interactive_logging()
    with_and_without()
    dropout()
    large_fingerprints()
    whole_run(Path(folder))
    numbers = {name.replace("/", "|"): value for name, value in replicas.found.items()}
    np.savez(Path(folder) / "numbers.npz", **numbers)


if __name__ == "__main__":
    main(sys.argv[1])
