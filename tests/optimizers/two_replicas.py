"""Adafactor on 1 or 2 replicas that are logical CPUs of one process.

Run as `python -m tests.optimizers.two_replicas REPLICAS OUT.npz`; test_adafactor.py compares the
numbers. A process of its own: TensorFlow's collectives do not survive a second strategy.
"""

import sys

import keras
import numpy as np
import tensorflow as tf

from samtone_tf.optimizers.adafactor import Adafactor
from samtone_tf.optimizers.schedules import LinearDecay
from tests.replicas import start

SHAPES = [(160, 130), (32, 12), (200,)]
STEPS = 5


def main(replicas: int, path: str) -> None:
    strategy = start(replicas)
    rng = np.random.default_rng(0)
    with strategy.scope():
        weights = [keras.Variable(rng.normal(size=shape).astype("float32")) for shape in SHAPES]
        optimizer = Adafactor(LinearDecay(1e-2, 2 * STEPS))
        optimizer.build(weights)

    @tf.function
    def step(whole):
        def apply():
            # Halves that differ: only their sum is the gradient.
            part = 1.0
            if replicas == 2:
                replica = tf.distribute.get_replica_context().replica_id_in_sync_group
                part = 0.25 + 0.5 * tf.cast(replica, "float32")
            optimizer.apply([part * gradient for gradient in whole])

        strategy.run(apply)

    for _ in range(STEPS):
        step([tf.constant(rng.normal(size=shape), "float32") for shape in SHAPES])
    found = {}
    for variable in [*weights, *optimizer.variables]:
        copies = strategy.experimental_local_results(variable.value)
        found[variable.path.replace("/", "|")] = np.stack([copy.numpy() for copy in copies])
    np.savez(path, **found)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
