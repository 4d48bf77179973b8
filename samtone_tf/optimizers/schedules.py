"""Learning-rate schedules that end where they say, and T5's, which has no end."""

import keras
from keras import ops

from samtone_tf.checks import check_at_least


@keras.saving.register_keras_serializable("samtone_tf", "LinearDecay")
class LinearDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up from 0, then linear decay to exactly 0.

    Formula, at step s of S with W warm-up steps and peak rate r:

        s < W: r s / W          s ≥ W: r (S - s) / (S - W), and 0 from S on

    Keras's `PolynomialDecay` ends at 1e-4 unless told otherwise.

    Args:
        learning_rate: r, the highest rate.
        steps: S, at which the rate is 0.
        warmup_steps: W; 0 starts at r.

    Raises:
        ValueError: rate not above 0, or warm-up not below `steps`.
    """

    def __init__(self, learning_rate: float, steps: int, warmup_steps: int = 0):
        check_rate(learning_rate)
        check_at_least("warmup_steps", warmup_steps, 0)
        check_at_least("steps", steps, warmup_steps + 1)
        self.learning_rate = learning_rate
        self.steps = steps
        self.warmup_steps = warmup_steps

    def __call__(self, step):
        step = ops.cast(step, "float32")
        rising = step / max(self.warmup_steps, 1)
        falling = (self.steps - step) / (self.steps - self.warmup_steps)
        factor = ops.where(step < self.warmup_steps, rising, ops.maximum(falling, 0.0))
        return self.learning_rate * factor

    def get_config(self):
        return {
            "learning_rate": self.learning_rate,
            "steps": self.steps,
            "warmup_steps": self.warmup_steps,
        }


@keras.saving.register_keras_serializable("samtone_tf", "InverseSquareRoot")
class InverseSquareRoot(keras.optimizers.schedules.LearningRateSchedule):
    """Constant, then falling with the square root of the step, as T5 was pre-trained.

    Formula, at step s = 0, 1, ... with W warm-up steps and numerator r:

        r / √max(s, W)

    So the highest rate is r / √W, from the first step to step W; nothing rises. T5's own numbers,
    r = 1 and W = 10,000, start at 0.01 and reach 0.001 at step 1,000,000. It suits Adafactor,
    whose early steps are bounded without a rising warm-up.

    Args:
        learning_rate: r, which is not the highest rate unless W is 1.
        warmup_steps: W, at least 1: how long the rate is constant.

    Raises:
        ValueError: rate not above 0, or no warm-up step.

    Reference: Raffel et al. 2020, https://arxiv.org/abs/1910.10683, section 3.1.2; T5X calls it
    `constant * rsqrt_decay`.
    """

    def __init__(self, learning_rate: float = 1.0, warmup_steps: int = 10_000):
        check_rate(learning_rate)
        check_at_least("warmup_steps", warmup_steps, 1)
        self.learning_rate = learning_rate
        self.warmup_steps = warmup_steps

    def __call__(self, step):
        step = ops.maximum(ops.cast(step, "float32"), self.warmup_steps)
        return self.learning_rate / ops.sqrt(step)

    def get_config(self):
        return {"learning_rate": self.learning_rate, "warmup_steps": self.warmup_steps}


def check_rate(learning_rate: float) -> None:
    """Raises ValueError when a learning rate is not above 0."""
    if not learning_rate > 0:
        raise ValueError(
            f"`learning_rate` must be greater than 0. Received: learning_rate={learning_rate}."
        )
