"""Pins of data.tokenizer: T5's ids, the end token, equality with the exported op (C24, C26)."""

import io
import random
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import sentencepiece

from samtone_tf.data import tokenizer as module
from samtone_tf.data.tokenizer import Tokenizer

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason="the real data sets are not beside the checkout"
)
WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "dogs", "bark", "at", "night", "café"]
ODD_TEXTS = [
    *["", " ", "  \t\n ", "\0", "a\0b", "</s>", "<pad> cat", "<unk>", "<s>", "\u2581cat"],
    *[
        "😀 cat 👩‍👩‍👧",
        "你好，世界",
        "ｃａｔ",
        "ﬁne",
        "cafe\u0301",
        "\u200b\ufeffcat",
        "cat " * 400,
    ],
    *[b"\xff\xfe caf\xe9", b"\xe4\xbd", b"cat\xed\xa0\x80cat", b"\xc0\x80", b"\xf4\x90\x80\x80 a"],
]  # C26


def sentences(count=300):
    draw = random.Random(0)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 12))) for _ in range(count)]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(sentences(), vocabulary_size=60)


def model_with(**ids):
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences()),
        model_writer=written,
        vocab_size=60,
        hard_vocab_limit=False,
        minloglevel=2,
        **ids,
    )
    return written.getvalue()


def raw_bytes(text):
    return text if isinstance(text, bytes) else text.encode()


def tensorflow_text_ids(tokenizer, texts):
    tensorflow_text = pytest.importorskip("tensorflow_text")
    op = tensorflow_text.SentencepieceTokenizer(tokenizer.model, add_eos=False)
    return op.tokenize([raw_bytes(text) for text in texts]).to_list()


def check_equal_to_tensorflow_text(tokenizer, texts, length):
    ids = tensorflow_text_ids(tokenizer, texts)
    assert sum(map(len, ids)) > len(texts)  # there is something to compare
    got = tokenizer.encode(texts, length)
    for text, want, row in zip(texts, ids, got, strict=True):
        assert [*want[: length - 1], 1] == row.tolist(), text


def t5s_model():
    return Tokenizer.from_file(SHARED / "t5_tokenizer" / "spiece.model")


def docstrings():
    return [str(value.__doc__) for value in vars(np).values()][:400]


def test_c26_odd_texts_are_equal_to_the_exported_op(tokenizer):
    check_equal_to_tensorflow_text(tokenizer, ODD_TEXTS, 32)
    check_equal_to_tensorflow_text(tokenizer, [*sentences(), *ODD_TEXTS], 4096)


@pytest.mark.shared_data
@needs_shared
def test_c24_t5s_own_model_is_accepted_and_equal_to_the_exported_op_on_odd_texts():
    tokenizer = t5s_model()
    assert tokenizer.vocabulary_size == 32_000
    check_equal_to_tensorflow_text(tokenizer, ODD_TEXTS, 64)


@pytest.mark.shared_data
@needs_shared
def test_t5s_own_model_is_equal_to_the_exported_op_on_docstrings():
    check_equal_to_tensorflow_text(t5s_model(), docstrings(), 64)


def test_the_end_token_is_always_last(tokenizer):
    for length in (2, 3, 7, 64):
        rows = tokenizer.encode([*sentences(20), *ODD_TEXTS], length)
        assert all(row[-1] == 1 and 1 not in row[:-1] for row in rows)
        assert all(row.dtype == np.int32 and 1 <= len(row) <= length for row in rows)
        assert max(map(len, rows)) == length


def test_empty_texts_are_the_end_token_alone(tokenizer):
    assert [row.tolist() for row in tokenizer.encode(["", " \n"], 8)] == [[1], [1]]


def test_typed_special_tokens_are_ordinary_text(tokenizer):
    ids = tokenizer.tokenize(["</s> <pad>"])[0]
    assert ids
    assert not {0, 1} & set(ids)


def test_bytes_and_strings_are_equal(tokenizer):
    assert tokenizer.tokenize(["café cat"]) == tokenizer.tokenize(["café cat".encode()])
    assert tokenizer.tokenize([]) == []


def test_half_a_surrogate_pair_is_tokenised(tokenizer):
    assert tokenizer.tokenize(["cat \ud800"])[0][-1] == 2


def test_training_gives_t5s_ids_and_the_same_model_each_time(tokenizer):
    again = Tokenizer.train(iter(sentences()), vocabulary_size=60)
    assert again.model == tokenizer.model
    assert again.fingerprint == tokenizer.fingerprint
    other = Tokenizer.train(sentences(), vocabulary_size=25)
    assert other.vocabulary_size == 25 < tokenizer.vocabulary_size <= 60
    assert other.fingerprint != tokenizer.fingerprint


def test_a_tiny_corpus_gets_a_smaller_vocabulary(capfd):
    tokenizer = Tokenizer.train(["a cat sat", "", "the dog ran"])
    assert 5 < tokenizer.vocabulary_size < 50
    assert 2 not in tokenizer.tokenize(["the cat ran"])[0]
    assert capfd.readouterr() == ("", "")


def test_long_texts_are_not_skipped_in_training():
    tokenizer = Tokenizer.train(["zebra " * 5000], vocabulary_size=20)
    assert 2 not in tokenizer.tokenize(["zebra"])[0]


def test_nothing_to_train_on_is_refused():
    with pytest.raises(ValueError, match="`texts` must hold at least one text"):
        Tokenizer.train(["", "  "])
    with pytest.raises(ValueError, match="Received: vocabulary_size=16 for 300 texts") as caught:
        Tokenizer.train(sentences(), vocabulary_size=16)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("size", [15, 3, 0, -5])
def test_a_vocabulary_without_room_is_refused_before_a_text_is_read(size):
    texts = iter(sentences())
    match = rf"`vocabulary_size` must be at least 16\. Received: vocabulary_size={size}\. \w"
    with pytest.raises(ValueError, match=match):
        Tokenizer.train(texts, vocabulary_size=size)
    assert len(list(texts)) == 300


@pytest.fixture
def given(monkeypatch):
    """What the trainer is given, text by text."""
    seen = []
    train = sentencepiece.SentencePieceTrainer.train

    def record(sentence_iterator, **arguments):
        seen[:] = sentence_iterator
        train(sentence_iterator=iter(seen), **arguments)

    monkeypatch.setattr(sentencepiece.SentencePieceTrainer, "train", record)
    return seen


def test_training_texts_are_spread_evenly_and_cut(given, monkeypatch):
    texts = [f"text  {i}\n" for i in range(100)]
    Tokenizer.train([*texts, " "], vocabulary_size=30)
    assert given == [f"text {i}" for i in range(100)]
    monkeypatch.setattr(module, "_MAX_TRAINING_TEXTS", 4)
    monkeypatch.setattr(module, "_MAX_TRAINING_CHARACTERS", 8)
    Tokenizer.train(iter([*texts, " "]), vocabulary_size=30)
    assert given == ["text 0", "text 33", "text 66", "text 99"]
    Tokenizer.train(["text number 1"], vocabulary_size=30)
    assert given == ["text num"]


def test_the_total_of_training_characters_is_capped(given, monkeypatch):
    texts = ["a" * 3, "b" * 50, "c" * 70, "d" * 9]
    for total, kept in ((132, [3, 50, 70, 9]), (131, [3, 50, 69, 9]), (33, [3, 10, 10, 9])):
        monkeypatch.setattr(module, "_MAX_TRAINING_TOTAL", total)
        Tokenizer.train(texts, vocabulary_size=30)
        assert list(map(len, given)) == kept, total


def test_texts_that_are_not_used_are_not_copied(monkeypatch):
    monkeypatch.setattr(module, "_MAX_TRAINING_TEXTS", 20)
    texts = ["word " * 2000] * 2000  # one string: 20 MB only when copied
    tracemalloc.start()
    try:
        Tokenizer.train(texts, vocabulary_size=20)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2e6


class Made(Sequence):
    """Texts that are made anew each time, as those on disk are."""

    def __init__(self, texts, times=1):
        self.texts, self.times = texts, times

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, row):
        return self.texts[row] * self.times


def test_texts_that_are_made_when_asked_are_never_all_there(tokenizer, monkeypatch):
    assert Tokenizer.train(Made(sentences()), vocabulary_size=60).model == tokenizer.model
    tracemalloc.start()
    try:
        Tokenizer.train(Made(["word "] * 300, times=20_000), vocabulary_size=20)  # 30 MB
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2e6


def test_a_prompt_stands_before_every_text(tokenizer):
    prompted = tokenizer.prompted("query: ")
    for text in ("some words", "", b"some words", "naïve"):
        whole = b"query: " + (text if isinstance(text, bytes) else text.encode())
        assert prompted.tokenize([text]) == tokenizer.tokenize([whole])
    assert (
        prompted.encode(["some words"], 6)[0].tolist()[:5]
        == tokenizer.tokenize(["query: some words"])[0][:5]
    )
    assert tokenizer.prompt == ""
    assert tokenizer.prompted("").fingerprint == tokenizer.fingerprint
    prints = {t.fingerprint for t in (tokenizer, prompted, tokenizer.prompted("passage: "))}
    assert len(prints) == 3
    with pytest.raises(TypeError, match="`prompt` must be a text. Received: prompt=None"):
        tokenizer.prompted(None)


def test_a_saved_model_is_the_same(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "vocabulary.spm")
    again = Tokenizer.from_file(tmp_path / "vocabulary.spm")
    assert again.fingerprint == tokenizer.fingerprint


def test_c24_default_ids_are_refused_and_named():
    with pytest.raises(
        ValueError, match=r"pad 0, eos 1, unk 2, bos -1\. Received: pad -1, eos 2, unk 0, bos 1\."
    ):
        Tokenizer(model_with())
    with pytest.raises(ValueError, match=r"Received: pad 0, eos 1, unk 2, bos 3\."):
        Tokenizer(model_with(pad_id=0, eos_id=1, unk_id=2, bos_id=3))


@pytest.mark.parametrize("raw", [b"", b"\n\x05\n\x03abc", b"just some text"])
def test_other_files_are_refused_in_one_line(tmp_path, raw):
    (tmp_path / "a.model").write_bytes(raw)
    with pytest.raises(ValueError, match=r"a\.model: `model` must be a SentencePiece") as caught:
        Tokenizer.from_file(tmp_path / "a.model")
    assert "\n" not in str(caught.value)


def test_missing_files_and_wrong_types_are_refused(tokenizer, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.spm, which does not exist"):
        Tokenizer.from_file(tmp_path / "none.spm")
    with pytest.raises(TypeError, match="Received: str"):
        Tokenizer("spiece.model")
    with pytest.raises(TypeError, match=r"Received: one str\. Put it in a list"):
        tokenizer.encode("one text", 8)


@pytest.mark.parametrize("length", [1, 0, -3])
def test_a_length_without_room_is_refused(tokenizer, length):
    with pytest.raises(ValueError, match=f"Received: length={length}"):
        tokenizer.encode(["a"], length)
