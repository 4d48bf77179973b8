"""One case of the speed comparison on our side: seconds per step, as a line of JSON.

`product` measures the machine's matrix products instead: the rate that no step can pass.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
import tensorflow as tf
import work

POLICY = {"float32": "float32", "bfloat16": "mixed_bfloat16"}


def main() -> None:
    """Runs the case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=(*work.CASES, "product"))
    parser.add_argument("dtype", choices=work.DTYPES)
    parser.add_argument("folder", type=Path, help="what compare.py wrote")
    parser.add_argument("--steps", type=int, default=5)
    arguments = parser.parse_args()
    measure = {"product": product, "encode": encode}.get(arguments.case, train)
    print(json.dumps(measure(arguments)))


def make_model(dtype: str, chunk: int | None = None):
    """The compiled model, with random weights."""
    from samtone_tf.dual_encoder import DualEncoder
    from samtone_tf.losses.contrastive import InBatchSoftmax

    keras.utils.set_random_seed(0)
    model = DualEncoder(
        "t5.1.1-small",
        embedding_dim=work.EMBEDDING_DIM,
        dropout=work.DROPOUT,
        gradient_cache_chunk=chunk,
        dtype=POLICY[dtype],
    )
    # The peer's loss: documents are the only negatives.
    loss = InBatchSoftmax(work.TEMPERATURE, bidirectional=False)
    model.compile(keras.optimizers.Adam(work.RATE), loss=loss)
    return model


def train(arguments) -> dict:
    """Seconds of each training step, with dropout and Adam."""
    from samtone_tf import tensorflow_step

    tensorflow_step.enable_determinism()  # as `samtone train` does
    case = arguments.case
    model = make_model(arguments.dtype, work.CHUNK if case == "cached" else None)
    model.optimizer.build(model.trainable_variables)
    model.make_train_function()
    tokens = work.read_tokens(arguments.folder)

    def batch(step: int) -> dict:
        arrays = work.batch(tokens, case, step)
        return {
            side: {"token_ids": tf.constant(ids), "padding_mask": tf.constant(ids != 0)}
            for side, ids in arrays.items()
        }

    step = tf.function(model.train_step)
    first = work.timed(lambda: float(step(batch(0))["loss"]))
    seconds = []
    for i in range(1, arguments.steps + 1):
        inputs = batch(i)
        seconds.append(work.timed(lambda inputs=inputs: float(step(inputs)["loss"])))
    return {"first": first, "seconds": seconds}


def encode(arguments) -> dict:
    """Seconds to encode the documents with the exported model, from strings to vectors."""
    from samtone_tf.data.tokenizer import Tokenizer
    from samtone_tf.export.encoder import write_saved_model
    from samtone_tf.export.saved_encoder import SavedEncoder

    documents = work.read_documents(arguments.folder)
    tokenizer = Tokenizer.from_file(arguments.folder / "spiece.model")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "1"
        model = make_model(arguments.dtype)
        write_saved_model(model, tokenizer, out, document_length=work.DOCUMENT_LENGTH)
        encoder = SavedEncoder(out)

    def run():
        encoder.encode_document(documents, batch_size=work.ENCODE_BATCH)

    first = work.timed(run)
    return {"first": first, "seconds": [work.timed(run) for _ in range(arguments.steps)]}


def product(arguments) -> dict:
    """GFLOP/s of one large product, and of the products of a step taken together.

    Of `rounds` runs the fastest: the question is what the machine can do.
    """
    rounds = 10
    tokens = work.BATCH["plain"] * work.DOCUMENT_LENGTH
    inner = work.HEADS * work.HEAD_DIM
    kernels = 4 * [(work.HIDDEN, inner)] + 3 * [(work.HIDDEN, work.FEEDFORWARD)]
    kernels[3], kernels[6] = kernels[3][::-1], kernels[6][::-1]  # the ways back to H
    shapes = [
        product
        for wide, narrow in kernels
        for product in (
            (tokens, wide, narrow, False, False),  # forward
            (tokens, narrow, wide, False, True),  # gradient of the states
            (wide, tokens, narrow, True, False),  # gradient of the kernel
        )
    ]
    square = _rate([(2048, 2048, 2048, False, False)], arguments.dtype, rounds)
    return {"square": square, "step": _rate(shapes, arguments.dtype, rounds)}


def _rate(shapes: list[tuple], dtype: str, rounds: int) -> float:
    seconds = operations = 0.0
    for rows, middle, columns, transpose_a, transpose_b in shapes:
        a = _normal((middle, rows) if transpose_a else (rows, middle), dtype)
        b = _normal((columns, middle) if transpose_b else (middle, columns), dtype)

        @tf.function
        def multiply(a=a, b=b, ta=transpose_a, tb=transpose_b):
            return tf.matmul(a, b, transpose_a=ta, transpose_b=tb)

        multiply()
        seconds += min(work.timed(lambda f=multiply: f()[0, 0].numpy()) for _ in range(rounds))
        operations += 2.0 * rows * middle * columns
    return operations / seconds / 1e9


def _normal(shape: tuple, dtype: str) -> tf.Tensor:
    return tf.cast(np.random.default_rng(0).standard_normal(shape, "float32"), dtype)


if __name__ == "__main__":
    main()
