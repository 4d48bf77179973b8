"""`convert`: a run, or a published checkpoint → a folder for another tool, or a run folder."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import yaml

from samtone_tf.checkpoints.card import Card, write_card
from samtone_tf.checkpoints.sentence_transformers import identity
from samtone_tf.checkpoints.source import PROJECTION, Source, TowerSource
from samtone_tf.checkpoints.write_huggingface import write_huggingface
from samtone_tf.checkpoints.write_sentence_transformers import write_sentence_transformers
from samtone_tf.checks import check_choice, check_vocabulary
from samtone_tf.config import INITS, ModelConfig, RunConfig, shared_parts
from samtone_tf.data.tokenizer import Tokenizer, check_length
from samtone_tf.dual_encoder import DualEncoder
from samtone_tf.merge import merged
from samtone_tf.output_folder import check_new, written_whole
from samtone_tf.training.initial_weights import open_initial, open_run, resolve, source_of
from samtone_tf.training.run_folder import (
    choose_checkpoint,
    load_config,
    load_model,
    load_tokenizer,
    make_run_folder,
    save_model,
)
from samtone_tf.training.run_log import VALIDATION, RunLog

TARGETS = ("sentence-transformers", "huggingface", "keras")
_LENGTHS = {"query": 64, "document": 512}  # as an export has them


def convert(
    source: str | Path,
    out: str | Path,
    to: str,
    *,
    architecture: str | list[str] | None = None,
    checkpoint: str | None = None,
    vocabulary: str | Path | None = None,
    license: str = "unknown",
    query_length: int | None = None,
    document_length: int | None = None,
) -> Path:
    """Writes a trained or published model for another tool, or a published one as a run folder.

    - `"sentence-transformers"`: a SentenceTransformer folder; two towers become a Router.
    - `"huggingface"`: a T5EncoderModel folder, with the projection in a file beside; two towers
      become `OUT/query` and `OUT/document`.
    - `"keras"`: a run folder, which `load_model`, `export_saved_model` and `model.init` take.

    Args:
        source: a run folder, a `.keras` file, or `hf:`, `keras_hub:`, `t5_tf:` or `st:` and a
            place, as `model.init` has them.
        out: folder to write.
        to: one of the three.
        architecture: what the towers shall share; None is the source's. Towers can be taken
            apart (both start alike), not made one.
        checkpoint: `"last"` or `"best"` of a run; None is the best one where it was validated.
        vocabulary: the SentencePiece model of a source that holds none, as a `.keras` file.
        license: for the model card, as the Hugging Face Hub spells it.
        query_length: tokens of a query, end token included; None is the source's, or 64.
        document_length: the same for documents, or 512.

    Returns:
        `out` as a path.

    Raises:
        FileExistsError: `out` holds something.
        FileNotFoundError, ValueError: no such source, no tokenizer, or an unknown target.
        ImportError: what reads the source is not installed.

    Example:

    >>> convert("runs/scifact", "hub/scifact", "sentence-transformers")  # doctest: +SKIP
    """
    check_choice("to", to, TARGETS)
    out = check_new(out, "out", "Choose another folder, or remove this one yourself.")
    Card("", license=license)  # refused before the work
    opened, config, card = _open(str(source), checkpoint)
    opened = replace(opened, tokenizer=_tokenizer(opened, vocabulary))
    opened = _taken_apart(opened, architecture)
    given = {"query": query_length, "document": document_length}
    lengths = {side: given[side] or _length(opened, side) for side in given}
    for length in lengths.values():
        check_length(length)
    card = replace(card, license=license)
    with written_whole(out) as folder:
        if to == "keras":
            _write_keras(opened, config, folder, lengths, card)
        elif to == "huggingface":
            write_huggingface(opened, folder, lengths, card)
        else:
            write_sentence_transformers(opened, folder, lengths, card)
    return out


def _open(source: str, checkpoint: str | None) -> tuple[Source, RunConfig | None, Card]:
    """The source, the configuration of a run, and what a card can say of it."""
    kind, _, place = source.partition(":")
    if kind == "run" and place:
        source = place
    elif kind in INITS and place and not Path(source).exists():
        if checkpoint is not None:
            raise ValueError(
                "`checkpoint` must be left out unless `source` is a run folder. "
                f"Received: checkpoint={checkpoint!r}, source={source!r}."
            )
        return open_initial(source), None, Card(source)
    path = Path(source)
    if path.is_file():
        return open_run(path, source), None, Card(source)
    if not path.is_dir():
        kinds = ", ".join(f"{kind}:" for kind in INITS if kind != "run")
        raise FileNotFoundError(
            "`source` must be a run folder, a .keras file, or a place behind one of "
            f"{kinds}. Received: source={source!r}, which does not exist."
        )
    model = merged(load_model(choose_checkpoint(path, checkpoint)))
    config = load_config(path)
    opened = source_of(model, source, load_tokenizer(path), config.data)
    return opened, config, _card(path, config, checkpoint)


def _card(run: Path, config: RunConfig, checkpoint: str | None) -> Card:
    """What a run knows of itself."""
    lines = [line for line in RunLog(run, writes=False).read() if _measures(line)]
    scores: Mapping[str, float] = {}
    if lines:
        key = VALIDATION + config.validation.measure
        is_last = checkpoint == "last"
        scores = _measures(lines[-1] if is_last else max(lines, key=lambda line: line[key]))
    return Card(
        str(run),
        data=config.data.source,
        command="samtone train --config config.yaml --out RUN",
        scores=scores,
        configuration=yaml.safe_dump(config.to_dict(), sort_keys=False, allow_unicode=True),
    )


def _measures(line: Mapping[str, float]) -> dict[str, float]:
    """The scores of a validation, by what a card calls them; none of a line about training."""
    names = [name for name in line if name.startswith(VALIDATION) and "@" in name]
    return {f"{name.removeprefix(VALIDATION)} in validation": line[name] for name in names}


def _tokenizer(source: Source, vocabulary: str | Path | None) -> Tokenizer:
    """The source's own, or the one that is named."""
    own = source.tokenizer
    given = Tokenizer.from_file(vocabulary) if vocabulary is not None else None
    if own is None and given is None:
        raise ValueError(
            "`vocabulary` must be set for a source that holds none. "
            f"Received: vocabulary=None, source={source.name!r}. Pass the vocabulary.spm of its "
            "run, or convert the run folder."
        )
    if own is not None and given is not None and own.fingerprint != given.fingerprint:
        raise ValueError(
            "`vocabulary` must be left out where the source has its own. Received: "
            f"{vocabulary}, another than that of source={source.name!r}."
        )
    tokenizer = own or given
    check_vocabulary(tokenizer.vocabulary_size, source.query.encoder.vocabulary_size)
    return tokenizer


def _taken_apart(source: Source, architecture: str | list[str] | None) -> Source:
    """The source with towers that share what `architecture` says; both may start alike."""
    if architecture is None:
        return source
    shared = shared_parts(architecture)
    apart = [part for part in shared if part not in shared_parts(source.architecture)]
    if apart:
        raise ValueError(
            "`architecture` must not share what the source does not. Received: "
            f"architecture={architecture!r}, and source={source.name!r}, whose two towers have a "
            f"{apart[0]} each."
        )
    document = source.document
    if document is source.query and shared != shared_parts("sde"):
        document = replace(source.query)
    return replace(source, architecture=architecture, document=document)


def _length(source: Source, side: str) -> int:
    return getattr(source, f"{side}_length") or source.max_length or _LENGTHS[side]


def _write_keras(
    source: Source,
    config: RunConfig | None,
    folder: Path,
    lengths: Mapping[str, int],
    card: Card,
) -> None:
    """A run folder as if its training had just begun from these weights."""
    source = _with_projection(source)
    init = source.name if source.name.partition(":")[0] in INITS else f"run:{source.name}"
    model = ModelConfig(init=init, architecture=source.architecture)
    config = resolve(replace(config or RunConfig(), model=model), source)
    weights = DualEncoder.from_pretrained(source, dtype="float32")
    make_run_folder(folder, config, source.tokenizer, "none: these weights were converted")
    save_model(weights, folder)
    write_card(folder, card, source, lengths, _HOW.format(**lengths), "keras")


def _with_projection(source: Source) -> Source:
    """The same with an identity where it has none: then vectors are the mean hidden states."""

    def filled(tower: TowerSource) -> TowerSource:
        kernel = tower.tensors.get(PROJECTION) or identity(tower.encoder.hidden_dim)
        return replace(tower, tensors={**tower.tensors, PROJECTION: kernel})

    query = filled(source.query)
    document = query if source.document is source.query else filled(source.document)
    return replace(source, query=query, document=document)


_HOW = """\
    samtone export RUN saved_models/NAME/1 --query_length {query} --document_length {document}
    samtone train --data SOURCE --out runs/NAME --model.init run:RUN
"""
