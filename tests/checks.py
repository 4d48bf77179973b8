"""What tests of layers, losses and models share: a tiny encoder, batches, comparisons."""

import json

import numpy as np

TINY = {
    "num_layers": 1,
    "hidden_dim": 16,
    "num_heads": 2,
    "head_dim": 8,
    "feedforward_dim": 32,
    "vocabulary_size": 50,
}


def make_tokens(rng, *shape, vocabulary_size=50) -> dict:
    """Random token ids with ragged padding (id 0) at the end; at least two tokens each."""
    length = rng.integers(2, shape[-1] + 1, (*shape[:-1], 1))
    mask = np.arange(shape[-1]) < length
    token_ids = rng.integers(3, vocabulary_size, shape) * mask
    return {"token_ids": token_ids.astype("int32"), "padding_mask": mask}


def make_batch(num_pairs=6, num_negatives=2, seed=0, query_length=5, document_length=9) -> dict:
    """A training batch whose ids collide often, so that every mask has something to do."""
    rng = np.random.default_rng(seed)
    document_id = rng.integers(0, num_pairs, num_pairs) + 100
    others = rng.integers(100, 100 + num_pairs, num_pairs)
    batch = {
        "query": make_tokens(rng, num_pairs, query_length),
        "document": make_tokens(rng, num_pairs, document_length),
        "query_id": rng.integers(0, num_pairs, num_pairs),
        "document_id": document_id,
        "positive_ids": np.stack([document_id, others], axis=1),
    }
    if num_negatives:
        shape = (num_pairs, num_negatives)
        batch["negatives"] = make_tokens(rng, *shape, document_length)
        batch["negative_id"] = rng.integers(100, 100 + 2 * num_pairs, shape)
        batch["negative_id"][0, 0] = -1
    return batch


def as_tensors(batch):
    """The same nested dict with TensorFlow tensors."""
    import tensorflow as tf

    return tf.nest.map_structure(tf.constant, batch)


def as_dataset(batches):
    """A dataset of these batches, all of one shape, which stays static."""
    import tensorflow as tf

    stacked = tf.nest.map_structure(lambda *arrays: np.stack(arrays), *batches)
    return tf.data.Dataset.from_tensor_slices(stacked)


def fit(model, batches, **arguments):
    """One epoch over these batches; returns the metrics at its end."""
    history = model.fit(as_dataset(batches), shuffle=False, verbose=0, **arguments).history
    return {name: values[-1] for name, values in history.items()}


def evaluate(model, batches) -> dict:
    """The metrics over these batches, without an update."""
    return model.evaluate(as_dataset(batches), verbose=0, return_dict=True)


def assert_nonzero(array, message="") -> None:
    """Fails when a comparison with `array` could pass because everything is 0."""
    assert np.abs(np.asarray(array)).max() > 1e-6, f"all zero: {message}"


def assert_near(actual, expected, tolerance, message="") -> None:
    """Largest difference, measured against the largest expected number."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, message
    difference = np.abs(actual - expected).max()
    limit = tolerance * np.abs(expected).max()
    assert difference <= limit, f"{message}: differs by {difference:.3g}, allowed {limit:.3g}"


def assert_config_round_trip(thing):
    """object → config → JSON → object gives an equal config. Returns the new object."""
    import keras

    config = keras.saving.serialize_keras_object(thing)
    revived = keras.saving.deserialize_keras_object(json.loads(json.dumps(config)))
    assert type(revived) is type(thing)
    assert revived.get_config() == thing.get_config()
    return revived
