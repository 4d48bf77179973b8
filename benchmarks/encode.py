"""Documents a second of `encode_corpus` and of `SavedEncoder.encode_document`; and peak memory.

Both sides encode the same documents with the same export of a `mini` encoder with random weights,
in turns, in processes of their own. `loop` gives the export 64 documents at a time, in the order
of the corpus; `rows` gives it all of them at once, which it sorts by length, holds, and encodes
64 at a time; `whole` is the same in batches of equally many tokens, its default. Time
is that of reading, tokenising, encoding and, for `encode_corpus`, of writing. Memory is the largest
resident set (VmHWM), with documents cut to 32 tokens, since their length matters little to it.

    python benchmarks/encode.py --data beir:FOLDER --vocabulary spiece.model
"""

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

WARM_UP = 64  # documents encoded before the clock starts


def main() -> None:
    """Runs every case and prints two tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, help="beir:FOLDER")
    parser.add_argument("--vocabulary", type=Path, required=True, help="a SentencePiece model")
    parser.add_argument("--texts", type=int, default=3000, help="documents for the speed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", type=int, nargs="*", default=[10_000, 60_000])
    parser.add_argument("--batch_tokens", type=int, nargs="*", default=[2048])
    parser.add_argument("--cases", nargs="*", default=["loop", "rows", "whole", "encode"])
    parser.add_argument("--case", nargs="*", help=argparse.SUPPRESS)  # a child's work
    arguments = parser.parse_args()
    if arguments.case:
        name, folder, length, batch_tokens = arguments.case
        print(json.dumps(measure(name, Path(folder), int(length), int(batch_tokens))))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_model(folder / "model", arguments.vocabulary)
        sizes = [arguments.texts, *arguments.memory]
        write_corpora(arguments.data.removeprefix("beir:"), folder, sizes)
        print_speed(arguments, folder / str(arguments.texts))
        print_memory(arguments.memory, folder)


def print_speed(arguments: argparse.Namespace, folder: Path) -> None:
    """Best of the rounds, which alternate."""
    cases = [(name, 2048) for name in arguments.cases if name != "encode"]
    if "encode" in arguments.cases:
        cases += [("encode", tokens) for tokens in arguments.batch_tokens]
    found: dict[tuple[str, int], list[float]] = {case: [] for case in cases}
    for _ in range(arguments.rounds):
        for case in cases:
            found[case].append(run(case[0], folder, 512, case[1])["rate"])
    print(f"{'case':<8}{'batch tokens':>14}{'documents/s':>13}  all rounds")
    for (name, tokens), rates in found.items():
        shown = f"{tokens:14,}" if name == "encode" else " " * 14
        rounds = " ".join(f"{rate:.1f}" for rate in rates)
        print(f"{name:<8}{shown}{max(rates):13.1f}  {rounds}", flush=True)


def print_memory(sizes: list[int], folder: Path) -> None:
    """Peak of each size and case."""
    print(f"{'documents':>10}  {'case':<8}{'peak MB':>9}{'above start MB':>16}{'seconds':>9}")
    for size in sizes:
        for name in ("whole", "encode"):
            done = run(name, folder / str(size), 32, 2048)
            above = done["peak"] - done["start"]
            print(
                f"{size:10,}  {name:<8}{done['peak']:9.0f}{above:16.0f}{done['seconds']:9.1f}",
                flush=True,
            )


def run(name: str, folder: Path, length: int, batch_tokens: int) -> dict:
    """What a process of its own measured."""
    command = [sys.executable, __file__, "--data", "", "--vocabulary", ""]
    command += ["--case", name, str(folder), str(length), str(batch_tokens)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def measure(name: str, folder: Path, length: int, batch_tokens: int) -> dict:
    """Rate and peak of one case, in this process."""
    from samtone_tf.data.corpus import open_corpus
    from samtone_tf.encoding.encode import encode_corpus
    from samtone_tf.encoding.models import open_encoder
    from samtone_tf.export.saved_encoder import SavedEncoder

    model, corpus = folder.parent / "model" / "1", f"corpus:{folder / 'corpus.jsonl.gz'}"
    warm = ["a warm-up text " * 40] * WARM_UP
    if name == "encode":
        encoder = open_encoder(model, length=length)
        encoder.encode(encoder.tokenize(warm))
    else:
        saved = SavedEncoder(model, document_length=length)
        saved.encode_document(warm)
    start_memory, start = status("VmRSS"), time.perf_counter()
    if name == "encode":
        with tempfile.TemporaryDirectory(dir=folder) as out:
            done = encode_corpus(encoder, corpus, Path(out) / "v", batch_tokens=batch_tokens)
        num = done.num_encoded
    else:
        texts = [text for _, text in open_corpus(corpus, "document").read()]
        num = len(texts)
        if name == "loop":
            for first in range(0, num, 64):
                saved.encode_document(texts[first : first + 64], batch_size=64)
        else:
            saved.encode_document(texts, batch_size=64 if name == "rows" else None)
    seconds = time.perf_counter() - start
    return {
        "rate": num / seconds,
        "seconds": seconds,
        "start": start_memory,
        "peak": status("VmHWM"),
    }


def write_model(folder: Path, vocabulary: Path) -> None:
    """An export of two towers with random weights."""
    from samtone_tf.data.tokenizer import Tokenizer
    from samtone_tf.dual_encoder import DualEncoder
    from samtone_tf.export.encoder import write_saved_model

    tokenizer = Tokenizer.from_file(vocabulary)
    model = DualEncoder("mini", vocabulary_size=tokenizer.vocabulary_size)
    write_saved_model(model, tokenizer, folder / "1", document_length=512)


def write_corpora(beir: str, folder: Path, sizes: list[int]) -> None:
    """The first documents of a corpus, for each number of them; round and round if it has fewer."""
    from samtone_tf.data.corpus import open_corpus

    texts = [text for _, text in open_corpus(f"beir:{beir}", "document").read()]
    for size in sizes:
        (folder / str(size)).mkdir(exist_ok=True)
        path = folder / str(size) / "corpus.jsonl.gz"
        with gzip.open(path, "wt", encoding="utf-8", compresslevel=1) as file:
            for row in range(size):
                record = {"_id": str(row), "text": texts[row % len(texts)]}
                file.write(json.dumps(record) + "\n")


def status(name: str) -> float:
    """A number of /proc/self/status, in MB."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in lines if line.startswith(f"{name}:")]
    return int(line.split()[1]) * 1024 / 1e6


if __name__ == "__main__":
    main()
