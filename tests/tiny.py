"""Tiny data and tiny runs: what tests of training, export, search and commands share.

A run is trained and exported once per process, whichever test asks first.
"""

import atexit
import json
import tempfile
from functools import lru_cache
from pathlib import Path

import numpy as np

from samtone_tf.config import DataConfig, LossConfig, ModelConfig, RunConfig, TrainConfig
from samtone_tf.data.records import RetrievalData

ARCHITECTURES = ("sde", "ade_spl")
DIM = 12
RUN_FILES = {
    "README.md",
    "checkpoints",
    "config.yaml",
    "environment.json",
    "metrics.jsonl",
    "tensorboard",
    "vocabulary.spm",
}
"""What a run folder holds when its run is over."""

STEPS = 5
QUERY_LENGTH, DOCUMENT_LENGTH = 12, 20

_PLACES = (
    "harbour",
    "orchard",
    "bakery",
    "museum",
    "theatre",
    "library",
    "stadium",
    "chapel",
    "market",
    "tunnel",
)
_ADJECTIVES = ("old", "small", "bright", "quiet", "northern", "famous")
_RULES = (
    "opens before breakfast and closes when the last visitor has gone home",
    "sells tickets at the side door for children and for their grandparents",
    "stands beside the river where boats carry stone, timber and salt",
)

ODD_TEXTS = [
    "",
    " ",
    " \t \n ",
    "\u0000",
    "a\u0000b",
    "</s>",
    "<pad> <unk> ▁",
    "🙂🙃 👩‍👩‍👧",
    "naïve café — “quoted” …",
    "日本語のテキスト",
    "ﬁne ½ ①",
    "x" * 3000,
    "--- ---- -----",
    "word " * 10_000,
]


@lru_cache
def data() -> RetrievalData:
    """Sixty questions, one made-up document for each; the judgements are both split and corpus."""
    names = [f"{adjective} {place}" for place in _PLACES for adjective in _ADJECTIVES]
    documents = {
        f"d{row}": f"{name} {_RULES[row % 3]}, since year {1000 + 7 * row}."
        for row, name in enumerate(names)
    }
    queries = {f"q{row}": f"the {name}" for row, name in enumerate(names)}
    qrels = {f"q{row}": {f"d{row}": 1} for row in range(len(names))}
    return RetrievalData("made up", "train", queries, documents, qrels)


def write_beir(folder: Path, splits: tuple[str, ...] = ("train", "test")) -> Path:
    """The same data as a BEIR folder; the splits are equal."""
    (folder / "qrels").mkdir(parents=True)
    for name, texts in (("corpus", data().documents), ("queries", data().queries)):
        lines = [json.dumps({"_id": key, "text": text}) for key, text in texts.items()]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = [f"{q}\t{d}\t1" for q, judged in data().qrels.items() for d in judged]
    for split in splits:
        text = "\n".join(["query-id\tcorpus-id\tscore", *rows]) + "\n"
        (folder / "qrels" / f"{split}.tsv").write_text(text, encoding="utf-8")
    return folder


def config(architecture: str = "sde", **changes) -> RunConfig:
    """A run of seconds; `changes` are fields of `TrainConfig`."""
    numbers = {"steps": STEPS, "batch_size": 8, "report_every": 2}
    train = numbers | {"optimizer": "adam", "learning_rate": 0.01} | changes
    return RunConfig(
        data=DataConfig(
            source="made up",
            query_length=QUERY_LENGTH,
            document_length=DOCUMENT_LENGTH,
            vocabulary_size=200,
        ),
        model=ModelConfig(
            architecture=architecture,
            embedding_dim=DIM,
            num_layers=1,
            hidden_dim=16,
            num_heads=2,
            head_dim=8,
            feedforward_dim=32,
        ),
        loss=LossConfig(masks="id,positives"),
        train=TrainConfig(**train),
    )


@lru_cache
def tokenizer():
    """A vocabulary of the tiny texts."""
    from samtone_tf.data.tokenizer import Tokenizer

    return Tokenizer.train([*data().queries.values(), *data().documents.values()], 200)


@lru_cache
def run(architecture: str) -> Path:
    """A finished run folder. Read it; never write to it."""
    from samtone_tf.training.train import train

    out = _folder() / f"run_{architecture}"
    train(config(architecture), out, data=data(), tokenizer=tokenizer())
    return out


@lru_cache
def saved_model(architecture: str) -> Path:
    """An exported run. Read it; never write to it."""
    from samtone_tf.export.encoder import export_saved_model

    out = _folder() / f"saved_{architecture}" / "1"
    lengths = {"query_length": QUERY_LENGTH, "document_length": DOCUMENT_LENGTH}
    return export_saved_model(run(architecture), out, **lengths)


def python_vectors(architecture: str, side: str, texts: list) -> np.ndarray:
    """Vectors from the run's `.keras` file, in one batch padded to the full length; no export."""
    from samtone_tf.training.run_folder import load_model

    model = load_model(run(architecture))
    encode = {"query": model.encode_query, "document": model.encode_document}[side]
    length = {"query": QUERY_LENGTH, "document": DOCUMENT_LENGTH}[side]
    ids = tokenizer().encode(texts, length)
    token_ids = np.stack([np.pad(row, (0, length - len(row))) for row in ids])
    mask = np.arange(length) < np.array([[len(row)] for row in ids])
    return np.asarray(encode({"token_ids": token_ids, "padding_mask": mask}))


def docstring_texts(num: int) -> list[str]:
    """Made-up text of the kind that documentation holds: code, signs, names, sections."""
    random = np.random.default_rng(3)
    pieces = [
        *_PLACES, *_ADJECTIVES, "Args:", "Returns:", ">>>", "x = f(y)[0]", "`dtype`", "--", "---",
        "----", "NaN", "1e-5", "e.g.", "self._name", "B×D", "(n, m)", "shape=(None, 3)", "\n\n",
        "  ", "\t", "naïve", "don't", "https://example.org/a?b=c", "π≈3.14", "Q&A", "...", "…",
    ]  # fmt: skip
    return [
        " ".join(random.choice(pieces, random.integers(1, 40)))
        + random.choice(["", ".", "\n", " ", "--"])
        for _ in range(num)
    ]


@lru_cache
def _folder() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="samtone_tests_")
    atexit.register(folder.cleanup)
    return Path(folder.name)
