"""Opens an export, a run folder or a model in memory as a `TextEncoder`."""

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from samtone_tf.checks import check_choice
from samtone_tf.data.corpus import SIDES
from samtone_tf.data.token_cache import TokenCache
from samtone_tf.data.tokenizer import Tokenizer, check_length
from samtone_tf.distribution import default_batch_tokens, make_strategy
from samtone_tf.dual_encoder import DualEncoder
from samtone_tf.encoding.text_encoder import TextEncoder
from samtone_tf.export.saved_encoder import SavedEncoder, check_saved_model, model_fingerprint
from samtone_tf.merge import merged
from samtone_tf.tensorflow_encode import make_text_encoder

LENGTHS = {"query": 64, "document": 512}
"""Tokens of a text where neither the caller nor an export says; those of `samtone export`."""


NO_PROMPTS = {"query": "", "document": ""}


def check_model(model: str | Path) -> None:
    """Raises FileNotFoundError unless `model` is a SavedModel or a run folder; cheap."""
    if not is_run(model):
        check_saved_model(model)


def open_encoder(
    model: str | Path | TextEncoder,
    side: str = "document",
    *,
    length: int | None = None,
    checkpoint: str | None = None,
    strategy: str = "auto",
    tpu: str = "",
    jit_compile: bool = False,
) -> TextEncoder:
    """One side of a model as a function of texts.

    Args:
        model: folder of an exported model, or a run folder; a `TextEncoder` is returned as it is.
        side: `"document"` or `"query"`.
        length: the most tokens of a text; None takes the export's, and 64 for queries and 512
            for documents where `model` is a run.
        checkpoint: of a run: `"last"` or `"best"`; None is the best where it was validated.
        strategy: which devices share the work, as for `make_strategy`; of a run only, since
            a SavedModel is encoded on one device.
        tpu: name or address of the TPU.
        jit_compile: let XLA compile each shape; on one device.

    Raises:
        FileNotFoundError: no model there.
        ValueError: no model with this package's signatures; a strategy or a checkpoint for a
            SavedModel; `"multiworker"`, since machines share a corpus by its shards.
    """
    check_choice("side", side, SIDES)
    if isinstance(model, TextEncoder):
        return model
    if length is not None:
        check_length(length)
    if strategy == "multiworker" or (strategy == "auto" and os.environ.get("TF_CONFIG")):
        raise ValueError(
            "`strategy` must be one of auto, one, mirrored, tpu where a corpus is encoded, and "
            f"TF_CONFIG is not used. Received: strategy={strategy!r}. Run a process on each "
            "machine, and give each its own `shards`, such as 0:10."
        )
    if is_run(model):
        return _open_run(Path(model), side, length, checkpoint, strategy, tpu, jit_compile)
    several = None if strategy in ("auto", "one") else strategy
    for name, value in {"checkpoint": checkpoint, "strategy": several}.items():
        if value is not None:
            raise ValueError(
                f"`{name}` is for a run folder: a SavedModel is one checkpoint, on one device. "
                f"Received: {name}={value!r} and model={str(model)!r}. Give the run folder as the "
                "model, or leave it out."
            )
    return _open_export(Path(model), side, length, jit_compile)


def encoder_of(
    model: DualEncoder,
    tokenizer: Tokenizer,
    side: str = "document",
    length: int | None = None,
    jit_compile: bool = False,
    prompts: Mapping[str, str] = NO_PROMPTS,
) -> TextEncoder:
    """One side of a model in memory, on all replicas of the strategy that it was built in.

    Args:
        model: two towers.
        tokenizer: the one it was trained with.
        side: `"document"` or `"query"`.
        length: the most tokens of a text; None is 64 for queries and 512 for documents.
        jit_compile: let XLA compile each shape; on one device.
        prompts: what stands before every `query` and every `document`.
    """
    check_choice("side", side, SIDES)
    length = LENGTHS[side] if length is None else length
    num_replicas = model.distribute_strategy.num_replicas_in_sync
    if jit_compile and num_replicas > 1:
        warnings.warn(
            f"`jit_compile` is for one device: {num_replicas} replicas work without it (a TPU "
            "compiles always).",
            stacklevel=2,
        )
    return TextEncoder(
        tokenize=_tokenizing(tokenizer.prompted(prompts[side]), length),
        encode_tokens=make_text_encoder(model, side, jit_compile=jit_compile),
        side=side,
        length=length,
        dim=model.embedding_dim,
        fingerprint=model_fingerprint(tokenizer, model.weights, prompts),
        num_replicas=num_replicas,
        batch_tokens=default_batch_tokens(),
    )


def is_run(model: str | Path) -> bool:
    """Whether a folder is one of `samtone train`, as far as a look at it tells."""
    return (Path(model) / "config.yaml").is_file()


def _open_export(folder: Path, side: str, length: int | None, jit_compile: bool) -> TextEncoder:
    encoder = SavedEncoder(folder, **{f"{side}_length": length})
    return TextEncoder(
        tokenize=lambda texts: encoder.tokenize(side, texts),
        encode_tokens=encoder.token_function(side, jit_compile),
        side=side,
        length=encoder.lengths[side],
        dim=encoder.embedding_dim,
        fingerprint=encoder.fingerprint,
        path=str(folder.resolve()),
        batch_tokens=default_batch_tokens(),
    )


def _open_run(
    run: Path,
    side: str,
    length: int | None,
    checkpoint: str | None,
    strategy: str,
    tpu: str,
    jit_compile: bool,
) -> TextEncoder:
    # Not needed for an export.
    from samtone_tf.training import run_folder

    path, tokenizer = run_folder.choose_checkpoint(run, checkpoint), run_folder.load_tokenizer(run)
    settings = run_folder.load_config(run).data
    prompts = {side: getattr(settings, f"{side}_prompt") or "" for side in NO_PROMPTS}
    with make_strategy(strategy, tpu).scope():
        model = merged(run_folder.load_model(path))  # as its export: equal, and known as equal
    opened = encoder_of(model, tokenizer, side, length, jit_compile, prompts)
    return replace(opened, path=str(run.resolve()))


def _tokenizing(tokenizer: Tokenizer, length: int) -> Callable[[Sequence[str | bytes]], TokenCache]:
    return lambda texts: TokenCache.build(texts, tokenizer, length)
