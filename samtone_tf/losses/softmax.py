"""`SoftmaxLoss`: what losses of the form -log e^positive / Σ e^columns have in common."""

from typing import Any

from keras import ops

from samtone_tf.checks import check_learned_temperature, check_temperature
from samtone_tf.losses.base import DualEncoderLoss
from samtone_tf.losses.blocks import MASKED, Block, Blocks
from samtone_tf.types import Tensor


class SoftmaxLoss(DualEncoderLoss):
    """Base of the softmax losses: temperature and logits. Not used by itself.

    The logit of a column with cosine s is s / temperature.

    Learned temperature. With `learn_temperature=True`, the model that the loss is compiled
    into has one weight more, and the temperature starts at `temperature`: see
    `losses.temperature`. The loss called by itself uses the start.

    Sampling-bias correction. A frequent document is a negative more often than a rare one,
    and the model learns to avoid it. With `log_q=True` the logit of every column that is in
    the batch because it was sampled is

        s / temperature - log Q

    where Q is the probability of sampling that query or document: documents in the q→d and
    d–d blocks, queries in d→q and q–q, the row's own positive among them, in the numerator,
    too (as in Yi et al. and in TensorFlow Recommenders). Hard negatives are not corrected:
    they were chosen for their query and not sampled. A factor common to all Q cancels where
    all columns are of one kind; `PairBatches` gives Q relative to the average query or
    document, so that the uncorrected hard negatives keep their weight beside the others.
    Accuracy and the similarity margin are of cosines, uncorrected.

    Args:
        temperature: float > 0, no unit. Divides the cosine, so 0.01 means logits in
            [-100, 100]; it is the inverse of what other libraries call scale.
        learn_temperature: whether the model learns it.
        min_temperature: the lowest that is learned; 0.01 as CLIP's largest scale of 100.
        max_temperature: the highest that is learned.
        log_q: whether logits are corrected by the sampling probability.
        **options: those of `DualEncoderLoss`.

    Reference: log Q: Yi et al. 2019, https://doi.org/10.1145/3298689.3346996; learned
    temperature: Radford et al. 2021, https://arxiv.org/abs/2103.00020.
    """

    def __init__(
        self,
        temperature: float = 0.01,
        *,
        learn_temperature: bool = False,
        min_temperature: float = 0.01,
        max_temperature: float = 1.0,
        log_q: bool = False,
        **options: Any,
    ):
        super().__init__(**options)
        check_temperature(temperature)
        check_learned_temperature(temperature, learn_temperature, min_temperature, max_temperature)
        self.temperature = float(temperature)
        self.learn_temperature = bool(learn_temperature)
        self.min_temperature, self.max_temperature = float(min_temperature), float(max_temperature)
        self.log_q = bool(log_q)

    def logits(self, block: Block, temperature: Tensor | float) -> Tensor:
        """`(B, C)`; the lowest float32 where a column does not count."""
        logits = block.cosine / temperature
        if self.log_q and block.log_q is not None:
            logits = logits - ops.cast(block.log_q, "float32")[None, :]
        counts = block.rivals()
        if block.positive is not None:
            counts = ops.logical_or(counts, block.positive)
        return ops.where(counts, logits, MASKED)

    def positive_logit(self, blocks: Blocks, side: str, temperature: Tensor | float) -> Tensor:
        """`(B,)`: the row's positive as a column of kind `side`, `"query"` or `"document"`."""
        logit = blocks.positive / temperature
        if self.log_q:
            logit = logit - ops.cast(getattr(blocks.rows.log_q, side), "float32")
        return logit

    def get_config(self) -> dict:
        """Every constructor argument, as plain values."""
        return {
            "temperature": self.temperature,
            "learn_temperature": self.learn_temperature,
            "min_temperature": self.min_temperature,
            "max_temperature": self.max_temperature,
            "log_q": self.log_q,
            **super().get_config(),
        }


def log_sum_exp(logits: list[Tensor]) -> Tensor:
    """log Σ e^x over all columns of all arrays `(B, C)`; `(B,)`."""
    return ops.logsumexp(ops.concatenate(logits, axis=1), axis=1)
