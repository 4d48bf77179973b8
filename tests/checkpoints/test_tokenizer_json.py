"""Pins of checkpoints.tokenizer_json, against the `tokenizers` library: equal tokens, both ways.

Left out are texts in which two orders of pieces score the same, such as "---" in T5's vocabulary
("--" then "-", or the other way round): every library takes the one it likes.
"""

import copy
import gzip
import json
from pathlib import Path

import pytest
from sentencepiece import sentencepiece_model_pb2

from samtone_tf.checkpoints.tokenizer_json import make_tokenizer_json, read_tokenizer_json
from samtone_tf.data.tokenizer import Tokenizer
from tests import tiny

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
ODD_TEXTS = [
    *[
        "",
        " ",
        "  \t\n ",
        " the  old\u3000harbour ",
        "a\0b",
        "\x01\x02the\x07 bell\x7f",
        "line\r\nend",
    ],
    *["🙂🙃 👩‍👩‍👧 the market", "naïve café — “quoted” …", "cafe\u0301", "ﬁne ½ ① Å"],
    *["日本語のテキスト", "你好，世界！", "한국어 텍스트", "Здравствуй, мир", "नमस्ते", "مرحبا"],
    *[
        "\u200b\ufeffharbour",
        "the\u00a0harbour\u2003opens\u2028now",
        "▁the ▁▁ harbour",
    ],
]
PRECOMPILED = {"type": "Precompiled", "precompiled_charsmap": "AAAA"}
SPLIT = {
    "type": "Sequence",
    "pretokenizers": [
        {"type": "WhitespaceSplit"},
        {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True},
    ],
}


def peers_ids(settings, texts):
    """Token ids of Hugging Face's library, which ends each text itself."""
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(settings))
    return [encoding.ids for encoding in tokenizer.encode_batch(texts)]


def our_ids(tokenizer, texts):
    return [[*ids, 1] for ids in tokenizer.tokenize(texts)]


def written(folder, settings) -> Path:
    (folder / "tokenizer.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder


def texts():
    return [*tiny.data().documents.values(), *tiny.docstring_texts(60), *ODD_TEXTS]


def assert_equal_tokens(got, want, texts):
    assert sum(map(len, want)) > 3 * len(texts)  # there is something to compare
    different = [
        (text, one, other)
        for text, one, other in zip(texts, got, want, strict=True)
        if one != other
    ]
    assert not different, different[:3]


def test_written_it_gives_our_tokens(tmp_path):
    settings = make_tokenizer_json(tiny.tokenizer(), 100)
    assert_equal_tokens(peers_ids(settings, texts()), our_ids(tiny.tokenizer(), texts()), texts())


def test_read_back_it_is_the_same_tokenizer(tmp_path):
    read = read_tokenizer_json(written(tmp_path, make_tokenizer_json(tiny.tokenizer(), 100)))
    assert read.vocabulary_size == tiny.tokenizer().vocabulary_size
    assert our_ids(read, texts()) == our_ids(tiny.tokenizer(), texts())
    again = make_tokenizer_json(read, 100)
    assert again == make_tokenizer_json(tiny.tokenizer(), 100)
    assert read_tokenizer_json(written(tmp_path, again)).fingerprint == read.fingerprint


def without_map(settings):
    """As transformers 5 writes T5's: no normaliser, text cut at white space."""
    settings["normalizer"] = None
    settings["pre_tokenizer"] = SPLIT


def as_first_published(settings):
    """As of t5-small."""
    settings["normalizer"] = settings["normalizer"]["normalizers"][0]
    settings["pre_tokenizer"] = SPLIT


def as_converted(settings):
    """As transformers 4 converts a SentencePiece model."""
    settings["normalizer"]["normalizers"][1]["strip_left"] = False
    settings["normalizer"]["normalizers"][2]["content"] = "▁"


@pytest.mark.parametrize("form", [without_map, as_first_published, as_converted])
def test_the_forms_of_published_files_give_their_tokens(tmp_path, form):
    settings = make_tokenizer_json(tiny.tokenizer(), 4)
    form(settings)
    read = read_tokenizer_json(written(tmp_path, settings))
    sample = [text for text in texts() if form is not without_map or "▁" not in text]
    assert_equal_tokens(our_ids(read, sample), peers_ids(settings, sample), sample)


def test_sentinels_are_no_pieces(tmp_path):
    settings = make_tokenizer_json(tiny.tokenizer(), 3)
    size = tiny.tokenizer().vocabulary_size
    added = {token["content"]: token["id"] for token in settings["added_tokens"]}
    assert added == {
        "<pad>": 0,
        "</s>": 1,
        "<unk>": 2,
        "<extra_id_2>": size,
        "<extra_id_1>": size + 1,
        "<extra_id_0>": size + 2,
    }
    assert peers_ids(settings, ["<extra_id_0>"]) == [[size + 2, 1]]
    assert read_tokenizer_json(written(tmp_path, settings)).vocabulary_size == size
    settings["added_tokens"] = settings["added_tokens"][:3]
    assert read_tokenizer_json(written(tmp_path, settings)).vocabulary_size == size


def test_bytes_stand_for_unknown_characters_where_the_file_says_so(tmp_path):
    settings = make_tokenizer_json(tiny.tokenizer(), 0)
    settings["model"]["vocab"] += [[f"<0x{i:02X}>", -30.0] for i in range(256)]
    settings["model"]["byte_fallback"] = True
    read = read_tokenizer_json(written(tmp_path, settings))
    sample = ["the 日本 harbour", "🙂"]
    assert our_ids(read, sample) == peers_ids(settings, sample)
    assert 2 not in read.tokenize(sample)[0]
    assert make_tokenizer_json(read, 0) == settings


def change(settings, path, value):
    """The same with one part replaced."""
    settings = copy.deepcopy(settings)
    inner = settings
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return settings


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["model", "type"], "BPE", "`model` of a T5 vocabulary must be Unigram. Received: BPE"),
        (["model"], None, "`model` .* Received: None"),
        (["model", "unk_id"], 0, "`vocab` .*ids 0, 1, 2. Received: .*and unk_id=0"),
        (["model", "vocab", 0], ["<s>", 0.0], "`vocab` .* Received: <s>, </s>, <unk>, and unk"),
        (["model", "vocab"], {"a": 1}, "pairs of piece and score. Received: {'a': 1}"),
        (["normalizer"], {"type": "Lowercase"}, "`normalizer` .* Received: Lowercase in "),
        (["normalizer", "normalizers", 1], {"type": "NFKC"}, "Received: NFKC in "),
        (
            ["normalizer", "normalizers", 2, "pattern"],
            {"String": "a"},
            "Received: Replace of {'String': 'a'}",
        ),
        (["normalizer", "normalizers", 2, "content"], "", "one space for many"),
        (["normalizer"], None, "Received: no Precompiled"),
        (["normalizer", "normalizers"], [PRECOMPILED], "Received: none for runs of spaces"),
        (["pre_tokenizer"], None, "`pre_tokenizer` .* must be Metaspace. Received: None"),
        (["pre_tokenizer"], {"type": "ByteLevel"}, "Received: ByteLevel"),
        (["pre_tokenizer", "replacement"], "_", "`Metaspace` .* Received: _"),
        (["post_processor"], {"type": "BertProcessing"}, "Received: BertProcessing with"),
        (["post_processor", "single"], [], r"Received: TemplateProcessing with \[\]"),
        (
            ["added_tokens", 1],
            {"id": 7, "content": "<mask>"},
            "`added_tokens` .* Received: <mask>",
        ),
    ],
)  # fmt: skip
def test_what_a_model_cannot_say_is_refused_by_name(tmp_path, path, value, message):
    settings = change(make_tokenizer_json(tiny.tokenizer(), 2), path, value)
    with pytest.raises(ValueError, match=message):
        read_tokenizer_json(written(tmp_path, settings))


def with_model(change_model) -> Tokenizer:
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(tiny.tokenizer().model)
    change_model(model)
    return Tokenizer(model.SerializeToString())


@pytest.mark.parametrize(
    ("change_model", "message"),
    [
        (lambda m: setattr(m.pieces[9], "type", 4), "of the kind USER_DEFINED"),
        (lambda m: setattr(m.pieces[9], "type", 5), "of the kind UNUSED"),
        (lambda m: setattr(m.trainer_spec, "model_type", 2), "a model that is not Unigram"),
        (
            lambda m: setattr(m.normalizer_spec, "remove_extra_whitespaces", False),
            "spaces that are kept",
        ),
        (lambda m: m.normalizer_spec.ClearField("precompiled_charsmap"), "no map of characters"),
        (
            lambda m: setattr(m.trainer_spec, "treat_whitespace_as_suffix", True),
            "spaces behind words",
        ),
    ],
)
def test_what_the_json_cannot_say_is_not_written(change_model, message):
    with pytest.raises(ValueError, match=f"written as tokenizer.json must be .*{message}"):
        make_tokenizer_json(with_model(change_model))


def real_texts() -> list[str]:
    """500 texts of the real data sets, and the odd ones."""
    real = []
    for name in ("medquad", "scifact", "squad_dev", "arxiv_titles", "dstc9_faq"):
        with gzip.open(SHARED / name / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
            real += [json.loads(line)["text"] for line, _ in zip(lines, range(100), strict=False)]
    assert len(real) == 500
    return [*real, *ODD_TEXTS]


@pytest.mark.shared_data
@pytest.mark.skipif(not SHARED.is_dir(), reason="the real data sets are not beside the checkout")
def test_t5s_own_vocabulary_gives_equal_tokens_on_real_texts(tmp_path):
    t5 = Tokenizer.from_file(SHARED / "t5_tokenizer" / "spiece.model")
    settings = make_tokenizer_json(t5)
    assert len(settings["model"]["vocab"]) == 32_100
    real = real_texts()
    want = our_ids(t5, real)
    assert_equal_tokens(peers_ids(settings, real), want, real)
    assert our_ids(read_tokenizer_json(written(tmp_path, settings)), real) == want
