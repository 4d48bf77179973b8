"""A `Source` → a folder that sentence-transformers loads, and that gives the same vectors.

One tower, or two that share everything:
    modules.json  config_sentence_transformers.json  README.md
    sentence_bert_config.json and the files of a T5EncoderModel, 1_Pooling/, 2_Dense/, 3_Normalize/

Two towers: a `Router` with a route for queries and one for documents, in folders such as
query_0_Transformer/. A shared projection stands once, behind the router; every other shared part is
written twice, since a module belongs to one route or to all.

The types of the modules are written under their older names, which every release knows.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from samtone_tf.checkpoints.card import Card, write_card
from samtone_tf.checkpoints.source import PROJECTION, SIDES, Source, TowerSource
from samtone_tf.checkpoints.write_huggingface import transposed, write_encoder, write_json
from samtone_tf.checkpoints.write_safetensors import write_one
from samtone_tf.config import PARTS, shared_parts
from samtone_tf.data.tokenizer import Tokenizer

_TYPES = "sentence_transformers.models."
_IDENTITY = "torch.nn.modules.linear.Identity"
_PROJECTING = ("Dense", "Normalize")


def write_sentence_transformers(
    source: Source, out: Path, lengths: Mapping[str, int], card: Card
) -> None:
    """Writes a SentenceTransformer folder.

    Args:
        source: with a tokenizer.
        out: an empty folder.
        lengths: tokens of a `query` and a `document`, end token included. One tower has one
            length there, the longer one.
        card: what README.md says.
    """
    if source.document is source.query or len(shared_parts(source.architecture)) == len(PARTS):
        modules = _write_one(source, out, max(lengths.values()))
        card = replace(card, notes=(*card.notes, *_about_lengths(lengths)))
    else:
        modules = _write_router(source, out, lengths)
    write_json(out / "modules.json", modules)
    config = {
        "model_type": "SentenceTransformer",
        "prompts": {"query": source.query_prompt, "document": source.document_prompt},
        "default_prompt_name": None,
        "similarity_fn_name": "cosine",
    }
    write_json(out / "config_sentence_transformers.json", config)
    write_card(out, card, source, lengths, _HOW, "sentence-transformers")


def _write_one(source: Source, out: Path, length: int) -> list[dict[str, Any]]:
    """All modules of one tower; the first lies in the folder itself."""
    modules = []
    for kind, write in _writers(source.query, source.tokenizer, length).items():
        modules.append(_module(len(modules), kind))
        write(out / modules[-1]["path"])
    return modules


def _write_router(source: Source, out: Path, lengths: Mapping[str, int]) -> list[dict[str, Any]]:
    """The router, in the folder itself, and what stands behind it."""
    behind = _PROJECTING if "projection" in shared_parts(source.architecture) else ()
    types, structure = {}, {side: [] for side in SIDES}
    for side in SIDES:
        writers = _writers(getattr(source, side), source.tokenizer, lengths[side])
        for number, kind in enumerate(kind for kind in writers if kind not in behind):
            name = f"{side}_{number}_{kind}"
            writers[kind](out / name)
            types[name] = _TYPES + kind
            structure[side].append(name)
    parameters = {"default_route": "document", "allow_empty_key": True}
    config = {"types": types, "structure": structure, "parameters": parameters}
    write_json(out / "router_config.json", config)
    modules = [_module(0, "Router")]
    for kind in (kind for kind in writers if kind in behind):
        modules.append(_module(len(modules), kind))
        writers[kind](out / modules[-1]["path"])
    return modules


def _module(number: int, kind: str) -> dict[str, Any]:
    """One line of `modules.json`."""
    path = f"{number}_{kind}" if number else ""
    return {"idx": number, "name": str(number), "path": path, "type": _TYPES + kind}


def _writers(
    tower: TowerSource, tokenizer: Tokenizer, length: int
) -> dict[str, Callable[[Path], None]]:
    """Kind of module → what writes it into a folder, in the order in which a text goes through."""
    writers = {
        "Transformer": lambda folder: write_transformer(folder, tower, tokenizer, length),
        "Pooling": lambda folder: write_pooling(folder, tower),
        "Dense": lambda folder: write_dense(folder, tower),
        # Older releases refuse a configuration of it, and it needs none.
        "Normalize": lambda folder: folder.mkdir(),
    }
    return {k: write for k, write in writers.items() if k != "Dense" or PROJECTION in tower.tensors}


def write_transformer(folder: Path, tower: TowerSource, tokenizer: Tokenizer, length: int) -> None:
    """The T5 encoder and its length."""
    folder.mkdir(exist_ok=True)
    write_encoder(folder, tower, tokenizer, length)
    settings = {"max_seq_length": length, "do_lower_case": False}
    write_json(folder / "sentence_bert_config.json", settings)


def write_pooling(folder: Path, tower: TowerSource) -> None:
    """The mean over a text's tokens."""
    modes = ("cls_token", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
    config = {
        "word_embedding_dimension": tower.encoder.hidden_dim,
        "pooling_mode_mean_tokens": True,
        **{f"pooling_mode_{mode}": False for mode in modes},
        "include_prompt": True,
    }
    folder.mkdir()
    write_json(folder / "config.json", config)


def write_dense(folder: Path, tower: TowerSource) -> None:
    """The projection, without bias."""
    hidden, width = tower.tensors[PROJECTION].shape
    config = {
        "in_features": hidden,
        "out_features": width,
        "bias": False,
        "activation_function": _IDENTITY,
    }
    folder.mkdir()
    write_json(folder / "config.json", config)
    weight = {"linear.weight": transposed(tower.tensors[PROJECTION])}
    write_one(folder / "model.safetensors", weight)


def _about_lengths(lengths: Mapping[str, int]) -> tuple[str, ...]:
    if len(set(lengths.values())) == 1:
        return ()
    return (
        f"One tower has one length here, the longer one: queries are cut after "
        f"{max(lengths.values())} tokens, too.",
        "sentence-transformers 6 can cut them as they were before: "
        f"`model[0].query_length = {lengths['query']}` and "
        f"`model[0].document_length = {lengths['document']}`.",
    )


_HOW = """\
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer("FOLDER")
    queries = model.encode_query(["a question"])
    documents = model.encode_document(["a text that answers it", "another"])
    scores = model.similarity(queries, documents)
"""
