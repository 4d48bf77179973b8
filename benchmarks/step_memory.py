"""Memory and time of a training step, whole and with gradient caching, beside what is expected.

`expected` is what `samtone train` says before the first step, but for the weights, which are
there when the measurement begins. One `train_step` of a `mini` encoder on the CPU; each case
is a process of its own. Its peak is the growth of the process's largest resident set from
just before the first step (weights and batch made). The first step, which traces the graph,
is not timed.

    python benchmarks/step_memory.py
    python benchmarks/step_memory.py --batch 256 512 1024 --chunk 0 32 --length 64
    python benchmarks/step_memory.py --batch 64 --layers 6 --dropout 0.1 --dtype mixed_bfloat16
    python benchmarks/step_memory.py --batch 64 --layers 8 --dropout 0.1 --remat
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time

MB = 1e6


def main() -> None:
    """Runs every case and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch", type=int, nargs="*", default=[128, 256, 512], help="pairs")
    parser.add_argument("--chunk", type=int, nargs="*", default=[0, 32], help="0: no caching")
    parser.add_argument("--length", type=int, default=64, help="tokens of queries and documents")
    parser.add_argument("--layers", type=int, default=2, help="blocks of the encoder")
    parser.add_argument("--dropout", type=float, default=0.0, help="rate")
    parser.add_argument("--dtype", default="float32", help="or mixed_bfloat16")
    parser.add_argument("--remat", action="store_true", help="recompute activations per block")
    parser.add_argument("--case", type=int, nargs=2, help=argparse.SUPPRESS)  # a child's work
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(measure(*arguments.case, arguments)))
        return
    print(f"{'batch':>8}{'chunk':>8}{'peak/MB':>12}{'expected':>10}{'s/step':>10}{'loss':>12}")
    for batch in arguments.batch:
        for chunk in arguments.chunk:
            command = [sys.executable, __file__, "--case", str(batch), str(chunk)]
            for name in ("length", "layers", "dropout", "dtype"):
                command += [f"--{name}", str(getattr(arguments, name))]
            command += ["--remat"] * arguments.remat
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                print(f"{batch:8}{chunk or 'whole':>8}   failed: {done.stderr[-200:]}")
                continue
            case = json.loads(done.stdout.splitlines()[-1])
            row = f"{case['peak']:12.0f}{case['expected']:10.0f}"
            row += f"{case['seconds']:10.2f}{case['loss']:12.5f}"
            print(f"{batch:8}{chunk or 'whole':>8}{row}", flush=True)


def measure(num_pairs: int, chunk: int, settings: argparse.Namespace) -> dict:
    """Peak and time of one case, in this process."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import keras
    import numpy as np
    import tensorflow as tf

    from samtone_tf import tensorflow_step
    from samtone_tf.dual_encoder import DualEncoder
    from samtone_tf.encoder_config import EncoderConfig
    from samtone_tf.losses.contrastive import SamToNe
    from samtone_tf.training.memory import step_memory

    keras.utils.set_random_seed(0)
    encoder = EncoderConfig.make(
        "mini",
        vocabulary_size=8000,
        num_layers=settings.layers,
        dropout=settings.dropout,
        remat=settings.remat,
    )
    model = DualEncoder(encoder, gradient_cache_chunk=chunk or None, dtype=settings.dtype)
    model.compile(keras.optimizers.SGD(0.01), loss=SamToNe(0.05))
    model.optimizer.build(model.trainable_variables)
    expected = step_memory(
        model, num_pairs, settings.length, settings.length, gradient_cache_chunk=chunk or None
    )
    rng = np.random.default_rng(0)

    def tokens():
        ids = tf.constant(rng.integers(3, 8000, (num_pairs, settings.length)), tf.int32)
        return {"token_ids": ids, "padding_mask": tf.ones_like(ids, tf.bool)}

    batch = {"query": tokens(), "document": tokens()}
    step = tf.function(lambda: tensorflow_step.train_step(model, batch))
    step.get_concrete_function()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    loss = float(step()["loss"])
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / MB
    start = time.perf_counter()
    for _ in range(2):
        step()
    return {
        "peak": peak,
        "expected": (expected.total - expected.weights) / MB,
        "seconds": (time.perf_counter() - start) / 2,
        "loss": loss,
    }


if __name__ == "__main__":
    main()
