"""Which columns of a contrastive loss are false negatives, from integer fingerprints.

P(i) is the set of known positives of query i. For another pair j of the batch
these are no negatives of pair i:

    query → document    d_j,  if d_j ∈ P(i)
    document → query    q_j,  if d_i ∈ P(j)
    query – query       q_j,  if q_i = q_j, or d_i ∈ P(j), or d_j ∈ P(i)
    document – document d_j,  if d_i = d_j, or d_j ∈ P(i)
    hard negative       n,    if n ∈ P(i), whether the anchor is q_i or d_i; a fingerprint of
                              −1 is an empty slot, never a column

Pairs of equal query or equal document are never each other's negatives, whatever
lists came with them. Fingerprints are compared as integers and never pass through
floats.

Rules: `"id"` compares the fingerprints of the pairs themselves, `"positives"` the
lists of known positives. `"text"` takes effect where fingerprints are made
(`data.pipeline`): records of equal normalised text get the same one.
"""

from typing import NamedTuple

from keras import ops

from samtone_tf.types import Tensor


class PairIds(NamedTuple):
    """Fingerprints of pairs, integers; any of them may be None.

    query: `(B,)`. document: `(B,)`. negative: `(B, N)`, −1 for an empty slot.
    positives: `(B, P)`, the known positives of each query, padded with −1.
    """

    query: Tensor | None = None
    document: Tensor | None = None
    negative: Tensor | None = None
    positives: Tensor | None = None


class FalseNegatives(NamedTuple):
    """Bool masks, True where a column must not count; `(B, G)` but for the negatives' `(B, G·N)`.

    The pair's own column (j = i) may be True: the loss never masks the positive.
    """

    query_to_document: Tensor
    document_to_query: Tensor
    query_to_query: Tensor
    document_to_document: Tensor
    to_negative: Tensor | None


def equal(rows: Tensor | None, columns: Tensor | None, shape: tuple) -> Tensor:
    """rows_i = columns_j as bool `(B, G)`; all False when either is unknown."""
    if rows is None or columns is None:
        return ops.zeros(shape, dtype="bool")
    return rows[:, None] == columns[None, :]


def contains(lists: Tensor | None, items: Tensor | None, shape: tuple) -> Tensor:
    """items_j ∈ lists_i as bool `(B, G)`; padding (−1) is in no list."""
    if lists is None or items is None:
        return ops.zeros(shape, dtype="bool")
    found = ops.zeros(shape, dtype="bool")
    # One comparison per positive and not one of (B, G, P): P is at most 16, and
    # the intermediate would be the largest tensor of the loss.
    for p in range(lists.shape[1]):
        column = lists[:, p][:, None]
        found = ops.logical_or(found, ops.logical_and(column == items[None, :], column != -1))
    return found


def false_negatives(
    rows: PairIds, columns: PairIds, shape: tuple, rules: tuple[str, ...]
) -> FalseNegatives:
    """Masks of every block of the loss.

    Args:
        rows: ids of the B local pairs.
        columns: ids of all G pairs.
        shape: `(B, G)`, ints or scalar tensors.
        rules: out of `"id"`, `"text"`, `"positives"`.
    """
    if "id" not in rules and "text" not in rules:
        rows = rows._replace(query=None)
        same_document = ops.zeros(shape, dtype="bool")
    else:
        same_document = equal(rows.document, columns.document, shape)
    if "positives" not in rules:
        rows, columns = rows._replace(positives=None), columns._replace(positives=None)
    same_query = equal(rows.query, columns.query, shape)
    same = ops.logical_or(same_query, same_document)
    # d_j in P(i), and d_i in P(j); both hold when query or document are one.
    column_answers_row = ops.logical_or(same, contains(rows.positives, columns.document, shape))
    listed = contains(columns.positives, rows.document, (shape[1], shape[0]))
    row_answers_column = ops.logical_or(same, ops.transpose(listed))
    return FalseNegatives(
        query_to_document=column_answers_row,
        document_to_query=row_answers_column,
        query_to_query=ops.logical_or(column_answers_row, row_answers_column),
        document_to_document=column_answers_row,
        to_negative=_negatives(rows, columns, shape, rules),
    )


def _negatives(rows: PairIds, columns: PairIds, shape: tuple, rules: tuple) -> Tensor | None:
    """n ∈ P(i) as bool `(B, G·N)`; None when there are no ids of negatives."""
    if columns.negative is None:
        return None
    negative = ops.reshape(columns.negative, (-1,))  # (G·N,)
    wide = (shape[0], ops.shape(negative)[0])
    masked = ops.zeros(wide, dtype="bool")
    if "id" in rules or "text" in rules:
        masked = ops.logical_or(masked, equal(rows.document, negative, wide))
    if "positives" in rules:
        masked = ops.logical_or(masked, contains(rows.positives, negative, wide))
    return masked
