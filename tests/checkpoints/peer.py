"""Checkpoints to compare with sentence-transformers: theirs and ours, random, three layers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from samtone_tf.checkpoints.source import PROJECTION, Source
from samtone_tf.dual_encoder import DualEncoder
from tests import tiny
from tests.checkpoints import made

HIDDEN, WIDTH, ROWS = 24, 16, 224
PROMPTS = {"query": "question: ", "document": "passage: "}
LENGTHS = {"query": 12, "document": 80}


def interop(test):
    """Marks a test of their package, which warns of what it deprecates itself."""
    warned = ("ignore::DeprecationWarning", "ignore::FutureWarning")
    for mark in (pytest.mark.interop, *map(pytest.mark.filterwarnings, warned)):
        test = mark(test)
    return test


def texts() -> list[str]:
    """Of very different lengths; two are longer than 70 tokens, so that far positions count."""
    documents = list(tiny.data().documents.values())
    return [
        "the old harbour",
        "a",
        "",
        *documents[:5],
        " ".join(documents[5:9]),
        "library of the northern chapel, " * 12,
    ]


def save_t5(folder: Path, seed: int, deviation: float = 0.3, **numbers) -> Path:
    """A T5EncoderModel folder with a tokenizer, so wide that a wrong turn or GELU shows."""
    import torch
    import transformers

    settings = {
        "vocab_size": ROWS,
        "d_model": HIDDEN,
        "d_kv": 6,
        "d_ff": 40,
        "num_layers": 3,
        "num_heads": 4,
        "feed_forward_proj": "gated-gelu",
        "is_encoder_decoder": False,
        "use_cache": False,
    }
    config = transformers.T5Config(**{**settings, **numbers})
    model = transformers.T5EncoderModel(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            mean, width = (1.0, 0.2) if "layer_norm" in name else (0.0, deviation)
            tensor.normal_(mean, width, generator=generator)
    model.save_pretrained(folder)
    (folder / "spiece.model").write_bytes(tiny.tokenizer().model)
    tokenizer = transformers.T5Tokenizer.from_pretrained(folder, extra_ids=0)
    tokenizer.save_pretrained(folder)
    return folder


def dense(seed: int):
    """A projection as GTR has it."""
    import torch
    from sentence_transformers.sentence_transformer import modules

    torch.manual_seed(seed)
    return modules.Dense(HIDDEN, WIDTH, bias=False, activation_function=torch.nn.Identity())


def save(folder: Path, architecture: str = "sde", length: int = 100, **numbers) -> Path:
    """A SentenceTransformer folder: plain, or a Router as `"ade"` or `"ade_spl"` would be."""
    package = pytest.importorskip("sentence_transformers")
    from sentence_transformers.sentence_transformer import modules

    def body(seed):
        t5 = save_t5(folder.with_name(f"{folder.name}_t5_{seed}"), seed, **numbers)
        transformer = modules.Transformer(str(t5), max_seq_length=length)
        return [transformer, modules.Pooling(HIDDEN, "mean")]

    if architecture == "sde":
        parts = [*body(0), dense(0), modules.Normalize()]
    elif architecture == "ade":
        routes = [[*body(i), dense(i), modules.Normalize()] for i in range(2)]
        parts = [modules.Router.for_query_document(*routes)]
    else:
        parts = [modules.Router.for_query_document(body(0), body(1)), dense(0), modules.Normalize()]
    model = package.SentenceTransformer(modules=parts, prompts=PROMPTS, device="cpu")
    model.save(str(folder), create_model_card=False)
    return folder


def theirs(folder: Path) -> dict[str, np.ndarray]:
    """Side → vectors of `texts` by sentence-transformers, from a folder, (B, D)."""
    model = load(folder)
    return {"query": model.encode_query(texts()), "document": model.encode_document(texts())}


def load(folder: Path):
    """Their model of a folder; skips the test where the package is missing."""
    package = pytest.importorskip("sentence_transformers")
    return package.SentenceTransformer(str(folder), device="cpu")


def ours(
    model: DualEncoder, source: Source, lengths: dict[str, int] | int = 100
) -> dict[str, np.ndarray]:
    """The same by this package."""
    if isinstance(lengths, int):
        lengths = {"query": lengths, "document": lengths}
    prompts = {"query": source.query_prompt, "document": source.document_prompt}
    encode = {"query": model.encode_query, "document": model.encode_document}
    return {
        side: np.asarray(encode[side](tokens(source, prompts[side], lengths[side])))
        for side in encode
    }


def tokens(source: Source, prompt: str, length: int) -> dict[str, np.ndarray]:
    """Token ids and padding mask of `texts`, (B, L)."""
    rows = source.tokenizer.prompted(prompt).encode(texts(), length)
    longest = max(map(len, rows))
    ids = np.stack([np.pad(row, (0, longest - len(row))) for row in rows])
    mask = np.arange(longest) < np.array([[len(row)] for row in rows])
    return {"token_ids": ids, "padding_mask": mask}


def source(architecture="sde", projection: bool = True, **numbers) -> Source:
    """A checkpoint of ours in memory; `numbers` are fields of `EncoderConfig`."""
    config = replace(made.NUMBERS, vocabulary_size=ROWS, **numbers)
    width = 10 if projection else None
    query = made.tower(config, width)
    document = query if architecture == "sde" else made.tower(config, width, seed=1)
    if architecture == "ade_spl":
        tensors = {**document.tensors, PROJECTION: query.tensors[PROJECTION]}
        document = replace(document, tensors=tensors)
    prompts = (PROMPTS["query"], PROMPTS["document"])
    return Source("made:up", query, document, architecture, tiny.tokenizer(), *prompts)


def model_of(one: Source) -> DualEncoder:
    """A model whose towers share nothing gives the same vectors, whatever they shared."""
    return DualEncoder.from_pretrained(replace(one, architecture="ade"))
