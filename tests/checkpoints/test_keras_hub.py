"""Pins of checkpoints.keras_hub: presets that KerasHub wrote, states equal to KerasHub's own."""

import json
import shutil

import keras
import numpy as np
import pytest

from samtone_tf.checkpoints.assign import load_t5
from samtone_tf.checkpoints.keras_hub import open_keras_hub
from samtone_tf.data.tokenizer import Tokenizer
from samtone_tf.encoder_config import EncoderConfig
from tests import tiny
from tests.towers.test_encoder import (
    keras_hub_states,
    keras_hub_t5,
    quiet_keras_hub,
    ragged_tokens,
)

pytestmark = quiet_keras_hub


def tanh_gelu():
    import keras_hub  # noqa: F401  (registers it)

    return keras.saving.get_registered_object("keras_hub>gelu_approximate")


def saved(folder, backbone, **settings):
    backbone.save_to_preset(str(folder), **settings)
    return folder


@pytest.fixture(scope="module")
def backbone():
    return keras_hub_t5(True, tanh_gelu())


@pytest.fixture(scope="module")
def preset(backbone, tmp_path_factory):
    """A preset without a vocabulary. Read it; never write to it."""
    return saved(tmp_path_factory.mktemp("preset") / "t5", backbone)


@pytest.fixture(scope="module")
def source(preset):
    return opened(preset)


@pytest.fixture
def copied(preset, tmp_path):
    """One of one's own."""
    return shutil.copytree(preset, tmp_path / "t5")


def opened(folder):
    return open_keras_hub(str(folder), f"keras_hub:{folder}")


def states(source):
    """Hidden states of a T5 with the preset's weights, where there is a token."""
    tokens = ragged_tokens()
    return load_t5(source)(**tokens).numpy()[tokens["padding_mask"]]


def their_states(backbone):
    tokens = ragged_tokens()
    assert tokens["padding_mask"].sum(1).max() > 91  # the most distant buckets
    return keras_hub_states(backbone, tokens)[tokens["padding_mask"]]


def test_v1_1_gives_kerashubs_states(source, backbone):
    assert source.query.encoder == EncoderConfig(2, 32, 4, 16, 48, 60)
    assert source.tokenizer is None
    np.testing.assert_allclose(states(source), their_states(backbone), atol=1e-5, rtol=1e-5)


@pytest.mark.slow
def test_v1_0_gives_kerashubs_states(tmp_path):
    backbone = keras_hub_t5(False, "relu")
    folder = saved(tmp_path / "t5", backbone)
    source = opened(folder)
    encoder = source.query.encoder
    assert (encoder.gated, encoder.activation) == (False, "relu")
    np.testing.assert_allclose(states(source), their_states(backbone), atol=1e-5, rtol=1e-5)


@pytest.mark.slow
def test_shards_give_the_same(tmp_path, backbone, source):
    folder = saved(tmp_path / "t5", backbone, max_shard_size=1e-4)
    assert len(list(folder.glob("*.h5"))) > 1
    want = source.query.tensors
    for name, tensor in opened(folder).query.tensors.items():
        np.testing.assert_array_equal(tensor.read(), want[name].read(), err_msg=name)
    index = json.loads((folder / "model.weights.json").read_text())
    index["weight_map"] = {name: f"../{files}" for name, files in index["weight_map"].items()}
    (folder / "model.weights.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match="may only name files inside its folder"):
        opened(folder)


@pytest.mark.slow
def test_the_published_v1_1_presets_say_gelu_and_mean_the_tanh_form(copied, source, backbone):
    change(copied, activation="gelu")
    with_vocabulary(copied, small := Tokenizer.train(["a b c d e f"], 16))
    with pytest.warns(UserWarning, match='says activation "gelu", which is the exact form in Ker'):
        source = opened(copied)
    assert source.tokenizer.fingerprint == small.fingerprint
    assert source.query.encoder.activation == "gelu"
    exact = keras_hub_t5(True, "gelu")
    exact.set_weights(backbone.get_weights())
    difference = np.abs(states(source) - their_states(exact)).max()
    assert 5e-5 < difference < 5e-2


def with_vocabulary(folder, tokenizer):
    import keras_hub

    keras_hub.models.T5Tokenizer(proto=tokenizer.model).save_to_preset(str(folder))


def test_a_vocabulary_larger_than_the_table_is_refused(copied):
    with_vocabulary(copied, tiny.tokenizer())
    with pytest.raises(ValueError, match="at most as many pieces as the model's token table"):
        opened(copied)


def change(folder, **settings):
    """Changes the preset's settings; None leaves one out."""
    found = json.loads((folder / "config.json").read_text())
    found["config"] |= settings
    (folder / "config.json").write_text(json.dumps(found))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"activation": "silu"}, "`activation` must be relu, gelu or .* Received: 'silu'"),
        (
            {
                "activation": {
                    "module": "builtins",
                    "class_name": "__lambda__",
                    "config": {"value": "cHJpbnQoMSk="},
                }
            },
            "Received: {'module': 'builtins', 'class_name': '__lambda__'",
        ),
        (
            {"activation": {"module": "os", "class_name": "function", "config": "system"}},
            "Received: 'system'",
        ),
        ({"layer_norm_epsilon": 1e-5}, "`layer_norm_epsilon` must be 1e-06"),
        ({"num_heads": None}, "`num_heads` must be a positive integer. Received: None"),
        ({"layers": [{"class_name": "Lambda"}]}, "of KerasHub's T5Backbone. Received: layers in"),
        ({"dtype": {"class_name": "QuantizedDTypePolicy"}}, "must not be quantised"),
    ],
)
def test_settings_that_are_not_plain_or_not_ours_are_refused(copied, settings, message):
    change(copied, **settings)
    with pytest.raises(ValueError, match=message):
        opened(copied)


@pytest.mark.parametrize("name", ["keras_hub>BertBackbone", "Lambda", None])
def test_another_class_is_refused_by_name_and_never_made(copied, name):
    found = json.loads((copied / "config.json").read_text()) | {"registered_name": name}
    found["class_name"] = "Lambda"
    (copied / "config.json").write_text(json.dumps(found))
    with pytest.raises(ValueError, match=f"of the class T5Backbone. Received: '{name or 'Lambda'}"):
        opened(copied)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_layers": 1}, "num_layers=1 in .*, and weights of 2"),
        ({"num_layers": 3}, "num_layers=3 in .*, and weights of 2"),
        ({"hidden_dim": 40}, "a file that Keras cannot load into it"),
    ],
)
def test_weights_of_another_model_are_refused(copied, settings, message):
    change(copied, **settings)
    with pytest.raises(ValueError, match=message):
        opened(copied)


def test_files_out_of_the_folder_are_not_read(copied, tmp_path):
    (copied / "model.weights.h5").rename(tmp_path / "model.weights.h5")
    with pytest.raises(FileNotFoundError, match=r"the file model\.weights\.json"):
        opened(copied)
    (copied / "model.weights.h5").symlink_to(tmp_path / "model.weights.h5")
    with pytest.raises(ValueError, match="may only name files inside its folder"):
        opened(copied)


def test_a_file_of_weights_cannot_point_at_other_files(copied):
    import h5py

    with h5py.File(copied / "model.weights.h5", "a") as file:
        found = []
        file.visititems(lambda name, item: found.append(name) if "vars/" in name else None)
        shape = file[found[0]].shape
        del file[found[0]]
        size = 4 * int(np.prod(shape))
        file.create_dataset(found[0], shape, "f4", external=[("/etc/hostname", 0, size)])
    with pytest.raises(ValueError, match="a file that Keras cannot load into it"):
        opened(copied)


def test_what_is_missing_or_no_hdf5_is_refused(copied):
    import h5py

    with h5py.File(copied / "model.weights.h5", "a") as file:
        found = []
        file.visit(lambda name: found.append(name) if name.endswith("query_projector") else None)
        del file[found[0]]
    with pytest.raises(ValueError, match="Layer 'query_projector' expected 1 variables"):
        opened(copied)
    (copied / "model.weights.h5").write_bytes(b"no such thing")
    with pytest.raises(ValueError, match=r"model\.weights\.h5 must be an HDF5 file\. Received: "):
        opened(copied)


@pytest.mark.parametrize("name", ["bert_base_en", "no_such", "modelscope://a/b"])
def test_other_presets_are_refused_by_name(name):
    with pytest.raises(ValueError, match=f"A KerasHub preset must be .* Received: '{name}'"):
        opened(name)


def empty(folder):
    """A folder that is refused at once, by its name; making a model takes seconds."""
    (folder / "downloaded").mkdir()
    (folder / "downloaded" / "config.json").write_text("{}")
    return str(folder / "downloaded")


def test_names_and_kaggle_are_downloaded(tmp_path, monkeypatch):
    import kagglehub

    asked, folder = [], empty(tmp_path)
    monkeypatch.setattr(kagglehub, "model_download", lambda handle: asked.append(handle) or folder)
    for name in ("t5_1.1_base", "kaggle://owner/t5/keras/mine"):
        with pytest.raises(ValueError, match="of the class T5Backbone. Received: None in .*/downl"):
            opened(name)
    assert asked[0].startswith("keras/t5/keras/t5_1.1_base")
    assert asked[1] == "owner/t5/keras/mine"

    def fail(_):
        raise ConnectionError("no\nnetwork")

    monkeypatch.setattr(kagglehub, "model_download", fail)
    with pytest.raises(FileNotFoundError, match=r"\(ConnectionError: no network\)\. Without netw"):
        opened("t5_1.1_base")


def test_presets_at_the_hub_are_downloaded(tmp_path, monkeypatch):
    import huggingface_hub

    asked, folder = [], empty(tmp_path)
    monkeypatch.setattr(
        huggingface_hub, "snapshot_download", lambda name, **_: asked.append(name) or folder
    )
    with pytest.raises(
        ValueError, match="of the class T5Backbone. Received: None in .*/downloaded"
    ):
        opened("hf://keras/t5_1.1_base")
    assert asked == ["keras/t5_1.1_base"]
