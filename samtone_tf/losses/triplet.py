"""`Triplet`: a margin between the positive's cosine and those of the batch's negatives."""

from typing import Any

import keras
from keras import ops

from samtone_tf.checks import check_choice, check_hinge_margin, check_same_tower
from samtone_tf.losses.base import DualEncoderLoss
from samtone_tf.losses.blocks import MASKED, Block, Blocks
from samtone_tf.types import Tensor


@keras.saving.register_keras_serializable("samtone_tf", "Triplet")
class Triplet(DualEncoderLoss):
    """Triplet loss on cosines, with the negatives of the batch; and with same-tower ones.

    Formula, for pair i with cosine s(.,.), margin m and [x]₊ = max(0, x):

        L_q→d(i) = max_n [m - s(q_i,d_i) + s(q_i,n)]₊    n: other documents, hard negatives,
                                                         and other queries if same-tower
        L_d→q(i) = max_n [m - s(d_i,q_i) + s(d_i,n)]₊    n: other queries,
                                                         and other documents if same-tower

    `reduction="hardest"` takes the max, as VSE++ does ("max of hinges"); `"mean"` the mean over
    all negatives that count, which trains more evenly at first and stalls when most hinges
    are 0. A row without a negative has loss 0. Same-tower negatives in a triplet loss are what
    the SamToNe paper leaves as future work (Limitations).

    There is no temperature. The loss is a difference of cosines, from 0 to 2 + m a direction.

    Args:
        margin: m > 0, a difference of cosines; 0.2 in VSE++.
        same_tower: `"query"`, `"document"`, `"both"` or None for none.
        reduction: `"hardest"` or `"mean"`, over the negatives of a row.
        bidirectional: adds L_d→q.
        directions: `"sum"` or `"mean"` of the two directions.
        **options: those of `DualEncoderLoss`: `masks`, `negatives_scope`, `similarity_margin`
            and `similarity_margin_kind`.

    Raises:
        ValueError, TypeError: an argument out of range; also when document-side terms are
            asked for without the document-to-query direction that they belong to.

    Example:

    >>> import numpy as np
    >>> query = np.eye(2, dtype="float32")
    >>> document = np.array([[1, 0], [0.6, 0.8]], "float32")
    >>> [round(float(v), 4) for v in Triplet(margin=0.5, bidirectional=False)(query, document)]
    [0.1, 0.0]

    Reference: Chechik et al. 2010, https://jmlr.org/papers/v11/chechik10a.html; hardest
    negative of the batch: Faghri et al. 2018, https://arxiv.org/abs/1707.05612.
    """

    def __init__(
        self,
        margin: float = 0.2,
        same_tower: str | None = None,
        reduction: str = "hardest",
        bidirectional: bool = True,
        directions: str = "sum",
        **options: Any,
    ):
        super().__init__(**options)
        check_hinge_margin(margin)
        check_choice("same_tower", same_tower, (None, "query", "document", "both"))
        check_choice("reduction", reduction, ("hardest", "mean"))
        check_choice("directions", directions, ("sum", "mean"))
        check_same_tower(same_tower, bidirectional, same_tower is not None)
        self.margin = float(margin)
        self.same_tower = same_tower
        self.reduction = reduction
        self.bidirectional = bidirectional
        self.directions = directions

    def compute(self, blocks: Blocks, temperature: Tensor | float) -> tuple[Tensor, list[Block]]:
        """L_q→d, and L_d→q if both directions count; see `DualEncoderLoss.compute`."""
        used = [blocks.query_to_document, *blocks.query_to_negative]
        if self.same_tower in ("query", "both"):
            used.append(blocks.query_to_query)
        loss = self._hinges(blocks, used)
        if self.bidirectional:
            back = [blocks.document_to_query]
            if self.same_tower in ("document", "both"):
                back.append(blocks.document_to_document)
            loss = loss + self._hinges(blocks, back)
            used = used + back
            if self.directions == "mean":
                loss = loss / 2.0
        return loss, used

    def _hinges(self, blocks: Blocks, used: list[Block]) -> Tensor:
        """[margin - positive + negative]₊ of the hardest negative, or its mean over all; `(B,)`."""
        cosine = ops.concatenate([block.cosine for block in used], axis=1)
        rivals = ops.concatenate([block.rivals() for block in used], axis=1)
        start = self.margin - blocks.positive
        if self.reduction == "hardest":
            hardest = ops.max(ops.where(rivals, cosine, MASKED), axis=1)
            return ops.relu(start + hardest)
        hinges = ops.where(rivals, ops.relu(start[:, None] + cosine), 0.0)
        count = ops.sum(ops.cast(rivals, "float32"), axis=1)
        return ops.sum(hinges, axis=1) / ops.maximum(count, 1.0)

    def get_config(self) -> dict:
        """Every constructor argument, as plain values."""
        return {
            "margin": self.margin,
            "same_tower": self.same_tower,
            "reduction": self.reduction,
            "bidirectional": self.bidirectional,
            "directions": self.directions,
            **super().get_config(),
        }
