"""`Pair`: in-batch softmax, and a part of a loss that keeps documents apart (PAIR)."""

from typing import Any

import keras

from samtone_tf.checks import check_alpha
from samtone_tf.losses.blocks import Block, Blocks
from samtone_tf.losses.contrastive import InBatchSoftmax
from samtone_tf.losses.softmax import log_sum_exp
from samtone_tf.types import Tensor


@keras.saving.register_keras_serializable("samtone_tf", "Pair")
class Pair(InBatchSoftmax):
    """PAIR: query-centric and passage-centric similarity, mixed by a hyper-parameter.

    Formula, for pair i with cosine s(.,.), temperature t and d⁻ any other document:

        L(i)   = (1 - alpha) L_Q(i) + alpha L_P(i)
        L_Q(i) = -log e^{s(q_i,d_i)/t} / ( Σ_j e^{s(q_i,d_j)/t} + Σ_n e^{s(q_i,n)/t} )
        L_P(i) = -log e^{s(d_i,q_i)/t} / ( e^{s(d_i,q_i)/t} + Σ_{d⁻} e^{s(d_i,d⁻)/t} )

    d⁻ runs over the other documents of the batch and over the hard negatives n: the paper's
    own p⁻ are the hard negatives, the SamToNe paper's, who trains without them, the others of
    the batch. `other_queries=True` adds Σ_{j≠i} e^{s(d_i,q_j)/t} to the denominator of L_P:
    the authors' code has it there, the formula of their paper has not.

    With `bidirectional=True` L_Q is the loss of `InBatchSoftmax` in both directions, as the
    SamToNe paper compares PAIR with it; `False` is PAIR as its own paper has it.

    One stage, the whole run with this loss, is `samtone train --loss.name pair`. Two stages,
    as PAIR's authors train, are that and a second run with plain softmax from the first
    one's weights: `samtone train --loss.name in_batch_softmax --model.init run:FOLDER`.

    Args:
        temperature: float > 0, no unit; see `InBatchSoftmax`.
        alpha: share of L_P, 0 to 1; 0.1 in both papers.
        other_queries: whether the other queries of the batch enter L_P.
        **options: those of `InBatchSoftmax`.

    Raises:
        ValueError, TypeError: an argument out of range; the message says what was received.

    Example:

    >>> import numpy as np
    >>> unit = np.eye(2, dtype="float32")
    >>> loss = Pair(temperature=1.0, bidirectional=False)
    >>> [round(float(v), 4) for v in loss(unit, unit)]
    [0.3133, 0.3133]

    Reference: Ren et al. 2021, https://arxiv.org/abs/2108.06027.
    """

    def __init__(
        self,
        temperature: float = 0.01,
        alpha: float = 0.1,
        other_queries: bool = False,
        **options: Any,
    ):
        super().__init__(temperature, **options)
        check_alpha(alpha)
        self.alpha = float(alpha)
        self.other_queries = bool(other_queries)

    def compute(self, blocks: Blocks, temperature: Tensor | float) -> tuple[Tensor, list[Block]]:
        """(1 - alpha) L_Q + alpha L_P; see `DualEncoderLoss.compute`."""
        loss, used = super().compute(blocks, temperature)
        positive = self.positive_logit(blocks, "query", temperature)
        others = [blocks.document_to_document, *blocks.document_to_negative]
        columns = [self.logits(block, temperature) for block in others]
        if self.other_queries:
            queries = blocks.document_to_query  # the row's own among them
            columns.append(self.logits(queries, temperature))
            others += [] if self.bidirectional else [queries]
        else:
            columns.append(positive[:, None])
        passages = log_sum_exp(columns) - positive
        return (1.0 - self.alpha) * loss + self.alpha * passages, used + others

    def get_config(self) -> dict:
        """Every constructor argument, as plain values."""
        return {**super().get_config(), "alpha": self.alpha, "other_queries": self.other_queries}
