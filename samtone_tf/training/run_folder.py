"""The run folder: what a training run writes, and how it is read back.

RUN/config.yaml       everything that decides the run, resolved
RUN/vocabulary.spm    the SentencePiece model
RUN/checkpoints/      model.keras, replaced whole at every save, previous.keras, the one before,
                      and best.keras, with validation
RUN/metrics.jsonl     one line per report (step, loss, accuracy …) and per validation (val_…)
RUN/tensorboard/      the same for TensorBoard
RUN/environment.json  versions and machine
RUN/README.md         model card
"""

import importlib
import json
import math
import os
import platform
import shutil
import sys
import warnings
import zipfile
import zlib
from pathlib import Path

import keras
import yaml

from samtone_tf.checks import check_choice
from samtone_tf.config import SECTIONS, RunConfig
from samtone_tf.data.tokenizer import Tokenizer
from samtone_tf.dual_encoder import DualEncoder
from samtone_tf.output_folder import check_new
from samtone_tf.version import __version__

MODEL_FILE = "checkpoints/model.keras"
BEST_FILE = "checkpoints/best.keras"
PREVIOUS_FILE = "checkpoints/previous.keras"
WRITING_FOLDER = "checkpoints/writing"

# Modules that register the classes a `.keras` file may name.
_REGISTERING = (
    "dual_encoder",
    "losses.contrastive",
    "losses.gte",
    "losses.pair",
    "losses.triplet",
    "optimizers.adafactor",
    "optimizers.schedules",
    "towers.tower",
)


def load_model(path: str | Path) -> DualEncoder:
    """Loads a trained model from a run folder or a `.keras` file.

    Where the last checkpoint of a run is damaged, the one before it is taken, with a
    warning. Use this and not `keras.saving.load_model`, which finds this package's classes only
    after they were imported.

    Args:
        path: a run folder, or a file that `model.save` wrote.

    Raises:
        FileNotFoundError: no such file, or a folder without a checkpoint.
        ValueError: the file is damaged or holds something else; in a folder, both files.
    """
    path = Path(path)
    if path.is_dir():
        return load_checkpoint(check_run(path))[0]
    if not path.is_file():
        raise FileNotFoundError(
            f"`path` must be a run folder or a .keras file. Received: {path}, which does not exist."
        )
    for module in _REGISTERING:
        importlib.import_module(f"samtone_tf.{module}")
    try:
        check_whole(path)
        model = keras.saving.load_model(path)
    except (ValueError, TypeError, OSError, KeyError) as error:
        raise ValueError(
            f"`path` must be a .keras file with a DualEncoder. Received: {path}, which Keras "
            f"cannot load: {_first_line(error)}"
        ) from error
    if not isinstance(model, DualEncoder):
        raise ValueError(
            f"`path` must hold a DualEncoder. Received: {path}, a {type(model).__name__}."
        )
    return model


def load_checkpoint(run: Path) -> tuple[DualEncoder, Path]:
    """The last checkpoint that is whole, and its file; a warning says if it is not the last one.

    Raises:
        FileNotFoundError: the run has saved nothing yet.
        ValueError: no checkpoint is whole; the message names each.
    """
    failures = {}
    for path in (run / MODEL_FILE, run / PREVIOUS_FILE):
        try:
            model = load_model(path)
        except (FileNotFoundError, ValueError) as error:
            failures[path] = error
            continue
        for failed, error in failures.items():
            warnings.warn(
                f"{failed} cannot be used; {path} is taken, which was saved before it, after step "
                f"{int(model.optimizer.iterations)}. The reason: {error}",
                stacklevel=3,
            )
        return model, path
    found = [str(error) for error in failures.values() if isinstance(error, ValueError)]
    if not found:
        raise failures[run / MODEL_FILE]
    raise ValueError(
        f"`run` must hold a checkpoint that is whole. Received: {run}, which has none. "
        + " ".join(found)
    )


def check_whole(path: Path) -> None:
    """Raises ValueError unless every byte of a `.keras` file is as it was written.

    Where a checksum fails, Keras reads again and seeks; from Python 3.12 on, nothing is checked
    then, and a page of zeros would be taken for weights.
    """
    try:
        with zipfile.ZipFile(path) as file:
            damaged = file.testzip()
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise ValueError(f"the file is damaged ({_first_line(error)})") from error
    if damaged is not None:
        raise ValueError(f"the file is damaged in {damaged}")


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def check_run(run: str | Path) -> Path:
    """The run folder as a path.

    Raises:
        FileNotFoundError: it is none, or its training has saved nothing yet.
    """
    run = Path(run)
    if not run.is_dir():
        raise FileNotFoundError(
            f"`run` must be a folder that `samtone train --out` wrote. Received: {run}, "
            "which does not exist."
        )
    missing = [name for name in ("config.yaml", "vocabulary.spm") if not (run / name).is_file()]
    if not has_checkpoint(run):
        missing.append(MODEL_FILE)
    if missing:
        raise FileNotFoundError(
            f"`run` must be a folder that `samtone train --out` wrote. Received: {run}, "
            f"which has no {', '.join(missing)}."
        )
    return run


def has_checkpoint(run: Path) -> bool:
    """Whether a run has saved its model."""
    return any((run / name).is_file() for name in (MODEL_FILE, PREVIOUS_FILE))


def load_config(run: str | Path) -> RunConfig:
    """The configuration that a run was started with."""
    sections = yaml.safe_load((Path(run) / "config.yaml").read_text(encoding="utf-8"))
    return RunConfig(**{name: kind(**sections.get(name, {})) for name, kind in SECTIONS.items()})


def load_tokenizer(run: str | Path) -> Tokenizer:
    """The tokenizer that a run was trained with."""
    return Tokenizer.from_file(Path(run) / "vocabulary.spm")


def make_run_folder(
    out: str | Path, config: RunConfig, tokenizer: Tokenizer, data_fingerprint: str
) -> Path:
    """Makes the folder and writes what is known before the first step.

    Raises:
        FileExistsError: `out` exists and is not empty.
    """
    environment = json.dumps({**describe_environment(), "data": data_fingerprint}, indent=2)
    out = check_new_run(out)
    (out / "checkpoints").mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump(config.to_dict(), sort_keys=False, allow_unicode=True)
    (out / "config.yaml").write_text(text, encoding="utf-8")
    tokenizer.save(out / "vocabulary.spm")
    (out / "environment.json").write_text(environment + "\n", encoding="utf-8")
    return out


def check_new_run(out: str | Path) -> Path:
    """Raises FileExistsError when a run cannot be written to `out`."""
    return check_new(out, "out", "Choose another folder, or remove this one yourself.")


def save_model(model: DualEncoder, run: Path) -> Path:
    """Makes `model` the run's checkpoint, and the checkpoint before it `previous.keras`.

    The file is written beside them, flushed to the disk and renamed last: wherever a process
    or a machine stops, one of the two is whole.

    Raises:
        OSError: it cannot be written, for want of space most likely; both are as they were.
    """
    target, writing = run / MODEL_FILE, run / WRITING_FOLDER / Path(MODEL_FILE).name
    try:
        writing.parent.mkdir(exist_ok=True)
        model.save(writing)
        _flush(writing)
    except OSError as error:
        shutil.rmtree(writing.parent, ignore_errors=True)
        raise _no_room(model, target.parent, error) from error
    if target.exists():
        os.replace(target, run / PREVIOUS_FILE)
    os.replace(writing, target)
    shutil.rmtree(writing.parent, ignore_errors=True)
    if hasattr(os, "O_DIRECTORY"):  # elsewhere a folder cannot be flushed
        _flush(target.parent)
    return target


def _flush(path: Path) -> None:
    """Waits until the disk holds what was written; a rename may reach it before the content."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _no_room(model: DualEncoder, folder: Path, error: OSError) -> OSError:
    """The error of a save that failed, with what it needed and what there is."""
    needed = 4 * sum(math.prod(v.shape) for v in (*model.variables, *model.optimizer.variables))
    return OSError(
        f"The checkpoint cannot be written to {folder}: {_first_line(error)}. It needs about "
        f"{needed:,} bytes, and {shutil.disk_usage(folder).free:,} are free. The checkpoint "
        "before it stays: make room, and go on with --resume."
    )


def save_best(run: Path) -> Path:
    """Makes the checkpoint, as it was saved last, the best one as well."""
    target = run / BEST_FILE
    temporary = target.with_name("writing_best.keras")
    shutil.copyfile(run / MODEL_FILE, temporary)
    _flush(temporary)
    os.replace(temporary, target)
    return target


def choose_checkpoint(run: str | Path, which: str | None = None) -> Path:
    """What `load_model` should be given for a run's last or best checkpoint.

    Args:
        run: the run folder.
        which: `"last"` or `"best"`; None is the best one where the run was validated.

    Raises:
        FileNotFoundError: no such run, or no best checkpoint.
        ValueError: `which` is neither.
    """
    run = check_run(run)
    if which is None:
        which = "best" if (run / BEST_FILE).is_file() else "last"
    check_choice("checkpoint", which, ("last", "best"))
    if which == "last":
        return run  # and not the file: where that is damaged, the one before it is taken
    if not (run / BEST_FILE).is_file():
        raise FileNotFoundError(
            f"`checkpoint` must be last for a run without validation. Received: best, and "
            f"{run} has no {BEST_FILE}."
        )
    return run / BEST_FILE


def describe_environment() -> dict:
    """Versions, machine and devices in use, as `environment.json` holds them."""
    from samtone_tf.distribution import describe_devices

    return {
        "samtone_tf": __version__,
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "processor": processor_name(),
        "processors": num_processors(),
        **describe_devices(),
        # The package may be called tensorflow-cpu or tensorflow-tpu; the module never is.
        **{
            name: importlib.import_module(name).__version__
            for name in ("tensorflow", "keras", "numpy", "sentencepiece")
        },
    }


def processor_name() -> str:
    """The kind of processor: sums may run in another order on one with wider registers."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def num_processors() -> int:
    """Processors that this process may use, which is how many threads TensorFlow starts."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
