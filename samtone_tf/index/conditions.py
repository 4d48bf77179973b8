"""Conditions on the results of a search: only these documents, at most so many of one group."""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from samtone_tf.index.base import SearchResult, check_k

AT_ONCE = 1 << 21
"""Results that one deeper search may hold, over all its queries."""

Search = Callable[[np.ndarray, int], SearchResult]


@dataclass(frozen=True)
class Crowding:
    """At most `limit` results of one group: passages of one page, products of one seller.

    Args:
        groups: document id → group. A document that is not named is in no group, and never
            left out.
        limit: int ≥ 1, results of a group.

    Example:

    >>> Crowding({"p1": "page", "p2": "page"}).limit
    1
    """

    groups: Mapping[str, Hashable]
    limit: int = 1

    def __post_init__(self) -> None:
        check_k(self.limit, "limit")


class Conditions:
    """What may be a result, for one index.

    Args:
        rows: of the index, document id → row.
        allowed: ids that may be found, or None for all; ids of other indexes do no harm.
        crowding: how many results a group may have, or None for any number.
    """

    def __init__(
        self,
        rows: Mapping[str, int],
        allowed: Collection[str] | None,
        crowding: Crowding | None,
    ) -> None:
        if isinstance(allowed, str | bytes):
            raise TypeError(
                f"`allowed` must be a collection of ids. Received: {allowed!r}. Pass a set."
            )
        if crowding is not None and not isinstance(crowding, Crowding):
            raise TypeError(
                f"`crowding` must be a Crowding. Received: {crowding!r}. "
                "Pass Crowding(groups, limit)."
            )
        self.allowed = None if allowed is None else frozenset(allowed)
        self.crowding = crowding
        self._rows = rows

    def positions(self) -> np.ndarray | None:
        """Ascending positions of the allowed documents; None where all are."""
        if self.allowed is None:
            return None
        return np.array(sorted(self._rows[name] for name in self._ids()), np.int64)

    def most(self, k: int) -> int:
        """How many of k results there can be, if everything is looked at."""
        ids = self._ids()
        if self.crowding is None:
            return min(k, len(ids))
        groups, limit = self.crowding.groups, self.crowding.limit
        alone = object()  # not a group that a caller could have named
        sizes = Counter(groups.get(name, alone) for name in ids)
        return min(k, sum(n if g is alone else min(n, limit) for g, n in sizes.items()))

    def places(self, ids: Sequence[str], k: int) -> list[int]:
        """Where in a ranking the first k results that meet the conditions stand."""
        taken: Counter[Hashable] = Counter()
        kept: list[int] = []
        for place, name in enumerate(ids):
            if len(kept) == k:
                break
            if self.allowed is not None and name not in self.allowed:
                continue
            if self.crowding is not None and name in self.crowding.groups:
                group = self.crowding.groups[name]
                if taken[group] == self.crowding.limit:
                    continue
                taken[group] += 1
            kept.append(place)
        return kept

    def _ids(self) -> Collection[str]:
        """The documents of the index that are allowed."""
        if self.allowed is None:
            return self._rows.keys()
        return [name for name in self.allowed if name in self._rows]


def search_deeper(
    search: Search, num_documents: int, queries: np.ndarray, k: int, conditions: Conditions
) -> SearchResult:
    """The k best results that meet the conditions, found by looking ever deeper.

    Rows stay short only where fewer such documents exist or the whole corpus was asked
    for. With an exact `search` the result is exact.

    Args:
        search: plain search of an index: queries and a depth → results.
        num_documents: the depth at which there is no deeper.
        queries: float32 `(B, D)`.
        k: int ≥ 1.
        conditions: what a result must meet.
    """
    want = conditions.most(k)
    result = SearchResult(
        [[] for _ in queries], [np.empty(0, np.float32) for _ in range(len(queries))]
    )
    open_rows = np.arange(len(queries)) if want else np.empty(0, np.int64)
    depth = min(num_documents, 4 * k)
    while len(open_rows):
        still_open = []
        step = max(1, AT_ONCE // depth)
        for start in range(0, len(open_rows), step):
            rows = open_rows[start : start + step]
            found = search(queries[rows], depth)
            for row, ids, scores in zip(rows, found.document_ids, found.scores, strict=True):
                places = conditions.places(ids, want)
                result.document_ids[row] = [ids[place] for place in places]
                result.scores[row] = scores[places]
                if len(places) < want:
                    still_open.append(row)
        if depth == num_documents:
            break
        open_rows = np.array(still_open, np.int64)
        depth = min(num_documents, 4 * depth)
    return result
