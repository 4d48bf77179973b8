"""`TextEncoder`: one side of a model as a function of texts; any model's, given two functions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from samtone_tf.data.length_batches import CPU_TOKENS, length_batches
from samtone_tf.data.token_cache import TokenCache


@dataclass(frozen=True)
class TextEncoder:
    """Texts → unit vectors, for one side of a model.

    Make one with `open_encoder`, or from any functions of your own.

    Args:
        tokenize: makes token ids of texts, cut to `length`.
        encode_tokens: `token_ids` int32 `(B, L)` and `padding_mask` bool `(B, L)` → float32
            `(B, D)`. A row of padding alone may give anything.
        side: `"query"` or `"document"`.
        length: the most tokens of a text.
        dim: D.
        fingerprint: of the model, as `SavedEncoder.fingerprint`.
        path: where the model is; empty where it is in memory only.
        num_replicas: they share the rows of a batch.
        batch_tokens: tokens that a replica encodes at a time, unless a caller says otherwise.
    """

    tokenize: Callable[[Sequence[str | bytes]], TokenCache]
    encode_tokens: Callable[[Mapping[str, np.ndarray]], np.ndarray]
    side: str
    length: int
    dim: int
    fingerprint: str
    path: str = ""
    num_replicas: int = 1
    batch_tokens: int = CPU_TOKENS

    def encode(
        self,
        tokens: TokenCache,
        batch_tokens: int | None = None,
        progress: Callable[[int], object] = lambda num: None,
    ) -> np.ndarray:
        """Vectors of the texts of `tokens`, float32 `(len(tokens), D)`, in their order.

        Args:
            tokens: what `tokenize` returned.
            batch_tokens: tokens of one replica's batch, padding included; None is the encoder's.
            progress: is told how many texts each batch had.

        Raises:
            FloatingPointError: a vector is not finite.
        """
        batch_tokens = self.batch_tokens if batch_tokens is None else batch_tokens
        vectors = np.zeros((len(tokens), self.dim), "float32")
        batches = length_batches(
            np.diff(tokens.offsets),
            self.length,
            batch_tokens * self.num_replicas,
            self.num_replicas,
        )
        for batch in batches:
            inputs = tokens.padded(batch.padded_rows)
            inputs = {name: part[:, : batch.width] for name, part in inputs.items()}
            vectors[batch.rows] = self.encode_tokens(inputs)[: len(batch.rows)]
            progress(len(batch.rows))
        if not np.isfinite(vectors).all():
            raise FloatingPointError(
                "`model` must give finite vectors. Received: NaN or inf for "
                f"{np.count_nonzero(~np.isfinite(vectors).all(axis=1))} of {len(vectors)} texts. "
                "Take an earlier checkpoint, or another dtype policy."
            )
        return vectors
