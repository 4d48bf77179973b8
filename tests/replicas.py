"""Trains small models on 1, 2 and 4 replicas, in a process with four logical CPUs.

Run as `python -m tests.replicas OUT.npz`; tests/test_tensorflow_step.py compares the numbers.
Plain SGD and not Adam, whose steps hide a gradient that is off by a factor.
"""

import os
import sys
import warnings

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy as np
import tensorflow as tf

from tests import checks

REPLICAS = (1, 2, 4)
STEPS = 5
found: dict[str, np.ndarray] = {}


def start() -> dict[int, tf.distribute.Strategy]:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 4)
    return {
        1: tf.distribute.get_strategy(),
        2: tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]),
        4: tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(4)]),
    }


def make_model(strategy, architecture="sde", rate=0.01, dropout=0.0, optimizer=None, **arguments):
    from samtone_tf.dual_encoder import DualEncoder
    from samtone_tf.losses.contrastive import SamToNe

    with strategy.scope():
        keras.utils.set_random_seed(0)
        model = DualEncoder(checks.TINY, architecture, embedding_dim=8, dropout=dropout)
        model.compile(
            optimizer or keras.optimizers.SGD(rate),
            loss=SamToNe(temperature=0.05, same_tower="both"),
            **arguments,
        )
    return model


class Record(keras.callbacks.Callback):
    """The metrics of each step by itself."""

    def __init__(self):
        super().__init__()
        self.steps = []

    def on_train_batch_end(self, batch, logs=None):
        self.steps.append([logs[name] for name in ("loss", "accuracy", "masked_fraction")])
        self.model.reset_metrics()


def trained(name, model, dataset, **arguments):
    record = Record()
    before = [variable.numpy() for variable in model.trainable_variables]
    model.fit(dataset, shuffle=False, verbose=0, callbacks=[record], **arguments)
    found[f"{name}/metrics"] = np.array(record.steps)
    found[f"{name}/updates"] = np.array(int(model.optimizer.iterations))
    for place, variable in enumerate(model.trainable_variables):
        found[f"{name}/weight {place} {variable.path}"] = variable.numpy()
        found[f"{name}/change {place} {variable.path}"] = variable.numpy() - before[place]


def several_steps(strategies):
    batches = [checks.make_batch(8, 2, seed) for seed in range(STEPS)]
    for architecture in ("sde", "ade", "ade_spl"):
        for replicas in (1, 2):
            model = make_model(strategies[replicas], architecture)
            trained(f"{architecture} {replicas}", model, checks.as_dataset(batches))


def no_rate(strategies):
    batch = checks.make_batch(8, 2)
    for replicas in REPLICAS:
        model = make_model(strategies[replicas], rate=0.0)
        trained(f"no rate {replicas}", model, checks.as_dataset([batch]))
        logs = checks.evaluate(model, [batch, checks.make_batch(8, 2, seed=1)])
        found[f"evaluate {replicas}"] = np.array([logs[name] for name in sorted(logs)])


def four_pairs(strategies):
    for replicas in REPLICAS:
        model = make_model(strategies[replicas], "ade", rate=1.0)
        trained(f"gradient {replicas}", model, checks.as_dataset([checks.make_batch(4, 1)]))
        clipped = keras.optimizers.SGD(1.0, global_clipnorm=0.1)
        model = make_model(strategies[replicas], optimizer=clipped)
        trained(f"clipped {replicas}", model, checks.as_dataset([checks.make_batch(4, 1)]))


def ragged(strategies):
    """9 pairs at once, and 13 pairs in batches of 8: the last one has 5."""
    nine, thirteen = checks.make_batch(9, 2), checks.make_batch(13, 0)
    for replicas in (1, 2):
        model = make_model(strategies[replicas])
        trained(f"nine {replicas}", model, checks.as_dataset([nine]))
        model = make_model(strategies[replicas])
        dataset = tf.data.Dataset.from_tensor_slices(thirteen).batch(8)
        trained(f"thirteen {replicas}", model, dataset)


def dropout(strategies):
    from samtone_tf import tensorflow_step

    strategy = strategies[2]
    batch = checks.as_tensors(checks.make_batch(4, 0))
    for rate in (0.0, 0.5):
        model = make_model(strategy, dropout=rate)

        @tf.function
        def encode(model=model):
            return strategy.run(tensorflow_step.encode, (model, batch, True))

        local = strategy.experimental_local_results(encode()["query"])
        for replica, vectors in enumerate(local):
            found[f"dropout {rate} replica {replica}"] = vectors.numpy()
    batches = [checks.make_batch(8, 2, seed) for seed in range(3)]
    for run in ("first", "again"):
        model = make_model(strategy, dropout=0.5)
        trained(f"dropout {run}", model, checks.as_dataset(batches))


def execution(strategies):
    batches = [checks.make_batch(8, 0, seed) for seed in range(7)]
    for steps in (1, 3):
        model = make_model(strategies[2], steps_per_execution=steps)
        trained(f"execution {steps}", model, checks.as_dataset(batches))


def jit(strategies):
    batch = checks.make_batch(8, 2)
    model = make_model(strategies[2], jit_compile=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trained("jit", model, checks.as_dataset([batch]))
    found["jit warnings"] = np.array([str(warning.message) for warning in caught])
    trained("no jit", make_model(strategies[2]), checks.as_dataset([batch]))


def pairs(strategies):
    """What `PairBatches` gives goes through `fit` on two replicas."""
    from tests.test_tensorflow_step import make_pairs

    for replicas in (1, 2):
        batches = make_pairs(17, batch_size=8, num_negatives=1)
        model = make_model(strategies[replicas])
        trained(f"pairs {replicas}", model, batches.dataset(num_steps=2))


def main(path):
    strategies = start()
    for part in (several_steps, no_rate, four_pairs, ragged, dropout, execution, jit, pairs):
        part(strategies)
    np.savez(path, **{name.replace("/", "|"): value for name, value in found.items()})


if __name__ == "__main__":
    main(sys.argv[1])
