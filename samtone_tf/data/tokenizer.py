"""SentencePiece texts → token ids, the way T5 does it: pad 0, end of text 1, unknown 2.

Uses the `sentencepiece` library, so that training needs no TensorFlow op for it; an export
holds the same model as a tensorflow-text op, whose ids are the same. Where two orders of
pieces score the same ("---" then "-", or "-" then "---") that depends on the library's
version, so `setup.cfg` keeps it below 0.2.2, as tensorflow-text 2.20 has it.
"""

import copy
import hashlib
import io
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import sentencepiece

PAD_ID = 0
END_ID = 1
UNKNOWN_ID = 2
_EXPECTED_IDS = {"pad": PAD_ID, "eos": END_ID, "unk": UNKNOWN_ID, "bos": -1}

_MIN_VOCABULARY_SIZE = 16  # pad, end, unknown, the word mark and a dozen characters
_MAX_TRAINING_TEXTS = 200_000
_MAX_TRAINING_CHARACTERS = 10_000  # of one text; a vocabulary gains nothing from the rest
_MAX_TRAINING_TOTAL = 100_000_000  # characters; the trainer holds all of them in memory


class Tokenizer:
    """A SentencePiece model with T5's special ids.

    Args:
        model: the bytes of a SentencePiece model file. Its ids must be pad 0, eos 1,
            unk 2 and no bos, as in every T5 vocabulary.

    Attributes:
        model: those bytes.
        vocabulary_size: number of pieces. A token table may have more rows, never fewer.
        prompt: what stands before every text; see `prompted`.
        fingerprint: short hash of model and prompt, equal when and only when they are.
    """

    def __init__(self, model: bytes):
        self._processor = _load(model)
        self.model = model
        self.vocabulary_size: int = self._processor.vocab_size()
        self.prompt = ""
        self.fingerprint = hashlib.blake2b(model, digest_size=8).hexdigest()

    @classmethod
    def from_file(cls, path: str | Path) -> "Tokenizer":
        """Read a SentencePiece model file (.spm, .model)."""
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(
                f"`path` must be a SentencePiece model file. Received: {path}, "
                f"which {'is a folder' if path.is_dir() else 'does not exist'}. "
                "Check the spelling."
            )
        try:
            return cls(path.read_bytes())
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    @classmethod
    def train(cls, texts: Iterable[str], vocabulary_size: int = 8000) -> "Tokenizer":
        """Train a vocabulary on `texts`; the same texts give the same model.

        Args:
            texts: at most 200,000 of them are used, evenly spread when there are more. A
                sequence may make them when asked, as one on disk does; none is kept.
                Of each its first 10,000 characters count, or as many fewer as keep the
                total within 100 million.
            vocabulary_size: pieces wanted, special ones included; at least 16. A small
                corpus supports fewer and then gets fewer.
        """
        if vocabulary_size < _MIN_VOCABULARY_SIZE:
            raise ValueError(
                f"`vocabulary_size` must be at least {_MIN_VOCABULARY_SIZE}. "
                f"Received: vocabulary_size={vocabulary_size}. "
                "The default is 8000; T5's own vocabulary has 32,000."
            )
        texts = texts if isinstance(texts, Sequence) else list(texts)
        chosen = _choose(texts)
        if not len(chosen):
            raise ValueError(
                "`texts` must hold at least one text that is not empty. "
                "Received: none. Train the tokenizer on the corpus."
            )
        written = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=_cut(texts, chosen),
                model_writer=written,
                model_type="unigram",
                vocab_size=vocabulary_size,
                hard_vocab_limit=False,
                pad_id=PAD_ID,
                eos_id=END_ID,
                unk_id=UNKNOWN_ID,
                bos_id=-1,
                normalization_rule_name="nmt_nfkc",
                max_sentence_length=4 * _MAX_TRAINING_CHARACTERS,  # bytes; longer is skipped
                shuffle_input_sentence=False,
                num_threads=1,  # sums of floats depend on the number of threads
                minloglevel=2,
            )
        except RuntimeError as error:
            raise ValueError(
                f"`vocabulary_size` must cover the characters of `texts`. "
                f"Received: vocabulary_size={vocabulary_size} for {len(chosen)} texts "
                f"({_one_line(error)}). Ask for more pieces."
            ) from error
        return cls(written.getvalue())

    def save(self, path: str | Path) -> None:
        """Write the model to `path`; `from_file` reads it back. The prompt is not in it."""
        Path(path).write_bytes(self.model)

    def prompted(self, prompt: str) -> "Tokenizer":
        """This tokenizer with `prompt` put before every text, as in "query: " or "passage: ".

        The prompt's tokens count towards a text's length.
        """
        if not isinstance(prompt, str):
            raise TypeError(f"`prompt` must be a text. Received: prompt={prompt!r}.")
        other = copy.copy(self)
        other.prompt = prompt
        digest = hashlib.blake2b(self.model, digest_size=8)
        if prompt:
            digest.update(b"\0" + prompt.encode("utf-8", "surrogatepass"))
        other.fingerprint = digest.hexdigest()
        return other

    def tokenize(self, texts: Sequence[str | bytes]) -> list[list[int]]:
        """Return the ids of each whole text behind the prompt, without the end token.

        Special tokens typed in a text, such as `</s>`, are ordinary characters. Bytes
        that are not UTF-8 become unknown pieces.
        """
        # Bytes go in as they are: decoding them first would give other pieces than the
        # tensorflow-text op, which sees only bytes.
        prompt = self.prompt.encode("utf-8", "surrogatepass")
        raw = [
            prompt + (text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
            for text in texts
        ]
        return self._processor.encode(raw, out_type=int)

    def encode(self, texts: Sequence[str | bytes], length: int) -> list[np.ndarray]:
        """Return int32 ids of each text: at most `length`, the end token always the last."""
        if isinstance(texts, str | bytes):
            raise TypeError(
                "`texts` must be a sequence of texts. "
                f"Received: one {type(texts).__name__}. Put it in a list."
            )
        check_length(length)
        return [np.array(finish(ids, length), dtype=np.int32) for ids in self.tokenize(texts)]


def finish(ids: list[int], length: int) -> list[int]:
    """Cut `ids` so that they and the end token make at most `length`."""
    return [*ids[: length - 1], END_ID]


def check_length(length: int) -> None:
    """Raise unless `length` has room for one token and the end token."""
    if length < 2:
        raise ValueError(
            "`length` must be at least 2 tokens: one of the text and the end token. "
            f"Received: length={length}. T5 retrievers use 64 for queries and 256 for documents."
        )


def _choose(texts: Sequence[str]) -> np.ndarray:
    """The rows of the texts to train on."""
    is_filled = (bool(text[:_MAX_TRAINING_CHARACTERS].strip()) for text in texts)
    filled = np.flatnonzero(np.fromiter(is_filled, bool, len(texts)))
    if len(filled) <= _MAX_TRAINING_TEXTS:
        return filled
    return filled[np.linspace(0, len(filled) - 1, _MAX_TRAINING_TEXTS).astype(int)]


def _cut(texts: Sequence[str], chosen: np.ndarray) -> Iterator[str]:
    """Yield the beginning of each text with single spaces, cut where the total needs it."""
    rows = chosen.tolist()
    sizes = np.fromiter((len(texts[row]) for row in rows), np.int64, len(rows))
    # The most characters of one text for which all of them together are few enough.
    longest = bisect_right(
        range(1, _MAX_TRAINING_CHARACTERS + 1),
        _MAX_TRAINING_TOTAL,
        key=lambda length: np.minimum(sizes, length).sum(),
    )
    for row in rows:
        yield " ".join(texts[row][:longest].split())


def _load(model: bytes) -> sentencepiece.SentencePieceProcessor:
    if not isinstance(model, bytes):
        raise TypeError(
            "`model` must be the bytes of a SentencePiece model. "
            f"Received: {type(model).__name__}. For a path use Tokenizer.from_file(path)."
        )
    try:
        if not model:  # the library loads nothing from nothing and says so only later
            raise RuntimeError("no bytes")
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    except RuntimeError as error:
        raise ValueError(
            "`model` must be a SentencePiece model. "
            f"Received: {len(model)} bytes that are none ({_one_line(error)}). "
            "Use T5's spiece.model or train one with Tokenizer.train."
        ) from error
    ids = {
        "pad": processor.pad_id(),
        "eos": processor.eos_id(),
        "unk": processor.unk_id(),
        "bos": processor.bos_id(),
    }
    if ids != _EXPECTED_IDS:
        raise ValueError(
            f"`model` must have the special ids of T5: {_spell(_EXPECTED_IDS)}. "
            f"Received: {_spell(ids)}. "
            "Train it with --pad_id=0 --eos_id=1 --unk_id=2 --bos_id=-1."
        )
    return processor


def _spell(ids: dict[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in ids.items())


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
