"""What happens between training steps: reports, checkpoints, and a stop at the first NaN."""

import json
import math
import time
from pathlib import Path

import keras

from samtone_tf.training.run_folder import save_model


class Report(keras.callbacks.Callback):
    """Writes a line of `metrics.jsonl` every few steps, and starts the running means anew.

    So each line, and what the progress bar shows, speaks of the steps since the line
    before and not of the whole run.

    Args:
        path: file to append to.
        every: steps per line.
        steps: steps of the whole run; the last one is always reported.
        schedule: learning rate as a function of the step; a line holds the last one used.
        print_lines: also print each line, for where no progress bar is seen.
    """

    def __init__(self, path: Path, every: int, steps: int, schedule, print_lines: bool = False):
        super().__init__()
        self.path, self.every, self.steps = path, every, steps
        self.schedule, self.print_lines = schedule, print_lines
        self.lines: list[dict] = []

    def on_train_begin(self, logs=None):
        self.start = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        step = int(self.model.optimizer.iterations)
        if step % self.every and step != self.steps:
            return
        check_finite(logs, step)
        line = {
            "step": step,
            **{name: round(float(value), 6) for name, value in logs.items()},
            "learning_rate": float(self.schedule(step - 1)),
            "seconds": round(time.perf_counter() - self.start, 2),
        }
        self.lines.append(line)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        if self.print_lines:
            shown = "  ".join(f"{name} {value:g}" for name, value in line.items())
            print(shown, flush=True)
        self.model.reset_metrics()


class SaveEvery(keras.callbacks.Callback):
    """Saves the model every few steps and at the end.

    Args:
        run: the run folder.
        every: steps between saves.
    """

    def __init__(self, run: Path, every: int):
        super().__init__()
        self.run, self.every, self.saved_step = run, every, -1

    def on_train_batch_end(self, batch, logs=None):
        step = int(self.model.optimizer.iterations)
        if step % self.every == 0:
            check_finite(logs, step)  # a good checkpoint must not give way to a bad one
            self._save()

    def on_train_end(self, logs=None):
        self._save()

    def _save(self):
        step = int(self.model.optimizer.iterations)
        if step != self.saved_step:
            save_model(self.model, self.run)
            self.saved_step = step


def check_finite(logs: dict, step: int) -> None:
    """Raises FloatingPointError when the running mean of the loss is no number.

    A mean keeps a NaN until it is reset, so none between two looks is missed; looking
    at every step would wait for the device each time.
    """
    loss = float(logs["loss"])
    if not math.isfinite(loss):
        raise FloatingPointError(
            f"The loss became {loss} at or before step {step}. The last checkpoint is from before. "
            "Try a lower train.learning_rate or a higher loss.temperature."
        )
