"""Vectors of folders that sentence-transformers saved: theirs and ours are equal."""

import json
import shutil
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from samtone_tf.checkpoints.sentence_transformers import open_sentence_transformers
from samtone_tf.checkpoints.source import PROJECTION
from samtone_tf.dual_encoder import DualEncoder
from tests.checkpoints import peer

pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
pytest.importorskip("sentence_transformers")

ARCHITECTURES = ("sde", "ade", "ade_spl")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Architecture → folder; each is made once. Read them; copy one to change it."""
    root = tmp_path_factory.mktemp("made")
    return lru_cache(lambda architecture: peer.save(root / architecture, architecture))


@pytest.fixture
def changed(made, tmp_path):
    """A copy of the folder of one tower with one JSON file changed."""

    def make(file: str, **changes) -> Path:
        folder = tmp_path / "changed"
        shutil.copytree(made("sde"), folder)
        path = folder / file
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))
        return folder

    return make


def read(folder):
    return open_sentence_transformers(str(folder), f"st:{folder.name}")


def cosines(a, b):
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_vectors_are_theirs(made, architecture):
    source = read(made(architecture))
    assert source.architecture == architecture
    assert (source.max_length, source.query.embedding_dim) == (100, peer.WIDTH)
    assert (source.document is source.query) == (architecture == "sde")
    want = peer.theirs(made(architecture))
    got = peer.ours(DualEncoder.from_pretrained(source), source)
    for side in want:
        np.testing.assert_allclose(got[side], want[side], atol=1e-5)
        # They tell texts apart, and prompts: a constant would pass nothing.
        assert np.abs(want[side][0] - want[side][1]).max() > 0.05
    assert np.abs(want["query"] - want["document"]).max() > 0.05


@pytest.mark.parametrize("architecture", ["sde", "ade_spl"])
def test_vectors_in_bfloat16_point_the_same_way(tmp_path, architecture):
    # As wide as T5's own initialisers. Of weights three times as wide, where attention looks at
    # one token alone, their own vectors in bfloat16 differ as much as ours do: 0.995.
    folder = peer.save(tmp_path / "made", architecture, deviation=0.1)
    source = read(folder)
    model = DualEncoder.from_pretrained(source, dtype="mixed_bfloat16")
    want, got = peer.theirs(folder), peer.ours(model, source)
    for side in want:
        assert cosines(got[side], want[side]).min() >= 0.9999
        assert np.abs(got[side] - want[side]).max() > 1e-5  # it is another type


@pytest.mark.parametrize("projection", ["relu", "gated-relu", "gelu_new"])
def test_vectors_of_the_other_feed_forward_networks_are_theirs(tmp_path, projection):
    folder = peer.save(tmp_path / "one", feed_forward_proj=projection)
    source = read(folder)
    got = peer.ours(DualEncoder.from_pretrained(source), source)
    np.testing.assert_allclose(got["query"], peer.theirs(folder)["query"], atol=1e-5)


def test_texts_are_cut_where_they_cut_them(made, tmp_path):
    folder = peer.save(tmp_path / "short", length=9)
    source = read(folder)
    assert source.max_length == 9
    got = peer.ours(DualEncoder.from_pretrained(source), source, 9)
    np.testing.assert_allclose(got["query"], peer.theirs(folder)["query"], atol=1e-5)


def test_lengths_of_queries_and_documents_are_read(changed):
    folder = changed("sentence_bert_config.json", query_length=6, document_length=30)
    source = read(folder)
    assert (source.query_length, source.document_length) == (6, 30)
    got = peer.ours(DualEncoder.from_pretrained(source), source, {"query": 6, "document": 30})
    want = peer.theirs(folder)
    for side in want:
        np.testing.assert_allclose(got[side], want[side], atol=1e-5)


def test_older_names_and_flags_are_read(changed):
    folder = changed("1_Pooling/config.json")
    pooling = {"word_embedding_dimension": peer.HIDDEN, "pooling_mode_mean_tokens": True}
    pooling |= {"pooling_mode_cls_token": False, "pooling_mode_max_tokens": False}
    (folder / "1_Pooling/config.json").write_text(json.dumps(pooling))
    modules = json.loads((folder / "modules.json").read_text())
    for module in modules:
        module["type"] = "sentence_transformers.models." + module["type"].rpartition(".")[2]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "3_Normalize/config.json").unlink()
    config = json.loads((folder / "sentence_bert_config.json").read_text())
    config |= {"max_seq_length": 40, "do_lower_case": False}
    (folder / "sentence_bert_config.json").write_text(json.dumps(config))
    source = read(folder)
    assert source.max_length == 40
    got = peer.ours(DualEncoder.from_pretrained(source), source, 40)
    np.testing.assert_allclose(got["query"], peer.theirs(folder)["query"], atol=1e-5)


def without(folder, kind):
    modules = json.loads((folder / "modules.json").read_text())
    modules = [module for module in modules if not module["type"].endswith(kind)]
    (folder / "modules.json").write_text(json.dumps(modules))
    return folder


def test_without_a_projection_vectors_are_the_mean_states(changed):
    folder = without(changed("1_Pooling/config.json"), "Dense")
    source = read(folder)
    assert source.query.embedding_dim == peer.HIDDEN
    np.testing.assert_array_equal(source.query.tensors[PROJECTION].read(), np.eye(peer.HIDDEN))
    got = peer.ours(DualEncoder.from_pretrained(source), source)
    np.testing.assert_allclose(got["document"], peer.theirs(folder)["document"], atol=1e-5)


def test_without_normalize_a_warning_says_that_lengths_differ(changed):
    folder = without(changed("1_Pooling/config.json"), "Normalize")
    with pytest.warns(UserWarning, match="st:changed has no Normalize: .* here they have length 1"):
        source = read(folder)
    got = peer.ours(DualEncoder.from_pretrained(source), source)["query"]
    want = peer.theirs(folder)["query"]
    assert np.abs(np.linalg.norm(want, axis=1) - 1).max() > 0.1
    np.testing.assert_allclose(got, want / np.linalg.norm(want, axis=1, keepdims=True), atol=1e-5)


def test_a_prompt_called_passage_is_that_of_documents(changed):
    prompts = {"prompts": {"query": "question: ", "passage": "a passage: "}}
    folder = changed("config_sentence_transformers.json", **prompts)
    source = read(folder)
    got = peer.ours(DualEncoder.from_pretrained(source), source)["document"]
    want = peer.load(folder).encode_document(peer.texts(), prompt_name="passage")
    np.testing.assert_allclose(got, want, atol=1e-5)


def test_pytorchs_own_files_give_the_same(made, tmp_path):
    import torch
    from safetensors.torch import load_file

    folder = tmp_path / "older"
    shutil.copytree(made("sde"), folder)
    for part in (folder, folder / "2_Dense"):
        torch.save(load_file(part / "model.safetensors"), part / "pytorch_model.bin")
        (part / "model.safetensors").unlink()
    want = read(made("sde")).query.tensors
    for name, tensor in read(folder).query.tensors.items():
        np.testing.assert_array_equal(tensor.read(), want[name].read(), err_msg=name)


def test_a_projection_that_would_run_code_is_refused(made, tmp_path):
    import pickle

    folder = tmp_path / "pickled"
    shutil.copytree(made("sde"), folder)
    (folder / "2_Dense" / "model.safetensors").unlink()
    with (folder / "2_Dense" / "pytorch_model.bin").open("wb") as file:
        pickle.dump({"linear.weight": print}, file, protocol=2)  # as torch.save does
    with pytest.raises(ValueError, match="weights that PyTorch saved, and nothing else"):
        read(folder)
