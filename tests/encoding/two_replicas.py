"""Encodes with two logical CPUs: `python -m tests.encoding.two_replicas RUN OUT`.

A process of its own: logical devices are made before TensorFlow computes anything.
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["KERAS_BACKEND"] = "tensorflow"

import tensorflow as tf

from samtone_tf.encoding.encode import encode_corpus
from samtone_tf.encoding.models import open_encoder
from tests import tiny


def main(run: str, out: str) -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    encoder = open_encoder(run, length=tiny.DOCUMENT_LENGTH, strategy="mirrored", jit_compile=True)
    print(encoder.num_replicas)
    encode_corpus(encoder, tiny.data(), out, shard_size=25, batch_tokens=64)


if __name__ == "__main__":
    main(*sys.argv[1:])
