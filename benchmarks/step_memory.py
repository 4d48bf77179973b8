"""Memory and time of a training step beside what `samtone train` and `samtone plan` expect.

One `train_step` on the CPU; each case is a process of its own. Its peak is what weights and
optimizer slots take, counted exactly, and how much the process's resident set grows from just
before the first step (they and the batch are there, the graph is traced) to its highest in two
steps. Every tensor of 64 KB or more is a mapping of its own (`MALLOC_MMAP_THRESHOLD_`): what it
gives back leaves the process and is not counted twice. Batches are full: no padding. The time
is that of the second step.

    python benchmarks/step_memory.py
    python benchmarks/step_memory.py --batch 256 512 1024 --chunk 0 32
    python benchmarks/step_memory.py --batch 64 --layers 8 --dropout 0.1 --remat --chunk 0
    python benchmarks/step_memory.py --size t5.1.1-base --optimizer adafactor --batch 8 16 \
        --lengths 64 256 --chunk 0 4
    python benchmarks/step_memory.py --size t5.1.1-small --optimizer adam --lora 8 --batch 16
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

MB = 1e6
COLUMNS = ("batch", "chunk", "peak/MB", "expected", "ratio", "s/step", "loss")


def main() -> None:
    """Runs every case and prints the table."""
    arguments = read_arguments()
    if arguments.case:
        print(json.dumps(measure(*arguments.case, arguments)))
        return
    print("".join(f"{name:>10}" for name in COLUMNS))
    flags = sys.argv[1:]
    for batch in arguments.batch:
        for chunk in arguments.chunk:
            case = ["--case", str(batch), str(chunk)]
            done = subprocess.run(
                [sys.executable, __file__, *flags, *case],
                capture_output=True,
                text=True,
                env={**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"},
            )
            if done.returncode:
                print(f"{batch:10}{chunk or 'whole':>10}   failed: {done.stderr[-200:]}")
                continue
            found = json.loads(done.stdout.splitlines()[-1])
            row = f"{batch:10}{chunk or 'whole':>10}{found['peak']:10.0f}{found['expected']:10.0f}"
            row += f"{found['expected'] / found['peak']:10.2f}{found['seconds']:10.2f}"
            print(f"{row}{found['loss']:10.4f}", flush=True)
            if arguments.parts:
                print("".join(f"  {name} {mb:.0f}" for name, mb in found["parts"].items()))


def read_arguments() -> argparse.Namespace:
    """The flags."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch", type=int, nargs="*", default=[128, 256, 512], help="pairs")
    parser.add_argument("--chunk", type=int, nargs="*", default=[0, 32], help="0: no caching")
    parser.add_argument(
        "--lengths", type=int, nargs=2, default=[64, 64], help="tokens of queries and documents"
    )
    parser.add_argument("--size", default="mini", help="as --model.size")
    parser.add_argument("--architecture", default="sde", help="as --model.architecture")
    parser.add_argument("--vocabulary", type=int, default=None, help="rows; 8000 for mini")
    parser.add_argument("--optimizer", default="sgd", help="sgd, adam or adafactor")
    parser.add_argument("--layers", type=int, default=None, help="blocks, if not the size's")
    parser.add_argument("--dropout", type=float, default=0.0, help="rate")
    parser.add_argument("--dtype", default="float32", help="or mixed_bfloat16")
    parser.add_argument("--remat", action="store_true", help="recompute activations per block")
    parser.add_argument("--lora", type=int, default=0, help="rank of adapters")
    parser.add_argument("--lora_targets", default="query_value", help="or all")
    parser.add_argument("--negatives", type=int, default=0, help="hard ones of each query")
    parser.add_argument("--parts", action="store_true", help="print what is expected by part")
    parser.add_argument("--case", type=int, nargs=2, help=argparse.SUPPRESS)  # a child's work
    return parser.parse_args()


def measure(num_pairs: int, chunk: int, settings: argparse.Namespace) -> dict:
    """Peak and time of one case, in this process."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    from samtone_tf import tensorflow_step
    from samtone_tf.training.memory import step_memory

    model = make_model(chunk, settings)
    query_length, document_length = settings.lengths
    expected = step_memory(
        model,
        num_pairs,
        query_length,
        document_length,
        num_negatives=settings.negatives,
        gradient_cache_chunk=chunk or None,
    )
    batch = make_batch(model.encoder_config.vocabulary_size, num_pairs, settings)
    step = tf.function(lambda: tensorflow_step.train_step(model, batch))
    step.get_concrete_function()
    variables = sum(v.numpy().nbytes for v in (*model.weights, *model.optimizer.variables))
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
    before = resident("VmRSS")
    loss = float(step()["loss"])
    start = time.perf_counter()
    step()
    seconds = time.perf_counter() - start
    return {
        "peak": variables / MB + resident("VmHWM") - before,
        "expected": expected.total / MB,
        "parts": {name: size / MB for name, size in expected._asdict().items()},
        "seconds": seconds,
        "loss": loss,
    }


def make_model(chunk: int, settings: argparse.Namespace):
    """The model, compiled, with its optimizer's slots."""
    import keras

    from samtone_tf.dual_encoder import DualEncoder
    from samtone_tf.encoder_config import EncoderConfig
    from samtone_tf.losses.contrastive import SamToNe
    from samtone_tf.optimizers.adafactor import Adafactor

    keras.utils.set_random_seed(0)
    encoder = EncoderConfig.make(
        settings.size,
        vocabulary_size=settings.vocabulary or (8000 if settings.size == "mini" else None),
        num_layers=settings.layers,
        dropout=settings.dropout,
        remat=settings.remat,
        lora_rank=settings.lora,
        lora_targets=settings.lora_targets,
    )
    model = DualEncoder(
        encoder, settings.architecture, gradient_cache_chunk=chunk or None, dtype=settings.dtype
    )
    kinds = {"sgd": keras.optimizers.SGD, "adam": keras.optimizers.Adam, "adafactor": Adafactor}
    model.compile(kinds[settings.optimizer](1e-3), loss=SamToNe(0.05))
    model.optimizer.build(model.trainable_variables)
    return model


def make_batch(vocabulary_size: int, num_pairs: int, settings: argparse.Namespace) -> dict:
    """Random tokens without padding."""
    import numpy as np
    import tensorflow as tf

    rng = np.random.default_rng(0)

    def tokens(*shape):
        ids = tf.constant(rng.integers(3, vocabulary_size, shape), tf.int32)
        return {"token_ids": ids, "padding_mask": tf.ones_like(ids, tf.bool)}

    query_length, document_length = settings.lengths
    batch = {
        "query": tokens(num_pairs, query_length),
        "document": tokens(num_pairs, document_length),
    }
    if settings.negatives:
        batch["negatives"] = tokens(num_pairs, settings.negatives, document_length)
    return batch


def resident(name: str) -> float:
    """MB of this process in memory, now (VmRSS) or at most (VmHWM)."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 / MB for line in lines if line.startswith(name))


if __name__ == "__main__":
    main()
