"""`InBatchSoftmax` and `SamToNe`: the losses this package exists for."""

from typing import Any

import keras

from samtone_tf.checks import check_choice, check_same_tower
from samtone_tf.losses.blocks import Block, Blocks
from samtone_tf.losses.softmax import SoftmaxLoss, log_sum_exp
from samtone_tf.types import Tensor


@keras.saving.register_keras_serializable("samtone_tf", "InBatchSoftmax")
class InBatchSoftmax(SoftmaxLoss):
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
        **options: `learn_temperature`, `min_temperature`, `max_temperature` and `log_q`, see
            `losses.softmax.SoftmaxLoss`; `similarity_margin` and `similarity_margin_kind`, see
            `losses.base.DualEncoderLoss`.

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
        **options: Any,
    ):
        super().__init__(temperature, masks=masks, negatives_scope=negatives_scope, **options)
        check_choice("directions", directions, ("sum", "mean"))
        self.bidirectional = bidirectional
        self.directions = directions

    def compute(self, blocks: Blocks, temperature: Tensor | float) -> tuple[Tensor, list[Block]]:
        """L_q→d, and L_d→q if both directions count; see `DualEncoderLoss.compute`."""
        used = [blocks.query_to_document, *blocks.query_to_negative]
        if self.same_tower in ("query", "both"):
            used.append(blocks.query_to_query)
        loss = self._softmax(blocks, used, "document", temperature)
        if self.bidirectional:
            back = [blocks.document_to_query]
            if self.same_tower in ("document", "both"):
                back.append(blocks.document_to_document)
            loss = loss + self._softmax(blocks, back, "query", temperature)
            used = used + back
            if self.directions == "mean":
                loss = loss / 2.0
        return loss, used

    def _softmax(self, blocks: Blocks, used: list[Block], side: str, temperature) -> Tensor:
        """-log of the positive's part of the columns; `side` is the kind of the positive."""
        columns = [self.logits(block, temperature) for block in used]
        return log_sum_exp(columns) - self.positive_logit(blocks, side, temperature)

    def get_config(self) -> dict:
        """Every constructor argument, as plain values."""
        return {
            **super().get_config(),
            "bidirectional": self.bidirectional,
            "directions": self.directions,
        }


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
        **options: further ones of `InBatchSoftmax`.

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
        **options: Any,
    ):
        super().__init__(temperature, bidirectional, directions, masks, negatives_scope, **options)
        check_choice("same_tower", same_tower, ("query", "document", "both"))
        check_same_tower(same_tower, bidirectional)
        self.same_tower = same_tower

    def get_config(self) -> dict:
        """Every constructor argument, as plain values."""
        return {**super().get_config(), "same_tower": self.same_tower}
