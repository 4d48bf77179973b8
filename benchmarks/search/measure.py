"""How both sides of benchmarks/search.py are measured: recall with ties, and queries per second."""

import time

import numpy as np

K = 10
TIE = 1e-6


def recall(positions, vectors, queries, kth):
    """Share of the 10 best that were found; whatever scores like the tenth counts."""
    found = np.einsum("qkd,qd->qk", vectors[np.maximum(positions, 0)], queries)
    return float(np.mean((found >= kth[:, None] - TIE) & (positions >= 0)))


def batched_qps(search, queries, repeats=3):
    """All queries in one call, on all cores; the best of some repeats."""
    best = 0.0
    for _ in range(repeats):
        start = time.perf_counter()
        search(queries)
        best = max(best, len(queries) / (time.perf_counter() - start))
    return best


def single_qps(search, queries, seconds=2.0):
    """One query a call, one after the other."""
    for query in queries[:5]:
        search(query[None])
    start, done = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        search(queries[done % len(queries)][None])
        done += 1
    return done / (time.perf_counter() - start)


def fastest(ladders, apply, queries, target, score):
    """The fastest setting whose recall reaches the target: (setting, whether it is reached).

    Args:
        ladders: lists of settings in ascending effort; of each, only the first that reaches
            the target competes, for what follows is slower.
        apply: setting → search function.
        queries: to tune with.
        target: recall wanted.
        score: what a search found → recall.
    """
    reaching, best = [], (-1.0, None)
    for ladder in ladders:
        for setting in ladder:
            reached = score(apply(setting)(queries))
            best = max(best, (reached, setting), key=lambda pair: pair[0])
            if reached >= target:
                reaching.append((batched_qps(apply(setting), queries, repeats=2), setting))
                break
    if not reaching:
        return best[1], False
    return max(reaching, key=lambda pair: pair[0])[1], True
