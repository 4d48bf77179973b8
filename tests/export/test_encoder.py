"""Pins of export.encoder: tokens in the graph, signatures, requests, what is written."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the ops of an export)
from tensorflow.core.framework import tensor_pb2
from tensorflow.python.eager import context

from samtone_tf.data.tokenizer import Tokenizer
from samtone_tf.dual_encoder import DualEncoder
from samtone_tf.export import encoder
from samtone_tf.export.encoder import EncoderModule, export_saved_model, write_saved_model
from samtone_tf.training.run_folder import BEST_FILE, MODEL_FILE, load_model
from tests import checks, tiny

NO_PROMPTS = {"query": "", "document": ""}
LONG = "the old harbour stands beside the river " * 30


@pytest.fixture(scope="module")
def model():
    return load_model(tiny.run("ade_spl"))


@pytest.fixture(scope="module")
def signatures():
    return tf.saved_model.load(str(tiny.saved_model("ade_spl"))).signatures


def encode(signature, *texts):
    return signature(text=tf.constant(texts, tf.string))["embedding"].numpy()


@pytest.mark.parametrize("length", [2, 16, 512])
def test_tokens_in_the_graph_are_those_of_training(model, length):
    invalid = [b"\xff\xfe caf\xe9", b"\x80", b"caf\xc3", b"\xed\xa0\x80"]
    texts = [*tiny.ODD_TEXTS, *invalid, *tiny.docstring_texts(1000), LONG]
    module = EncoderModule(model, tiny.tokenizer(), {"query": 8, "document": 8}, NO_PROMPTS)
    found = module.tokenize(tf.constant(texts, tf.string), length)
    ids, mask = found["token_ids"].numpy(), found["padding_mask"].numpy()
    want = tiny.tokenizer().encode(texts, length)
    assert max(map(len, want)) == length  # some are cut
    assert ids.shape == mask.shape == (len(texts), length)
    for text, row, kept, expected in zip(texts, ids, mask, want, strict=True):
        assert row[kept].tolist() == expected.tolist(), text[:200]
        assert not row[~kept].any()
        assert kept.tolist() == sorted(kept, reverse=True)  # padding comes last


def test_a_request_is_padded_to_its_longest_text_only(model):
    module = EncoderModule(model, tiny.tokenizer(), {"query": 8, "document": 8}, NO_PROMPTS)
    assert module.tokenize(tf.constant(["", ""]), 512)["token_ids"].numpy().tolist() == [[1], [1]]


def test_c36_names_and_shapes_of_the_signatures(signatures):
    assert set(signatures) == {
        "encode_query",
        "encode_document",
        "encode_query_tokens",
        "encode_document_tokens",
        "serving_default",
    }
    for name in ("encode_query", "encode_document", "serving_default"):
        _, given = signatures[name].structured_input_signature
        assert {key: (spec.dtype, spec.shape.as_list()) for key, spec in given.items()} == {
            "text": (tf.string, [None])
        }
    for name in ("encode_query_tokens", "encode_document_tokens"):
        _, given = signatures[name].structured_input_signature
        assert {key: (spec.dtype, spec.shape.as_list()) for key, spec in given.items()} == {
            "token_ids": (tf.int32, [None, None]),
            "padding_mask": (tf.bool, [None, None]),
        }
    for signature in signatures.values():
        made = signature.structured_outputs
        assert {key: (spec.dtype, spec.shape.as_list()) for key, spec in made.items()} == {
            "embedding": (tf.float32, [None, tiny.DIM])
        }


def test_c36_a_single_string_is_refused_clearly(signatures):
    with pytest.raises((ValueError, TypeError, tf.errors.InvalidArgumentError)) as caught:
        signatures["encode_query"](text=tf.constant("a question"))
    assert "shape" in str(caught.value)


@pytest.mark.parametrize("name", ["encode_query", "encode_document"])
def test_c25_texts_beside_a_text_do_not_change_its_vector(signatures, name):
    texts = ["the old harbour", "", "a", "🙂", "what about the bright bakery"]
    alone = np.concatenate([encode(signatures[name], text) for text in texts])
    together = encode(signatures[name], LONG, *texts, LONG)
    np.testing.assert_allclose(together[1:-1], alone, atol=1e-5)
    assert np.abs(alone[:, None] - alone[None]).max(axis=-1)[np.triu_indices(5, 1)].min() > 1e-3


@pytest.mark.parametrize(
    ("side", "length"), [("query", tiny.QUERY_LENGTH), ("document", tiny.DOCUMENT_LENGTH)]
)
def test_texts_are_cut_at_the_lengths_given_to_export(signatures, side, length):
    """What lies behind the cut changes nothing; what lies before it does."""
    name = f"encode_{side}"
    words = next(
        num
        for num in range(1, 50)
        if len(tiny.tokenizer().tokenize(["harbour " * num])[0]) >= length - 1
    )
    kept = "harbour " * words
    longer = encode(signatures[name], kept, kept + "tunnel museum " * 9)
    np.testing.assert_allclose(longer[0], longer[1], atol=1e-6)
    other = encode(signatures[name], kept, "tunnel " + kept)
    assert np.abs(other[0] - other[1]).max() > 1e-3


def test_token_signatures_are_the_same_towers(signatures):
    texts = ["the old harbour", "what about the bright bakery", ""]
    for side, length in (("query", tiny.QUERY_LENGTH), ("document", tiny.DOCUMENT_LENGTH)):
        ids = tf.ragged.constant([list(i) for i in tiny.tokenizer().encode(texts, length)])
        by_tokens = signatures[f"encode_{side}_tokens"](
            token_ids=tf.cast(ids.to_tensor(), tf.int32),
            padding_mask=tf.sequence_mask(ids.row_lengths()),
        )
        by_text = encode(signatures[f"encode_{side}"], *texts)
        np.testing.assert_allclose(by_tokens["embedding"], by_text, atol=1e-5)


def test_c27_c37_new_lengths_and_sizes_trace_nothing(signatures):
    encode(signatures["encode_query"], "warm up")
    before = set(context.context().list_function_names())
    for num in (1, 2, 3, 17):
        for words in (0, 1, 4, 300):
            assert len(encode(signatures["encode_query"], *["word " * words] * num)) == num
    assert set(context.context().list_function_names()) == before


def test_files_beside_the_graph():
    extra = tiny.saved_model("ade_spl") / "assets.extra"
    assert Tokenizer.from_file(extra / "vocabulary.spm").model == tiny.tokenizer().model
    about = json.loads((extra / "samtone.json").read_text())
    assert about["lengths"] == {"query": tiny.QUERY_LENGTH, "document": tiny.DOCUMENT_LENGTH}
    assert about["embedding_dim"] == tiny.DIM
    assert about["architecture"] == "ade_spl"
    assert about["encoder"]["hidden_dim"] == 16
    assert about["vocabulary"] == tiny.tokenizer().fingerprint


def fields(content):
    """(number, value) of a protocol buffer's wire format, of which only lengths are needed."""

    def varint():
        nonlocal place
        value = shift = 0
        while True:
            byte = content[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    place, found = 0, []
    while place < len(content):
        key = varint()
        assert key & 7 == 2, "only fields with a length are expected"
        size = varint()
        found.append((key >> 3, content[place : place + size]))
        place += size
    return found


def test_warm_up_requests_are_for_signatures_that_exist(signatures):
    """PredictionLog 6 → PredictLog 1 → PredictRequest: model 1 with signature 3, inputs 2."""
    path = tiny.saved_model("ade_spl") / "assets.extra" / "tf_serving_warmup_requests"
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    assert 0 < len(records) <= 1000  # TF Serving refuses more
    asked = set()
    for record in records:
        ((log, predict),) = fields(record)
        ((request_field, request),) = fields(predict)
        spec, inputs = dict(fields(request))[1], dict(fields(request))[2]
        assert (log, request_field) == (6, 1)
        name = dict(fields(spec))[3].decode()
        key, tensor = dict(fields(inputs))[1], dict(fields(inputs))[2]
        text = tf.make_ndarray(tensor_pb2.TensorProto.FromString(tensor))
        assert key == b"text"
        assert encode(signatures[name], *text).shape == (len(text), tiny.DIM)
        asked.add(name)
    assert asked >= {"encode_query", "encode_document"}


def test_c24_a_tokenizer_larger_than_the_table_is_refused(tmp_path):
    num = tiny.tokenizer().vocabulary_size
    small = DualEncoder(checks.TINY, embedding_dim=4, vocabulary_size=num - 1)
    with pytest.raises(ValueError, match=f"Received: {num} pieces, {num - 1} rows"):
        write_saved_model(small, tiny.tokenizer(), tmp_path / "1")
    assert not list(tmp_path.iterdir())


def test_adapters_are_merged_into_the_kernels_of_an_export(tmp_path):
    encoder = {**checks.TINY, "vocabulary_size": 200, "lora_rank": 4, "lora_targets": "all"}
    adapted = DualEncoder(encoder, "ade", embedding_dim=tiny.DIM)
    random = np.random.default_rng(0)
    texts = ["the old harbour", "since year 1007"]
    before = text_vectors(adapted, texts)
    for variable in adapted.trainable_variables:
        if variable.name == "lora_b":
            variable.assign(random.normal(size=variable.shape) * 0.3)
    out = write_saved_model(adapted, tiny.tokenizer(), tmp_path / "1")
    loaded = tf.saved_model.load(str(out))
    found = encode(loaded.signatures["encode_query"], *texts)
    np.testing.assert_allclose(found, text_vectors(adapted, texts), atol=2e-6)
    assert np.abs(found - before).max() > 0.01
    about = json.loads((out / "assets.extra" / "samtone.json").read_text())
    assert about["encoder"]["lora_rank"] == 0
    names = [name for name, _ in tf.train.list_variables(str(out / "variables" / "variables"))]
    assert sum("weights" in name for name in names) == len(
        DualEncoder({**checks.TINY, "vocabulary_size": 200}, "ade", embedding_dim=tiny.DIM).weights
    )
    assert b"lora" not in (out / "saved_model.pb").read_bytes()


def text_vectors(model, texts):
    ids = tiny.tokenizer().encode(texts, 64)
    token_ids = np.zeros((len(ids), 64), "int32")
    for row, text in enumerate(ids):
        token_ids[row, : len(text)] = text
    lengths = np.array([[len(text)] for text in ids])
    tokens = {"token_ids": token_ids, "padding_mask": np.arange(64) < lengths}
    return model.encode_query(tokens).numpy()


def test_what_exists_is_never_overwritten(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for taken in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(FileExistsError, match=f"nothing is overwritten. Received: {taken}"):
            export_saved_model(tmp_path / "no_run_is_needed_for_this", taken)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_failed_export_leaves_nothing(tmp_path, model, monkeypatch):
    def fail(module, folder, signatures):
        tf.io.gfile.makedirs(folder)
        tf.io.write_file(f"{folder}/half", "half")
        raise OSError("disk full")

    monkeypatch.setattr(encoder.tf.saved_model, "save", fail)
    with pytest.raises(OSError, match="disk full"):
        write_saved_model(model, tiny.tokenizer(), tmp_path / "1")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("lengths", [{"query_length": 1}, {"document_length": 0}])
def test_lengths_need_room_for_a_token_and_the_end(tmp_path, model, lengths):
    with pytest.raises(ValueError, match=r"at least 2 tokens.*Received: length=[01]\."):
        write_saved_model(model, tiny.tokenizer(), tmp_path / "1", **lengths)
    assert not list(tmp_path.iterdir())


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="gone"):
        export_saved_model(tmp_path / "gone", tmp_path / "1")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="config.yaml, vocabulary.spm"):
        export_saved_model(tmp_path / "empty", tmp_path / "1")
    assert not (tmp_path / "1").exists()


@pytest.mark.parametrize(
    ("which", "architecture"), [(None, "ade_spl"), ("best", "ade_spl"), ("last", "sde")]
)
def test_the_best_checkpoint_is_exported_unless_the_last_is_asked_for(
    tmp_path, monkeypatch, which, architecture
):
    run = shutil.copytree(tiny.run("sde"), tmp_path / "run")
    shutil.copy(
        tiny.run("ade_spl") / MODEL_FILE, run / BEST_FILE
    )  # another one, to tell them apart
    monkeypatch.setattr(encoder, "write_saved_model", lambda model, *_, **__: model.architecture)
    assert encoder.export_saved_model(run, tmp_path / "1", checkpoint=which) == architecture
