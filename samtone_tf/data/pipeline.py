"""Pairs → batches of token ids with static shapes, in an order that is a function of (seed, step).

There is no shuffle buffer and no state: `batch(step)` can be asked in any order, so a run
that stops after step k goes on with the very batches it would have had.
"""

import hashlib
from collections.abc import Collection
from functools import lru_cache

import numpy as np
import tensorflow as tf

from samtone_tf.config import MASKS
from samtone_tf.data.hard_negatives import HardNegatives
from samtone_tf.data.records import RetrievalData
from samtone_tf.data.token_cache import TokenCache
from samtone_tf.data.tokenizer import Tokenizer
from samtone_tf.data.training_pairs import ABSENT, TrainingPairs, make_training_pairs

_NEGATIVES_STREAM = 1  # keeps the draws of negatives apart from those of the order


class PairBatches:
    """Training batches of a data set; texts are tokenised once, when this is made.

    Every epoch is a new permutation of all pairs; what does not fill a last batch is
    left out of that epoch, so every batch has the same number of in-batch negatives.
    The same query or document twice in a batch is not avoided: the loss masks it,
    by the fingerprints that each batch carries.

    Shapes of one batch, all fixed (B pairs, N negatives, P positives, L tokens):

        query        token_ids int32 (B, Lq), padding_mask bool (B, Lq)
        document     token_ids int32 (B, Ld), padding_mask bool (B, Ld)
        negatives    token_ids int32 (B, N, Ld), padding_mask bool (B, N, Ld); if N > 0
        query_id, document_id int64 (B,), negative_id int64 (B, N), positive_ids int64 (B, P)
        query_log_q, document_log_q float32 (B,); if `log_q`

    Args:
        data: the data set; the pairs of its split.
        tokenizer: makes the token ids.
        batch_size: pairs per global batch, over all replicas.
        query_length: tokens per query, end token included; longer ones are cut.
        document_length: the same for documents and negatives.
        num_negatives: hard negatives per query, drawn anew in each batch when there are
            more. Where there are fewer, the slot is all padding and its id -1; some
            query must have one.
        seed: int >= 0; decides the order and the draws.
        masks: what counts as the same or as known: any of `id`, `text`, `positives`
            (see `make_training_pairs`). Pass those of the loss, `loss.masks`:
            `text` takes effect here, in the fingerprints, and the loss cannot make up for it.
        max_positives: the most known positives a pair lists.
        log_q: adds log probabilities (see `log_frequencies`), for losses with `log_q=True`.

    Attributes:
        num_pairs: pairs to train on.
        steps_per_epoch: full batches in them.
        statistics: counts of what was cut or is absent, and `negatives_per_query`, the
            mean number of slots for hard negatives that are filled, 0 to `num_negatives`.
        notes: one line per oddity found.
    """

    def __init__(
        self,
        data: RetrievalData,
        tokenizer: Tokenizer,
        *,
        batch_size: int,
        query_length: int = 64,
        document_length: int = 256,
        num_negatives: int = 0,
        seed: int = 0,
        masks: Collection[str] = MASKS,
        max_positives: int = 16,
        log_q: bool = False,
    ):
        self._table = table = make_training_pairs(data, masks, max_positives)
        self.num_pairs = len(table.pairs)
        _check_arguments(batch_size, self.num_pairs, num_negatives, seed)
        if num_negatives:
            _check_negatives(num_negatives, table, data.source)
        self.batch_size = batch_size
        self.num_negatives = num_negatives
        self.seed = seed
        self.steps_per_epoch = self.num_pairs // batch_size

        query_texts = {pair.query_id: data.queries[pair.query_id] for pair in table.pairs}
        document_ids = dict.fromkeys(pair.document_id for pair in table.pairs)
        if num_negatives:
            document_ids.update(dict.fromkeys(i for ids in table.negatives.values() for i in ids))
        document_texts = {i: data.documents[i] for i in document_ids}
        self._queries = TokenCache.build(query_texts, tokenizer, query_length)
        self._documents = TokenCache.build(document_texts, tokenizer, document_length)
        self._query_rows = _rows(self._queries, (pair.query_id for pair in table.pairs))
        self._document_rows = _rows(self._documents, (pair.document_id for pair in table.pairs))
        self._fingerprint_of_row = np.array(
            [*(table.fingerprint_of[i] for i in document_ids), ABSENT], dtype=np.int64
        )  # the last one is what row -1 finds
        if num_negatives:
            self._negatives = HardNegatives(
                [
                    [self._documents.row(i) for i in table.negatives.get(query_id, ())]
                    for query_id in query_texts  # in the order of the rows of `_queries`
                ]
            )
        self._log_q = {}
        if log_q:
            self._log_q = {
                "query_log_q": log_frequencies(table.query_fingerprints),
                "document_log_q": log_frequencies(table.document_fingerprints),
            }
        self._permutation = lru_cache(maxsize=2)(self._make_permutation)
        self.statistics = self._statistics()
        self.notes = (*table.notes, *self._count_notes())

    def batch(self, step: int) -> dict:
        """Return batch number `step`, counted from 0 over all epochs, as NumPy arrays."""
        if step < 0:
            raise ValueError(
                f"`step` must be at least 0. Received: step={step}. Steps count from 0."
            )
        epoch, place = divmod(step, self.steps_per_epoch)
        chosen = self._permutation(epoch)[place * self.batch_size :][: self.batch_size]
        batch = {
            "query": self._queries.padded(self._query_rows[chosen]),
            "document": self._documents.padded(self._document_rows[chosen]),
            "query_id": self._table.query_fingerprints[chosen],
            "document_id": self._table.document_fingerprints[chosen],
            "positive_ids": self._table.positive_fingerprints[chosen],
            **{name: values[chosen] for name, values in self._log_q.items()},
        }
        if self.num_negatives:
            random = np.random.default_rng((self.seed, _NEGATIVES_STREAM, step))
            rows = self._negatives.draw(self._query_rows[chosen], self.num_negatives, random)
            batch["negatives"] = self._documents.padded(rows)
            batch["negative_id"] = self._fingerprint_of_row[rows]
        return batch

    @property
    def fingerprint(self) -> str:
        """Hash of the pairs and their token ids: equal for equal training data."""
        digest = hashlib.blake2b(digest_size=8)
        for array in (
            self._table.query_fingerprints,
            self._table.document_fingerprints,
            self._queries.values,
            self._documents.values,
        ):
            digest.update(array.tobytes())
        return digest.hexdigest()

    @property
    def element_spec(self) -> dict:
        """Shapes and types of a batch, as `tf.TensorSpec`s."""
        return tf.nest.map_structure(
            lambda array: tf.TensorSpec(array.shape, array.dtype), self.batch(0)
        )

    def dataset(self, first_step: int = 0, num_steps: int | None = None) -> tf.data.Dataset:
        """Return batches `first_step`, `first_step + 1`, … as a dataset.

        Args:
            first_step: where to begin; a resumed run passes the steps it has done.
            num_steps: how many batches; without it the dataset never ends.
        """
        if first_step < 0 or (num_steps is not None and num_steps < 0):
            raise ValueError(
                "`first_step` and `num_steps` must be at least 0. "
                f"Received: first_step={first_step}, num_steps={num_steps}. Count from 0."
            )
        spec = self.element_spec
        flat_spec = tf.nest.flatten(spec)

        def load(step: tf.Tensor) -> dict:
            arrays = tf.numpy_function(
                lambda number: tf.nest.flatten(self.batch(int(number))),
                [step],
                [part.dtype for part in flat_spec],
            )
            for array, part in zip(arrays, flat_spec, strict=True):
                array.set_shape(part.shape)
            return tf.nest.pack_sequence_as(spec, arrays)

        steps = tf.data.Dataset.counter(first_step)
        if num_steps is not None:
            steps = steps.take(num_steps)
        options = tf.data.Options()
        options.deterministic = True
        # There are no files to shard by. DATA gives every worker the same global batches
        # and has each keep its own rows of them.
        options.experimental_distribute.auto_shard_policy = (
            tf.data.experimental.AutoShardPolicy.DATA
        )
        return steps.map(load).prefetch(tf.data.AUTOTUNE).with_options(options)

    def _make_permutation(self, epoch: int) -> np.ndarray:
        return np.random.default_rng((self.seed, epoch)).permutation(self.num_pairs)

    def _statistics(self) -> dict[str, float]:
        unique = len(np.unique(self._table.document_fingerprints))
        statistics = {
            "pairs": self.num_pairs,
            "steps_per_epoch": self.steps_per_epoch,
            "queries": len(self._queries),
            "documents": len(self._documents),
            "truncated_queries": self._queries.truncated,
            "truncated_documents": self._documents.truncated,
            "positives_overflow": self._table.positives_overflow,
            "unique_document_share": unique / self.num_pairs,
            "negatives_per_query": 0.0,
        }
        if self.num_negatives:
            counts = self._negatives.counts[self._query_rows]
            filled = int(np.minimum(counts, self.num_negatives).sum())
            statistics["negatives_per_query"] = filled / self.num_pairs
            statistics["absent_negatives"] = self.num_pairs * self.num_negatives - filled
        return statistics

    def _count_notes(self) -> list[str]:
        counts = self.statistics
        notes = []
        if counts["positives_overflow"]:
            notes.append(
                f"{counts['positives_overflow']} pairs have more known positives than "
                "`max_positives`; the rest are not masked"
            )
        if counts.get("absent_negatives"):
            notes.append(
                f"{counts['absent_negatives']} of {self.num_pairs * self.num_negatives} slots for "
                "hard negatives are empty; the loss leaves them out"
            )
        return notes


def log_frequencies(fingerprints: np.ndarray) -> np.ndarray:
    """log(Q_i / Q̄) of each pair's query or document, float32 (n,).

    Q_i is the probability that a pair drawn at random has it, its share of the n pairs, and
    Q̄ = 1 / (number of different ones). So 0 stands for an average frequency, and data in
    which each comes once gets 0 throughout.

    Args:
        fingerprints: int64 (n,), one per pair.
    """
    _, inverse, counts = np.unique(fingerprints, return_inverse=True, return_counts=True)
    return np.log(counts[inverse] * (len(counts) / len(fingerprints))).astype(np.float32)


def _rows(cache: TokenCache, ids: Collection[str]) -> np.ndarray:
    return np.array([cache.row(record_id) for record_id in ids], dtype=np.int64)


def _check_arguments(batch_size: int, num_pairs: int, num_negatives: int, seed: int) -> None:
    if batch_size < 2:
        raise ValueError(
            "`batch_size` must be at least 2: the other pairs of a batch are the negatives. "
            f"Received: batch_size={batch_size}. The paper uses 512."
        )
    if batch_size > num_pairs:
        raise ValueError(
            f"`batch_size` must be at most the number of pairs, {num_pairs}. "
            f"Received: batch_size={batch_size}. "
            f"Lower it to {num_pairs} or less, or train on more data."
        )
    if num_negatives < 0:
        raise ValueError(
            "`num_negatives` must be at least 0. "
            f"Received: num_negatives={num_negatives}. Use 0 for in-batch negatives only."
        )
    if seed < 0:
        raise ValueError(f"`seed` must be at least 0. Received: seed={seed}. Use 0 or more.")


def _check_negatives(num_negatives: int, table: TrainingPairs, source: str) -> None:
    if not any(table.negatives.values()):
        why = f" ({'; '.join(table.notes)})" if table.notes else ""
        raise ValueError(
            f"`num_negatives` must be 0 for {source}: no query of it has a hard negative. "
            f"Received: num_negatives={num_negatives}{why}. "
            "Add hard negatives, such as the column `negatives` of a pairs file, or set it to 0."
        )
