"""`DualEncoderLoss`: what all losses of this package have in common.

A loss is called on embeddings and returns one number per pair; the training step does the
only averaging. Rows are the pairs of one replica, columns are the pairs of the global
batch; alone, the two are the same.
"""

from typing import NamedTuple

from keras import ops

from samtone_tf.checks import check_choice, check_similarity_margin
from samtone_tf.config import mask_rules
from samtone_tf.losses.blocks import Block, Blocks, masked_share, num_negatives
from samtone_tf.losses.inputs import PairVectors, make_pairs
from samtone_tf.types import Tensor


class RowLosses(NamedTuple):
    """What a loss says of the local rows, each `(B,)` float32.

    loss: per pair; nats, or a difference of cosines for `Triplet`. correct: 1 where the
    positive scores above every other column, from query to document. masked: share of the
    row's negatives that are masked as false ones. reciprocal_rank: 1 / rank of the positive
    among those columns, behind its equals. negatives: columns that the query competes with,
    masked ones left out.
    """

    loss: Tensor
    correct: Tensor
    masked: Tensor
    reciprocal_rank: Tensor
    negatives: Tensor


class DualEncoderLoss:
    """Base of all losses: input, masks of false negatives, and the call. Not used by itself.

    A subclass computes its loss in `compute`, from `losses.blocks.Blocks`.

    Call: `query` `(B, D)`, `document` `(B, D)`, optional `negative` `(B, N, D)`; the
    fingerprints `query_id` `(B,)`, `document_id` `(B,)`, `negative_id` `(B, N)`,
    `positive_ids` `(B, P)`; and `query_log_q` `(B,)`, `document_log_q` `(B,)` where the
    loss has `log_q=True`. Rows need not be of unit length. Returns float32 `(B,)`.

    Similarity margin. With `similarity_margin=m`, a negative is taken for a false one, too,
    when it is more alike to the row's anchor than the row's positive by m; s⁺ = s(q_i,d_i):

        absolute:  s > s⁺ + m            relative:  s > s⁺ + m·|s⁺|

    in every block of the loss, same-tower and hard negatives included. The mask itself has no
    gradient. m = 0.1, absolute, is the rule of Qwen3-Embedding (https://arxiv.org/abs/2506.05176);
    a negative m is the `margin` of sentence-transformers' `GISTEmbedLoss`, whose guide is
    another model and not the one in training: its margin of 0.05 is m = -0.05 here, of either
    kind (GISTEmbed: Solatorio 2024, https://arxiv.org/abs/2402.16829).

    Args:
        masks: which false negatives are left out, of `"id"`, `"text"`, `"positives"`;
            `()` for none.
        negatives_scope: `"global"`, all hard negatives of the batch are columns of
            every query, or `"own"`, only a query's own.
        similarity_margin: m, a cosine or a part of one; None for no such mask.
        similarity_margin_kind: `"absolute"` or `"relative"`.

    Raises:
        ValueError, TypeError: an argument out of range; the message says what was received.
    """

    # What a loss without these options has: its cosines are not divided.
    temperature: float = 1.0
    learn_temperature: bool = False
    log_q: bool = False

    def __init__(
        self,
        masks: tuple[str, ...] | list[str] | str = ("id", "text", "positives"),
        negatives_scope: str = "global",
        similarity_margin: float | None = None,
        similarity_margin_kind: str = "absolute",
    ):
        check_choice("negatives_scope", negatives_scope, ("global", "own"))
        check_similarity_margin(similarity_margin, similarity_margin_kind)
        self.masks = mask_rules(masks)
        self.negatives_scope = negatives_scope
        self.similarity_margin = similarity_margin
        self.similarity_margin_kind = similarity_margin_kind

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
        query_log_q: Tensor | None = None,
        document_log_q: Tensor | None = None,
    ) -> Tensor:
        if not self.log_q and not (query_log_q is None and document_log_q is None):
            raise ValueError(
                "`query_log_q` and `document_log_q` are used by a loss with log_q=True only. "
                f"Received: one of them, and a {type(self).__name__} without it."
            )
        pairs = make_pairs(
            query,
            document,
            negative,
            query_id=query_id,
            document_id=document_id,
            negative_id=negative_id,
            positive_ids=positive_ids,
            query_log_q=query_log_q,
            document_log_q=document_log_q,
        )
        return self.rows(pairs, pairs).loss

    def rows(
        self,
        rows: PairVectors,
        columns: PairVectors,
        first_row: Tensor | int = 0,
        temperature: Tensor | float | None = None,
    ) -> RowLosses:
        """The loss of B local pairs against all G pairs.

        Args:
            rows: the local pairs.
            columns: the pairs of the global batch, the local ones among them.
            first_row: position of the first local pair in the global batch.
            temperature: used instead of the loss's own, as where a model learns it.

        Raises:
            ValueError: `log_q=True`, and pairs without log probabilities.
        """
        if self.log_q and (columns.log_q.query is None or columns.log_q.document is None):
            raise ValueError(
                "A loss with log_q=True needs `query_log_q` and `document_log_q` for each pair. "
                "Received: pairs without them. Make batches with PairBatches(..., log_q=True)."
            )
        blocks = Blocks(
            rows,
            columns,
            first_row,
            self.masks,
            self.negatives_scope,
            self.similarity_margin,
            self.similarity_margin_kind,
        )
        temperature = self.temperature if temperature is None else temperature
        loss, used = self.compute(blocks, temperature)
        rank = blocks.rank()
        correct = ops.cast(rank == 1.0, "float32")
        return RowLosses(loss, correct, masked_share(used), 1.0 / rank, num_negatives(used))

    def compute(self, blocks: Blocks, temperature: Tensor | float) -> tuple[Tensor, list[Block]]:
        """The loss of each row, `(B,)`, and the blocks that it was computed from, each once."""
        raise NotImplementedError(f"{type(self).__name__} must define `compute`.")

    def get_config(self) -> dict:
        """Every constructor argument, as plain values."""
        return {
            "masks": list(self.masks),
            "negatives_scope": self.negatives_scope,
            "similarity_margin": self.similarity_margin,
            "similarity_margin_kind": self.similarity_margin_kind,
        }

    @classmethod
    def from_config(cls, config: dict) -> "DualEncoderLoss":
        """The loss that `get_config` described."""
        return cls(**config)
