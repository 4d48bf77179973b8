"""`InBatchSoftmax` and `SamToNe`: the losses this package exists for.

Each is called on embeddings and returns one number per pair, in nats; the training
step does the only averaging. Rows are the pairs of one replica, columns are the
pairs of the global batch; alone, the two are the same.
"""

from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from samtone_tf.checks import check_choice, check_same_tower, check_temperature
from samtone_tf.config import mask_rules
from samtone_tf.losses.inputs import PairVectors, make_pairs
from samtone_tf.losses.masks import FalseNegatives, false_negatives
from samtone_tf.types import Tensor
from samtone_tf.unit_norm import unit_norm

# What a masked logit becomes. Finite, because -inf turns into NaN in some
# gradients; exp(lowest - max) is exactly 0, so the column counts for nothing.
MASKED = float(np.finfo("float32").min)


class RowLosses(NamedTuple):
    """What a loss says of the local rows, each `(B,)` float32.

    loss: nats. correct: 1 where the positive scores above every other column, from
    query to document. masked: share of the row's negatives that are masked as false ones.
    reciprocal_rank: 1 / rank of the positive among those columns, behind its equals.
    negatives: columns that the query competes with, masked ones left out.
    """

    loss: Tensor
    correct: Tensor
    masked: Tensor
    reciprocal_rank: Tensor
    negatives: Tensor


class Block(NamedTuple):
    """Columns of one kind, each `(B, columns)`.

    logits: the lowest float32 where a column does not count. masked: the false
    negatives. negatives: columns that are no positive, no anchor and no empty slot.
    """

    logits: Tensor
    masked: Tensor
    negatives: Tensor

    @property
    def counting(self) -> Tensor:
        """The negatives that are in the sum."""
        return ops.logical_and(self.negatives, ops.logical_not(self.masked))


@keras.saving.register_keras_serializable("samtone_tf", "InBatchSoftmax")
class InBatchSoftmax:
    """In-batch sampled softmax: each query against the documents of the batch, and back.

    Formula, for pair i with cosine s(.,.) and temperature t:

        L_q→d(i) = -log e^{s(q_i,d_i)/t} / ( Σ_j e^{s(q_i,d_j)/t} + Σ_n e^{s(q_i,n)/t} )
        L_d→q(i) = -log e^{s(d_i,q_i)/t} / Σ_j e^{s(d_i,q_j)/t}

    n runs over the hard negatives. False negatives leave the sums (see `losses.masks`).

    Call: `query` `(B, D)`, `document` `(B, D)`, optional `negative` `(B, N, D)` and the
    fingerprints `query_id` `(B,)`, `document_id` `(B,)`, `negative_id` `(B, N)`,
    `positive_ids` `(B, P)`. Rows need not be of unit length. Returns float32 `(B,)`, in nats.

    Args:
        temperature: float > 0, no unit. Divides the cosine, so 0.01 means logits in
            [-100, 100]; it is the inverse of what other libraries call scale.
        bidirectional: adds the document-to-query loss.
        directions: `"sum"` (as t5x_retrieval) or `"mean"` of the two directions.
        masks: which false negatives are left out, of `"id"`, `"text"`, `"positives"`;
            `()` for none, as the paper has it.
        negatives_scope: `"global"`, all hard negatives of the batch are columns of
            every query, or `"own"`, only a query's own.

    Raises:
        ValueError, TypeError: an argument out of range; the message says what was received.

    Example:

    >>> import numpy as np
    >>> unit = np.eye(2, dtype="float32")
    >>> [round(float(v), 4) for v in InBatchSoftmax(temperature=1.0)(unit, unit)]
    [0.6265, 0.6265]

    Reference: Henderson et al. 2017, https://arxiv.org/abs/1705.00652; both directions:
    Yang et al. 2019, https://arxiv.org/abs/1902.08564.
    """

    same_tower: str | None = None

    def __init__(
        self,
        temperature: float = 0.01,
        bidirectional: bool = True,
        directions: str = "sum",
        masks: tuple[str, ...] | list[str] | str = ("id", "text", "positives"),
        negatives_scope: str = "global",
    ):
        check_temperature(temperature)
        check_choice("directions", directions, ("sum", "mean"))
        check_choice("negatives_scope", negatives_scope, ("global", "own"))
        self.temperature = float(temperature)
        self.bidirectional = bidirectional
        self.directions = directions
        self.masks = mask_rules(masks)
        self.negatives_scope = negatives_scope

    def __call__(
        self,
        query: Tensor,
        document: Tensor,
        negative: Tensor | None = None,
        *,
        query_id: Tensor | None = None,
        document_id: Tensor | None = None,
        negative_id: Tensor | None = None,
        positive_ids: Tensor | None = None,
    ) -> Tensor:
        pairs = make_pairs(
            query,
            document,
            negative,
            query_id=query_id,
            document_id=document_id,
            negative_id=negative_id,
            positive_ids=positive_ids,
        )
        return self.rows(pairs, pairs).loss

    def rows(
        self, rows: PairVectors, columns: PairVectors, first_row: Tensor | int = 0
    ) -> RowLosses:
        """The loss of B local pairs against all G pairs.

        Args:
            rows: the local pairs.
            columns: the pairs of the global batch, the local ones among them.
            first_row: position of the first local pair in the global batch.
        """
        rows, columns = _unit(rows), _unit(columns)
        shape = (ops.shape(rows.query)[0], ops.shape(columns.query)[0])
        position = ops.arange(shape[0], dtype="int32") + first_row
        own = position[:, None] == ops.arange(shape[1], dtype="int32")[None, :]  # (B, G)
        masks = false_negatives(rows.ids, columns.ids, shape, self.masks)
        # The positive's logit comes from this one expression in every block, so
        # that a row with nothing but its positive has loss 0 to the bit.
        positive = ops.sum(rows.query * rows.document, axis=-1) / self.temperature  # (B,)
        blocks = self._query_blocks(rows, columns, own, positive, masks)
        rank = 1.0 + _count_not_below(positive, blocks[: 1 if rows.negative is None else 2])
        negatives = sum(_count(block.counting) for block in blocks)
        loss = _log_sum_exp(blocks) - positive
        if self.bidirectional:
            back = self._document_blocks(rows, columns, own, positive, masks)
            loss = loss + _log_sum_exp(back) - positive
            blocks = blocks + back
            if self.directions == "mean":
                loss = loss / 2.0
        correct = ops.cast(rank == 1.0, "float32")
        return RowLosses(loss, correct, _masked_share(blocks), 1.0 / rank, negatives)

    def _query_blocks(self, rows, columns, own, positive, masks: FalseNegatives) -> list:
        """Logits and masks of query → document, hard negatives, and query – query."""
        blocks = [self._cross_block(rows.query, columns.document, own, positive, masks[0])]
        if rows.negative is not None:
            blocks.append(self._negative_block(rows, columns, own, masks.query_to_negative))
        if self.same_tower in ("query", "both"):
            blocks.append(self._same_tower_block(rows.query, columns.query, own, masks[2]))
        return blocks

    def _document_blocks(self, rows, columns, own, positive, masks: FalseNegatives) -> list:
        """Logits and masks of document → query and document – document."""
        blocks = [self._cross_block(rows.document, columns.query, own, positive, masks[1])]
        if self.same_tower in ("document", "both"):
            blocks.append(self._same_tower_block(rows.document, columns.document, own, masks[3]))
        return blocks

    def _cross_block(self, anchor, other, own, positive, false_negative) -> "Block":
        logits = ops.matmul(anchor, ops.transpose(other)) / self.temperature  # (B, G)
        masked = ops.logical_and(false_negative, ops.logical_not(own))
        logits = ops.where(own, positive[:, None], logits)
        return Block(ops.where(masked, MASKED, logits), masked, ops.logical_not(own))

    def _same_tower_block(self, anchor, same, own, false_negative) -> "Block":
        logits = ops.matmul(anchor, ops.transpose(same)) / self.temperature  # (B, G)
        logits = ops.where(ops.logical_or(false_negative, own), MASKED, logits)
        others = ops.logical_not(own)
        return Block(logits, ops.logical_and(false_negative, others), others)

    def _negative_block(self, rows, columns, own, false_negative) -> "Block":
        dim, num = columns.negative.shape[-1], columns.negative.shape[1]
        every = ops.reshape(columns.negative, (-1, dim))  # (G·N, D)
        logits = ops.matmul(rows.query, ops.transpose(every)) / self.temperature
        present = ops.ones_like(logits, dtype="bool")
        if self.negatives_scope == "own":
            present = ops.repeat(own, num, axis=1)
        if columns.ids.negative is not None:
            filled = ops.reshape(columns.ids.negative, (-1,)) != -1
            present = ops.logical_and(present, filled[None, :])
        masked = ops.zeros_like(present) if false_negative is None else false_negative
        counts = ops.logical_and(present, ops.logical_not(masked))
        return Block(ops.where(counts, logits, MASKED), masked, present)

    def get_config(self) -> dict:
        """Every constructor argument, as plain values."""
        return {
            "temperature": self.temperature,
            "bidirectional": self.bidirectional,
            "directions": self.directions,
            "masks": list(self.masks),
            "negatives_scope": self.negatives_scope,
        }

    @classmethod
    def from_config(cls, config: dict) -> "InBatchSoftmax":
        """The loss that `get_config` described."""
        return cls(**config)


@keras.saving.register_keras_serializable("samtone_tf", "SamToNe")
class SamToNe(InBatchSoftmax):
    """Contrastive loss with same-tower negatives.

    Use it when queries and documents drift into separate regions of the embedding
    space: the anchor is pushed away from its own kind, too, with no new
    hyper-parameter. Without the second sum it is `InBatchSoftmax`, whose arguments and
    call it shares.

    Formula, for pair i with cosine s(.,.) and temperature t:

        L_q→d(i) = -log e^{s(q_i,d_i)/t} / ( Σ_j e^{s(q_i,d_j)/t} + Σ_{j≠i} e^{s(q_i,q_j)/t} )
        L_d→q(i) = -log e^{s(d_i,q_i)/t} / ( Σ_j e^{s(d_i,q_j)/t} + Σ_{j≠i} e^{s(d_i,d_j)/t} )

    `same_tower="query"` puts the second sum into L_q→d only, as the paper trains;
    `"document"` into L_d→q only; `"both"` into both. Hard negatives enter L_q→d.
    When many documents of the data are duplicates, keep to `"query"` (paper, section 3.4).

    Args:
        temperature: float > 0, no unit; see `InBatchSoftmax`.
        same_tower: `"query"`, `"document"` or `"both"`.
        bidirectional: adds L_d→q.
        directions: `"sum"` or `"mean"` of the two directions.
        masks: which false negatives are left out; see `InBatchSoftmax`.
        negatives_scope: `"global"` or `"own"`.

    Raises:
        ValueError: also when document-side terms are asked for without the
            document-to-query direction that they belong to.

    Example:

    >>> import numpy as np
    >>> unit = np.eye(2, dtype="float32")
    >>> [round(float(v), 4) for v in SamToNe(temperature=1.0)(unit, unit)]
    [0.8647, 0.8647]

    Reference: Moiseev et al. 2023, section 2, https://arxiv.org/abs/2306.02516.
    """

    def __init__(
        self,
        temperature: float = 0.01,
        same_tower: str = "query",
        bidirectional: bool = True,
        directions: str = "sum",
        masks: tuple[str, ...] | list[str] | str = ("id", "text", "positives"),
        negatives_scope: str = "global",
    ):
        super().__init__(temperature, bidirectional, directions, masks, negatives_scope)
        check_choice("same_tower", same_tower, ("query", "document", "both"))
        check_same_tower(same_tower, bidirectional)
        self.same_tower = same_tower

    def get_config(self) -> dict:
        """Every constructor argument, as plain values."""
        return {**super().get_config(), "same_tower": self.same_tower}


def _unit(pairs: PairVectors) -> PairVectors:
    """The same pairs with float32 rows of unit length: products are cosines."""
    negative = None if pairs.negative is None else unit_norm(pairs.negative)
    return PairVectors(unit_norm(pairs.query), unit_norm(pairs.document), negative, pairs.ids)


def _log_sum_exp(blocks: list) -> Tensor:
    return ops.logsumexp(ops.concatenate([block.logits for block in blocks], axis=1), axis=1)


def _masked_share(blocks: list) -> Tensor:
    masked = sum(_count(ops.logical_and(block.masked, block.negatives)) for block in blocks)
    negatives = sum(_count(block.negatives) for block in blocks)
    return masked / ops.maximum(negatives, 1.0)


def _count_not_below(positive: Tensor, blocks: list) -> Tensor:
    """How many negatives score as high as the positive or higher; `(B,)`."""
    return sum(
        # Not `logits >= positive`: a NaN must not count as beaten.
        _count(ops.logical_and(block.negatives, ops.logical_not(block.logits < positive[:, None])))
        for block in blocks
    )


def _count(mask: Tensor) -> Tensor:
    return ops.sum(ops.cast(mask, "float32"), axis=1)
