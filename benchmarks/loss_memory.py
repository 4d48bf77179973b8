"""Memory and time of the contrastive loss, plain and in tiles of rows.

Query-side SamToNe in both directions, forward and gradient, on the CPU, as one graph.
Each case is a process of its own. Its peak is the growth of the process's largest
resident set from just before the first step (embeddings made, graph traced), so that
the embeddings themselves are not counted; the gradients are.

    python benchmarks/loss_memory.py
    python benchmarks/loss_memory.py --plain 2048 4096 --tiled 4096 32768 --tile 256 --ids
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
    plain, tiled = [2048, 4096, 8192, 16384], [2048, 4096, 8192, 16384, 32768]
    parser.add_argument("--plain", type=int, nargs="*", default=plain, help="G of the plain form")
    parser.add_argument("--tiled", type=int, nargs="*", default=tiled, help="G of the tiled form")
    parser.add_argument("--dim", type=int, default=256, help="D, numbers per embedding")
    parser.add_argument("--tile", type=int, default=128, help="rows per tile")
    parser.add_argument("--ids", action="store_true", help="with fingerprints, 16 positives each")
    parser.add_argument("--xla", action="store_true", help="compiled by XLA")
    parser.add_argument("--case", nargs=2, help=argparse.SUPPRESS)  # what a child process runs
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(measure(arguments)))
        return
    print(f"{'form':8}{'G':>8}{'embeddings/MB':>15}{'peak above/MB':>15}{'time/s':>10}{'loss':>12}")
    largest = None
    for form in ("plain", "tiled"):
        for num_pairs in getattr(arguments, form):
            case = run_case(form, num_pairs)
            if case is None:
                print(f"{form:8}{num_pairs:8}{'failed (out of memory?)':>30}", flush=True)
                continue
            print_row(form, num_pairs, arguments.dim, case)
            if form == "plain" and num_pairs > (largest or (0,))[0]:
                largest = (num_pairs, case)
    if largest and largest[0] < 32768:
        growth = (32768 / largest[0]) ** 2
        case = {name: largest[1][name] * growth for name in ("peak", "seconds")}
        print_row("plain*", 32768, arguments.dim, case)
        print(f"* from G = {largest[0]:,}, times {growth:g} (G²)")


def print_row(form: str, num_pairs: int, dim: int, case: dict) -> None:
    """One line of the table."""
    embeddings = 2 * num_pairs * dim * 4 / MB
    loss = f"{case['loss']:12.5f}" if "loss" in case else ""
    numbers = f"{embeddings:15,.0f}{case['peak'] / MB:15,.0f}{case['seconds']:10.1f}"
    print(f"{form:8}{num_pairs:8}{numbers}{loss}", flush=True)


def run_case(form: str, num_pairs: int) -> dict | None:
    """The numbers of one case from a process of its own, or None where it failed."""
    command = [sys.executable, *sys.argv, "--case", form, str(num_pairs)]
    environment = {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    if result.returncode:
        print(result.stderr[-2000:], file=sys.stderr)
        return None
    return json.loads(result.stdout.splitlines()[-1])


def measure(arguments: argparse.Namespace) -> dict:
    """Peak in bytes, seconds of the first step (and so without warm memory), and mean loss."""
    import numpy as np
    import tensorflow as tf

    from samtone_tf.losses.contrastive import SamToNe
    from samtone_tf.losses.inputs import PairVectors
    from samtone_tf.losses.masks import PairIds
    from samtone_tf.losses.tiled import tiled_rows

    form, num_pairs = arguments.case[0], int(arguments.case[1])
    loss, rng = SamToNe(0.01), np.random.default_rng(0)
    query = rng.standard_normal((num_pairs, arguments.dim), "float32")
    document = 0.2 * query + rng.standard_normal(query.shape, "float32")  # hard: the loss is > 0
    query, document = tf.constant(query), tf.constant(document)
    ids = PairIds()
    if arguments.ids:
        number = tf.range(num_pairs, dtype="int64")
        ids = PairIds(number, number, None, number[:, None] + tf.range(16, dtype="int64"))

    @tf.function(jit_compile=arguments.xla)
    def step(query, document, ids):
        with tf.GradientTape() as tape:
            tape.watch((query, document))
            pairs = PairVectors(query, document, None, ids)
            if form == "tiled":
                rows = tiled_rows(loss, pairs, pairs, tile_size=arguments.tile)
            else:
                rows = loss.rows(pairs, pairs)
            mean = tf.reduce_mean(rows.loss)
        return mean, tape.gradient(mean, (query, document))

    step.get_concrete_function(query, document, ids)
    before, start = peak_bytes(), time.perf_counter()
    mean, gradients = step(query, document, ids)
    assert np.isfinite(float(tf.norm(gradients[0])))
    seconds = time.perf_counter() - start
    return {"peak": peak_bytes() - before, "seconds": seconds, "loss": float(mean)}


def peak_bytes() -> int:
    """The largest resident set of this process so far."""
    unit = 1 if sys.platform == "darwin" else 1024  # Linux counts in KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


if __name__ == "__main__":
    main()
