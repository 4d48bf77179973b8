"""Pins of towers.attention: T5's position buckets, bias, unscaled logits, initialisers."""

import math

import numpy as np
import pytest
from keras import ops

from samtone_tf.towers.attention import (
    T5Attention,
    T5RelativePositionBias,
    relative_position_buckets,
)
from tests import checks


def published_bucket(relative_position, num_buckets, max_distance):
    """T5's `_relative_position_bucket`, bidirectional; relative position is key - query."""
    bucket = 0
    num_buckets //= 2
    n = -relative_position
    if n < 0:
        bucket += num_buckets
    n = abs(n)
    max_exact = num_buckets // 2
    if n < max_exact:
        return bucket + n
    large = math.log(n / max_exact) / math.log(max_distance / max_exact)
    large = max_exact + int(large * (num_buckets - max_exact))
    return bucket + min(large, num_buckets - 1)


# Where T5 itself draws the line (32, 128): 8 distances exact, then 8-11, 12-15, 16-22, …, 91 on.
FIRST_DISTANCE_OF_BUCKET = [*range(8), 8, 12, 16, 23, 32, 46, 64, 91]


def test_bucket_borders_by_hand():
    buckets = relative_position_buckets(32, 128)
    assert [int(np.argmax(buckets == b)) for b in range(16)] == FIRST_DISTANCE_OF_BUCKET
    assert buckets[-1] == 15


@pytest.mark.parametrize(("num_buckets", "max_distance"), [(32, 128), (8, 20), (16, 64)])
def test_every_distance_gets_the_published_bucket(num_buckets, max_distance):
    layer = T5RelativePositionBias(1, 4, num_buckets, max_distance)
    layer.build()
    layer.table.assign(np.arange(num_buckets, dtype="float32")[:, None])  # bias = bucket
    bias = layer(np.zeros((1, 301, 4), "float32")).numpy()
    assert bias.shape == (1, 1, 301, 301)
    got = {key - query: bias[0, 0, query, key] for query in (0, 300) for key in range(301)}
    assert sorted(got) == list(range(-300, 301))
    want = {d: published_bucket(d, num_buckets, max_distance) for d in got}
    assert got == want


def test_bias_has_a_number_per_head():
    layer = T5RelativePositionBias(3, 4)
    bias = layer(np.zeros((2, 6, 4), "float32")).numpy()
    assert bias.shape == (1, 3, 6, 6)
    np.testing.assert_array_equal(bias[0, :, 2, 3], layer.table.numpy()[17])  # one to the right
    np.testing.assert_array_equal(bias[0, :, 3, 2], layer.table.numpy()[1])  # one to the left
    assert len(np.unique(layer.table.numpy()[17])) == 3


def attention_by_loops(x, weights, bias, num_heads, head_dim):
    query, key, value, output = (np.asarray(w, "float64") for w in weights)
    result = np.zeros(x.shape)
    for b in range(len(x)):
        heads = []
        for h in range(num_heads):
            part = slice(h * head_dim, (h + 1) * head_dim)
            q, k, v = (x[b] @ w[:, part] for w in (query, key, value))
            logits = q @ k.T + bias[0, h]  # T5 does not divide by sqrt(head_dim)
            shares = np.exp(logits - logits.max(-1, keepdims=True))
            heads.append(shares / shares.sum(-1, keepdims=True) @ v)
        result[b] = np.concatenate(heads, axis=-1) @ output
    return result


def test_attention_equals_loops():
    layer = T5Attention(hidden_dim=6, num_heads=2, head_dim=4)
    rng = np.random.default_rng(0)
    x, bias = rng.normal(size=(2, 5, 6)), rng.normal(size=(1, 2, 5, 5))
    got = layer(ops.cast(x, "float32"), bias=ops.cast(bias, "float32"))
    kernels = [
        layer.query.kernel,
        layer.key.kernel,
        layer.value.kernel,
        layer.output_projection.kernel,
    ]
    want = attention_by_loops(x, [kernel.numpy() for kernel in kernels], bias, 2, 4)
    checks.assert_near(got, want, 1e-5)


def test_query_key_and_value_are_separate_weights_without_bias():
    layer = T5Attention(hidden_dim=6, num_heads=2, head_dim=4)
    layer.build()
    shapes = [tuple(weight.shape) for weight in layer.weights]
    assert sorted(shapes) == [(6, 8), (6, 8), (6, 8), (8, 6)]


def test_initial_widths():
    # T5: query (H d)^-1/2 stands in for the missing 1/sqrt(d) of the logits.
    hidden, heads, dim = 256, 4, 64
    layer = T5Attention(hidden, heads, dim)
    layer.build()
    want = {
        "query": (hidden * dim) ** -0.5,
        "key": hidden**-0.5,
        "value": hidden**-0.5,
        "output_projection": (heads * dim) ** -0.5,
    }
    for name, width in want.items():
        kernel = getattr(layer, name).kernel.numpy()
        assert kernel.std() == pytest.approx(width, rel=0.02), name
        assert abs(kernel.mean()) < 0.02 * width, name
        assert np.abs(kernel).max() > 3 * width, f"{name} is truncated"
    bias = T5RelativePositionBias(64, hidden)
    bias.build()
    assert bias.table.numpy().std() == pytest.approx(hidden**-0.5, rel=0.05)


@pytest.mark.parametrize(
    "layer",
    [
        T5RelativePositionBias(3, 16, num_buckets=8, max_distance=20, name="bias"),
        T5Attention(16, 2, 8, dropout=0.25, dtype="mixed_bfloat16"),
    ],
    ids=["bias", "attention"],
)
def test_config_round_trip(layer):
    revived = checks.assert_config_round_trip(layer)
    assert revived.dtype_policy == layer.dtype_policy
