"""What happens between training steps: reports, checkpoints, and a stop at the first NaN."""

import json
import math
import signal
import threading
import time
from pathlib import Path

import keras

from samtone_tf.training.run_folder import save_model


class Report(keras.callbacks.Callback):
    """Writes a line of `metrics.jsonl` every few steps, and starts the running means anew.

    So each line, and what the progress bar shows, speaks of the steps since the line
    before and not of the whole run.

    Args:
        path: file to append to; None, on workers that are not the chief, writes nothing.
        every: steps per line.
        steps: steps of the whole run; the last one is always reported.
        schedule: learning rate as a function of the step; a line holds the last one used.
        print_lines: also print each line, for where no progress bar is seen.
    """

    def __init__(
        self, path: Path | None, every: int, steps: int, schedule, print_lines: bool = False
    ):
        super().__init__()
        self.path, self.every, self.steps = path, every, steps
        self.schedule, self.print_lines = schedule, print_lines
        self.lines: list[dict] = []

    def on_train_begin(self, logs=None):
        self.start = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        step = step_of(self.model)
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
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        if self.print_lines:
            shown = "  ".join(f"{name} {value:g}" for name, value in line.items())
            print(shown, flush=True)
        self.model.reset_metrics()


class SaveEvery(keras.callbacks.Callback):
    """Saves the model every few steps, every few minutes, at the end, and when asked to stop.

    SIGTERM is what a spot machine or a notebook's host sends before it goes away: the
    step in progress ends, the model is saved, and the process exits with 143.

    Args:
        run: the run folder; None, on workers that are not the chief, saves nothing.
        every: steps between saves.
        minutes: of wall time between saves, whatever the steps.
    """

    def __init__(self, run: Path | None, every: int, minutes: float = 10.0):
        super().__init__()
        self.run, self.every, self.minutes = run, every, minutes
        self.saved_step, self.saved_time = -1, time.monotonic()
        self.asked_to_stop = False

    def on_train_begin(self, logs=None):
        self.saved_time = time.monotonic()
        if threading.current_thread() is threading.main_thread():
            self.earlier = signal.signal(signal.SIGTERM, self._stop)

    def on_train_batch_end(self, batch, logs=None):
        step = step_of(self.model)
        late = time.monotonic() - self.saved_time > 60 * self.minutes
        if step % self.every == 0 or late or self.asked_to_stop:
            check_finite(logs, step)  # a good checkpoint must not give way to a bad one
            self._save()
        if self.asked_to_stop:
            saved = "the run can go on from what the chief saved last"
            if self.run is not None:
                saved = f"the model of step {step} is saved in {self.run}"
            print(f"asked to stop; {saved}", flush=True)
            raise SystemExit(128 + signal.SIGTERM)

    def on_train_end(self, logs=None):
        self._save()
        self.restore_handler()

    def restore_handler(self):
        """Gives SIGTERM back to whoever handled it before."""
        if getattr(self, "earlier", None) is not None:
            signal.signal(signal.SIGTERM, self.earlier)
            self.earlier = None

    def _stop(self, number, frame):
        # Only a mark: this may come in the middle of anything, a save included.
        self.asked_to_stop = True

    def _save(self):
        step = step_of(self.model)
        if self.run is not None and step != self.saved_step:
            save_model(self.model, self.run)
            self.saved_step, self.saved_time = step, time.monotonic()


def step_of(model: keras.Model) -> int:
    """Updates of the weights so far; `int` alone fails where every replica has a count."""
    return int(keras.ops.convert_to_numpy(model.optimizer.iterations))


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
