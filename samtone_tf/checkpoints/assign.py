"""Puts the tensors of a `Source` into layers: every variable and every tensor exactly once."""

from collections.abc import Mapping

import keras
import numpy as np

from samtone_tf.checkpoints.source import PROJECTION, LazyTensor, Source, TowerSource, listed
from samtone_tf.config import PARTS, shared_parts
from samtone_tf.towers.encoder import T5Encoder
from samtone_tf.towers.low_rank import ADAPTER_NAMES
from samtone_tf.towers.tower import Tower


def part_variables(part: str, layer: keras.layers.Layer) -> dict[str, keras.Variable]:
    """Our name → variable, of one part of a tower; adapters, which no checkpoint has, left out.

    Args:
        part: one of `PARTS`; names begin with it.
        layer: what `Tower.parts` gives for it.
    """
    variables = {}
    for variable in layer.weights:
        path = variable.path.split("/")
        # The part's own name is the last that equals its layer's: a model may be called so, too.
        start = len(path) - path[::-1].index(layer.name)
        if path[-1] not in ADAPTER_NAMES:
            variables["/".join([part, *path[start:]])] = variable
    return variables


def assign_part(part: str, layer: keras.layers.Layer, source: TowerSource, where: str) -> None:
    """Gives a part of a tower the weights of a checkpoint; nothing changes unless all fit.

    Args:
        part: one of `PARTS`.
        layer: its layer, built.
        source: the tower of the checkpoint.
        where: the checkpoint's name, for messages.

    Raises:
        ValueError: a tensor is missing, left over, or of another shape; names all of them.
    """
    variables = part_variables(part, layer)
    tensors = {n: t for n, t in source.tensors.items() if n.partition("/")[0] == part}
    problems = _differences(variables, tensors)
    if problems:
        raise ValueError(
            "`model.init` must hold a model of the same size and vocabulary. Received: "
            f"{where}: {'; '.join(problems)}. Leave model.size, embedding_dim and the other "
            "numbers out to take the checkpoint's."
        )
    for name, variable in variables.items():
        variable.assign(tensors[name].read())  # one at a time: that is all the extra memory


def _differences(
    variables: Mapping[str, keras.Variable], tensors: Mapping[str, LazyTensor]
) -> list[str]:
    problems = []
    if missing := [name for name in variables if name not in tensors]:
        problems.append(f"it has no {listed(missing)}")
    if left := [tensors[name].name for name in tensors if name not in variables]:
        problems.append(f"this model has no place for its {listed(left)}")
    shapes = [
        f"{tensors[name].name} is {tensors[name].shape} where this model has {tuple(v.shape)}"
        for name, v in variables.items()
        if name in tensors and tensors[name].shape != tuple(v.shape)
    ]
    return problems + ([listed(shapes)] if shapes else [])


def assign_towers(query: Tower, document: Tower, source: Source) -> None:
    """Gives two towers the weights of a checkpoint; a part that it has not stays as it is.

    Both towers start from the same weights where the checkpoint has one tower. Towers share
    a part only if the checkpoint's do, or have equal weights in it.

    Args:
        query: the tower of queries, built.
        document: that of documents; may be the same, or share parts.
        source: the checkpoint.

    Raises:
        ValueError: another size, vocabulary, activation or architecture; names what differs.
    """
    _check_numbers(query, source)
    for part in PARTS:
        if part == "projection" and PROJECTION not in source.query.tensors:
            continue
        shared = query.parts[part] is document.parts[part]
        if shared and not _is_shared(part, source):
            raise ValueError(
                "`model.architecture` must not share what the source does not: its two towers "
                f"have a {part} each, with different weights. Received: {source.architecture!r} "
                f"in model.init={source.name!r}, and towers that share their {part}. Leave "
                "model.architecture out to take the source's."
            )
        assign_part(part, query.parts[part], source.query, source.name)
        if not shared:
            assign_part(part, document.parts[part], source.document, source.name)


def _check_numbers(tower: Tower, source: Source) -> None:
    ours, theirs = tower.config, source.query.encoder
    if source.document.encoder != theirs:
        raise ValueError(
            "`model.init` must have two towers of the same numbers. "
            f"Received: {source.name}, with {theirs} and {source.document.encoder}."
        )
    for name in ("activation", "max_distance"):  # shows in no variable's shape
        mine, given = getattr(ours, name), getattr(theirs, name)
        if mine != given:
            raise ValueError(
                f"`model.init` must hold an encoder with {name}={mine!r}. "
                f"Received: model.init={source.name!r}, with {name}={given!r}. "
                f"Leave model.size and model.{name} out to take the checkpoint's."
            )


def _is_shared(part: str, source: Source) -> bool:
    """Whether the source's towers have one such part, or two of equal weights."""
    if source.document is source.query or part in shared_parts(source.architecture):
        return True
    theirs = source.document.tensors
    return all(
        name in theirs and np.array_equal(tensor.read(), theirs[name].read())
        for name, tensor in source.query.tensors.items()
        if name.partition("/")[0] == part
    )


def load_t5(source: str | Source, dropout: float = 0.0, dtype: str | None = None) -> T5Encoder:
    """A `T5Encoder` with published weights.

    Args:
        source: `hf:FOLDER`, `keras_hub:PRESET`, `t5_tf:PATH`, `st:FOLDER`, or what
            `open_source` gave for one; of two towers that of queries is taken.
        dropout: rate in training.
        dtype: `"float32"` or `"mixed_bfloat16"`; None is Keras's global policy.

    Raises:
        FileNotFoundError, ValueError: no such checkpoint, or none of a T5 encoder.

    Example:

    >>> encoder = load_t5("hf:t5-v1_1-base")  # doctest: +SKIP
    """
    if isinstance(source, str):
        from samtone_tf.checkpoints.open import open_source

        source = open_source(source)
    config = {**source.query.encoder.to_dict(), "dropout": dropout}
    encoder = T5Encoder(config, dtype=dtype, name="encoder")
    encoder.build()
    assign_part("token_embedding", encoder.token_embedding, source.query, source.name)
    assign_part("encoder", encoder.stack, source.query, source.name)
    return encoder
