"""The log of a run: each line goes to `metrics.jsonl` and to TensorBoard."""

import json
from pathlib import Path

import tensorflow as tf

METRICS_FILE = "metrics.jsonl"
VALIDATION = "val_"
"""What the names of a validation's numbers begin with; the others are of training."""


class RunLog:
    """Appends lines to `RUN/metrics.jsonl` and their numbers to `RUN/tensorboard/`.

    TensorBoard sees `train/loss`, `train/accuracy` … and `validation/nDCG@10` …

    Args:
        run: the run folder.
        writes: False on workers that are not the chief, which only read.
    """

    def __init__(self, run: Path, writes: bool = True):
        self.run, self.writes = run, writes
        self._writer: tf.summary.SummaryWriter | None = None

    def write(self, line: dict[str, float]) -> None:
        """Adds one line; it must hold `step`."""
        if not self.writes:
            return
        with (self.run / METRICS_FILE).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        if self._writer is None:
            self._writer = tf.summary.create_file_writer(str(self.run / "tensorboard"))
        with self._writer.as_default(step=line["step"]):
            for name, value in line.items():
                if name != "step":
                    tf.summary.scalar(tag(name), value)
        self._writer.flush()

    def read(self) -> list[dict[str, float]]:
        """The lines so far."""
        path = self.run / METRICS_FILE
        if not path.is_file():
            return []
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    def last_report(self) -> dict[str, float]:
        """The last line that speaks of training and not of validation; empty if there is none."""
        reports = [line for line in self.read() if "loss" in line]
        return reports[-1] if reports else {}


def tag(name: str) -> str:
    """Under which a number stands in TensorBoard."""
    if name.startswith(VALIDATION):
        return f"validation/{name.removeprefix(VALIDATION)}"
    return f"train/{name}"


def shorten(value: float) -> float:
    """Seven digits, about as many as float32 holds."""
    return float(f"{float(value):.7g}")
