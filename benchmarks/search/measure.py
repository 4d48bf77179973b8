"""How both sides of benchmarks/search.py are measured: recall with ties, and queries per second."""

import time

import numpy as np

K = 10
TIE = 1e-6


def recall(positions, vectors, queries, kth):
    """Share of the 10 best that were found; whatever scores like the tenth counts."""
    found = np.einsum("qkd,qd->qk", vectors[np.maximum(positions, 0)], queries)
    return float(np.mean((found >= kth[:, None] - TIE) & (positions >= 0)))


def batched_qps(search, queries, seconds=3.0):
    """All queries in one call, on all cores; the best of at least three calls."""
    begin, best, calls = time.perf_counter(), 0.0, 0
    while calls < 3 or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        search(queries)
        best = max(best, len(queries) / (time.perf_counter() - start))
        calls += 1
    return best


def single_qps(search, queries, seconds=2.0):
    """One query a call, one after the other; the best of four stretches."""
    for query in queries[:5]:
        search(query[None])
    best = 0.0
    for _ in range(4):
        start, done = time.perf_counter(), 0
        while time.perf_counter() - start < seconds / 4:
            search(queries[done % len(queries)][None])
            done += 1
        best = max(best, done / (time.perf_counter() - start))
    return best


def fastest(ladders, apply, queries, target, score):
    """The fastest setting whose recall reaches the target: (setting, whether it is reached).

    Args:
        ladders: (efforts, ascending, to try; effort → setting). Of each only the least effort
            that reaches the target competes; it is sought between those tried, too.
        apply: setting → search function.
        queries: to tune with.
        target: recall wanted.
        score: what a search found → recall.
    """

    def reached(make, effort):
        return score(apply(make(effort))(queries))

    reaching, most = [], None
    for efforts, make in ladders:
        low, high = 0, None
        for effort in efforts:
            if reached(make, effort) >= target:
                high = effort
                break
            low = effort
        while high and high - low > max(1, high // 20):
            middle = (low + high) // 2
            low, high = (low, middle) if reached(make, middle) >= target else (middle, high)
        if high:
            qps = batched_qps(apply(make(high)), queries, seconds=0.5)
            reaching.append((qps, make(high)))
        most = make(efforts[-1])
    if not reaching:
        return most, False
    return max(reaching, key=lambda pair: pair[0])[1], True
