"""The contrastive losses as plain loops in float64, written from their formula.

Nothing here comes from the package: these are the numbers it is held to.
"""

import math

import numpy as np

RULES = ("id", "text", "positives")


def cosine(a, b) -> float:
    """Cosine of two vectors; 0 when one of them is the zero vector."""
    length = math.sqrt(float(np.dot(a, a)) * float(np.dot(b, b)))
    return float(np.dot(a, b)) / length if length else 0.0


def contrastive(query, document, negative=None, **arguments):
    """Loss and `correct` of every pair; `same_tower` None is the plain in-batch softmax."""
    rows = contrastive_rows(query, document, negative, **arguments)
    return rows["loss"], rows["correct"]


def contrastive_rows(
    query,
    document,
    negative=None,
    *,
    temperature,
    same_tower=None,
    bidirectional=True,
    directions="sum",
    masks=RULES,
    negatives_scope="global",
    query_id=None,
    document_id=None,
    negative_id=None,
    positive_ids=None,
):
    """The fields of `RowLosses`, but for the masked share."""
    query, document = np.asarray(query, "float64"), np.asarray(document, "float64")
    num = len(query)
    compare = "id" in masks or "text" in masks

    def same(ids, i, j):
        return compare and ids is not None and ids[i] == ids[j]

    def known(i, fingerprint):
        """Is the document a known positive of query i?"""
        if document_id is not None and compare and fingerprint == document_id[i]:
            return True
        listed = [] if positive_ids is None or "positives" not in masks else positive_ids[i]
        return fingerprint != -1 and any(fingerprint == p for p in listed)

    def answers(i, j):
        """Is d_j in P(i)? A pair of the batch with query i is evidence, too."""
        return same(query_id, i, j) or (document_id is not None and known(i, document_id[j]))

    def score(a, b):
        return cosine(a, b) / temperature

    losses, ranks, negatives = [], [], []
    for i in range(num):
        others = [j for j in range(num) if j != i]
        positive = score(query[i], document[i])

        rivals = [score(query[i], document[j]) for j in others if not answers(i, j)]
        if negative is not None:
            for j in range(num):
                for n in range(len(negative[j])):
                    if negatives_scope == "own" and j != i:
                        continue
                    fingerprint = None if negative_id is None else negative_id[j][n]
                    if fingerprint is not None and (fingerprint == -1 or known(i, fingerprint)):
                        continue
                    rivals.append(score(query[i], np.asarray(negative[j][n], "float64")))
        ranks.append(1 + sum(rival >= positive for rival in rivals))
        columns = [positive, *rivals]
        if same_tower in ("query", "both"):
            for j in others:
                if not (same(query_id, i, j) or answers(i, j) or answers(j, i)):
                    columns.append(score(query[i], query[j]))
        negatives.append(len(columns) - 1)
        loss = log_sum_exp(columns) - positive

        if bidirectional:
            columns = [positive]
            columns += [score(document[i], query[j]) for j in others if not answers(j, i)]
            if same_tower in ("document", "both"):
                for j in others:
                    # An equal query makes d_j a positive of q_i, so `answers` holds both rules.
                    if not (same(document_id, i, j) or answers(i, j)):
                        columns.append(score(document[i], document[j]))
            loss += log_sum_exp(columns) - positive
            if directions == "mean":
                loss /= 2
        losses.append(loss)
    ranks = np.array(ranks, "float64")
    return {
        "loss": np.array(losses),
        "correct": (ranks == 1).astype("float64"),
        "reciprocal_rank": 1 / ranks,
        "negatives": np.array(negatives, "float64"),
    }


def log_sum_exp(values) -> float:
    """log Σ exp, about the largest value."""
    largest = max(values)
    return largest + math.log(sum(math.exp(value - largest) for value in values))


def gradient(function, array, step=1e-6):
    """Central finite differences of a scalar function of one float64 array."""
    array = np.array(array, "float64")
    result = np.zeros_like(array)
    for place in np.ndindex(*array.shape):
        kept = array[place]
        array[place] = kept + step
        above = function(array)
        array[place] = kept - step
        result[place] = (above - function(array)) / (2 * step)
        array[place] = kept
    return result
