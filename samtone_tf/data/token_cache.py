"""Texts as token ids, made once and kept flat in memory; batches are cut out of it.

Knows nothing of pairs or of TensorFlow: rows in, padded arrays out.
"""

from collections.abc import Mapping
from itertools import islice

import numpy as np
from tqdm import tqdm

from samtone_tf.data.tokenizer import PAD_ID, Tokenizer, check_length, finish

_CHUNK = 1024  # texts per call of the tokenizer


class TokenCache:
    """Token ids of many texts, one after another in one array.

    Text number `row` has the ids `values[offsets[row]:offsets[row + 1]]`, its end token
    included. Use `TokenCache.build` to make one.

    Args:
        ids: the id of each text, in row order.
        values: int32, all token ids.
        offsets: int64, one more than there are texts.
        length: the most tokens a text has, end token included.
        truncated: how many texts were cut to that.
    """

    def __init__(
        self,
        ids: list[str],
        values: np.ndarray,
        offsets: np.ndarray,
        length: int,
        truncated: int,
    ):
        self.values = values
        self.offsets = offsets
        self.length = length
        self.truncated = truncated
        self._rows = {record_id: row for row, record_id in enumerate(ids)}

    @classmethod
    def build(cls, texts: Mapping[str, str], tokenizer: Tokenizer, length: int) -> "TokenCache":
        """Tokenise every text (id → text) to at most `length` tokens, end token included."""
        check_length(length)
        pieces: list[np.ndarray] = []
        sizes: list[int] = []
        truncated = 0
        with tqdm(total=len(texts), desc="tokens", unit=" texts", delay=3, leave=False) as bar:
            remaining = iter(texts.values())
            while chunk := list(islice(remaining, _CHUNK)):
                whole = tokenizer.tokenize(chunk)
                truncated += sum(len(ids) > length - 1 for ids in whole)
                cut = [finish(ids, length) for ids in whole]
                sizes.extend(map(len, cut))
                pieces.append(np.array([token for ids in cut for token in ids], dtype=np.int32))
                bar.update(len(chunk))
        values = np.concatenate(pieces) if pieces else np.zeros(0, np.int32)
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return cls(list(texts), values, offsets, length, truncated)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def row(self, record_id: str) -> int:
        """Return the row of the text with this id."""
        if record_id not in self._rows:
            raise ValueError(
                f"`record_id` must be one of the {len(self)} texts. "
                f"Received: {record_id!r}. Build the cache with this text."
            )
        return self._rows[record_id]

    def padded(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return the texts at `rows` as arrays, padded to `length`.

        Args:
            rows: integers of any shape; -1 stands for no text and gives padding only.

        Returns:
            `token_ids`, int32, and `padding_mask`, bool and true at tokens; both have
            the shape of `rows` and one more axis of `length`.
        """
        rows = np.asarray(rows, dtype=np.int64)
        self._check_rows(rows)
        starts = self.offsets[rows]
        sizes = np.where(rows < 0, 0, self.offsets[rows + 1] - starts)
        position = np.arange(self.length)
        padding_mask = position < sizes[..., None]  # (..., L)
        places = np.where(padding_mask, starts[..., None] + position, 0)
        token_ids = np.take(self.values, places, mode="clip") if self.values.size else places
        token_ids = np.where(padding_mask, token_ids, PAD_ID).astype(np.int32)
        return {"token_ids": token_ids, "padding_mask": padding_mask}

    def _check_rows(self, rows: np.ndarray) -> None:
        if rows.size and (rows.min() < -1 or rows.max() >= len(self)):
            raise ValueError(
                f"`rows` must be from -1 to {len(self) - 1}. "
                f"Received: rows from {rows.min()} to {rows.max()}. Use those that row() gives."
            )
