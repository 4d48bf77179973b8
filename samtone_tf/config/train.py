"""`TrainConfig`: optimizer, length of the run, and devices."""

from dataclasses import dataclass
from typing import Literal

from samtone_tf.checks import check_at_least, check_choice
from samtone_tf.config.defaults import FROM_SCRATCH

STRATEGIES = ("auto", "one", "mirrored", "multiworker", "tpu")


@dataclass(frozen=True)
class TrainConfig:
    """Optimizer and length of the run.

    Args:
        steps: updates of the weights.
        batch_size: pairs of one global batch, over all replicas.
        optimizer: adafactor or adam.
        learning_rate: rate after warm-up; decays linearly to 0 at the last step. Unless
            set, 0.02 for adafactor and 0.001 for adam from random weights, and 0.001 and 0.0001
            from published ones.
        warmup_steps: steps over which the rate grows from 0.
        seed: of the weights, the order of the pairs, and dropout.
        report_every: steps between lines of metrics.jsonl.
        save_every: steps between saved checkpoints.
        save_minutes: of wall time between saved checkpoints, whatever the steps.
        deterministic: the same run gives the same weights to the bit; costs about 1 %.
        jit_compile: compile the step with XLA; needs deterministic=false.
        gradient_cache_chunk: pairs encoded at a time, for batches that do not fit in memory;
            must divide the batch of one replica.
        steps_per_execution: steps that run without coming back to Python; faster where a step is
            short, and on a TPU. Reports and saves wait for the last of them.
        strategy: one device; mirrored (all GPUs of this machine); multiworker (the machines
            that TF_CONFIG names); tpu; or auto, which takes what it finds.
        tpu: name or address of the TPU, if it is not this machine's.
    """

    steps: int = 1000
    batch_size: int = 256
    optimizer: Literal["adafactor", "adam"] = "adafactor"
    learning_rate: float | None = None
    warmup_steps: int = 0
    seed: int = 0
    report_every: int = 50
    save_every: int = 200
    save_minutes: float = 10.0
    deterministic: bool = True
    jit_compile: bool = False
    gradient_cache_chunk: int | None = None
    steps_per_execution: int = 1
    strategy: Literal["auto", "one", "mirrored", "multiworker", "tpu"] = "auto"
    tpu: str = ""

    def __post_init__(self):
        for name in ("steps", "report_every", "save_every", "steps_per_execution"):
            check_at_least(f"train.{name}", getattr(self, name), 1)
        if self.jit_compile and self.deterministic:
            raise ValueError(
                "`train.jit_compile` does nothing while `train.deterministic` is true. "
                "Received: both true. Set train.deterministic=false to compile with XLA."
            )
        check_at_least("train.batch_size", self.batch_size, 2)
        if self.gradient_cache_chunk is not None:
            check_at_least("train.gradient_cache_chunk", self.gradient_cache_chunk, 1)
            if self.batch_size % self.gradient_cache_chunk:
                raise ValueError(
                    "`train.gradient_cache_chunk` must divide `train.batch_size`. Received: "
                    f"{self.gradient_cache_chunk}, and a batch of {self.batch_size}."
                )
        check_choice("train.strategy", self.strategy, STRATEGIES)
        check_at_least("train.seed", self.seed, 0)
        check_at_least("train.warmup_steps", self.warmup_steps, 0)
        if not self.save_minutes > 0:
            raise ValueError(
                "`train.save_minutes` must be greater than 0. "
                f"Received: train.save_minutes={self.save_minutes}."
            )
        if self.learning_rate is not None and not self.learning_rate > 0:
            raise ValueError(
                "`train.learning_rate` must be greater than 0. "
                f"Received: train.learning_rate={self.learning_rate}."
            )
        if self.warmup_steps >= self.steps:
            raise ValueError(
                "`train.warmup_steps` must be below `train.steps`. "
                f"Received: warmup_steps={self.warmup_steps}, steps={self.steps}."
            )

    @property
    def peak_rate(self) -> float:
        """`learning_rate`, or the optimizer's default."""
        if self.learning_rate is not None:
            return self.learning_rate
        return FROM_SCRATCH[self.optimizer]
