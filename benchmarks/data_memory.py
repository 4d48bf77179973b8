"""Memory and time of training data at size, under a real limit.

Writes a file of made-up pairs, then, in processes of their own: reads it into columns and
token ids (build), opens them again (reuse), draws batches, takes training steps with a
`mini` encoder, and inspects the data (inspect; alone, it reads the file first). Each process
may allocate at most `--limit` GB (RLIMIT_DATA: its private memory, TensorFlow's included;
memory-mapped files are the system's to drop). Peaks are the largest resident set (VmHWM), and
the part of it that is no file (RssAnon, sampled).

    python benchmarks/data_memory.py
    python benchmarks/data_memory.py --pairs 10000000 --limit 4 --folder /big/disk
    python benchmarks/data_memory.py --pairs 10000000 --cases inspect
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

CASES = ("build", "reuse", "apart", "inspect")
BATCH, STEPS = 256, 200
LENGTHS = {"query_length": 16, "document_length": 24}


def main() -> None:
    """Runs every size and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, nargs="*", default=[1_000_000])
    parser.add_argument("--limit", type=float, default=4.0, help="GB that a process may allocate")
    parser.add_argument("--folder", type=Path, help="where files go; a temporary one by default")
    parser.add_argument("--cases", nargs="*", default=CASES, choices=CASES)
    parser.add_argument("--case", nargs=2, help=argparse.SUPPRESS)  # a child's work
    arguments = parser.parse_args()
    if arguments.case:
        size = int(arguments.limit * 1e9)
        resource.setrlimit(resource.RLIMIT_DATA, (size, size))
        print(json.dumps(measure(arguments.case[0], Path(arguments.case[1]))))
        return
    print(f"{'pairs':>10}  {'case':<7}{'s':>8}{'peak/MB':>9}{'no file/MB':>12}  more", flush=True)
    for num_pairs in arguments.pairs:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            write_pairs(Path(folder) / "pairs.jsonl", num_pairs)
            for case in arguments.cases:
                print(f"{num_pairs:10,}  {run(case, folder, arguments.limit)}", flush=True)


def run(case: str, folder: str, limit: float) -> str:
    """One line of the table, from a process of its own."""
    command = [sys.executable, __file__, "--limit", str(limit), "--case", case, folder]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return f"{case:<7}  failed: {done.stderr[-300:]}"
    found = json.loads(done.stdout.splitlines()[-1])
    times = f"{found.pop('seconds'):8.1f}{found.pop('peak'):9.0f}{found.pop('anonymous'):12.0f}"
    return f"{case:<7}{times}  {', '.join(f'{k} {v:,.4g}' for k, v in found.items())}"


def write_pairs(file: Path, num_pairs: int) -> None:
    """Made-up pairs, all different: 4 to 6 words and 6 to 12 words."""
    draw = random.Random(0)
    letters = "aeioubcdfghklmnprstvw"
    words = ["".join(draw.choices(letters, k=draw.randint(2, 8))) for _ in range(20_000)]
    with open(file, "w", encoding="utf-8") as output:
        for number in range(num_pairs):
            query = " ".join(draw.choices(words, k=draw.randint(4, 6)))
            document = " ".join(draw.choices(words, k=draw.randint(6, 12)))
            row = {"query": f"{query} {number}", "document": f"{document} {number % 700_001}"}
            output.write(json.dumps(row) + "\n")


def measure(case: str, folder: Path) -> dict:
    """Time and peaks of one case, in this process."""
    peak = Peak()
    from samtone_tf.data.cache import Cache
    from samtone_tf.data.pipeline import PairBatches
    from samtone_tf.data.sources import load_training_table
    from samtone_tf.data.tokenizer import Tokenizer

    if case == "inspect":
        return inspect(folder) | peak.end()
    found = {}
    cache = Cache(folder / "cache")
    start = time.perf_counter()
    table = load_training_table(f"pairs:{folder / 'pairs.jsonl'}", cache=cache)
    vocabulary = folder / "vocabulary.spm"
    if case == "build":
        found["s to read"] = time.perf_counter() - start
        begun = time.perf_counter()
        Tokenizer.train(table.documents.texts, 8000).save(vocabulary)
        found["s of vocabulary"] = time.perf_counter() - begun
        found["file MB"] = (folder / "pairs.jsonl").stat().st_size / 1e6
    tokenizer = Tokenizer.from_file(vocabulary)
    apart = {"no_duplicates": True} if case == "apart" else {}
    batches = PairBatches(
        table,
        tokenizer,
        batch_size=BATCH,
        cache=cache,
        **LENGTHS,
        **apart,
    )
    found["seconds"] = time.perf_counter() - start
    found["steps per epoch"] = batches.steps_per_epoch
    if case == "build":
        files = [path for path in cache.folder.rglob("*") if path.is_file()]
        found["cache MB"] = sum(path.stat().st_size for path in files) / 1e6
    else:
        first = time.perf_counter()
        batches.batch(0)
        found["s to first batch"] = time.perf_counter() - first
        first = time.perf_counter()
        for _ in batches.dataset(0, STEPS):
            pass
        found["batches/s"] = STEPS / (time.perf_counter() - first)
    if case == "reuse":
        found["s per training step"] = train(batches, tokenizer)
    return found | peak.end()


def inspect(folder: Path) -> dict:
    """Seconds and some of what is found."""
    from samtone_tf.data.cache import Cache
    from samtone_tf.data.inspect_data import inspect_data

    start = time.perf_counter()
    found = inspect_data(f"pairs:{folder / 'pairs.jsonl'}", cache=Cache(folder / "cache"))
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "pairs": found.pairs.num, "documents": found.documents}


def train(batches, tokenizer) -> float:
    """Seconds of a training step."""
    import keras

    from samtone_tf.dual_encoder import DualEncoder
    from samtone_tf.losses.contrastive import SamToNe

    model = DualEncoder("mini", vocabulary_size=tokenizer.vocabulary_size)
    model.compile(keras.optimizers.Adam(0.001), loss=SamToNe(0.05))
    model.fit(batches.dataset(0, 2), shuffle=False, verbose=0)
    start = time.perf_counter()
    model.fit(batches.dataset(2, 5), shuffle=False, verbose=0)
    return (time.perf_counter() - start) / 5


class Peak:
    """The largest memory of this process from now on."""

    def __init__(self):
        self.anonymous = 0.0
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self) -> None:
        while not self.is_over.wait(0.1):
            self.anonymous = max(self.anonymous, status("RssAnon"))

    def end(self) -> dict[str, float]:
        """Peaks in MB."""
        self.is_over.set()
        self.thread.join()
        return {"peak": status("VmHWM"), "anonymous": self.anonymous}


def status(name: str) -> float:
    """A number of /proc/self/status, in MB."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in lines if line.startswith(f"{name}:")]
    return int(line.split()[1]) * 1024 / 1e6


if __name__ == "__main__":
    main()
