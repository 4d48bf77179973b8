"""What every kind of checkpoint is read as: numbers, tokenizer, and tensors under our names.

A reader (`huggingface`, `keras_hub`, `t5_tensorflow`, `sentence_transformers`) opens its files and
says which of their tensors is which of ours; nothing is read before a variable asks for it, so
that a model larger than memory can give its encoder alone.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from samtone_tf.data.tokenizer import Tokenizer
from samtone_tf.encoder_config import EncoderConfig

Shape = tuple[int, ...]

SIDES = ("query", "document")
PROJECTION = "projection/kernel"
TOKEN_TABLE = "token_embedding/embeddings"


@dataclass(frozen=True)
class LazyTensor:
    """One tensor of a checkpoint, turned the way our variable has it.

    Args:
        name: as the checkpoint calls it, for messages.
        shape: after the turning.
        read: reads it, as float32.
    """

    name: str
    shape: Shape
    read: Callable[[], np.ndarray]


@dataclass(frozen=True)
class TowerSource:
    """One tower of a checkpoint.

    Args:
        encoder: its numbers; dropout is 0.
        tensors: our name (`encoder_shapes`, `PROJECTION`) → the tensor.
    """

    encoder: EncoderConfig
    tensors: Mapping[str, LazyTensor]

    @property
    def embedding_dim(self) -> int | None:
        """D, or None where the checkpoint has no projection."""
        return self.tensors[PROJECTION].shape[1] if PROJECTION in self.tensors else None


@dataclass(frozen=True)
class Source:
    """A checkpoint, opened.

    Args:
        name: what the user typed, such as `hf:FOLDER`.
        query: the tower of queries.
        document: that of documents; the same object where the checkpoint has one.
        architecture: what its towers share: a name or the parts; `"sde"` for one tower.
        tokenizer: None where the checkpoint has none.
        query_prompt: what stands before every query.
        document_prompt: what stands before every document.
        max_length: tokens of a text, end token included; None where it does not say.
        query_length: tokens of a query, where that is not `max_length`.
        document_length: the same for documents.
    """

    name: str
    query: TowerSource
    document: TowerSource
    architecture: str | list[str] = "sde"
    tokenizer: Tokenizer | None = None
    query_prompt: str = ""
    document_prompt: str = ""
    max_length: int | None = None
    query_length: int | None = None
    document_length: int | None = None


def encoder_shapes(config: EncoderConfig) -> dict[str, Shape]:
    """Our name → shape, of every variable of an encoder without adapters, table first.

    Names are part (`token_embedding`, `encoder`), layer and variable, as in
    `encoder/block_0/attention/query/kernel`. Kernels are (inputs, outputs).
    """
    hidden, inner = config.hidden_dim, config.num_heads * config.head_dim
    feedforward = config.feedforward_dim
    shapes: dict[str, Shape] = {
        TOKEN_TABLE: (config.vocabulary_size, hidden),
        "encoder/position_bias/embeddings": (config.num_buckets, config.num_heads),
    }
    for i in range(config.num_layers):
        block = f"encoder/block_{i}"
        shapes[f"{block}/attention_norm/scale"] = (hidden,)
        for name in ("query", "key", "value"):
            shapes[f"{block}/attention/{name}/kernel"] = (hidden, inner)
        shapes[f"{block}/attention/output/kernel"] = (inner, hidden)
        shapes[f"{block}/feedforward_norm/scale"] = (hidden,)
        for name in ("wi_0", "wi_1") if config.gated else ("wi_0",):
            shapes[f"{block}/feedforward/{name}/kernel"] = (hidden, feedforward)
        shapes[f"{block}/feedforward/wo/kernel"] = (feedforward, hidden)
    shapes["encoder/final_norm/scale"] = (hidden,)
    return shapes


def match(
    where: str,
    wanted: Mapping[str, Shape],
    names: Mapping[str, str],
    found: Mapping[str, LazyTensor],
    ignored: Iterable[str] = (),
) -> dict[str, LazyTensor]:
    """Pairs our variables with a checkpoint's tensors; each is used exactly once.

    Args:
        where: the checkpoint, for messages.
        wanted: our name → shape.
        names: our name → the checkpoint's name.
        found: the checkpoint's name → its tensor, turned already.
        ignored: patterns (whole names) of what an encoder does not need, such as the decoder's.

    Returns:
        Our name → tensor, in the order of `wanted`.

    Raises:
        ValueError: a tensor is missing, left over, or of another shape; names all of them.
    """
    missing = [names[ours] for ours in wanted if names[ours] not in found]
    used = {names[ours] for ours in wanted}
    patterns = [re.compile(pattern) for pattern in ignored]
    left = [
        name
        for name in found
        if name not in used and not any(pattern.fullmatch(name) for pattern in patterns)
    ]
    problems = []
    if missing:
        problems.append(f"it has no {listed(missing)}")
    if left:
        problems.append(f"nothing here takes its {listed(left)}")
    for ours, shape in wanted.items():
        theirs = found.get(names[ours])
        if theirs is not None and theirs.shape != shape:
            problems.append(f"{theirs.name} has the shape {theirs.shape}, not {shape}")
    if problems:
        raise ValueError(
            "The checkpoint must hold every tensor of the encoder that its configuration "
            f"describes, and no other. Received: {where}: {'; '.join(problems)}."
        )
    return {ours: found[names[ours]] for ours in wanted}


def listed(names: Iterable[str], most: int = 8) -> str:
    """Names with commas between them; of very many the first ones and a count."""
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
