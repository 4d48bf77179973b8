"""Weights to start from (`model.init`): published ones, or those of another run."""

from dataclasses import fields, replace
from pathlib import Path

from samtone_tf.checkpoints.assign import part_variables
from samtone_tf.checkpoints.open import open_source
from samtone_tf.checkpoints.source import LazyTensor, Source, TowerSource
from samtone_tf.config import DataConfig, RunConfig
from samtone_tf.data.tokenizer import Tokenizer
from samtone_tf.dual_encoder import DualEncoder
from samtone_tf.merge import merged
from samtone_tf.towers.tower import Tower
from samtone_tf.training.run_folder import check_run, load_config, load_model, load_tokenizer


def open_initial(init: str) -> Source:
    """What `model.init` names, opened.

    Args:
        init: `run:FOLDER`, `run:FILE` with a `.keras` file, which holds no tokenizer, or a
            kind that `open_source` knows.

    Raises:
        FileNotFoundError, ValueError: no such run or checkpoint, or one that is damaged.
    """
    kind, _, path = init.partition(":")
    return open_run(Path(path), init) if kind == "run" else open_source(init)


def open_run(path: Path, name: str) -> Source:
    """A run folder, or a `.keras` file, as a source of weights.

    Args:
        path: of the folder or file.
        name: what messages call it.
    """
    settings, tokenizer = DataConfig(), None
    if not path.is_file():
        settings, tokenizer = load_config(check_run(path)).data, load_tokenizer(path)
    return source_of(load_model(path), name, tokenizer, settings)


def source_of(
    model: DualEncoder, name: str, tokenizer: Tokenizer | None, settings: DataConfig
) -> Source:
    """A model in memory as a source of weights; adapters are added to its kernels."""
    model = merged(model)
    query = _tower_source(model.query_tower)
    one = model.document_tower is model.query_tower
    return Source(
        name,
        query,
        query if one else _tower_source(model.document_tower),
        model.architecture,
        tokenizer,
        settings.query_prompt or "",
        settings.document_prompt or "",
    )


def _tower_source(tower: Tower) -> TowerSource:
    tensors = {}
    for part, layer in tower.parts.items():
        for name, variable in part_variables(part, layer).items():
            tensors[name] = LazyTensor(name, tuple(variable.shape), variable.numpy)
    return TowerSource(tower.config, tensors)


def initial_tokenizer(source: Source, tokenizer: Tokenizer | None) -> Tokenizer:
    """The tokenizer of a run that starts from `source`: its rows of the token table fit no other.

    Args:
        source: the weights.
        tokenizer: the one that was asked for, or None for the source's.

    Raises:
        ValueError: another tokenizer than the source's, or none where the source has none.
    """
    own = source.tokenizer
    if own is None and tokenizer is None:
        raise ValueError(
            "`data.vocabulary` must be set when the weights come without a tokenizer. Received: "
            f"data.vocabulary=None, model.init={source.name!r}. Pass the SentencePiece model that "
            "they were trained with."
        )
    if own is not None and tokenizer is not None and tokenizer.fingerprint != own.fingerprint:
        raise ValueError(
            "`data.vocabulary` must be the one that the weights were trained with. Received: "
            f"another than that of model.init={source.name!r}. Leave it out to use that one."
        )
    return own or tokenizer


def resolve(config: RunConfig, source: Source) -> RunConfig:
    """The configuration with the source's numbers and prompts where nothing is set.

    A size that is named is insisted on: then the source must have its numbers.
    """
    model, numbers = config.model, source.query.encoder.to_dict()
    known = {
        "architecture": source.architecture,
        "embedding_dim": source.query.embedding_dim,
        "vocabulary_size": numbers["vocabulary_size"],
        "dropout": numbers["dropout"],
    }
    if model.size is None:
        known |= numbers
    settings = {field.name for field in fields(model)}
    unset = {n: v for n, v in known.items() if n in settings and getattr(model, n) is None}
    prompts = {
        name: getattr(source, name) if getattr(config.data, name) is None else None
        for name in ("query_prompt", "document_prompt")
    }
    data = replace(config.data, **{n: v for n, v in prompts.items() if v is not None})
    return replace(config, model=replace(model, **unset), data=data)


def resolve_as(config: RunConfig, stored: RunConfig) -> RunConfig:
    """The configuration with what a run of the same `model.init` once resolved to.

    To resume, a run needs no other folder, not even the one it started from.
    """
    if config.model.init is None or config.model.init != stored.model.init:
        return config
    sections = {}
    for section in ("model", "data"):
        asked, found = getattr(config, section), getattr(stored, section)
        names = [field.name for field in fields(asked) if getattr(asked, field.name) is None]
        sections[section] = replace(asked, **{name: getattr(found, name) for name in names})
    return replace(config, **sections)
