"""Pairs → batches of token ids with static shapes, in an order that is a function of (seed, step).

There is no shuffle buffer and no state: `batch(step)` can be asked in any order, so a run
that stops after step k goes on with the very batches it would have had.
"""

import hashlib
from collections.abc import Collection, Sequence

import numpy as np
import tensorflow as tf

from samtone_tf.config import MASKS
from samtone_tf.data import grouping
from samtone_tf.data.cache import FORMAT, Cache
from samtone_tf.data.columns import take
from samtone_tf.data.order import ApartOrder, Order
from samtone_tf.data.records import RetrievalData
from samtone_tf.data.table import Table, as_table
from samtone_tf.data.token_cache import TokenCache
from samtone_tf.data.tokenizer import Tokenizer, check_length
from samtone_tf.data.training_pairs import ABSENT, TrainingPairs, make_training_pairs

_NEGATIVES_STREAM = 1  # keeps the draws of negatives apart from those of the order


class PairBatches:
    """Training batches of a data set; texts are tokenised once, when this is made.

    Every epoch is a new permutation of all pairs; what does not fill a last batch is
    left out of that epoch, so every batch has the same number of in-batch negatives.
    The same query or document twice in a batch is not avoided unless `no_duplicates` is
    set: the loss masks it, by the fingerprints that each batch carries.

    Shapes of one batch, all fixed (B pairs, N negatives, P positives, L tokens):

        query        token_ids int32 (B, Lq), padding_mask bool (B, Lq)
        document     token_ids int32 (B, Ld), padding_mask bool (B, Ld)
        negatives    token_ids int32 (B, N, Ld), padding_mask bool (B, N, Ld); if N > 0
        query_id, document_id int64 (B,), negative_id int64 (B, N), positive_ids int64 (B, P)
        query_log_q, document_log_q float32 (B,); if `log_q`

    Args:
        data: the data set, whole or as columns; the pairs of its split.
        tokenizer: makes the token ids.
        batch_size: pairs per global batch, over all replicas.
        query_length: tokens per query, end token included; longer ones are cut.
        document_length: the same for documents and negatives.
        query_prompt: what stands before every query, such as "query: ".
        document_prompt: the same for documents and negatives.
        num_negatives: hard negatives per query, drawn anew in each batch when there are
            more. Where there are fewer, the slot is all padding and its id -1; some
            query must have one.
        seed: int >= 0; decides the order and the draws.
        masks: what counts as the same or as known: any of `id`, `text`, `positives`
            (see `make_training_pairs`). Pass those of the loss, `loss.masks`:
            `text` takes effect here, in the fingerprints, and the loss cannot make up for it.
        max_positives: the most known positives a pair lists.
        log_q: adds log probabilities (see `log_frequencies`), for losses with `log_q=True`.
        no_duplicates: no two pairs of a batch have equal queries or equal documents, whatever
            the masks (`ApartOrder`); equal are records of equal normalised text. Hard
            negatives may still be equal to something.
        cache: where token ids are kept, memory-mapped, and found again by the texts, the
            vocabulary and the length; None makes them anew and keeps them in memory.

    Attributes:
        num_pairs: pairs to train on.
        steps_per_epoch: full batches in them.
        statistics: counts of what was cut or is absent, and `negatives_per_query`, the
            mean number of slots for hard negatives that are filled, 0 to `num_negatives`.
        notes: one line per oddity found.
    """

    def __init__(
        self,
        data: RetrievalData | Table,
        tokenizer: Tokenizer,
        *,
        batch_size: int,
        query_length: int = 64,
        document_length: int = 256,
        query_prompt: str = "",
        document_prompt: str = "",
        num_negatives: int = 0,
        seed: int = 0,
        masks: Collection[str] = MASKS,
        max_positives: int = 16,
        log_q: bool = False,
        no_duplicates: bool = False,
        cache: Cache | None = None,
    ):
        data = as_table(data)
        self._table = table = make_training_pairs(data, masks, max_positives)
        self.num_pairs = len(table)
        _check_arguments(batch_size, self.num_pairs, num_negatives, seed)
        if num_negatives:
            _check_negatives(num_negatives, table, data.source)
        self.batch_size = batch_size
        self.num_negatives = num_negatives
        self.seed = seed
        self._order = Order(self.num_pairs, batch_size, seed)
        if no_duplicates:
            queries = data.queries.fingerprints(table.query_rows, by_text=True)
            documents = data.documents.fingerprints(table.document_rows, by_text=True)
            self._order = ApartOrder(queries, documents, batch_size, seed)
        self.steps_per_epoch = self._order.steps_per_epoch

        # From here on, rows count the texts that training uses.
        asked = table.document_rows
        if num_negatives:
            asked = np.concatenate([asked, table.negatives.rows])
        queries, query_place = grouping.distinct(table.query_rows, len(data.queries))
        documents, document_place = grouping.distinct(asked, len(data.documents))
        self._query_rows = query_place[table.query_rows]
        self._document_rows = document_place[table.document_rows]
        asks, answers = tokenizer.prompted(query_prompt), tokenizer.prompted(document_prompt)
        self._queries = _tokens(data, "queries", queries, asks, query_length, cache)
        self._documents = _tokens(data, "documents", documents, answers, document_length, cache)
        if num_negatives:
            self._negatives = table.negatives.renumbered(queries, document_place)
            numbers = data.documents.fingerprints(documents, "text" in masks)
            self._fingerprint_of_row = np.append(numbers, ABSENT)  # what row -1 finds
        self._log_q = {}
        if log_q:
            self._log_q = {
                "query_log_q": log_frequencies(table.query_fingerprints),
                "document_log_q": log_frequencies(table.document_fingerprints),
            }
        self.statistics = self._statistics()
        self.notes = (*table.notes, *self._count_notes())

    def batch(self, step: int) -> dict:
        """Return batch number `step`, counted from 0 over all epochs, as NumPy arrays."""
        if step < 0:
            raise ValueError(
                f"`step` must be at least 0. Received: step={step}. Steps count from 0."
            )
        chosen = self._order.batch(step)
        batch = {
            "query": self._queries.padded(self._query_rows[chosen]),
            "document": self._documents.padded(self._document_rows[chosen]),
            "query_id": self._table.query_fingerprints[chosen],
            "document_id": self._table.document_fingerprints[chosen],
            "positive_ids": self._table.positive_fingerprints(chosen),
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
            digest.update(np.ascontiguousarray(array))
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

    def _statistics(self) -> dict[str, float]:
        unique = grouping.count_distinct(self._table.document_fingerprints)
        left_out = self.num_pairs - self.steps_per_epoch * self.batch_size
        statistics = {
            "pairs": self.num_pairs,
            "steps_per_epoch": self.steps_per_epoch,
            "left_out_per_epoch": left_out,
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
        if counts["left_out_per_epoch"] >= self.batch_size:
            notes.append(
                f"{counts['left_out_per_epoch']} of {self.num_pairs} pairs are left out of each "
                "epoch, drawn anew, since no batch could take them without duplicates"
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


def check_local(devices: Sequence[str]) -> None:
    """Raise unless the devices are of this process's host, where the batches are made.

    Call it with `strategy.extended.worker_devices` of a `TPUStrategy`: on a TPU VM and in
    Colab the TPU is local; one that is reached over the network would have to run the input
    pipeline itself, and has neither these arrays nor this Python.

    Args:
        devices: names of devices, such as `/job:localhost/replica:0/task:0/device:TPU:0`.
    """
    remote = [name for name in devices if "/job:" in name and "/job:localhost" not in name]
    if remote:
        raise ValueError(
            "`strategy` must be of a TPU on this machine, as on a TPU VM: training data is read "
            f"from memory and files here. Received: {remote[0]}, which is reached over the "
            'network. Run on the TPU VM itself, with TPUClusterResolver(tpu="local").'
        )


def _tokens(
    data: Table,
    side: str,
    rows: np.ndarray,
    tokenizer: Tokenizer,
    length: int,
    cache: Cache | None,
) -> TokenCache:
    """Token ids of the texts at `rows` of one side, from the cache if there is one."""
    check_length(length)
    texts = take(getattr(data, side).texts, rows)
    if cache is None:
        return TokenCache.build(texts, tokenizer, length)
    content = f"{data.hash_texts(side, rows)} {tokenizer.fingerprint} {length} {FORMAT}"
    key = hashlib.blake2b(content.encode(), digest_size=16).hexdigest()
    folder = cache.get(
        f"{side}-tokens",
        key,
        lambda folder: TokenCache.build(texts, tokenizer, length, folder),
        num_bytes=_token_bytes(texts, length),
    )
    return TokenCache.load(folder)


def _token_bytes(texts: Sequence[str], length: int) -> int:
    """About how much room the token ids of `texts` need: two bytes for every four characters."""
    sample = np.linspace(0, len(texts) - 1, 1000).astype(int).tolist()
    tokens = np.mean([min(length, len(texts[row]) / 4 + 2) for row in sample])
    return int(len(texts) * (8 + 2 * tokens))


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
    if not len(table.negatives.rows):
        why = f" ({'; '.join(table.notes)})" if table.notes else ""
        raise ValueError(
            f"`num_negatives` must be 0 for {source}: no query of it has a hard negative. "
            f"Received: num_negatives={num_negatives}{why}. "
            "Add hard negatives, such as the column `negatives` of a pairs file, or set it to 0."
        )
