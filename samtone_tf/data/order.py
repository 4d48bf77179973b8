"""Which pairs meet in which batch: a function of (seed, epoch), with no state and no buffer.

Knows numbers of pairs and, to keep equal ones apart, numbers that stand for their texts.
"""

from functools import lru_cache

import numpy as np

from samtone_tf.data import grouping

_STREAM = 2  # keeps draws that hold equal pairs apart from those of the plain order
_ATTEMPTS = 3  # draws of an epoch before the first epoch's batches are used again
_ROUNDS = 20  # of dealing what the round before could not place
_REFILLS = 20  # tries to fill the gaps of a round


class Order:
    """Every epoch is a new permutation of all pairs, cut into full batches.

    Args:
        num_pairs: n.
        batch_size: B.
        seed: decides the permutations.

    Attributes:
        steps_per_epoch: S, full batches in an epoch, the same for every epoch.
    """

    def __init__(self, num_pairs: int, batch_size: int, seed: int):
        self.num_pairs, self.batch_size, self.seed = num_pairs, batch_size, seed
        self.steps_per_epoch = num_pairs // batch_size
        self._plan = lru_cache(maxsize=2)(self._make_plan)

    def batch(self, step: int) -> np.ndarray:
        """Return int64 (B,), the pairs of batch number `step`, counted over all epochs."""
        epoch, place = divmod(step, self.steps_per_epoch)
        return self._plan(epoch)[place * self.batch_size :][: self.batch_size]

    def _make_plan(self, epoch: int) -> np.ndarray:
        """Pairs of an epoch, batch after batch."""
        return np.random.default_rng((self.seed, epoch)).permutation(self.num_pairs)


class ApartOrder(Order):
    """The same, but no two pairs of a batch have an equal query or an equal document.

    In every epoch each pair comes at most once. Pairs whose text is too frequent for each of
    them to find a batch of its own are left out of the epoch; which ones, is drawn anew.

    Args:
        queries: int64 (n,), equal for pairs with equal queries.
        documents: int64 (n,), the same for documents.
        batch_size: B.
        seed: decides everything else.

    Raises:
        ValueError: there are too few different queries or documents for a batch.
    """

    def __init__(self, queries: np.ndarray, documents: np.ndarray, batch_size: int, seed: int):
        super().__init__(len(queries), batch_size, seed)
        self._sides = [grouping.number(keys)[0] for keys in (queries, documents)]
        # The side on which more pairs meet an equal one is dealt out first.
        self._sides.sort(key=lambda numbers: -float((np.bincount(numbers) ** 2.0).sum()))
        self._first = self._draw((seed, _STREAM, 0))
        self.steps_per_epoch = len(self._first)
        if not self.steps_per_epoch:
            different = [grouping.count_distinct(keys) for keys in (queries, documents)]
            raise ValueError(
                "`batch_size` must be at most the number of pairs that have different queries "
                "and different documents, when `no_duplicates` is set. Received: "
                f"batch_size={batch_size}, {different[0]} different queries and {different[1]} "
                "different documents. Lower it, or leave it to the loss to mask duplicates."
            )

    def _make_plan(self, epoch: int) -> np.ndarray:
        # Some draws find a batch less than others, and the number of steps must not change.
        for attempt in range(_ATTEMPTS) if epoch else ():
            batches = self._draw((self.seed, _STREAM, epoch, attempt))
            if len(batches) >= self.steps_per_epoch:
                return batches[: self.steps_per_epoch].ravel()
        random = np.random.default_rng((self.seed, _STREAM, epoch, _ATTEMPTS))
        return random.permutation(self._first).ravel()

    def _draw(self, seed: tuple[int, ...]) -> np.ndarray:
        """Return int64 (S, B): as many batches as are found."""
        random = np.random.default_rng(seed)
        rest = random.permutation(self.num_pairs)
        found = [np.zeros((0, self.batch_size), np.int64)]
        for _ in range(_ROUNDS):
            num = self._most_batches(rest)
            if not num:
                break
            batches, rest = self._deal(rest, num, random)
            found.append(batches)
        return random.permutation(np.concatenate(found))

    def _most_batches(self, pairs: np.ndarray) -> int:
        """The most batches that could be filled, since each takes a text once."""
        # How many texts are in one pair, in two, …
        sizes = [np.bincount(np.bincount(side[pairs])) for side in self._sides]
        low, high = 0, len(pairs) // self.batch_size
        while low < high:
            num = (low + high + 1) // 2
            usable = min(int(np.minimum(np.arange(len(s)), num) @ s) for s in sizes)
            low, high = (num, high) if usable >= num * self.batch_size else (low, num - 1)
        return low

    def _deal(
        self, pairs: np.ndarray, num: int, random: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Deal shuffled `pairs` to `num` batches; return the full ones, and the other pairs."""
        sides = [side[pairs] for side in self._sides]
        # Like cards: equal ones lie together, so that they go to different batches.
        group = random.permutation(int(sides[0].max()) + 1)[sides[0]]
        order = np.argsort(group, kind="stable")
        order = order[_rank(group[order]) < num]  # there is a batch for each of these
        batch_of = np.full(len(pairs), -1)
        batch_of[order] = np.arange(len(order)) % num
        _take_out_repeats(batch_of, order, sides)
        for _ in range(_REFILLS):
            sizes = np.bincount(batch_of[batch_of >= 0], minlength=num)
            places = np.repeat(np.arange(num), np.maximum(self.batch_size - sizes, 0))
            free = np.flatnonzero(batch_of < 0)
            count = min(len(places), len(free))
            if not count:
                break
            chosen = random.permutation(free)[:count]
            is_short = np.append(sizes < self.batch_size, False)  # batch -1 is none
            members = np.flatnonzero(is_short[batch_of])
            batch_of[chosen] = random.permutation(places)[:count]
            _take_out_repeats(batch_of, np.concatenate([members, chosen]), sides)
        placed = np.flatnonzero(batch_of >= 0)
        placed = placed[np.argsort(batch_of[placed], kind="stable")]
        is_full = np.bincount(batch_of[placed], minlength=num) >= self.batch_size
        kept = placed[is_full[batch_of[placed]] & (_rank(batch_of[placed]) < self.batch_size)]
        is_left = np.ones(len(pairs), bool)
        is_left[kept] = False
        return pairs[kept].reshape(-1, self.batch_size), random.permutation(pairs[is_left])


def _take_out_repeats(batch_of: np.ndarray, members: np.ndarray, sides: list[np.ndarray]) -> None:
    """Set the batch of every member that equals an earlier one of its batch to -1, in place."""
    for side in sides:
        members = members[batch_of[members] >= 0]
        keys = batch_of[members] * (int(side.max()) + 1) + side[members]
        order = np.argsort(keys, kind="stable")
        batch_of[members[order[1:][np.diff(keys[order]) == 0]]] = -1


def _rank(groups: np.ndarray) -> np.ndarray:
    """Return the place of each within its group; equal groups lie together."""
    is_first = np.diff(groups, prepend=-1) != 0
    starts = np.flatnonzero(is_first)
    return np.arange(len(groups)) - starts[np.cumsum(is_first) - 1]
