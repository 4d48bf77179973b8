"""Texts as token ids, made once and kept flat, in memory or memory-mapped; batches are cut from it.

Knows nothing of pairs or of TensorFlow: rows in, padded arrays out.
"""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from tqdm import tqdm

from samtone_tf.data.columns import Numbers, load_array
from samtone_tf.data.tokenizer import PAD_ID, Tokenizer, check_length, finish

_CHUNK = 1024  # texts per call of the tokenizer


class TokenCache:
    """Token ids of many texts, one after another in one array.

    Text number `row` has the ids `values[offsets[row]:offsets[row + 1]]`, its end token
    included. Use `TokenCache.build` to make one.

    Args:
        values: uint16, or int32 for a large vocabulary: all token ids.
        offsets: int64, one more than there are texts.
        length: the most tokens a text has, end token included.
        truncated: how many texts were cut to that.
    """

    def __init__(self, values: np.ndarray, offsets: np.ndarray, length: int, truncated: int):
        self.values = values
        self.offsets = offsets
        self.length = length
        self.truncated = truncated

    @classmethod
    def build(
        cls,
        texts: Sequence[str | bytes],
        tokenizer: Tokenizer,
        length: int,
        folder: Path | None = None,
    ) -> "TokenCache":
        """Tokenise every text to at most `length` tokens, end token included.

        Args:
            texts: by row.
            tokenizer: makes the ids.
            length: at least 2.
            folder: where the files are written; None keeps all in memory.
        """
        check_length(length)
        small = tokenizer.vocabulary_size <= 2**16
        values = Numbers(folder, "values", np.uint16 if small else np.int32)
        offsets = Numbers(folder, "offsets")
        offsets.append(0)
        end = truncated = 0
        with tqdm(total=len(texts), desc="tokens", unit=" texts", delay=3, leave=False) as bar:
            remaining = iter(texts)
            while chunk := list(islice(remaining, _CHUNK)):
                whole = tokenizer.tokenize(chunk)
                truncated += sum(len(ids) > length - 1 for ids in whole)
                cut = [finish(ids, length) for ids in whole]
                ends = end + np.cumsum([len(ids) for ids in cut])
                end = int(ends[-1])
                offsets.extend(ends)
                values.extend(np.array([token for ids in cut for token in ids]))
                bar.update(len(chunk))
        if folder:
            np.save(folder / "about.npy", [length, truncated])
        return cls(values.finish(), offsets.finish(), length, truncated)

    @classmethod
    def load(cls, folder: Path) -> "TokenCache":
        """Return what `build` wrote into `folder`, memory-mapped."""
        length, truncated = np.load(folder / "about.npy").tolist()
        values, offsets = load_array(folder / "values.npy"), load_array(folder / "offsets.npy")
        return cls(values, offsets, length, truncated)

    def __len__(self) -> int:
        return len(self.offsets) - 1

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
                f"Received: rows from {rows.min()} to {rows.max()}. Count the texts from 0."
            )
