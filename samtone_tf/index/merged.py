"""Several indexes searched as one: shards of one corpus, or corpora that belong together."""

from collections.abc import Collection, Sequence
from itertools import chain

import numpy as np

from samtone_tf.index.base import Index, SearchResult, check_k, check_vectors
from samtone_tf.index.conditions import Conditions, Crowding


class MergedIndex:
    """The k best of all documents, whichever index holds them.

    Each index is asked for its own k best, and these are merged by score, equal scores
    by document id, descending. Of exact indexes that gives exactly what one index over
    all documents would.

    Args:
        indexes: at least one; of the same model and size of embedding, and without a
            document id in common.
    """

    kind = "merged"

    def __init__(self, indexes: Sequence[Index]) -> None:
        if not indexes:
            raise ValueError("`indexes` must hold at least one index. Received: none.")
        first = indexes[0]
        for index in indexes[1:]:
            if index.dim != first.dim:
                raise ValueError(
                    "`indexes` must have embeddings of one size. Received: "
                    f"{first.dim} and {index.dim} dimensions. Build them with one model."
                )
            if index.model != first.model:
                raise ValueError(
                    "`indexes` must come from one model. Received: fingerprints "
                    f"{first.model or 'unknown'} and {index.model or 'unknown'}. Build them "
                    "with one model: scores of different models cannot be compared."
                )
        self.indexes = list(indexes)
        self.dim, self.model = first.dim, first.model
        self.document_ids = list(chain.from_iterable(index.document_ids for index in indexes))
        self.num_documents = len(self.document_ids)
        _check_distinct(self.document_ids)

    def search(
        self,
        vectors: np.ndarray,
        k: int,
        *,
        allowed: Collection[str] | None = None,
        crowding: Crowding | None = None,
    ) -> SearchResult:
        """The `k` best documents of each query.

        Args:
            vectors: queries, floats `(B, D)`.
            k: int ≥ 1, documents per query.
            allowed: ids of the documents that may be found; None is all.
            crowding: at most so many results of one group, over all indexes.
        """
        queries = check_vectors(vectors, "vectors", self.dim)
        k = min(check_k(k), self.num_documents)
        given = {"allowed": allowed, "crowding": crowding}
        given = {name: value for name, value in given.items() if value is not None}
        found = [index.search(queries, k, **given) for index in self.indexes]
        conditions = Conditions({}, None, crowding)
        result = SearchResult([], [])
        for row in range(len(queries)):
            ids = list(chain.from_iterable(one.document_ids[row] for one in found))
            scores = np.concatenate([one.scores[row] for one in found])
            # Stable, so that the order by id remains where scores are equal.
            order = sorted(range(len(ids)), key=ids.__getitem__, reverse=True)
            order.sort(key=lambda place: -scores[place])
            places = conditions.places([ids[place] for place in order], k)
            best = [order[place] for place in places]
            result.document_ids.append([ids[place] for place in best])
            result.scores.append(scores[best])
        return result


def _check_distinct(document_ids: list[str]) -> None:
    if len(set(document_ids)) == len(document_ids):
        return
    seen: set[str] = set()
    twice = next(i for i in document_ids if i in seen or seen.add(i))  # type: ignore[func-returns-value]
    raise ValueError(
        f"`indexes` must not share document ids. Received: {twice!r} in two of them. "
        "Give the documents of each corpus ids of their own, with a prefix perhaps."
    )
