"""Pins of checkpoints.write_sentence_transformers: it loads there, and gives our vectors."""

import json

import numpy as np
import pytest

from samtone_tf.checkpoints.card import Card
from samtone_tf.checkpoints.sentence_transformers import open_sentence_transformers
from samtone_tf.checkpoints.source import Source
from samtone_tf.checkpoints.write_sentence_transformers import write_sentence_transformers
from samtone_tf.encoder_config import EncoderConfig
from tests.checkpoints import made, peer
from tests.checkpoints.peer import LENGTHS, model_of, source

ARCHITECTURES = ("sde", "ade_spl", "ade", ["token_embedding"], ["token_embedding", "encoder"])
READ_AS = {"sde": "sde", "ade_spl": "ade_spl"}
"""What is shared is seen again; other shared parts are written twice."""


def write(one: Source, folder, lengths=LENGTHS, **card):
    folder.mkdir()
    write_sentence_transformers(one, folder, lengths, Card("runs/made", **card))
    return folder


def read(folder) -> Source:
    return open_sentence_transformers(str(folder), "st:again")


def numbers(one: Source):
    return [
        {name: tensor.read() for name, tensor in tower.tensors.items()}
        for tower in (one.query, one.document)
    ]


@peer.interop
@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=str)
def test_it_loads_there_and_gives_our_vectors(architecture, tmp_path):
    one = source(architecture)
    lengths = {"query": 80, "document": 80} if architecture == "sde" else LENGTHS
    want = peer.theirs(write(one, tmp_path / "out", lengths))
    got = peer.ours(model_of(one), one, lengths)
    for side in want:
        np.testing.assert_allclose(got[side], want[side], atol=1e-5)
        np.testing.assert_allclose(np.linalg.norm(want[side], axis=1), 1, atol=1e-5)


@peer.interop
@pytest.mark.parametrize(
    "changes",
    [{"gated": False, "activation": "relu"}, {"activation": "relu"}, {"gated": False}],
    ids=str,
)
def test_the_other_feed_forward_networks(changes, tmp_path):
    one = source(**changes)
    want = peer.theirs(write(one, tmp_path / "out"))["document"]
    np.testing.assert_allclose(peer.ours(model_of(one), one, 80)["document"], want, atol=1e-5)
    assert read(tmp_path / "out").query.encoder == one.query.encoder


@peer.interop
def test_without_projection(tmp_path):
    one = source(projection=False)
    folder = write(one, tmp_path / "out")
    assert not list(folder.glob("*Dense"))
    again = read(folder)
    want = peer.theirs(folder)["document"]
    assert want.shape[1] == again.query.embedding_dim == made.NUMBERS.hidden_dim
    np.testing.assert_allclose(peer.ours(model_of(again), again, 80)["document"], want, atol=1e-5)


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=str)
def test_out_and_in_again_is_equal_to_the_bit(architecture, tmp_path):
    one = source(architecture)
    again = read(write(one, tmp_path / "out"))
    assert again.architecture == READ_AS.get(str(architecture), "ade")
    assert again.query.encoder == one.query.encoder
    assert again.tokenizer.model == one.tokenizer.model
    assert (again.query_prompt, again.document_prompt) == ("question: ", "passage: ")
    two = architecture != "sde"
    assert again.query_length == (LENGTHS["query"] if two else LENGTHS["document"])
    assert again.document_length == LENGTHS["document"]
    for want, got in zip(numbers(one), numbers(again), strict=True):
        assert got.keys() == want.keys()
        for name in want:
            np.testing.assert_array_equal(got[name], want[name], err_msg=name)


@peer.interop
@pytest.mark.parametrize("architecture", ["sde", "ade", "ade_spl"])
def test_in_and_out_and_in_again_is_equal_to_the_bit(architecture, tmp_path):
    one = read(peer.save(tmp_path / "theirs", architecture))
    again = read(write(one, tmp_path / "ours", {"query": 100, "document": 100}))
    assert again.architecture == architecture
    for want, got in zip(numbers(one), numbers(again), strict=True):
        for name in want:
            np.testing.assert_array_equal(got[name], want[name], err_msg=name)
    want, got = peer.theirs(tmp_path / "theirs"), peer.theirs(tmp_path / "ours")
    for side in want:
        np.testing.assert_allclose(got[side], want[side], atol=1e-6)


@peer.interop
def test_a_router_cuts_each_side_at_its_own_length(tmp_path):
    one = source("ade")
    folder = write(one, tmp_path / "out")
    long = peer.theirs(write(one, tmp_path / "long", {"query": 80, "document": 80}))
    short = peer.theirs(folder)
    assert np.abs(long["query"][-1] - short["query"][-1]).max() > 1e-3
    np.testing.assert_array_equal(long["document"], short["document"])


@peer.interop
def test_one_tower_can_cut_as_before_with_two_lines_of_the_card(tmp_path):
    one = source()
    folder = write(one, tmp_path / "out")
    card = (folder / "README.md").read_text()
    assert "queries are cut after 80 tokens, too" in card
    model = peer.load(folder)
    for line in ("model[0].query_length = 12", "model[0].document_length = 80"):
        assert f"`{line}`" in card
        exec(line)
    got = peer.ours(model_of(one), one, LENGTHS)
    np.testing.assert_allclose(model.encode_query(peer.texts()), got["query"], atol=1e-5)
    np.testing.assert_allclose(model.encode_document(peer.texts()), got["document"], atol=1e-5)


def test_the_card_says_what_is_known(tmp_path):
    folder = write(
        source(),
        tmp_path / "out",
        license="apache-2.0",
        data="beir:scifact",
        command="samtone train --config config.yaml --out RUN",
        scores={"nDCG@10 in validation": 0.51234567},
        configuration="data:\n  source: beir:scifact",
    )
    card = (folder / "README.md").read_text()
    front, rest = card.removeprefix("---\n").split("\n---\n", 1)
    assert front.splitlines() == [
        "license: apache-2.0",
        "library_name: sentence-transformers",
        "pipeline_tag: sentence-similarity",
        "tags:",
        "- sentence-transformers",
        "- feature-extraction",
        "- sentence-similarity",
    ]
    for line in (
        "| towers | sde |",
        "| vectors | 10 numbers, of unit length |",
        '| stands before queries | `"question: "` |',
        "| trained on | beir:scifact |",
        "| nDCG@10 in validation | 0.512346 |",
        "    samtone train --config config.yaml --out RUN",
        "  source: beir:scifact",
    ):
        assert line in rest.splitlines()


@peer.interop
def test_shards(tmp_path, monkeypatch):
    """Large models are written in several files, which both sides read as one."""
    from samtone_tf.checkpoints import write_huggingface, write_safetensors

    monkeypatch.setattr(
        write_huggingface,
        "write_safetensors",
        lambda folder, tensors: write_safetensors.write_safetensors(folder, tensors, 8000),
    )
    one = source()
    folder = write(one, tmp_path / "out")
    files = sorted(path.name for path in folder.glob("model-*.safetensors"))
    assert len(files) > 2
    assert files[0] == f"model-00001-of-{len(files):05d}.safetensors"
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    assert set(index["weight_map"].values()) == set(files)
    sizes = [
        tensor.read().nbytes for name, tensor in one.query.tensors.items() if "proj" not in name
    ]
    assert index["metadata"]["total_size"] == sum(sizes)
    want = peer.theirs(folder)["document"]
    np.testing.assert_allclose(peer.ours(model_of(one), one, 80)["document"], want, atol=1e-5)
    for a, b in zip(numbers(one)[0].values(), numbers(read(folder))[0].values(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_numbers_of_the_encoder_are_written():
    from samtone_tf.checkpoints.write_huggingface import huggingface_config

    config = EncoderConfig.make("t5.1.1-base", num_buckets=16, max_distance=64)
    written = huggingface_config(config)
    assert written["feed_forward_proj"] == "gated-gelu"
    assert (written["num_layers"], written["d_ff"], written["d_kv"]) == (12, 2048, 64)
    assert written["relative_attention_num_buckets"] == 16
    assert written["relative_attention_max_distance"] == 64
