"""Finds the settings of a ScaNN index that are fastest at a wanted recall, by measuring them."""

import math
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from samtone_tf.index.base import Index, SearchResult, check_vectors
from samtone_tf.index.exact import ExactIndex
from samtone_tf.index.folder import vector_bytes
from samtone_tf.index.frontier import Frontier, Point
from samtone_tf.index.report import TIE
from samtone_tf.index.scann import ScannIndex
from samtone_tf.index.scann_settings import ScannSettings

K = 10
"""Depth of the searches that are tuned."""

REORDERS = (40, 60, 100, 150, 250, 500, 1_000, 2_000)
"""Numbers of candidates that are tried; a search for 10 scores 40 again at least."""

ENOUGH = 0.9995
"""Recall beyond which more leaves are not tried."""

Quality = Callable[[Index], float]
"""nDCG@10 of an index on judged queries."""


class Candidate(NamedTuple):
    """An index as it was built, whatever it searches.

    Args:
        index: to search.
        build_seconds: wall time of building, None if unknown.
        bytes_per_vector: size of its own files by document.
    """

    index: ScannIndex
    build_seconds: float | None
    bytes_per_vector: float


class Tuned(NamedTuple):
    """What was found.

    Args:
        index: under the chosen settings.
        rebuilt: whether it is another one than the first candidate.
        frontier: all that was measured.
        build_seconds: of the chosen one.
    """

    index: ScannIndex
    rebuilt: bool
    frontier: Frontier
    build_seconds: float | None


def perturbed(exact: ExactIndex, num: int, seed: int = 0) -> np.ndarray:
    """Made-up queries for a corpus that has none: documents, turned by 37° at random.

    The cosine of each with its document is about 0.8. They lie near the corpus, as real
    questions may not, so recall measured with them may be a little too high.

    Args:
        exact: holds the documents.
        num: how many; fewer where there are fewer documents.
        seed: of the draw.
    """
    random = np.random.default_rng(seed)
    chosen = np.sort(random.permutation(exact.num_documents)[:num])
    rows = exact.vectors.take(chosen)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    noise = random.normal(size=rows.shape) / math.sqrt(rows.shape[1])
    turned = rows + 0.75 * noise
    return (turned / np.linalg.norm(turned, axis=1, keepdims=True)).astype(np.float32)


def rebuilt(index: ScannIndex, exact: ExactIndex, num_leaves: int) -> Candidate:
    """The same documents with another number of partitions; 0 is none."""
    old = index.settings
    settings = ScannSettings(
        num_leaves=num_leaves,
        dims_per_block=old.dims_per_block or None,
        anisotropic_threshold=old.anisotropic_threshold,
        reorder=old.reorder or None,
    )
    start = time.perf_counter()
    new = ScannIndex.build(
        exact.vectors,
        exact.document_ids,
        settings=settings,
        model=index.model,
        storage=index.storage,
    )
    seconds = time.perf_counter() - start
    return Candidate(new, seconds, measured_bytes(new))


def measured_bytes(index: ScannIndex) -> float:
    """Bytes of an index's own files by document, written once to find out."""
    with tempfile.TemporaryDirectory() as folder:
        index.write(Path(folder))
        return vector_bytes(folder) / index.num_documents


def tune(
    candidates: Iterable[Candidate],
    exact: ExactIndex,
    queries: np.ndarray,
    *,
    recall: float = 0.99,
    queries_are: str = "given",
    quality: Quality | None = None,
) -> Tuned:
    """Measures settings of each candidate, and picks the fastest with recall@10 ≥ `recall`.

    Batched queries per second decide; where none reaches the recall, recall decides.

    Args:
        candidates: the index, then others over the same documents.
        exact: exact search over the same documents.
        queries: floats `(B, D)`.
        recall: wanted share of the 10 best documents, in (0, 1].
        queries_are: what the queries are, in words.
        quality: nDCG@10 of an index, where there are judgements.
    """
    truth = _Truth(exact, check_vectors(queries, "queries", exact.dim))
    base = quality(exact) if quality else None
    points: list[Point] = []
    best: _Best | None = None
    for number, candidate in enumerate(candidates):
        measured = _sweep(candidate, truth, recall)
        place = _fastest(measured, truth, recall)
        for other in {*_frontier([point for point, _ in measured]), place}:
            point, index = measured[other]
            measured[other] = (_with_details(point, index, truth.queries, quality, base), index)
        point, index = measured[place]
        found = _Best(len(points) + place, point, index, candidate, number > 0)
        if best is None or _worth(point, recall) > _worth(best.point, recall):
            best = found  # the others' indexes are let go: several may not fit into memory
        points += [point for point, _ in measured]
    if best is None:
        raise ValueError("`candidates` must hold an index. Received: none.")
    front = _frontier(points) | {best.place}
    points = [
        replace(point, on_frontier=place in front, chosen=place == best.place)
        for place, point in enumerate(points)
    ]
    stored = exact.storage
    frontier = Frontier(
        target=recall,
        reached=best.point.recall_at_10 >= recall,
        num_documents=exact.num_documents,
        dim=exact.dim,
        num_queries=len(truth.queries),
        queries=queries_are,
        compared_with=f"{stored} vectors" + ("" if stored == "float32" else ", as the index has"),
        exact=replace(truth.point, ndcg_at_10=base),
        points=tuple(sorted(points, key=lambda point: -point.batched_qps)),
    )
    return Tuned(best.index, best.rebuilt, frontier, best.candidate.build_seconds)


class _Best(NamedTuple):
    place: int
    point: Point
    index: ScannIndex
    candidate: Candidate
    rebuilt: bool


class _Truth:
    """Exact search of the queries: what recall is measured against, and how fast it is."""

    def __init__(self, exact: ExactIndex, queries: np.ndarray) -> None:
        self.exact, self.queries = exact, queries
        found, qps = _timed(exact, queries)
        self._kth = np.array([scores[-1] for scores in found.scores], np.float32)
        self._k = min(K, exact.num_documents)
        self.point = Point(
            "exact",
            num_leaves=0,
            num_leaves_to_search=0,
            reorder=0,
            recall_at_10=1.0,
            batched_qps=qps,
            single_qps=_single_qps(exact, queries),
            bytes_per_vector=exact.bytes_per_vector,
        )

    def recall(self, found: SearchResult) -> float:
        """Share of the 10 best; as `report.recall`, with the exact search made once."""
        shares = [
            np.count_nonzero(self.exact.score(query, ids[: self._k]) >= kth - TIE) / self._k
            for query, ids, kth in zip(self.queries, found.document_ids, self._kth, strict=True)
        ]
        return float(np.mean(shares))


def _sweep(candidate: Candidate, truth: _Truth, target: float) -> list[tuple[Point, ScannIndex]]:
    """Every setting of the grid, then leaves between those that just fail and just reach."""
    settings = candidate.index.settings
    leaves = settings.num_leaves or 0
    reorders = _reorders(settings, candidate.index.num_documents)
    grid = _leaves_grid(leaves, settings.num_leaves_to_search or 0)
    found: dict[tuple[int, int], tuple[Point, ScannIndex]] = {}

    def look(searched: int, reorder: int) -> float:
        if (searched, reorder) not in found:
            found[searched, reorder] = _measure(candidate, truth, searched, reorder)
            bar.update()
        return found[searched, reorder][0].recall_at_10

    name = f"{leaves} leaves" if leaves else settings.search
    with tqdm(desc=f"tune {name}", unit=" settings", delay=3, leave=False, disable=None) as bar:
        for searched in grid:
            recalls = [look(searched, reorder) for reorder in reorders]
            if max(recalls) >= max(ENOUGH, target):
                break
        for reorder in reorders if leaves else ():
            tried = sorted(searched for searched, again in found if again == reorder)
            passing = [s for s in tried if found[s, reorder][0].recall_at_10 >= target]
            high = min(passing, default=0)
            low = max((s for s in tried if s < high), default=0)
            while high - low > max(1, high // 20):
                middle = (low + high) // 2
                low, high = (low, middle) if look(middle, reorder) >= target else (middle, high)
    return list(found.values())


def _measure(
    candidate: Candidate, truth: _Truth, searched: int, reorder: int
) -> tuple[Point, ScannIndex]:
    index = candidate.index.with_effort(searched or None, reorder or None)
    result, qps = _timed(index, truth.queries)
    point = Point(
        index.settings.search,
        num_leaves=index.settings.num_leaves or 0,
        num_leaves_to_search=searched,
        reorder=reorder,
        recall_at_10=truth.recall(result),
        batched_qps=qps,
        build_seconds=candidate.build_seconds,
        bytes_per_vector=candidate.bytes_per_vector,
    )
    return point, index


def _leaves_grid(leaves: int, current: int) -> list[int]:
    """Numbers of leaves to search, half as many again each time; [0] without a tree."""
    if not leaves:
        return [0]
    steps = {min(leaves, max(1, round(leaves / 200 * 1.5**power))) for power in range(15)}
    return sorted(steps | {current, leaves})


def _reorders(settings: ScannSettings, num_documents: int) -> list[int]:
    if not settings.reorder:
        return [0]
    return sorted({min(number, num_documents) for number in (*REORDERS, settings.reorder)})


def _frontier(points: Sequence[Point]) -> set[int]:
    """Places of the points that no faster one matches in recall."""
    best, front = -1.0, set()
    order = sorted(
        range(len(points)), key=lambda i: (-points[i].batched_qps, -points[i].recall_at_10)
    )
    for place in order:
        if points[place].recall_at_10 > best:
            best = points[place].recall_at_10
            front.add(place)
    return front


def _fastest(measured: list[tuple[Point, ScannIndex]], truth: _Truth, target: float) -> int:
    """The place of the best point; the five fastest that reach the target are timed again.

    Of those within a twentieth of the fastest the one that finds most is taken: speeds are not
    known better than that.
    """
    order = sorted(range(len(measured)), key=lambda i: _worth(measured[i][0], target), reverse=True)
    for place in order[:5]:
        point, index = measured[place]
        qps = max([point.batched_qps, *(_timed(index, truth.queries)[1] for _ in range(2))])
        measured[place] = (replace(point, batched_qps=qps), index)
    best, _ = measured[max(order[:5], key=lambda place: _worth(measured[place][0], target))]
    found = {place: measured[place][0] for place in order[:5]}
    good = [
        place
        for place, point in found.items()
        if point.recall_at_10 >= min(target, best.recall_at_10)
        and point.batched_qps >= 0.95 * best.batched_qps
    ]
    return max(good, key=lambda place: (found[place].recall_at_10, found[place].batched_qps))


def _worth(point: Point, target: float) -> tuple[float, float]:
    """Speed counts once the target is reached, recall before that."""
    return (min(point.recall_at_10, target), point.batched_qps)


def _with_details(
    point: Point,
    index: ScannIndex,
    queries: np.ndarray,
    quality: Quality | None,
    base: float | None,
) -> Point:
    value = quality(index) if quality else None
    lost = None if value is None or base is None else base - value
    return replace(
        point, single_qps=_single_qps(index, queries), ndcg_at_10=value, ndcg_at_10_lost=lost
    )


def _timed(index: Index, queries: np.ndarray) -> tuple[SearchResult, float]:
    """Results of one batch, and queries per second."""
    index.search(queries[:2], K)  # the first search pays for threads and caches
    start = time.perf_counter()
    found = index.search(queries, K)
    return found, len(queries) / (time.perf_counter() - start)


def _single_qps(index: Index, queries: np.ndarray, seconds: float = 0.5) -> float:
    """Queries per second, one at a time, over at most 200 of them or so many seconds."""
    start, done = time.perf_counter(), 0
    for query in queries[:200]:
        index.search(query[None], K)
        done += 1
        if time.perf_counter() - start > seconds:
            break
    return done / (time.perf_counter() - start)
