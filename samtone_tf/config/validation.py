"""`ValidationConfig`: retrieval tests during training."""

from dataclasses import dataclass
from typing import Literal

from samtone_tf.checks import check_at_least


@dataclass(frozen=True)
class ValidationConfig:
    """Retrieval tests during training, which choose the best checkpoint and may end the run.

    Args:
        split: whose judgements; held_out takes 5 in 100 queries out of training for it; none
            tests nothing. Unless set, dev where the source has it, and none elsewhere.
        every: steps between tests; unless set, a tenth of the run. The last step is tested, too.
        queries: the most queries that are asked, drawn at random from more.
        documents: documents that are searched beside the judged ones, drawn at random, or all;
            of fewer than all, the scores are too high and only to be compared with each other.
        measure: whose highest value makes the best checkpoint.
        patience: tests in a row without a new best value, after which the run ends; unless
            set, it never ends early.
    """

    split: str | None = None
    every: int | None = None
    queries: int = 1000
    documents: int | Literal["all"] = 10_000
    measure: Literal["P@1", "MRR@10", "nDCG@10", "R@100"] = "nDCG@10"
    patience: int | None = None

    def __post_init__(self):
        for name in ("every", "queries", "patience"):
            if getattr(self, name) is not None:
                check_at_least(f"validation.{name}", getattr(self, name), 1)
        if self.documents != "all":
            check_at_least("validation.documents", self.documents, 0)
        if self.patience is not None and self.split == "none":
            raise ValueError(
                "`validation.patience` needs tests to wait for. "
                f"Received: patience={self.patience} and split='none'. Name a split."
            )
