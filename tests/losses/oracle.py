"""The losses as plain loops in float64, written from their formulas.

Nothing here comes from the package: these are the numbers it is held to. Each loss gives
the loss and `correct` of every pair.
"""

import math
from types import SimpleNamespace

import numpy as np

RULES = ("id", "text", "positives")


def cosine(a, b) -> float:
    """Cosine of two vectors; 0 when one of them is the zero vector."""
    a, b = np.asarray(a, "float64"), np.asarray(b, "float64")
    length = math.sqrt(float(np.dot(a, a)) * float(np.dot(b, b)))
    return float(np.dot(a, b)) / length if length else 0.0


def compare(
    query,
    document,
    negative=None,
    *,
    masks=RULES,
    negatives_scope="global",
    similarity_margin=None,
    similarity_margin_kind="absolute",
    query_id=None,
    document_id=None,
    negative_id=None,
    positive_ids=None,
    query_log_q=None,
    document_log_q=None,
):
    """For each pair: its positive's cosine, and (cosine, log Q) of every negative, by kind.

    qd: query i against other documents, and so on; n are hard negatives. False ones are absent.
    """
    num = len(query)
    by_id = "id" in masks or "text" in masks

    def same(ids, i, j):
        return by_id and ids is not None and ids[i] == ids[j]

    def known(i, fingerprint):
        """Is the document a known positive of query i?"""
        if document_id is not None and by_id and fingerprint == document_id[i]:
            return True
        listed = [] if positive_ids is None or "positives" not in masks else positive_ids[i]
        return fingerprint != -1 and any(fingerprint == p for p in listed)

    def answers(i, j):
        """Is d_j in P(i)? A pair of the batch with query i is evidence, too."""
        return same(query_id, i, j) or (document_id is not None and known(i, document_id[j]))

    def hard_negatives(i):
        for j in range(0 if negative is None else num):
            for n in range(len(negative[j])):
                fingerprint = None if negative_id is None else negative_id[j][n]
                away = negatives_scope == "own" and j != i
                if away or fingerprint == -1 or (fingerprint is not None and known(i, fingerprint)):
                    continue
                yield negative[j][n], 0.0

    log_q = {
        "q": np.zeros(num) if query_log_q is None else np.asarray(query_log_q, "float64"),
        "d": np.zeros(num) if document_log_q is None else np.asarray(document_log_q, "float64"),
    }
    for i in range(num):
        q, d = query[i], document[i]
        others = [j for j in range(num) if j != i]
        positive = cosine(q, d)
        queries = {j: (query[j], log_q["q"][j]) for j in others}
        documents = {j: (document[j], log_q["d"][j]) for j in others}
        # An equal query makes d_j a positive of q_i, so `answers` holds more than its own rule.
        kinds = {
            "qd": (q, [documents[j] for j in others if not answers(i, j)]),
            "dq": (d, [queries[j] for j in others if not answers(j, i)]),
            "qq": (q, [queries[j] for j in others if not (answers(i, j) or answers(j, i))]),
            "dd": (d, [documents[j] for j in others if not answers(i, j)]),
            "qn": (q, list(hard_negatives(i))),
            "dn": (d, list(hard_negatives(i))),
        }
        limit = math.inf
        if similarity_margin is not None:
            relative = similarity_margin_kind == "relative"
            limit = positive + similarity_margin * (abs(positive) if relative else 1)
        found = {
            kind: [(s, lq) for s, lq in ((cosine(a, x), lq) for x, lq in columns) if s <= limit]
            for kind, (a, columns) in kinds.items()
        }
        yield SimpleNamespace(
            positive=positive,
            log_q_of_query=log_q["q"][i],
            log_q_of_document=log_q["d"][i],
            correct=float(all(s < positive for s, _ in found["qd"] + found["qn"])),
            **found,
        )


def contrastive(*, temperature, same_tower=None, bidirectional=True, directions="sum", **batch):
    """`same_tower` None is the plain in-batch softmax."""
    losses, correct = [], []
    for i in compare(**batch):
        columns = i.qd + i.qn + (i.qq if same_tower in ("query", "both") else [])
        loss = softmax(i.positive, i.log_q_of_document, columns, temperature)
        if bidirectional:
            columns = i.dq + (i.dd if same_tower in ("document", "both") else [])
            loss += softmax(i.positive, i.log_q_of_query, columns, temperature)
            loss /= 2 if directions == "mean" else 1
        losses.append(loss)
        correct.append(i.correct)
    return np.array(losses), np.array(correct)


def contrastive_rows(*, same_tower=None, **arguments):
    """The fields of `RowLosses`, but for the masked share."""
    loss, correct = contrastive(same_tower=same_tower, **arguments)
    for name in ("temperature", "bidirectional", "directions"):
        arguments.pop(name, None)
    pairs = list(compare(**arguments))
    ranks = [1 + sum(s >= i.positive for s, _ in i.qd + i.qn) for i in pairs]
    used = [i.qd + i.qn + (i.qq if same_tower in ("query", "both") else []) for i in pairs]
    return {
        "loss": loss,
        "correct": correct,
        "reciprocal_rank": 1 / np.array(ranks, "float64"),
        "negatives": np.array([len(columns) for columns in used], "float64"),
    }


def pair(
    *,
    temperature,
    alpha=0.1,
    other_queries=False,
    bidirectional=True,
    directions="sum",
    **batch,
):
    """(1 - alpha) of the in-batch softmax and alpha of the softmax of d_i over q_i and d⁻."""
    shared = {"temperature": temperature, "bidirectional": bidirectional, "directions": directions}
    query_centric, correct = contrastive(**shared, **batch)
    passage_centric = [
        softmax(
            i.positive,
            i.log_q_of_query,
            i.dd + i.dn + (i.dq if other_queries else []),
            temperature,
        )
        for i in compare(**batch)
    ]
    return (1 - alpha) * query_centric + alpha * np.array(passage_centric), correct


def gte(*, temperature, **batch):
    """One denominator with all four kinds, the positive in it once per direction."""
    losses, correct = [], []
    for i in compare(**batch):
        again = [(i.positive, i.log_q_of_query)]
        columns = i.qd + i.qn + i.qq + again + i.dq + i.dd
        losses.append(softmax(i.positive, i.log_q_of_document, columns, temperature))
        correct.append(i.correct)
    return np.array(losses), np.array(correct)


def triplet(
    *,
    margin=0.2,
    same_tower=None,
    reduction="hardest",
    bidirectional=True,
    directions="sum",
    **batch,
):
    """Hinges on cosines, the largest or the mean of a row's."""

    def direction(i, columns):
        hinges = [max(0.0, margin - i.positive + s) for s, _ in columns]
        if not hinges:
            return 0.0
        return max(hinges) if reduction == "hardest" else sum(hinges) / len(hinges)

    losses, correct = [], []
    for i in compare(**batch):
        loss = direction(i, i.qd + i.qn + (i.qq if same_tower in ("query", "both") else []))
        if bidirectional:
            loss += direction(i, i.dq + (i.dd if same_tower in ("document", "both") else []))
            loss /= 2 if directions == "mean" else 1
        losses.append(loss)
        correct.append(i.correct)
    return np.array(losses), np.array(correct)


def softmax(positive, log_q, columns, temperature) -> float:
    """-log of the positive's part, where each logit is cosine / temperature - log Q."""
    logits = [s / temperature - lq for s, lq in [(positive, log_q), *columns]]
    return log_sum_exp(logits) - logits[0]


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
