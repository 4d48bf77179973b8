"""The side of faiss: HNSW, IVF and IVF with 4-bit codes, each tuned to the same recall.

Started by benchmarks/search.py in an environment of `requirements.txt`; prints JSON lines.
"""

import argparse
import json
import os
import time
from pathlib import Path

import faiss
import numpy as np
from measure import K, batched_qps, fastest, recall, single_qps

IVF_SEARCHED = [1, 2, 3, 4, 6, 8, 11, 16, 22, 32, 45, 64, 90, 128, 180, 256, 362, 512, 1024]
HNSW_EFFORT = [10, 14, 20, 28, 40, 56, 80, 112, 160, 226, 320, 452, 640, 905, 1280]
REFINED = (4, 8, 16, 32)


def hnsw(vectors, construction):
    index = faiss.IndexHNSWFlat(vectors.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = construction
    index.add(vectors)

    def apply(effort):
        index.hnsw.efSearch = effort
        return lambda queries: index.search(queries, K)[1]

    return index, [(HNSW_EFFORT, int)], apply


def ivf(vectors, leaves):
    index = faiss.index_factory(vectors.shape[1], f"IVF{leaves},Flat", faiss.METRIC_INNER_PRODUCT)
    index.train(sample(vectors, leaves))
    index.add(vectors)

    def apply(searched):
        index.nprobe = searched
        return lambda queries: index.search(queries, K)[1]

    return index, [([number for number in IVF_SEARCHED if number <= leaves], int)], apply


def ivf_codes(vectors, leaves):
    dim = vectors.shape[1]
    name = f"IVF{leaves},PQ{dim // 2}x4fsr,RFlat"
    index = faiss.index_factory(dim, name, faiss.METRIC_INNER_PRODUCT)
    index.train(sample(vectors, leaves))
    index.add(vectors)
    inner = faiss.downcast_index(index.base_index)

    def apply(setting):
        inner.nprobe, index.k_factor = setting
        return lambda queries: index.search(queries, K)[1]

    searched = [number for number in IVF_SEARCHED if number <= leaves]
    return index, [(searched, lambda n, f=factor: (n, f)) for factor in REFINED], apply


def sample(vectors, leaves):
    """As many rows as ScaNN's automatic settings learn from."""
    num = min(len(vectors), max(100_000, 50 * leaves))
    return vectors[np.sort(np.random.default_rng(0).permutation(len(vectors))[:num])]


NAMES = {hnsw: "efSearch", ivf: "nprobe", ivf_codes: "(nprobe, k_factor)"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--target", type=float, required=True)
    parser.add_argument("--leaves", type=int, nargs="+", required=True)
    parser.add_argument("--construction", type=int, default=100)
    parser.add_argument("--skip", nargs="*", default=[])
    given = parser.parse_args()
    vectors = np.load(given.folder / "vectors.npy")
    tuning = np.load(given.folder / "tuning_queries.npy")
    queries = np.load(given.folder / "queries.npy")
    kth = {name: np.load(given.folder / f"kth_{name}.npy") for name in ("tuning", "test")}
    cases = [("HNSW32", hnsw, given.construction)]
    cases += [(f"IVF{n}", ivf, n) for n in given.leaves]
    cases += [(f"IVF{n}, 4-bit codes, refined", ivf_codes, n) for n in given.leaves]
    for name, build, argument in cases:
        if name.split(",")[0].rstrip("0123456789") in given.skip:
            continue
        faiss.omp_set_num_threads(os.cpu_count())
        start = time.perf_counter()
        index, ladders, apply = build(vectors, argument)
        seconds = time.perf_counter() - start

        def score(found):
            return recall(found, vectors, tuning, kth["tuning"])

        setting, reached = fastest(ladders, apply, tuning, given.target, score)
        search = apply(setting)
        row = {
            "index": f"faiss {name}",
            "setting": f"{NAMES[build]} {setting}" + ("" if reached else ", target not reached"),
            "recall": recall(search(queries), vectors, queries, kth["test"]),
            "batched": batched_qps(search, queries),
            "build": seconds,
        }
        faiss.omp_set_num_threads(1)
        row["single"] = single_qps(search, queries)
        row["bytes"] = faiss.serialize_index(index).nbytes / len(vectors)
        print(json.dumps(row), flush=True)
        del index, search, apply


if __name__ == "__main__":
    main()
