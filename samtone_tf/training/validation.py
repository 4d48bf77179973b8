"""Validation: what the model that is being trained finds in a corpus, by exact search."""

from collections.abc import Callable, Iterator

import numpy as np

from samtone_tf.config import DataConfig, RunConfig
from samtone_tf.data.cache import Cache
from samtone_tf.data.records import RetrievalData
from samtone_tf.data.sources import list_splits, load_data, load_training_table
from samtone_tf.data.table import Table
from samtone_tf.data.token_cache import TokenCache
from samtone_tf.data.tokenizer import Tokenizer
from samtone_tf.data.validation_set import ValidationSet, choose, hold_out
from samtone_tf.dual_encoder import DualEncoder
from samtone_tf.evaluation.measures import measure
from samtone_tf.evaluation.retrieval import drops_self, search_run, self_retrieval_ids
from samtone_tf.index.exact import ExactIndex
from samtone_tf.tensorflow_encode import make_text_encoder

MEASURES = ("P@1", "MRR@10", "nDCG@10", "R@100")
DEPTH = 100  # what the deepest of them sees
ROWS = 128  # texts that a replica encodes at a time


def read_data(
    config: RunConfig,
    data: RetrievalData | None = None,
    validation_data: RetrievalData | None = None,
    cache: Cache | None = None,
) -> tuple[RetrievalData | Table, ValidationSet | None]:
    """The training data, and what to validate on, if anything.

    Args:
        config: names the source and the splits.
        data: training data that was read already. Its source is then not looked at for a
            split `dev`: only a split that `config` names is read.
        validation_data: what to validate on, whatever `config` names.
        cache: where the columns of training data are kept; None reads it into memory, and so
            does a held-out part of it.

    Raises:
        ValueError: bad data, or the training split as the one to validate on.
    """
    source, settings = config.data.source, config.validation
    split = settings.split
    if split is None:
        known = list_splits(source) if data is None and validation_data is None else ()
        split = "dev" if "dev" in known and config.data.split != "dev" else "none"
    if split == config.data.split:
        raise ValueError(
            "`validation.split` must not be the split that is trained on. "
            f"Received: {split} for both. Use held_out, which takes a part of it out of training."
        )
    held_out = None
    if validation_data is None and split not in ("none", "held_out"):
        validation_data = load_data(source, split)
    if validation_data is not None:
        # Before the training data is read: two whole corpora need not fit in memory at once.
        held_out = _choose(validation_data, config)
        validation_data = None
    if held_out is None and split == "held_out":
        data, rest = hold_out(data or load_data(source, config.data.split), settings.queries)
        held_out = _choose(rest, config)
    return data or load_training_table(source, config.data.split, cache), held_out


def _choose(data: RetrievalData, config: RunConfig) -> ValidationSet:
    settings = config.validation
    return choose(data, settings.queries, settings.documents, config.train.seed)


class Validation:
    """A retrieval test for one model: call it as often as the model has changed.

    Texts are cut to the lengths of training and tokenised once. Nothing random is drawn and
    no variable is written, so that training goes on as if there had been no test. Batches
    have few shapes, each compiled once; replicas share the rows of a batch, and every
    process gets the same vectors.

    Args:
        model: the model that is trained.
        chosen: queries and documents.
        tokenizer: the model's.
        settings: has the number of tokens and the prompts of queries and documents.
    """

    def __init__(
        self, model: DualEncoder, chosen: ValidationSet, tokenizer: Tokenizer, settings: DataConfig
    ):
        self.chosen, data = chosen, chosen.data
        self.embedding_dim = model.embedding_dim
        queries, documents = list(data.queries.values()), list(data.documents.values())
        asks = tokenizer.prompted(settings.query_prompt or "")
        answers = tokenizer.prompted(settings.document_prompt or "")
        self.queries = TokenCache.build(queries, asks, settings.query_length)
        self.documents = TokenCache.build(documents, answers, settings.document_length)
        self.encode_query = make_text_encoder(model, "query")
        self.encode_document = make_text_encoder(model, "document")
        self.num_rows = ROWS * model.distribute_strategy.num_replicas_in_sync
        self.exclude = self_retrieval_ids(data) if drops_self(data) else {}

    def __call__(self) -> dict[str, float]:
        """`MEASURES` of the model as it is now."""
        data = self.chosen.data
        documents = self._vectors(self.encode_document, self.documents)
        queries = self._vectors(self.encode_query, self.queries)
        index = ExactIndex.build(documents, list(data.documents))
        run = search_run(index, list(data.queries), queries, DEPTH, exclude=self.exclude)
        return measure(run, data.qrels, MEASURES).mean

    def _vectors(self, encode: Callable, texts: TokenCache) -> np.ndarray:
        vectors = np.zeros((len(texts), self.embedding_dim), "float32")
        for rows, width in batches(np.diff(texts.offsets), texts.length, self.num_rows):
            filled = np.pad(rows, (0, self.num_rows - len(rows)), constant_values=-1)
            tokens = {name: x[:, :width] for name, x in texts.padded(filled).items()}
            vectors[rows] = encode(tokens)[: len(rows)]
        return vectors


def batches(sizes: np.ndarray, longest: int, num_rows: int) -> Iterator[tuple[np.ndarray, int]]:
    """Texts that are encoded together, and the width that they are padded to.

    The widths are a quarter, a half and all of `longest`: little padding, and three graphs.

    Args:
        sizes: tokens of each text.
        longest: the most there can be.
        num_rows: of a batch; the last of each width may have fewer.
    """
    widths = sorted({-(-longest // 4), -(-longest // 2), longest})
    place = np.searchsorted(widths, sizes)
    for i, width in enumerate(widths):
        rows = np.flatnonzero(place == i)
        for start in range(0, len(rows), num_rows):
            yield rows[start : start + num_rows], width
