"""Trains small models on 1, 2 or 4 replicas that are logical CPUs of one process.

Run as `python -m tests.replicas REPLICAS OUT.npz [PART ...]`; tests/test_tensorflow_step.py
compares the numbers. One process for each number of replicas: TensorFlow's collectives do not
survive a second strategy.

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

STEPS = 5
found: dict[str, np.ndarray] = {}


def start(replicas: int) -> tf.distribute.Strategy:
    if replicas == 1:
        return tf.distribute.get_strategy()
    cpu = tf.config.list_physical_devices("CPU")[0]
    devices = [tf.config.LogicalDeviceConfiguration()] * replicas
    tf.config.set_logical_device_configuration(cpu, devices)
    return tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(replicas)])


def make_model(
    strategy,
    architecture="sde",
    rate=0.01,
    dropout=0.0,
    optimizer=None,
    chunk=None,
    loss=None,
    remat=False,
    lora_rank=0,
    **arguments,
):
    from samtone_tf.dual_encoder import DualEncoder
    from samtone_tf.losses.contrastive import SamToNe

    with strategy.scope():
        keras.utils.set_random_seed(0)
        model = DualEncoder(
            {**checks.TINY, "lora_rank": lora_rank, "lora_targets": "all"},
            architecture,
            embedding_dim=8,
            dropout=dropout,
            gradient_cache_chunk=chunk,
            remat=remat,
            name="model",
        )
        model.compile(
            optimizer or keras.optimizers.SGD(rate),
            loss=loss or SamToNe(temperature=0.05, same_tower="both"),
            **arguments,
        )
    return model


class Record(keras.callbacks.Callback):
    """The metrics of each step by itself."""

    def __init__(self):
        super().__init__()
        self.steps = []

    def on_train_batch_end(self, batch, logs=None):
        self.steps.append([logs[name] for name in self.model.step_metrics.NAMES])
        self.model.reset_metrics()


def trained(name, model, dataset, **arguments):
    record = Record()
    before = [variable.numpy() for variable in model.trainable_variables]
    model.fit(dataset, shuffle=False, verbose=0, callbacks=[record], **arguments)
    found[f"{name}/metrics"] = np.array(record.steps)
    found[f"{name}/updates"] = model.optimizer.iterations.numpy()
    for place, variable in enumerate(model.trainable_variables):
        found[f"{name}/weight {place} {variable.path}"] = variable.numpy()
        found[f"{name}/change {place} {variable.path}"] = variable.numpy() - before[place]


def several_steps(strategy):
    batches = [checks.make_batch(8, 2, seed) for seed in range(STEPS)]
    for architecture in ("sde", "ade", "ade_spl"):
        trained(architecture, make_model(strategy, architecture), checks.as_dataset(batches))


def no_rate(strategy):
    batch = checks.make_batch(8, 2)
    model = make_model(strategy, rate=0.0)
    trained("no rate", model, checks.as_dataset([batch]))
    logs = checks.evaluate(model, [batch, checks.make_batch(8, 2, seed=1)])
    found["evaluate"] = np.array([logs[name] for name in sorted(logs)])


def gradient(strategy):
    dataset = checks.as_dataset([checks.make_batch(4, 1)])
    trained("gradient", make_model(strategy, "ade", rate=1.0), dataset)
    clipped = keras.optimizers.SGD(1.0, global_clipnorm=0.1)
    trained("clipped", make_model(strategy, optimizer=clipped), dataset)


def ragged(strategy):
    """9 pairs at once, and 13 pairs in batches of 8: the last one has 5."""
    trained("nine", make_model(strategy), checks.as_dataset([checks.make_batch(9, 2)]))
    dataset = tf.data.Dataset.from_tensor_slices(checks.make_batch(13, 0)).batch(8)
    trained("thirteen", make_model(strategy), dataset)


def dropout(strategy):
    from samtone_tf import tensorflow_encode

    batch = checks.as_tensors(checks.make_batch(4, 0))
    for rate in (0.0, 0.5):
        model = make_model(strategy, dropout=rate)

        @tf.function
        def encode(model=model):
            def step():
                return tensorflow_encode.encode_for_training(model, batch)[0]

            return strategy.run(step)

        local = strategy.experimental_local_results(encode()["query"])
        for replica, vectors in enumerate(local):
            found[f"dropout {rate} replica {replica}"] = vectors.numpy()
    batches = [checks.make_batch(8, 2, seed) for seed in range(3)]
    for run in ("first", "again"):
        trained(f"dropout {run}", make_model(strategy, dropout=0.5), checks.as_dataset(batches))


def cached(strategy):
    """Batches of 8 with dropout, as four global chunks of 2 and as two of 4.

    On two replicas, two chunks of 4 are what each encodes at once.
    """
    batches = [checks.make_batch(8, 2, seed) for seed in range(STEPS)]
    whole = 4 if strategy.num_replicas_in_sync == 1 else None
    for name, chunk in (("chunks of 2", 2), ("chunks of 4", whole)):
        model = make_model(strategy, "ade_spl", dropout=0.5, chunk=chunk)
        trained(name, model, checks.as_dataset(batches))


def frozen(strategy):
    """Dropout, four global chunks of 2, activations computed again, token tables at rest."""
    batches = [checks.make_batch(8, 2, seed) for seed in range(STEPS)]
    model = make_model(strategy, "ade_fte", dropout=0.5, chunk=2, remat=True)
    parts = [tower.parts["token_embedding"] for tower in (model.query_tower, model.document_tower)]
    before = [part.get_weights()[0] for part in parts]
    trained("frozen", model, checks.as_dataset(batches))
    found["frozen/tables"] = np.stack([*before, *(part.get_weights()[0] for part in parts)])


def adapted(strategy):
    """The same with adapters in two encoders, whose kernels are at rest."""
    batches = [checks.make_batch(8, 2, seed) for seed in range(STEPS)]
    model = make_model(strategy, "ade", dropout=0.5, chunk=2, remat=True, lora_rank=4)
    trained("adapted", model, checks.as_dataset(batches))
    kernels = [v for v in model.non_trainable_variables if v.path.endswith("query/kernel")]
    found["adapted/kernels"] = np.stack([kernel.numpy() for kernel in kernels])


def tiled(strategy):
    """What `several_steps` does for ade_spl, with the loss in tiles."""
    from samtone_tf import tensorflow_step

    batches = [checks.make_batch(8, 2, seed) for seed in range(STEPS)]
    most, tensorflow_step.MOST_LOGITS = tensorflow_step.MOST_LOGITS, 0
    trained("tiled", make_model(strategy, "ade_spl"), checks.as_dataset(batches))
    tensorflow_step.MOST_LOGITS = most


def losses(strategy):
    """Five steps in chunks with each other loss, with log Q, and with a learned temperature."""
    from samtone_tf import tensorflow_step
    from samtone_tf.losses.contrastive import SamToNe
    from samtone_tf.losses.gte import Gte
    from samtone_tf.losses.pair import Pair
    from samtone_tf.losses.triplet import Triplet

    def run(name, loss, rate=0.01, steps=STEPS, **arguments):
        model = make_model(strategy, loss=loss, rate=rate, chunk=2, **arguments)
        trained(f"loss {name}", model, checks.as_dataset(batches[:steps]))
        found[f"loss {name}/temperature"] = np.array(model.temperature)

    batches = [checks.make_batch(8, 2, seed) for seed in range(STEPS)]
    run("pair", Pair(0.05, other_queries=True, similarity_margin=0.1))
    run("triplet", Triplet(0.9, "both", "mean"), rate=0.1)
    run("gte", Gte(0.05))
    learned = {"learn_temperature": True, "min_temperature": 0.02, "max_temperature": 0.5}
    run("learned", SamToNe(0.05, **learned), rate=0.001)
    run("learned, to its end", SamToNe(0.05, **learned), rate=1.0, steps=1)
    with strategy.scope():  # its count of updates must be one, too
        clipped = keras.optimizers.SGD(1.0, global_clipnorm=0.1)
    run("learned, clipped", SamToNe(0.05, **learned), optimizer=clipped)
    most, tensorflow_step.MOST_LOGITS = tensorflow_step.MOST_LOGITS, 0
    run("learned, tiled", SamToNe(0.05, **learned), rate=0.001)
    tensorflow_step.MOST_LOGITS = most
    for batch in batches:
        for name, low in [("query_log_q", -3.0), ("document_log_q", -1.0)]:
            batch[name] = np.linspace(low, 0, 8, dtype="float32")
    run("log q", SamToNe(0.05, log_q=True))


def jit(strategy):
    model = make_model(strategy, jit_compile=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trained("jit", model, checks.as_dataset([checks.make_batch(8, 2)]))
    found["jit warnings"] = np.array([str(warning.message) for warning in caught])


def pairs(strategy):
    """What `PairBatches` gives goes through `fit`."""
    from tests.test_tensorflow_step import make_pairs

    batches = make_pairs(17, batch_size=8, num_negatives=1)
    trained("pairs", make_model(strategy), batches.dataset(num_steps=2))


def texts(strategy):
    """Vectors outside of training: replicas share the rows."""
    from samtone_tf.tensorflow_encode import make_text_encoder

    model = make_model(strategy, "ade", dropout=0.5)
    batch = checks.make_batch(8, 0)
    for side in ("query", "document"):
        found[f"texts {side}"] = make_text_encoder(model, side)(batch[side])


PARTS = {
    1: (
        several_steps,
        no_rate,
        gradient,
        ragged,
        pairs,
        cached,
        frozen,
        adapted,
        tiled,
        losses,
        texts,
    ),
    2: (
        several_steps,
        no_rate,
        gradient,
        ragged,
        pairs,
        cached,
        frozen,
        adapted,
        tiled,
        losses,
        texts,
        dropout,
        jit,
    ),
    4: (no_rate, gradient),
}


def main(replicas: int, path: str, *names: str) -> None:
    strategy = start(replicas)
    for part in [globals()[name] for name in names] or PARTS[replicas]:
        part(strategy)
    np.savez(path, **{name.replace("/", "|"): value for name, value in found.items()})


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
