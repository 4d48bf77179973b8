"""A `Source` → folders of `T5EncoderModel`: configuration, safetensors and tokenizer.

OUT/                                    one tower; of two OUT/query/ and OUT/document/
    config.json  model.safetensors  spiece.model  tokenizer.json  tokenizer_config.json
    projection.safetensors              `linear.weight` (D, H), for which T5 has no place
    README.md
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from samtone_tf.checkpoints.card import Card, write_card
from samtone_tf.checkpoints.source import PROJECTION, LazyTensor, Source, TowerSource
from samtone_tf.checkpoints.t5_names import huggingface_names, is_transposed
from samtone_tf.checkpoints.tokenizer_json import TOKENIZER_JSON, make_tokenizer_json
from samtone_tf.checkpoints.write_safetensors import write_one, write_safetensors
from samtone_tf.data.tokenizer import END_ID, PAD_ID, UNKNOWN_ID, Tokenizer
from samtone_tf.encoder_config import EncoderConfig

PROJECTION_FILE = "projection.safetensors"
_EPSILON = 1e-6  # of the RMS norms, here and in every published T5


def write_huggingface(source: Source, out: Path, lengths: Mapping[str, int], card: Card) -> None:
    """Writes a T5EncoderModel folder, or one for each of two towers.

    Args:
        source: with a tokenizer.
        out: an empty folder.
        lengths: tokens of a `query` and a `document`, end token included.
        card: what README.md says.
    """
    one = source.document is source.query
    longest = {"": max(lengths.values())}
    for side, length in (longest if one else lengths).items():
        tower = source.document if side == "document" else source.query
        folder = out / side
        folder.mkdir(exist_ok=True)
        write_encoder(folder, tower, source.tokenizer, length)
        if PROJECTION in tower.tensors:
            weight = {"linear.weight": transposed(tower.tensors[PROJECTION])}
            write_one(folder / PROJECTION_FILE, weight)
    how = _how("FOLDER" if one else "FOLDER/query", PROJECTION in source.query.tensors)
    write_card(out, card, source, lengths, how, "transformers")


def write_encoder(folder: Path, tower: TowerSource, tokenizer: Tokenizer, length: int) -> None:
    """Writes one T5EncoderModel folder without README.

    Args:
        folder: where to.
        tower: its projection is left out.
        tokenizer: written as spiece.model, and as tokenizer.json, which is what is used.
        length: tokens of a text, end token included.
    """
    names = huggingface_names(tower.encoder)
    tensors = {
        theirs: transposed(tower.tensors[ours]) if is_transposed(ours) else tower.tensors[ours]
        for ours, theirs in names.items()
    }
    write_json(folder / "config.json", huggingface_config(tower.encoder))
    write_safetensors(folder, tensors)
    _write_tokenizer(folder, tokenizer, length)


def _write_tokenizer(folder: Path, tokenizer: Tokenizer, length: int) -> None:
    tokenizer.save(folder / "spiece.model")
    # No sentinels: they mean nothing to a retriever, and a small table has no rows for them.
    content = make_tokenizer_json(tokenizer, num_extra_ids=0)
    write_json(folder / TOKENIZER_JSON, content)
    special = {token["id"]: token["content"] for token in content["added_tokens"]}
    settings = {
        # Takes tokenizer.json as it is; T5's own class would make it anew from its parts.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": length,
        "pad_token": special[PAD_ID],
        "eos_token": special[END_ID],
        "unk_token": special[UNKNOWN_ID],
        "clean_up_tokenization_spaces": False,
    }
    write_json(folder / "tokenizer_config.json", settings)


def huggingface_config(config: EncoderConfig) -> dict[str, Any]:
    """What `config.json` holds."""
    # T5's GELU is the tanh approximation: `gelu_new` there, and `gated-gelu` means it, too.
    activation = {(True, "gelu"): "gated-gelu", (False, "gelu"): "gelu_new"}.get(
        (config.gated, config.activation), f"{'gated-' if config.gated else ''}{config.activation}"
    )
    return {
        "architectures": ["T5EncoderModel"],
        "model_type": "t5",
        "vocab_size": config.vocabulary_size,
        "d_model": config.hidden_dim,
        "d_kv": config.head_dim,
        "d_ff": config.feedforward_dim,
        "num_layers": config.num_layers,
        "num_heads": config.num_heads,
        "relative_attention_num_buckets": config.num_buckets,
        "relative_attention_max_distance": config.max_distance,
        "feed_forward_proj": activation,
        "layer_norm_epsilon": _EPSILON,
        "dropout_rate": config.dropout,
        "is_encoder_decoder": False,
        "use_cache": False,
        "pad_token_id": PAD_ID,
        "eos_token_id": END_ID,
        "torch_dtype": "float32",
    }


def transposed(tensor: LazyTensor) -> LazyTensor:
    """The same with its two axes the other way round."""
    return LazyTensor(tensor.name, tensor.shape[::-1], lambda: tensor.read().T)


def write_json(file: Path, content: Any) -> None:
    """Writes JSON that people can read."""
    text = json.dumps(content, indent=2, ensure_ascii=False)
    file.write_text(text + "\n", encoding="utf-8")


def _how(folder: str, has_projection: bool) -> str:
    """Lines of Python that give the vectors, with what they do."""
    pooled = "pooled"
    steps = "averaged over the tokens of a text and brought to unit length"
    load, read = "", ""
    if has_projection:
        pooled = "pooled @ projection.T"
        steps = "averaged over the tokens of a text, multiplied with the projection, which T5 has"
        steps += " no place for and\nwhich lies beside it, and brought to unit length"
        load = "    from safetensors.torch import load_file\n"
        read = '    projection = load_file(folder + "/projection.safetensors")["linear.weight"]\n'
    return f"""\
The hidden states of the last block are {steps}:

    import torch
{load}    from transformers import AutoTokenizer, T5EncoderModel

    folder = "{folder}"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    encoder = T5EncoderModel.from_pretrained(folder)
{read}    tokens = tokenizer(["a text"], padding=True, truncation=True, return_tensors="pt")
    with torch.no_grad():
        states = encoder(**tokens).last_hidden_state
    mask = tokens["attention_mask"][:, :, None]
    pooled = (states * mask).sum(1) / mask.sum(1)
    vectors = torch.nn.functional.normalize({pooled})
"""
