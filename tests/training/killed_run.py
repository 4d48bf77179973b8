"""Trains a tiny run in several lives: `python -m tests.training.killed_run OUT [KILL …]`.

Each KILL ends one life with SIGKILL, and the next life resumes:

    17+0.4     0.4 mean step times after step 17: in a step, in a report, in a save
    17@half    while a checkpoint is half written, the first one that is due from step 17 on
    17@names   between the two renames of that checkpoint

The last life is not killed. Dropout, gradient caching and Adafactor are on: whatever has
state, or draws. A life is a fork of this process, which has imported everything and has run
nothing: TensorFlow starts in each life anew, and is read from the disk once.
"""

import os
import signal
import sys
import threading
import time
import traceback

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["KERAS_BACKEND"] = "tensorflow"

from samtone_tf.dual_encoder import DualEncoder
from samtone_tf.training import run_folder
from samtone_tf.training import train as training
from tests import tiny

STEPS, SAVE_EVERY, REPORT_EVERY = 60, 3, 10


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Killer(training.Report):
    """Reports, and ends the process at its moment as a lost machine would."""

    step, moment, armed = STEPS + 1, "", False

    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        self.times = []

    def on_train_batch_end(self, batch, logs=None):
        super().on_train_batch_end(batch, logs)
        self.times.append(time.perf_counter())
        if int(self.model.optimizer.iterations) >= self.step and not self.armed:
            self.arm()

    def arm(self):
        self.armed = True
        if self.moment == "half":
            DualEncoder.save = half_save
        elif self.moment == "names":
            run_folder.os.replace = replace_once
        else:
            mean = (self.times[-1] - self.times[0]) / max(1, len(self.times) - 1)
            threading.Timer(float(self.moment) * mean, die).start()


whole_save, replace = DualEncoder.save, os.replace


def half_save(model, path):
    whole_save(model, path)
    os.truncate(path, os.path.getsize(path) // 2)
    die()


def replace_once(source, target):
    replace(source, target)
    die()


def live(out: str, kill: str, resume: bool) -> None:
    """One life: from the last checkpoint to the kill, or to the end."""
    if kill:
        step, Killer.moment = kill.replace("@", "+").split("+")
        Killer.step = int(step)
    training.Report = Killer
    config = tiny.config(
        steps=STEPS,
        save_every=SAVE_EVERY,
        report_every=REPORT_EVERY,
        optimizer="adafactor",
        gradient_cache_chunk=4,
    )
    training.train(config, out, data=tiny.data(), tokenizer=tiny.tokenizer(), resume=resume)


def main(out: str, *kills: str) -> None:
    tiny.tokenizer()
    for number, kill in enumerate((*kills, "")):
        child = os.fork()
        if child == 0:
            end_with(lambda kill=kill, number=number: live(out, kill, resume=number > 0))
        _, status = os.waitpid(child, 0)
        print(f"life {number} ends with {os.waitstatus_to_exitcode(status)}", flush=True)


def end_with(work) -> None:
    """Does the work of a forked process and ends it, without the parent's clean-up."""
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
