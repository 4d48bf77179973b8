"""Trains a tiny run that kills itself: `python -m tests.training.killed_run OUT STEP [resume]`.

At STEP the process gets SIGKILL, before that step's save; at step 0 it never does. Dropout,
gradient caching and Adafactor are on: whatever has state, or draws.
"""

import os
import signal
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["KERAS_BACKEND"] = "tensorflow"

from samtone_tf.training import train as training
from tests import tiny

STEPS = 12


class Killer(training.Report):
    """Reports, and ends the process at one step as a lost machine would."""

    step = 0

    def on_train_batch_end(self, batch, logs=None):
        super().on_train_batch_end(batch, logs)
        if int(self.model.optimizer.iterations) == self.step:
            os.kill(os.getpid(), signal.SIGKILL)


def main(out: str, step: str, resume: str = "") -> None:
    Killer.step = int(step)
    training.Report = Killer
    config = tiny.config(
        steps=STEPS, save_every=4, optimizer="adafactor", gradient_cache_chunk=4, report_every=3
    )
    training.train(
        config, out, data=tiny.data(), tokenizer=tiny.tokenizer(), resume=resume == "resume"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
