"""`Gte`: one softmax over both directions and both towers (GTE)."""

from typing import Any

import keras

from samtone_tf.losses.blocks import Block, Blocks
from samtone_tf.losses.softmax import SoftmaxLoss, log_sum_exp
from samtone_tf.types import Tensor


@keras.saving.register_keras_serializable("samtone_tf", "Gte")
class Gte(SoftmaxLoss):
    """GTE's contrastive loss: all negatives of a pair in one denominator.

    Formula, for pair i with cosine s(.,.) and temperature t:

        L(i) = -log e^{s(q_i,d_i)/t} / Z_i
        Z_i  = Σ_j e^{s(q_i,d_j)/t} + Σ_{j≠i} e^{s(q_i,q_j)/t}
             + Σ_j e^{s(d_i,q_j)/t} + Σ_{j≠i} e^{s(d_i,d_j)/t} + Σ_n e^{s(q_i,n)/t}

    n runs over the hard negatives, if there are any. The positive is in Z_i twice, once in
    each direction, so a loss of log 2 is the least there is. With `log_q=True` it is a
    document in the first sum and in the numerator, and a query in the third.

    Use it where queries and documents are alike, as in similarity of sentences; `SamToNe`
    keeps a softmax for each direction and counts the positive once in each.

    Args:
        temperature: float > 0, no unit; 0.01 in the paper. See `InBatchSoftmax`.
        **options: those of `SoftmaxLoss` and `DualEncoderLoss`.

    Raises:
        ValueError, TypeError: an argument out of range; the message says what was received.

    Example:

    >>> import numpy as np
    >>> unit = np.eye(2, dtype="float32")
    >>> [round(float(v), 4) for v in Gte(temperature=1.0)(unit, unit)]
    [1.2446, 1.2446]

    Reference: Li et al. 2023, https://arxiv.org/abs/2308.03281.
    """

    def __init__(self, temperature: float = 0.01, **options: Any):
        super().__init__(temperature, **options)

    def compute(self, blocks: Blocks, temperature: Tensor | float) -> tuple[Tensor, list[Block]]:
        """-log of the positive's part of Z; see `DualEncoderLoss.compute`."""
        used = [
            blocks.query_to_document,
            *blocks.query_to_negative,
            blocks.query_to_query,
            blocks.document_to_query,
            blocks.document_to_document,
        ]
        total = log_sum_exp([self.logits(block, temperature) for block in used])
        return total - self.positive_logit(blocks, "document", temperature), used
