"""An encoder in NumPy: tokens are bytes, a vector is a weighted sum of a row for each.

`vector_of` is the same from the formula, text by text, in float64.
"""

import numpy as np

from samtone_tf.data.token_cache import TokenCache
from samtone_tf.encoding.text_encoder import TextEncoder

LENGTH, DIM = 24, 6
END = 1
_TABLE = np.random.default_rng(5).normal(size=(256, DIM))

TEXTS = {
    "a": "the old harbour",
    "b": "",
    "c d": "a text that is longer than others, and is cut",
    "é\t": "naïve 🙂",
    "007": "\u0000",
    "7": "x",
    "\u2028": b"\xff\xfe caf\xe9",
    "\ud800": "half \ud800 of a pair",
}
"""Ids and texts with whatever they may hold."""


def tokens_of(text: str | bytes) -> list[int]:
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return [*raw[: LENGTH - 1], END]


def tokenize(texts) -> TokenCache:
    rows = [tokens_of(text) for text in texts]
    values = np.array([token for row in rows for token in row], np.uint16)
    return TokenCache(values, np.cumsum([0, *map(len, rows)]), LENGTH, 0)


def encode_tokens(tokens) -> np.ndarray:
    ids, mask = tokens["token_ids"], tokens["padding_mask"]
    weights = np.where(mask, np.cos(np.arange(ids.shape[1])), 0)
    summed = np.einsum("bl,bld->bd", weights, _TABLE[ids])
    lengths = np.linalg.norm(summed, axis=1, keepdims=True)
    return (summed / np.where(lengths > 0, lengths, 1)).astype("float32")


def vector_of(text: str | bytes) -> np.ndarray:
    """float64 `(D,)`."""
    summed = sum(np.cos(place) * _TABLE[token] for place, token in enumerate(tokens_of(text)))
    return summed / np.linalg.norm(summed)


def encoder(side: str = "document", fingerprint: str = "letters", **changes) -> TextEncoder:
    fields = {"side": side, "length": LENGTH, "dim": DIM, "fingerprint": fingerprint}
    return TextEncoder(
        **{"tokenize": tokenize, "encode_tokens": encode_tokens, **fields, **changes}
    )


def many(num: int) -> dict[str, str]:
    """Made-up texts of many lengths, in no order of them."""
    draw = np.random.default_rng(num)
    return {f"id {i}": "harbour old tunnel "[: draw.integers(19)] * (i % 3) for i in range(num)}
