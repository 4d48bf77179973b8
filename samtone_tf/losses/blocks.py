"""Blocks: the cosines of local pairs with all pairs, kind by kind, and which of them count.

Every loss here is a function of these blocks. What is a negative, and what is masked as a
false one, is decided in this file and in `masks` alone.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from keras import ops

from samtone_tf.losses.inputs import PairVectors
from samtone_tf.losses.masks import false_negatives
from samtone_tf.types import Tensor
from samtone_tf.unit_norm import unit_norm

# What a masked number becomes. Finite, because -inf turns into NaN in some
# gradients; exp(lowest - max) is exactly 0, so the column counts for nothing.
MASKED = float(np.finfo("float32").min)


class Block(NamedTuple):
    """Columns of one kind, `(B, C)` each.

    of_query: whether the rows' anchors are queries. cosine: of the row's anchor with the
    column. negatives: columns that are no positive, no
    anchor and no empty slot. masked: those negatives that are false ones. positive: the
    row's own positive, None in a block without it. log_q: `(C,)`, log of the columns'
    sampling probabilities; None where it is unknown.
    """

    of_query: bool
    cosine: Tensor
    negatives: Tensor
    masked: Tensor
    positive: Tensor | None = None
    log_q: Tensor | None = None

    def rivals(self) -> Tensor:
        """Bool `(B, C)`: the negatives that count."""
        return ops.logical_and(self.negatives, ops.logical_not(self.masked))


class Blocks:
    """All blocks of B local pairs against G pairs; each is computed when it is first asked for.

    Args:
        rows: the local pairs.
        columns: the pairs of the global batch, the local ones among them.
        first_row: position of the first local pair in the global batch.
        masks: rules of false negatives, see `losses.masks`.
        negatives_scope: `"global"` or `"own"`.
        similarity_margin: m; negatives more alike than the positive by m are masked. None
            for no such mask.
        similarity_margin_kind: `"absolute"`, above s⁺ + m, or `"relative"`, above s⁺ + m·|s⁺|.
    """

    def __init__(
        self,
        rows: PairVectors,
        columns: PairVectors,
        first_row: Tensor | int,
        masks: tuple[str, ...],
        negatives_scope: str,
        similarity_margin: float | None,
        similarity_margin_kind: str,
    ):
        self.rows, self.columns = _unit(rows), _unit(columns)
        self.negatives_scope = negatives_scope
        shape = (ops.shape(rows.query)[0], ops.shape(columns.query)[0])
        position = ops.arange(shape[0], dtype="int32") + first_row
        self.own = position[:, None] == ops.arange(shape[1], dtype="int32")[None, :]  # (B, G)
        self.false_negatives = false_negatives(rows.ids, columns.ids, shape, masks)
        # The positive's cosine comes from this one expression in every block, so
        # that a row with nothing but its positive has loss 0 to the bit.
        self.positive = ops.sum(self.rows.query * self.rows.document, axis=-1)  # (B,)
        self.threshold = None
        if similarity_margin is not None:
            relative = similarity_margin_kind == "relative"
            unit = ops.abs(self.positive) if relative else 1.0
            self.threshold = self.positive + similarity_margin * unit

    @cached_property
    def query_to_document(self) -> Block:
        """Queries against documents, the positives among them."""
        mask = self.false_negatives.query_to_document
        return self._cross("query", "document", mask)

    @cached_property
    def document_to_query(self) -> Block:
        """Documents against queries, their own among them."""
        mask = self.false_negatives.document_to_query
        return self._cross("document", "query", mask)

    @cached_property
    def query_to_query(self) -> Block:
        """Queries against the other queries."""
        return self._same_tower("query", self.false_negatives.query_to_query)

    @cached_property
    def document_to_document(self) -> Block:
        """Documents against the other documents."""
        mask = self.false_negatives.document_to_document
        return self._same_tower("document", mask)

    @cached_property
    def query_to_negative(self) -> list[Block]:
        """Queries against hard negatives: one block, or none."""
        return self._hard_negatives("query")

    @cached_property
    def document_to_negative(self) -> list[Block]:
        """Documents against hard negatives: one block, or none."""
        return self._hard_negatives("document")

    def rank(self) -> Tensor:
        """Place of the positive among the documents that count, behind its equals, from 1; `(B,)`.

        `not (s < s⁺)` and not `s >= s⁺`: a NaN must not count as beaten.
        """
        return 1.0 + sum(
            _count(
                ops.logical_and(
                    block.rivals(), ops.logical_not(block.cosine < self.positive[:, None])
                )
            )
            for block in (self.query_to_document, *self.query_to_negative)
        )

    def _cross(self, anchor: str, other: str, false_negative: Tensor) -> Block:
        cosine = ops.where(self.own, self.positive[:, None], self._cosine(anchor, other))
        return self._block(
            anchor, cosine, ops.logical_not(self.own), false_negative, other, self.own
        )

    def _same_tower(self, side: str, false_negative: Tensor) -> Block:
        others = ops.logical_not(self.own)
        return self._block(side, self._cosine(side, side), others, false_negative, side)

    def _cosine(self, anchor: str, other: str) -> Tensor:  # (B, G)
        columns = getattr(self.columns, other)
        return ops.matmul(getattr(self.rows, anchor), ops.transpose(columns))

    def _hard_negatives(self, anchor: str) -> list[Block]:
        negative, ids = self.columns.negative, self.columns.ids.negative
        if negative is None:
            return []
        every = ops.reshape(negative, (-1, negative.shape[-1]))  # (G·N, D)
        cosine = ops.matmul(getattr(self.rows, anchor), ops.transpose(every))
        present = ops.ones_like(cosine, dtype="bool")
        if self.negatives_scope == "own":
            present = ops.repeat(self.own, negative.shape[1], axis=1)
        if ids is not None:
            present = ops.logical_and(present, (ops.reshape(ids, (-1,)) != -1)[None, :])
        return [self._block(anchor, cosine, present, self.false_negatives.to_negative)]

    def _block(self, anchor, cosine, negatives, false_negative, other=None, positive=None) -> Block:
        masked = ops.zeros_like(negatives) if false_negative is None else false_negative
        if self.threshold is not None:
            masked = ops.logical_or(masked, cosine > self.threshold[:, None])
        masked = ops.logical_and(masked, negatives)
        log_q = getattr(self.columns.log_q, other) if other else None
        return Block(anchor == "query", cosine, negatives, masked, positive, log_q)


def masked_share(blocks: list[Block]) -> Tensor:
    """Share of each row's negatives that are masked, `(B,)`; 0 where there are none."""

    masked = sum(_count(block.masked) for block in blocks)
    negatives = sum(_count(block.negatives) for block in blocks)
    return masked / ops.maximum(negatives, 1.0)


def num_negatives(blocks: list[Block]) -> Tensor:
    """Negatives that each row's query competes with, `(B,)`."""
    return sum(_count(block.rivals()) for block in blocks if block.of_query)


def _count(mask: Tensor) -> Tensor:
    return ops.sum(ops.cast(mask, "float32"), axis=1)


def _unit(pairs: PairVectors) -> PairVectors:
    """The same pairs with float32 rows of unit length: products are cosines."""
    negative = None if pairs.negative is None else unit_norm(pairs.negative)
    return pairs._replace(
        query=unit_norm(pairs.query), document=unit_norm(pairs.document), negative=negative
    )
