"""Training and encoding speed against sentence-transformers, in one run on one machine.

The same work on both sides (see work.py): T5 v1.1 small's shape with random weights, dropout
0.1, Adam, in-batch softmax; titles as queries and abstracts as documents. Each case runs in a
process of its own, both sides one after the other, so that what disturbs the machine disturbs
both. Reported is the median step. The matrix-product rate is what the machine gives for one
2048 x 2048 product through TensorFlow in the same run.

    make bench DATA=beir:FOLDER VOCABULARY=spiece.model
    python benchmarks/speed/compare.py --data beir:FOLDER --vocabulary spiece.model \\
        --peer .venv-peer/bin/python
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import work

from samtone_tf.data.sources import load_data
from samtone_tf.data.token_cache import TokenCache
from samtone_tf.data.tokenizer import Tokenizer

HERE = Path(__file__).parent
PAIRS = 2048  # read from the data


def main() -> None:
    """Runs every case and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, help="beir:FOLDER or pairs:FILE")
    parser.add_argument("--vocabulary", required=True, type=Path, help="SentencePiece model")
    parser.add_argument("--peer", help="Python of an environment with sentence-transformers")
    parser.add_argument("--steps", type=int, default=5, help="timed steps of each case")
    parser.add_argument("--cases", nargs="+", default=work.CASES, choices=work.CASES)
    parser.add_argument("--dtypes", nargs="+", default=work.DTYPES, choices=work.DTYPES)
    parser.add_argument("--json", type=Path, help="file for the raw figures")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        prepare(arguments.data, arguments.vocabulary, Path(folder))
        found = measure(arguments, folder)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def prepare(source: str, vocabulary: Path, folder: Path) -> None:
    """Writes token ids and texts for the child processes."""
    data = load_data(source)
    pairs = [pair for pair, _ in zip(data.pairs(), range(PAIRS), strict=False)]
    tokenizer = Tokenizer.from_file(vocabulary)

    def ids(texts: list[str], length: int) -> np.ndarray:
        cache = TokenCache.build(texts, tokenizer, length)
        return cache.padded(np.arange(len(texts)))["token_ids"]

    queries = [data.queries[pair.query_id] for pair in pairs]
    documents = [data.documents[pair.document_id] for pair in pairs]
    tokens = {
        "query": ids(queries, work.QUERY_LENGTH),
        "document": ids(documents, work.DOCUMENT_LENGTH),
    }
    work.write(folder, tokens, documents[: work.ENCODED])
    shutil.copy(vocabulary, folder / "spiece.model")


def measure(arguments, folder: str) -> dict:
    """All cases, printed as they come."""
    found = {}
    for dtype in arguments.dtypes:
        rates = run(sys.executable, "ours.py", "product", dtype, folder)
        found[f"product {dtype}"] = rates
        print(
            f"\n{dtype}: {rates['square']:.0f} GFLOP/s in a 2048 x 2048 product, "
            f"{rates['step']:.0f} in the products of a step\n"
            f"{'case':8}{'unit':>8}{'ours/s':>9}{'peer/s':>9}{'ratio':>8}{'GFLOP/s':>9}"
            f"{'of square':>11}{'of step':>9}",
            flush=True,
        )
        for case in arguments.cases:
            steps = ["--steps", str(arguments.steps)]
            ours = run(sys.executable, "ours.py", case, dtype, folder, *steps)
            peer = run(arguments.peer, "peer.py", case, dtype, folder, *steps)
            found[f"{case} {dtype}"] = {"ours": ours, "peer": peer}
            print(row(case, rates, ours, peer), flush=True)
    return found


def run(python: str | None, script: str, *words: str) -> dict | None:
    """What a child process found; None where there is no peer."""
    if python is None:
        return None
    done = subprocess.run(
        [python, str(HERE / script), *words], stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def row(case: str, rates: dict, ours: dict, peer: dict | None) -> str:
    """One line of the table."""
    number = work.count(case)
    median = statistics.median(ours["seconds"])
    rate = work.flops(case) / median / 1e9
    line = f"{case:8}{'docs' if case == 'encode' else 'pairs':>8}{number / median:9.1f}"
    if peer:
        other = statistics.median(peer["seconds"])
        line += f"{number / other:9.1f}{other / median:8.2f}"
    else:
        line += f"{'':17}"
    return line + f"{rate:9.0f}{rate / rates['square']:11.2f}{rate / rates['step']:9.2f}"


if __name__ == "__main__":
    main()
