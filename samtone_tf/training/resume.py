"""Going on with a run that was stopped: from its last checkpoint, to the bit.

A checkpoint is a `.keras` file of the run. It holds or determines all that the run needs:

    weights, optimizer slots   in the file
    step                       in the file, as the optimizer's `iterations`
    random states              none: every dropout draw is a function of (seed, step, chunk, tower)
    data position              the step: batch k is a function of (seed, k)
    learning rate              a function of the step
    reports, best score        `metrics.jsonl`, up to the step

So a run that was killed and resumed ends with the very weights of an undisturbed one, on the
same kind of machine with the same versions, which `environment.json` remembers. Only the line
of `metrics.jsonl` after a resume differs, whose means begin at the checkpoint.
"""

import contextlib
import difflib
import json
import os
import shutil
import warnings
import zipfile
from pathlib import Path
from typing import Any

import keras
import yaml

from samtone_tf.config import RunConfig
from samtone_tf.dual_encoder import DualEncoder
from samtone_tf.training.run_folder import (
    MODEL_FILE,
    WRITING_FOLDER,
    describe_environment,
    has_checkpoint,
    load_checkpoint,
)

DAMAGED_FILE = "checkpoints/damaged.keras"


def check_resumable(run: str | Path, config: RunConfig) -> Path:
    """The run folder, if it was started with this very configuration.

    Raises:
        FileNotFoundError: no run there.
        ValueError: another configuration; the message says what differs.
    """
    run = Path(run)
    missing = [n for n in ("config.yaml", "vocabulary.spm") if not (run / n).is_file()]
    if missing:
        raise FileNotFoundError(
            f"`out` must be the folder of a run to resume. Received: {run}, which has no "
            f"{', '.join(missing)}. Start it without --resume."
        )
    before = (run / "config.yaml").read_text(encoding="utf-8")
    now = dump_config(config)
    if before != now:
        changed = [
            line
            for line in difflib.unified_diff(before.splitlines(), now.splitlines(), n=0)
            if line[:1] in "+-" and line[:3] not in ("+++", "---")
        ]
        raise ValueError(
            f"`config` must be the one that {run} was started with. Received changes (- before, "
            f"+ now): {'; '.join(changed)}. Take them back, or start a new run."
        )
    return run


def dump_config(config: RunConfig) -> str:
    """The text of `config.yaml`."""
    return yaml.safe_dump(config.to_dict(), sort_keys=False, allow_unicode=True)


def last_checkpoint(run: Path) -> DualEncoder | None:
    """The model as it was saved last, with its optimizer's state; None before the first save.

    A damaged checkpoint becomes `damaged.keras`, and the one before it is taken.

    Raises:
        ValueError: no checkpoint is whole, or Keras could not restore all of it.
    """
    # What a save that was cut off has left was no checkpoint yet.
    shutil.rmtree(run / WRITING_FOLDER, ignore_errors=True)
    if not has_checkpoint(run):
        return None
    with warnings.catch_warnings():
        # Keras only warns when it skips an optimizer's variables.
        warnings.filterwarnings("error", message="Skipping variable loading")
        try:
            model, path = load_checkpoint(run)
        except UserWarning as warning:
            raise ValueError(f"{run} cannot be resumed: {warning}") from warning
    if path != run / MODEL_FILE:
        # Out of the way, or the next save would put it in the place of the whole one.
        with contextlib.suppress(FileNotFoundError):
            os.replace(run / MODEL_FILE, run / DAMAGED_FILE)
    return model


def check_same_model(saved: DualEncoder, asked: DualEncoder, run: Path) -> None:
    """Raises ValueError when a checkpoint holds another model, loss or optimizer than asked for."""
    have, want = _described(saved), _described(asked)
    differing = [
        f"{name} is {have.get(name)} and not {want.get(name)}"
        for name in sorted(have | want)
        if have.get(name) != want.get(name)
    ]
    if differing:
        raise ValueError(
            f"The checkpoint of {run} must hold the model that its config.yaml describes. "
            f"Received: {'; '.join(differing)}. Put the run's own checkpoint back, or start a "
            "new run."
        )


def _described(model: DualEncoder) -> dict[str, Any]:
    """Everything that decides what a model is, by dotted names, as JSON has it."""
    parts = {
        "model": model.get_config(),
        "optimizer": keras.saving.serialize_keras_object(model.optimizer),
        "loss": keras.saving.serialize_keras_object(model.loss),
    }
    return _flat(json.loads(json.dumps(parts)))


def _flat(thing: Any, name: str = "") -> dict[str, Any]:
    if not isinstance(thing, dict) or not thing:
        return {name: thing}
    # Keras counts names up in one process: they say nothing.
    kept = {key: value for key, value in thing.items() if key != "name"}
    return {
        full: value
        for key, part in kept.items()
        for full, value in _flat(part, f"{name}.{key}" if name else key).items()
    }


def checkpoint_identity(run: Path) -> str:
    """What tells the checkpoints of this folder from those of another, without reading them.

    Empty before the first save. Workers that see other files must not begin together.
    """
    found = []
    for path in sorted((run / MODEL_FILE).parent.glob("*.keras")):
        # One that was cut off while it was written is no checkpoint.
        with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as file:
            found.append((path.name, [entry.CRC for entry in file.infolist()]))
    return str(found) if found else ""


def check_same_data(run: Path, fingerprint: str) -> None:
    """Raises ValueError when the pairs are not those that the run was started with."""
    before = json.loads((run / "environment.json").read_text(encoding="utf-8")).get("data")
    if before != fingerprint:
        raise ValueError(
            f"`data` must hold the pairs that {run} was started with. "
            f"Received: pairs with the fingerprint {fingerprint}, not {before}. Start a new run."
        )


def warn_of_changes(run: Path) -> None:
    """Warns when versions or machine differ, since bits may then differ, too."""
    before = json.loads((run / "environment.json").read_text(encoding="utf-8"))
    for name, value in describe_environment().items():
        if before.get(name) != value:
            warnings.warn(
                f"{name} was {before.get(name)} when the run started and is {value} now: the run "
                "goes on, but its weights may differ in the last bits from an undisturbed one.",
                stacklevel=2,
            )


def forget_reports_after(run: Path, step: int) -> None:
    """Drops lines of `metrics.jsonl` that speak of steps which will be taken again."""
    path = run / "metrics.jsonl"
    if path.is_file():
        lines = path.read_text(encoding="utf-8").splitlines()
        kept = [line for line in lines if _step_of(line) <= step]
        path.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")


def _step_of(line: str) -> float:
    try:
        return json.loads(line)["step"]
    except (ValueError, KeyError):
        return float("inf")  # a line that was cut off
