"""Every loss with its oracle and options that matter: what tests of all losses go through."""

from typing import NamedTuple

import tensorflow as tf

from samtone_tf.losses.contrastive import InBatchSoftmax, SamToNe
from samtone_tf.losses.gte import Gte
from samtone_tf.losses.inputs import PairLogQ, PairVectors
from samtone_tf.losses.masks import PairIds
from samtone_tf.losses.pair import Pair
from samtone_tf.losses.triplet import Triplet
from tests.losses import oracle

BASE = 2**62  # fingerprints are large: a float would merge neighbours


class Case(NamedTuple):
    """A class, the function that it is held to, and arguments of both."""

    kind: type
    oracle: object
    arguments: dict

    @property
    def has_temperature(self):
        return self.kind is not Triplet

    def options(self, temperature=0.05, **more):
        """Arguments of both; the temperature where there is one."""
        given = {"temperature": temperature} if self.has_temperature else {}
        return {**self.arguments, **given, **more}

    def make(self, **more):
        return self.kind(**self.options(**more))

    def want(self, vectors, batch, log_q=False, **more):
        """Loss and `correct` of the oracle, which corrects what is given."""
        return self.oracle(**vectors, **batch, **self.options(**more))


CASES = {
    "softmax": Case(InBatchSoftmax, oracle.contrastive, {}),
    "softmax, one direction": Case(InBatchSoftmax, oracle.contrastive, {"bidirectional": False}),
    "samtone": Case(SamToNe, oracle.contrastive, {"same_tower": "both", "directions": "mean"}),
    "pair": Case(Pair, oracle.pair, {"alpha": 0.3}),
    "pair, other queries": Case(Pair, oracle.pair, {"alpha": 0.3, "other_queries": True}),
    "pair as its paper has it": Case(Pair, oracle.pair, {"bidirectional": False}),
    "pair as its code has it": Case(
        Pair, oracle.pair, {"bidirectional": False, "other_queries": True}
    ),
    "triplet": Case(Triplet, oracle.triplet, {}),
    "triplet, both towers": Case(Triplet, oracle.triplet, {"same_tower": "both", "margin": 0.7}),
    "triplet, mean": Case(
        Triplet, oracle.triplet, {"same_tower": "query", "reduction": "mean", "directions": "mean"}
    ),
    "triplet, document side": Case(
        Triplet, oracle.triplet, {"same_tower": "document", "reduction": "mean", "margin": 1.2}
    ),
    "triplet, one direction": Case(
        Triplet, oracle.triplet, {"same_tower": "query", "bidirectional": False}
    ),
    "gte": Case(Gte, oracle.gte, {}),
}
SOFTMAX = {name: case for name, case in CASES.items() if case.has_temperature}


def make_vectors(rng, num_pairs, num_negatives=0, dim=5):
    """Rows of any length, not only 1."""
    shapes = {"query": (num_pairs, dim), "document": (num_pairs, dim)}
    if num_negatives:
        shapes["negative"] = (num_pairs, num_negatives, dim)
    return {name: rng.normal(size=shape).astype("float32") for name, shape in shapes.items()}


def make_ids(rng, num_pairs, num_negatives=0, num_positives=3):
    """Fingerprints with many collisions, known positives, and empty slots of negatives."""
    few = max(2, num_pairs // 2)
    document_id = BASE + rng.integers(0, few + 2, num_pairs)
    positive_ids = BASE + rng.integers(0, 2 * num_pairs + 4, (num_pairs, num_positives))
    positive_ids[rng.random(positive_ids.shape) < 0.3] = -1
    positive_ids[:, 0] = document_id
    ids = {
        "query_id": rng.integers(0, few + 2, num_pairs),
        "document_id": document_id,
        "positive_ids": positive_ids,
    }
    if num_negatives:
        negative_id = BASE + rng.integers(0, 2 * num_pairs + 4, (num_pairs, num_negatives))
        negative_id[rng.random(negative_id.shape) < 0.2] = -1
        ids["negative_id"] = negative_id
    return ids


def make_log_q(rng, num_pairs):
    """Log probabilities that differ by a factor of up to 50."""
    return {
        name: rng.uniform(-4, 0, num_pairs).astype("float32")
        for name in ("query_log_q", "document_log_q")
    }


def as_pairs(vectors, batch):
    tensors = {name: tf.constant(value) for name, value in {**vectors, **batch}.items()}
    names = ("query_id", "document_id", "negative_id", "positive_ids")
    return PairVectors(
        tensors["query"],
        tensors["document"],
        tensors.get("negative"),
        PairIds(*(tensors.get(name) for name in names)),
        PairLogQ(tensors.get("query_log_q"), tensors.get("document_log_q")),
    )


def gradients(loss, vectors, batch, row=None):
    """Gradient of the summed loss, or of one row's, with respect to every vector."""
    inputs = {name: tf.constant(value) for name, value in vectors.items()}
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        value = loss(**inputs, **batch)
        value = tf.reduce_sum(value) if row is None else value[row]
    found = tape.gradient(value, inputs, unconnected_gradients="zero")
    return {name: tf.convert_to_tensor(found[name]).numpy() for name in inputs}
