"""`SavedEncoder`: an exported SavedModel from Python, for many texts at a time."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from samtone_tf.data.length_batches import length_batches, row_batches
from samtone_tf.data.token_cache import TokenCache
from samtone_tf.data.tokenizer import Tokenizer, check_length
from samtone_tf.distribution import default_batch_tokens
from samtone_tf.export.encoder import EXTRA, SIDES


class SavedEncoder:
    """Encodes texts with an exported model.

    Args:
        folder: what `samtone export` wrote; it may have been moved.
        query_length: tokens of a query; None takes what the export was given.
        document_length: the same for documents.

    Raises:
        FileNotFoundError: no SavedModel there.
        ValueError: a SavedModel without this package's signatures.
    """

    def __init__(
        self,
        folder: str | Path,
        query_length: int | None = None,
        document_length: int | None = None,
    ):
        given = {"query": query_length, "document": document_length}
        for length in given.values():
            if length is not None:
                check_length(length)
        self.folder = check_saved_model(folder)
        # Registers the tokenizer's ops, which the graph names.
        import tensorflow_text  # noqa: F401

        self._model = tf.saved_model.load(str(self.folder))
        self._check_signatures()
        about = json.loads((self.folder / EXTRA / "samtone.json").read_text(encoding="utf-8"))
        self.tokenizer = Tokenizer.from_file(self.folder / EXTRA / "vocabulary.spm")
        self.lengths = {
            side: about["lengths"][side] if given[side] is None else given[side] for side in SIDES
        }
        self.prompts = about.get("prompts", dict.fromkeys(SIDES, ""))
        self.embedding_dim = about["embedding_dim"]

    @cached_property
    def fingerprint(self) -> str:
        """Hash of weights and vocabulary: equal for every export of one model."""
        return model_fingerprint(self.tokenizer, self._model.weights, self.prompts)

    def encode_query(
        self, texts: Sequence[str | bytes], batch_size: int | None = None
    ) -> np.ndarray:
        """Unit vectors of queries, float32 `(len(texts), D)`, in the order given.

        Args:
            texts: any number.
            batch_size: texts at a time; None makes batches of equally many tokens.
        """
        return self._encode("query", texts, batch_size)

    def encode_document(
        self, texts: Sequence[str | bytes], batch_size: int | None = None
    ) -> np.ndarray:
        """Unit vectors of documents, float32 `(len(texts), D)`, in the order given.

        Args:
            texts: any number; for more than fit into memory there is `encode_corpus`.
            batch_size: texts at a time; None makes batches of equally many tokens.
        """
        return self._encode("document", texts, batch_size)

    def tokenize(self, side: str, texts: Sequence[str | bytes]) -> TokenCache:
        """Token ids of texts, as the model's graph makes them of a `side`'s texts."""
        tokenizer = self.tokenizer.prompted(self.prompts[side])
        return TokenCache.build(texts, tokenizer, self.lengths[side])

    def token_function(
        self, side: str, jit_compile: bool = False
    ) -> Callable[[Mapping[str, np.ndarray]], np.ndarray]:
        """A function from tokens `(B, L)` to unit vectors, float32 `(B, D)`.

        Args:
            side: `"query"` or `"document"`.
            jit_compile: let XLA compile each new shape; without it, one graph does for all.
        """
        encode = self._model.signatures[f"encode_{side}_tokens"]
        if jit_compile:
            encode = tf.function(encode, jit_compile=True)

        def to_vectors(tokens: Mapping[str, np.ndarray]) -> np.ndarray:
            inputs = {name: tf.constant(part) for name, part in tokens.items()}
            return encode(**inputs)["embedding"].numpy()

        return to_vectors

    def _encode(
        self, side: str, texts: Sequence[str | bytes], batch_size: int | None
    ) -> np.ndarray:
        if isinstance(texts, str | bytes):
            raise TypeError(f"`texts` must be a list of strings. Received: {texts!r}.")
        tokens, encode = self.tokenize(side, texts), self.token_function(side)
        vectors = np.zeros((len(tokens), self.embedding_dim), "float32")
        sizes = np.diff(tokens.offsets)
        if batch_size is None:
            batches = length_batches(sizes, self.lengths[side], default_batch_tokens())
        else:
            batches = row_batches(sizes, batch_size)
        with tqdm(
            total=len(tokens), desc=f"encode {side}s", unit=" texts", delay=3, leave=False
        ) as bar:
            for batch in batches:
                inputs = tokens.padded(batch.padded_rows)
                found = encode({name: x[:, : batch.width] for name, x in inputs.items()})
                vectors[batch.rows] = found[: len(batch.rows)]
                bar.update(len(batch.rows))
        return vectors

    def _check_signatures(self) -> None:
        there = set(self._model.signatures)
        missing = sorted(
            {name for side in SIDES for name in (f"encode_{side}", f"encode_{side}_tokens")} - there
        )
        if missing or not (self.folder / EXTRA / "samtone.json").is_file():
            raise ValueError(
                "`model` must be a SavedModel that `samtone export` wrote. "
                f"Received: {self.folder}, with signatures {sorted(there)} and without "
                f"{missing or [f'{EXTRA}/samtone.json']}."
            )


def model_fingerprint(tokenizer: Tokenizer, weights: Iterable, prompts: Mapping[str, str]) -> str:
    """Hash of vocabulary, prompts, and weights in order: what `SavedEncoder.fingerprint` is."""
    digest = hashlib.blake2b(tokenizer.fingerprint.encode(), digest_size=8)
    if any(prompts.values()):
        digest.update(json.dumps(prompts).encode())
    for weight in weights:
        digest.update(weight.numpy().tobytes())
    return digest.hexdigest()


def check_saved_model(folder: str | Path) -> Path:
    """The folder as a path.

    Raises:
        FileNotFoundError: there is no SavedModel in it; names a version below it if there is one.
    """
    folder = Path(folder)
    if (folder / "saved_model.pb").is_file():
        return folder
    versions = [path.parent for path in folder.glob("*/saved_model.pb")]
    versions.sort(key=lambda path: (len(path.name), path.name))  # 10 comes after 9
    hint = f" Did you mean {versions[-1]}?" if versions else " `samtone export` writes one."
    state = "which holds no saved_model.pb" if folder.is_dir() else "which does not exist"
    raise FileNotFoundError(
        f"`model` must be a SavedModel folder. Received: {folder}, {state}.{hint}"
    )
