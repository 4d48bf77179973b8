"""The run folder: what a training run writes, and how it is read back.

RUN/config.yaml       everything that decides the run, resolved
RUN/vocabulary.spm    the SentencePiece model
RUN/checkpoints/      model.keras, replaced whole at every save
RUN/metrics.jsonl     one line per report: step, loss, accuracy, rate …
RUN/tensorboard/      the same for TensorBoard
RUN/environment.json  versions and machine
RUN/README.md         model card
"""

import importlib
import json
import os
import platform
import sys
import zipfile
from pathlib import Path

import keras
import yaml

from samtone_tf.config import RunConfig
from samtone_tf.data.tokenizer import Tokenizer
from samtone_tf.dual_encoder import DualEncoder
from samtone_tf.output_folder import check_new
from samtone_tf.version import __version__

MODEL_FILE = "checkpoints/model.keras"

# Modules that register the classes a `.keras` file may name.
_REGISTERING = (
    "dual_encoder",
    "losses.contrastive",
    "optimizers.adafactor",
    "optimizers.schedules",
    "towers.tower",
)


def load_model(path: str | Path) -> DualEncoder:
    """Loads a trained model from a run folder or a `.keras` file.

    Use this and not `keras.saving.load_model`, which finds this package's classes only
    after they were imported.

    Args:
        path: a run folder, or a file that `model.save` wrote.

    Raises:
        FileNotFoundError: no such file, or a folder without a checkpoint.
        ValueError: the file holds something else.
    """
    path = Path(path)
    if path.is_dir():
        check_run(path)
        path = path / MODEL_FILE
    if not path.is_file():
        raise FileNotFoundError(
            f"`path` must be a run folder or a .keras file. Received: {path}, which does not exist."
        )
    for module in _REGISTERING:
        importlib.import_module(f"samtone_tf.{module}")
    try:
        model = keras.saving.load_model(path)
    except (ValueError, TypeError, OSError, KeyError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"`path` must be a .keras file with a DualEncoder. Received: {path}, which Keras "
            f"cannot load: {(str(error).strip() or type(error).__name__).splitlines()[0]}"
        ) from error
    if not isinstance(model, DualEncoder):
        raise ValueError(
            f"`path` must hold a DualEncoder. Received: {path}, a {type(model).__name__}."
        )
    return model


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
    missing = [
        name for name in ("config.yaml", "vocabulary.spm", MODEL_FILE) if not (run / name).is_file()
    ]
    if missing:
        raise FileNotFoundError(
            f"`run` must be a folder that `samtone train --out` wrote. Received: {run}, "
            f"which has no {', '.join(missing)}."
        )
    return run


def load_config(run: str | Path) -> RunConfig:
    """The configuration that a run was started with."""
    from samtone_tf.config import DataConfig, LossConfig, ModelConfig, TrainConfig

    sections = yaml.safe_load((Path(run) / "config.yaml").read_text(encoding="utf-8"))
    kinds = {"data": DataConfig, "model": ModelConfig, "loss": LossConfig, "train": TrainConfig}
    return RunConfig(**{name: kind(**sections[name]) for name, kind in kinds.items()})


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
    """Replaces the run's checkpoint; a reader never sees half of one."""
    target = run / MODEL_FILE
    temporary = target.with_name("writing.keras")
    model.save(temporary)
    os.replace(temporary, target)
    return target


def describe_environment() -> dict:
    """Versions, machine and devices in use, as `environment.json` holds them."""
    from samtone_tf.distribution import describe_devices

    return {
        "samtone_tf": __version__,
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        **describe_devices(),
        # The package may be called tensorflow-cpu or tensorflow-tpu; the module never is.
        **{
            name: importlib.import_module(name).__version__
            for name in ("tensorflow", "keras", "numpy", "sentencepiece")
        },
    }
