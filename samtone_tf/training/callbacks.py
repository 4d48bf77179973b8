"""What happens between training steps: reports, checkpoints, validation, a stop at a NaN."""

import math
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import keras

from samtone_tf.training.run_folder import BEST_FILE, save_best, save_model
from samtone_tf.training.run_log import VALIDATION, RunLog, shorten

SHOWN = ("loss", "accuracy", "mrr")
"""Metrics that a progress bar has room for."""


class Progress(keras.callbacks.ProgbarLogger):
    """Keras's progress bar with a few of the metrics."""

    def on_train_batch_end(self, batch, logs=None):
        super().on_train_batch_end(batch, _shown(logs))

    def on_epoch_end(self, epoch, logs=None):
        super().on_epoch_end(epoch, _shown(logs))


def _shown(logs: dict) -> dict:
    return {name: logs[name] for name in SHOWN if name in logs}


class Report(keras.callbacks.Callback):
    """Writes a line of `metrics.jsonl` every few steps, and starts the running means anew.

    So each line, and what the progress bar shows, speaks of the steps since the line
    before and not of the whole run. It must be the first of the callbacks: the time that
    the others take is not counted in `pairs_per_second`, nor is the first step, which
    compiles, unless it is the only one of its line.

    Args:
        log: where the lines go.
        every: steps per line.
        steps: steps of the whole run; the last one is always reported.
        schedule: learning rate as a function of the step; a line holds the last one used.
        batch_size: pairs of a step.
        print_lines: also print each line, for where no progress bar is seen.
    """

    def __init__(
        self,
        log: RunLog,
        every: int,
        steps: int,
        schedule: Callable[[int], float],
        batch_size: int,
        print_lines: bool = False,
    ):
        super().__init__()
        self.log, self.every, self.steps = log, every, steps
        self.schedule, self.batch_size, self.print_lines = schedule, batch_size, print_lines

    def on_train_begin(self, logs=None):
        self.start = time.perf_counter()
        self.reported = self.first = step_of(self.model)
        self._restart_clock(self.reported)
        self.left = self.start

    def on_train_batch_begin(self, batch, logs=None):
        self.paused += time.perf_counter() - self.left

    def on_train_batch_end(self, batch, logs=None):
        step = step_of(self.model)
        check_finite(logs, self.model)
        if is_due(self.reported, step, self.every) or step == self.steps:
            self._report(step, logs)
        elif self.counted == self.first:  # the first call, which compiles
            self._restart_clock(step)
        self.left = time.perf_counter()

    def on_train_end(self, logs=None):
        step = step_of(self.model)
        if step > self.reported:  # the run ended early
            self._report(step, logs)

    def _restart_clock(self, step: int) -> None:
        self.since, self.paused, self.counted = time.perf_counter(), 0.0, step

    def _report(self, step: int, logs: dict) -> None:
        now = time.perf_counter()
        busy = now - self.since - self.paused
        line = {
            "step": step,
            **{name: shorten(value) for name, value in logs.items()},
            "learning_rate": shorten(self.schedule(step - 1)),
            "pairs_per_second": round((step - self.counted) * self.batch_size / busy, 2),
            "seconds": round(now - self.start, 2),
        }
        self.log.write(line)
        if self.print_lines:
            names = ("step", *SHOWN, "learning_rate", "pairs_per_second", "seconds")
            shown = "  ".join(f"{name} {line[name]:g}" for name in names if name in line)
            print(shown, flush=True)
        self.model.reset_metrics()
        self.reported = step
        self._restart_clock(step)


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
        self.seen_step = 0
        self.asked_to_stop = False

    def on_train_begin(self, logs=None):
        self.seen_step = step_of(self.model)
        self.saved_time = time.monotonic()
        if threading.current_thread() is threading.main_thread():
            self.earlier = signal.signal(signal.SIGTERM, self._stop)

    def on_train_batch_end(self, batch, logs=None):
        before, step = self.seen_step, step_of(self.model)
        self.seen_step = step
        late = time.monotonic() - self.saved_time > 60 * self.minutes
        if is_due(before, step, self.every) or late or self.asked_to_stop:
            check_finite(logs, self.model)  # a good checkpoint must not give way to a bad one
            self.save_now()
        if self.asked_to_stop:
            saved = "the run can go on from what the chief saved last"
            if self.run is not None:
                saved = f"the model of step {step} is saved in {self.run}"
            print(f"asked to stop; {saved}", flush=True)
            raise SystemExit(128 + signal.SIGTERM)

    def on_train_end(self, logs=None):
        self.save_now()
        self.restore_handler()

    def restore_handler(self):
        """Gives SIGTERM back to whoever handled it before."""
        if getattr(self, "earlier", None) is not None:
            signal.signal(signal.SIGTERM, self.earlier)
            self.earlier = None

    def _stop(self, number, frame):
        # Only a mark: this may come in the middle of anything, a save included.
        self.asked_to_stop = True

    def save_now(self):
        """Saves the model, if it was not saved at this step already."""
        step = step_of(self.model)
        if self.run is not None and step != self.saved_step:
            save_model(self.model, self.run)
            self.saved_step, self.saved_time = step, time.monotonic()


class Validate(keras.callbacks.Callback):
    """Tests retrieval every few steps, keeps the best model, and ends a run that gets no better.

    All that it knows of earlier tests are their lines in `metrics.jsonl`, up to the step
    that a resumed run goes on from. So that run keeps the same best model and ends at the
    same step as an undisturbed one. Order matters: the checkpoint is saved before the best
    model, which is never newer, and the line is written last; a test whose line is missing
    is taken again.

    Args:
        validation: gives the measures of the model as it is.
        log: where the lines are.
        measure: which of them decides; higher is better.
        every: steps between tests.
        steps: steps of the whole run; the last one is always tested.
        patience: tests in a row without a new best value that end the run; None never.
        save: of the ordinary checkpoint.
    """

    def __init__(
        self,
        validation: Callable[[], dict[str, float]],
        log: RunLog,
        measure: str,
        every: int,
        steps: int,
        patience: int | None,
        save: "SaveEvery",
    ):
        super().__init__()
        self.validation, self.log, self.measure = validation, log, measure
        self.every, self.steps, self.patience, self.save = every, steps, patience, save
        name = VALIDATION + measure
        self.scores = {line["step"]: line[name] for line in log.read() if name in line}

    @property
    def best_step(self) -> int | None:
        """The first step with the highest value so far; None before the first test."""
        return max(self.scores, key=self.scores.__getitem__, default=None)

    @property
    def has_lost_patience(self) -> bool:
        """Whether the run is over, some tests after its best one."""
        later = sum(step > self.best_step for step in self.scores)
        return self.patience is not None and later >= self.patience

    def catch_up(self, model: keras.Model) -> None:
        """Takes the test that a run was stopped before, between its save and the test's line."""
        self.set_model(model)
        step = step_of(model)
        if self._is_due(step):
            self._test(step)

    def on_train_batch_end(self, batch, logs=None):
        step = step_of(self.model)
        if self._is_due(step):
            check_finite(logs, self.model)
            self._test(step)
            if self.has_lost_patience:
                self.model.stop_training = True

    def facts(self) -> dict[str, str]:
        """What is to be said of the tests when the run is over."""
        if not self.scores:
            return {}
        best = self.best_step
        facts = {
            f"best {self.measure}": f"{self.scores[best]:.4f} at step {best}, in {BEST_FILE}",
            f"last {self.measure}": f"{self.scores[max(self.scores)]:.4f}",
        }
        if self.has_lost_patience:
            facts["ended early"] = (
                f"at step {max(self.scores)} of {self.steps}: no better {self.measure} in "
                f"{self.patience} validations"
            )
        return facts

    def _is_due(self, step: int) -> bool:
        tested = max(self.scores, default=0)
        return step > tested and (is_due(tested, step, self.every) or step == self.steps)

    def _test(self, step: int) -> None:
        started = time.perf_counter()
        values = {VALIDATION + n: shorten(value) for n, value in self.validation().items()}
        self.scores[step] = values[VALIDATION + self.measure]
        is_best = self.best_step == step
        if is_best:
            self.save.save_now()
            if self.log.writes:
                save_best(self.log.run)
        seconds = round(time.perf_counter() - started, 2)
        self.log.write({"step": step, **values, f"{VALIDATION}seconds": seconds})
        if self.log.writes:
            line_break = "\n" if sys.stdout.isatty() else ""  # leaves the progress bar's line
            print(
                f"{line_break}validation at step {step}: {self.measure} {self.scores[step]:.4f}"
                + (", the best so far" if is_best else ""),
                flush=True,
            )


def check_finite(logs: dict, model: keras.Model) -> None:
    """Raises FloatingPointError when the running mean of the loss or the gradient is no number.

    A mean keeps a NaN until it is reset, so none between two looks is missed; the model
    remembers at which step it came.
    """
    for name in ("loss", "gradient_norm"):
        if not math.isfinite(logs.get(name, 0.0)):
            step = int(keras.ops.convert_to_numpy(model.step_metrics.first_bad_step.result()))
            raise FloatingPointError(
                f"The {name.replace('_', ' ')} became {logs[name]} at step {step}. The last "
                "checkpoint is from before. Try a lower train.learning_rate or a higher "
                "loss.temperature."
            )


def step_of(model: keras.Model) -> int:
    """Updates of the weights so far; `int` alone fails where every replica has a count."""
    return int(keras.ops.convert_to_numpy(model.optimizer.iterations))


def is_due(before: int, step: int, every: int) -> bool:
    """Whether a multiple of `every` was reached after step `before` and by `step`.

    `step % every` would miss it where callbacks see only every k-th step (`steps_per_execution`).
    """
    return step // every > before // every
