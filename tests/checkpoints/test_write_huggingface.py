"""Pins of checkpoints.write_huggingface: transformers loads it, and its states give our vectors."""

import re

import numpy as np
import pytest

from samtone_tf.checkpoints.card import Card
from samtone_tf.checkpoints.huggingface import open_huggingface
from samtone_tf.checkpoints.source import PROJECTION
from samtone_tf.checkpoints.write_huggingface import write_huggingface
from tests.checkpoints import peer
from tests.checkpoints.peer import LENGTHS, model_of, source


def write(one, folder):
    folder.mkdir()
    write_huggingface(one, folder, LENGTHS, Card("runs/made"))
    return folder


@peer.interop
@pytest.mark.parametrize("architecture", ["sde", "ade"])
def test_the_lines_of_the_card_give_our_vectors(architecture, tmp_path):
    pytest.importorskip("transformers")
    one = source(architecture)
    folder = write(one, tmp_path / "out")
    card = (folder / "README.md").read_text()
    code = "\n".join(re.findall(r"^    (.*)$", card, re.MULTILINE))
    length = LENGTHS["document" if architecture == "sde" else "query"]
    want = peer.ours(model_of(one), one, length)["query"]
    texts = [one.query_prompt + text for text in peer.texts()]
    code = code.replace("FOLDER", str(folder)).replace('["a text"]', repr(texts))
    found = {}
    exec(code, found)
    np.testing.assert_allclose(found["vectors"].numpy(), want, atol=1e-5)


@pytest.mark.parametrize("architecture", ["sde", "ade"])
def test_out_and_in_again_is_equal_to_the_bit(architecture, tmp_path):
    one = source(architecture)
    folder = write(one, tmp_path / "out")
    for side in ("query", "document") if architecture == "ade" else ("",):
        want = getattr(one, side or "query")
        again = open_huggingface(folder / side, "hf:again")
        assert again.tokenizer.model == one.tokenizer.model
        assert again.query.encoder == want.encoder
        assert set(again.query.tensors) == set(want.tensors) - {PROJECTION}
        for name, tensor in again.query.tensors.items():
            np.testing.assert_array_equal(tensor.read(), want.tensors[name].read(), err_msg=name)


def test_without_projection_there_is_no_file_of_it(tmp_path):
    folder = write(source(projection=False), tmp_path / "out")
    assert {path.name for path in folder.iterdir()} == {
        "README.md",
        "config.json",
        "model.safetensors",
        "spiece.model",
        "tokenizer.json",
        "tokenizer_config.json",
    }
