"""Learning-rate schedules that end where they say."""

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
        if not learning_rate > 0:
            raise ValueError(
                f"`learning_rate` must be greater than 0. Received: learning_rate={learning_rate}."
            )
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
