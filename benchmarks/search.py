"""Searching: tuned ScaNN against exact search and faiss at equal recall, and exact search's memory.

    python benchmarks/search.py made --num 1000000 --dim 256 --folder /tmp/made --peer PYTHON
    python benchmarks/search.py encoded --model SAVED_MODEL --data beir:FOLDER --folder /tmp/real \\
        --peer PYTHON

PYTHON is that of an environment with benchmarks/search/requirements.txt. `made` are unit
vectors around centres, one for a hundred documents, cosine of a document with its centre about
0.78, as are the queries; `encoded` are a corpus and test queries. Half of the queries tune every
index to recall@10 >= 0.99, the other half gives all figures: recall, queries per second one at a
time (ScaNN and faiss on one thread), and in one batch on all cores. Each side is called as its
users call it; ours includes ids as strings. Exact search runs in a process of its own, from the
mapped file, and its peak memory is that of the process.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent / "search"
sys.path.insert(0, str(HERE))

from measure import K, batched_qps, recall, single_qps  # noqa: E402

QUERIES = 2_000  # half of them tune


def main() -> None:
    """Makes or finds the vectors, runs both sides, prints the table."""
    given = arguments()
    if given.part == "exact":
        exact(given.folder)
    elif given.part == "ours":
        ours(given.folder, given.target, given.leaves, given.storage)
    else:
        folder = given.folder
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "vectors.npy").exists():
            make(folder, given) if given.part == "made" else encode(folder, given)
        rows = list(sides(given))
        print(table(rows, *np.load(folder / "vectors.npy", mmap_mode="r").shape))
        (folder / "results.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def arguments() -> argparse.Namespace:
    """What to run; `exact` and `ours` are started by the others."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=("made", "encoded", "exact", "ours"))
    parser.add_argument("--folder", type=Path, required=True, help="for vectors and results")
    parser.add_argument("--num", type=int, default=1_000_000, help="documents to make")
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--model", help="SavedModel, for `encoded`")
    parser.add_argument("--data", help="beir:FOLDER, for `encoded`")
    parser.add_argument("--target", type=float, default=0.99, help="recall@10")
    parser.add_argument("--leaves", type=int, nargs="*", default=[], help="built besides automatic")
    parser.add_argument("--storage", default="float32")
    parser.add_argument("--peer", help="Python with faiss")
    parser.add_argument("--construction", type=int, default=100, help="efConstruction of HNSW")
    parser.add_argument("--skip", nargs="*", default=[], help="of faiss: HNSW, IVF")
    return parser.parse_args()


def make(folder: Path, given: argparse.Namespace) -> None:
    """Writes vectors around centres, a block at a time."""
    random = np.random.default_rng(0)
    centres = random.normal(size=(max(1, given.num // 100), given.dim)).astype(np.float32)

    def draw(num: int) -> np.ndarray:
        noise = random.standard_normal(size=(num, given.dim), dtype=np.float32)
        rows = centres[random.integers(len(centres), size=num)] + 0.8 * noise
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    shape = (given.num, given.dim)
    out = np.lib.format.open_memmap(folder / "vectors.npy", "w+", np.float32, shape)
    for start in range(0, given.num, 50_000):
        out[start : start + 50_000] = draw(min(50_000, given.num - start))
    out.flush()
    write_queries(folder, draw(QUERIES))


def encode(folder: Path, given: argparse.Namespace) -> None:
    """Writes the vectors of a corpus and of its test queries."""
    from samtone_tf import SavedEncoder, load_data

    data = load_data(given.data, "test")
    encoder = SavedEncoder(given.model)
    queries = [data.queries[i] for i in data.qrels][:QUERIES]
    write_queries(folder, encoder.encode_query(queries))
    np.save(folder / "vectors.npy", encoder.encode_document(list(data.documents.values())))


def write_queries(folder: Path, queries: np.ndarray) -> None:
    """Every other query tunes."""
    np.save(folder / "tuning_queries.npy", queries[::2].astype(np.float32))
    np.save(folder / "queries.npy", queries[1::2].astype(np.float32))


def sides(given: argparse.Namespace):
    """One row per index, each side in processes of its own, one after the other."""
    own = ["--folder", str(given.folder)]
    yield from run([sys.executable, __file__, "exact", *own])
    more = ["--target", str(given.target), "--leaves", *map(str, given.leaves)]
    yield from run([sys.executable, __file__, "ours", *own, *more, "--storage", given.storage])
    if given.peer:
        num = len(np.load(given.folder / "vectors.npy", mmap_mode="r"))
        leaves = sorted({round(num**0.5), *given.leaves} - {0})
        command = [given.peer, str(HERE / "peer.py"), str(given.folder)]
        command += ["--target", str(given.target), "--leaves", *map(str, leaves)]
        command += ["--construction", str(given.construction), "--skip", *given.skip]
        yield from run(command)


def run(command: list[str]):
    """The JSON lines that a process prints."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            print(line, end="", file=sys.stderr, flush=True)
            yield json.loads(line)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")


def exact(folder: Path) -> None:
    """Exact search from the mapped file; its 10th scores are what recall is measured against."""
    from samtone_tf.index.exact import ExactIndex

    vectors = np.load(folder / "vectors.npy", mmap_mode="r")
    index = ExactIndex.build(vectors, [f"d{row}" for row in range(len(vectors))])
    queries = np.load(folder / "queries.npy")
    start = time.perf_counter()
    found = index.search(queries, K)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    np.save(folder / "kth_test.npy", np.array([scores[-1] for scores in found.scores]))
    tuning = index.search(np.load(folder / "tuning_queries.npy"), K)
    np.save(folder / "kth_tuning.npy", np.array([scores[-1] for scores in tuning.scores]))
    for query, ids in list(zip(queries, found.document_ids, strict=True))[:20]:
        naive = np.argsort(-(vectors @ query), kind="stable")[:K]
        if [f"d{row}" for row in naive] != ids:
            raise SystemExit("exact search differs from a plain matrix product")
    row = {
        "index": "exact",
        "setting": f"{len(queries)} queries in {seconds:.1f} s, peak {peak:,.0f} MB",
        "recall": 1.0,
        "batched": len(queries) / seconds,
        "single": single_qps(lambda some: index.search(some, K), queries, 5.0),
        "build": 0.0,
        "bytes": index.bytes_per_vector,
    }
    print(json.dumps(row), flush=True)


def ours(folder: Path, target: float, leaves: list[int], storage: str) -> None:
    """ScaNN under automatic settings, then tuned."""
    from samtone_tf.index.exact import ExactIndex
    from samtone_tf.index.scann import ScannIndex
    from samtone_tf.index.tuning import Candidate, measured_bytes, rebuilt, tune

    vectors = np.load(folder / "vectors.npy")
    exact_index = ExactIndex.build(vectors, [f"d{row}" for row in range(len(vectors))])
    start = time.perf_counter()
    index = ScannIndex.build(vectors, exact_index.document_ids, storage=storage)
    first = Candidate(index, time.perf_counter() - start, measured_bytes(index))
    show("automatic", first, index, folder)

    def candidates():
        yield first
        for number in leaves:
            yield rebuilt(index, exact_index, number)

    tuning = np.load(folder / "tuning_queries.npy")
    tuned = tune(candidates(), exact_index, tuning, recall=target)
    print(tuned.frontier.table(), file=sys.stderr)
    chosen = tuned.frontier.chosen
    best = Candidate(tuned.index, chosen.build_seconds or 0.0, chosen.bytes_per_vector or 0.0)
    show("tuned", best, tuned.index, folder)


def show(name: str, candidate, index, folder: Path) -> None:
    """One row of figures, from the queries that did not tune."""
    vectors = np.load(folder / "vectors.npy", mmap_mode="r")
    queries, kth = np.load(folder / "queries.npy"), np.load(folder / "kth_test.npy")

    def search(some):
        return index.search(some, K)

    rows = {document_id: row for row, document_id in enumerate(index.document_ids)}
    found = np.full((len(queries), K), -1)
    for place, ids in enumerate(search(queries).document_ids):
        found[place, : len(ids)] = [rows[document_id] for document_id in ids]
    settings = index.settings
    row = {
        "index": f"ScaNN, {name}",
        "setting": f"{settings.num_leaves_to_search} of {settings.num_leaves} leaves, "
        f"reorder {settings.reorder}, {index.storage}",
        "recall": recall(found, vectors, queries, kth),
        "batched": batched_qps(search, queries),
        "single": single_qps(search, queries),
        "build": candidate.build_seconds,
        "bytes": candidate.bytes_per_vector,
    }
    print(json.dumps(row), flush=True)


def table(rows: list[dict], num: int, dim: int) -> str:
    """Markdown."""
    head = "index | setting | recall@10 | queries/s, one by one | batched | build s | bytes/vector"
    lines = [f"{num:,} × {dim}", "", f"| {head} |", "|---|---|---|---|---|---|---|"]
    lines += [
        f"| {row['index']} | {row['setting']} | {row['recall']:.4f} | {row['single']:,.0f} | "
        f"{row['batched']:,.0f} | {row['build']:,.1f} | {row['bytes']:,.0f} |"
        for row in rows
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
