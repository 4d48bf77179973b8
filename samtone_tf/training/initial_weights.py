"""Weights to start from: those of another run (`model.init`), for fine-tuning and second stages."""

from itertools import zip_longest
from pathlib import Path

import keras

from samtone_tf.config import PARTS
from samtone_tf.data.tokenizer import Tokenizer
from samtone_tf.dual_encoder import DualEncoder
from samtone_tf.training.run_folder import check_run, load_model, load_tokenizer


def initial_tokenizer(init: str, tokenizer: Tokenizer | None) -> Tokenizer:
    """The tokenizer of a run that starts from `init`: its rows of the token table fit no other.

    Args:
        init: `run:FOLDER`, or `run:FILE` with a `.keras` file, which holds no tokenizer.
        tokenizer: the one that was asked for, or None for the source's.

    Raises:
        FileNotFoundError: no such run.
        ValueError: another tokenizer than the source's, or none where the source has none.
    """
    path = _path(init)
    if path.is_file():
        if tokenizer is None:
            raise ValueError(
                "`data.vocabulary` must be set when the weights come from a file, which holds no "
                f"tokenizer. Received: data.vocabulary=None, model.init={init!r}. Pass the "
                "vocabulary.spm of its run, or the run's folder."
            )
        return tokenizer
    own = load_tokenizer(check_run(path))
    if tokenizer is not None and tokenizer.fingerprint != own.fingerprint:
        raise ValueError(
            "`data.vocabulary` must be the one that the weights were trained with. Received: "
            f"another than that of model.init={init!r}. Leave it out to use {path}/vocabulary.spm."
        )
    return own


def start_from(model: DualEncoder, init: str) -> None:
    """Gives the model the weights of another run.

    Every variable must be there with its shape, and none may be left over. Towers that share
    a part may start towers that do not, each with the same weights; the reverse is refused.

    Args:
        model: what to change; its optimizer is not touched.
        init: `run:FOLDER`, or `run:FILE` with a `.keras` file.

    Raises:
        FileNotFoundError: no such run.
        ValueError: another size, vocabulary or architecture; names the first difference.
    """
    source = load_model(_path(init))
    _check_same_encoder(model, source, init)
    for side in ("query_tower", "document_tower"):
        ours, theirs = getattr(model, side).parts, getattr(source, side).parts
        for part in PARTS:
            _check_same_shapes(ours[part], theirs[part], f"{side} of model.init={init!r}")
            ours[part].set_weights(theirs[part].get_weights())


def _check_same_encoder(model: DualEncoder, source: DualEncoder, init: str) -> None:
    for part in PARTS:
        if _is_shared(model, part) and not _is_shared(source, part):
            raise ValueError(
                f"`model.architecture` must not share what the source does not: its two towers "
                f"have a {part} each, with different weights. Received: model.architecture="
                f"{model.architecture!r}, and {source.architecture!r} in model.init={init!r}."
            )
    ours, theirs = model.encoder_config.to_dict(), source.encoder_config.to_dict()
    for name in ("activation", "max_distance"):  # shows in no variable's shape
        if ours[name] != theirs[name]:
            raise ValueError(
                f"`model.init` must hold an encoder with {name}={ours[name]!r}. "
                f"Received: model.init={init!r}, with {name}={theirs[name]!r}."
            )


def _check_same_shapes(ours: keras.layers.Layer, theirs: keras.layers.Layer, where: str) -> None:
    for mine, given in zip_longest(_shapes(ours), _shapes(theirs), fillvalue="nothing"):
        if mine != given:
            raise ValueError(
                "`model.init` must hold a model of the same size and vocabulary. Received: another "
                f"in the {where}, which has {given} where this model has {mine}."
            )


def _shapes(part: keras.layers.Layer) -> list[str]:
    """Name and shape of each variable; the name without that of its model and tower."""
    return [f"{v.path.partition('_tower/')[2]} {tuple(v.shape)}" for v in part.weights]


def _is_shared(model: DualEncoder, part: str) -> bool:
    return model.query_tower.parts[part] is model.document_tower.parts[part]


def _path(init: str) -> Path:
    return Path(init.partition(":")[2])
