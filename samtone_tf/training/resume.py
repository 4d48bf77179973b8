"""Going on with a run that was stopped: from its last checkpoint, to the bit.

A checkpoint is the `.keras` file of the run: weights, optimizer slots and the step. Nothing
else is state: the order of the pairs and every dropout draw are functions of (seed, step).
So a run that was killed and resumed ends with the very weights of an undisturbed one, on the
same kind of machine with the same versions, which `environment.json` remembers.
"""

import contextlib
import difflib
import json
import warnings
import zipfile
from pathlib import Path

import yaml

from samtone_tf.config import RunConfig
from samtone_tf.dual_encoder import DualEncoder
from samtone_tf.training.run_folder import MODEL_FILE, describe_environment, load_model


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

    Raises:
        ValueError: Keras could not restore all of it.
    """
    # What a save that was cut off has left; the checkpoint itself was replaced whole.
    for leftover in (run / MODEL_FILE).parent.glob("writing*"):
        leftover.unlink()
    if not (run / MODEL_FILE).is_file():
        return None
    with warnings.catch_warnings():
        # Keras only warns when it skips an optimizer's variables.
        warnings.filterwarnings("error", message="Skipping variable loading")
        try:
            return load_model(run)
        except UserWarning as warning:
            raise ValueError(f"{run / MODEL_FILE} cannot be resumed: {warning}") from warning


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
