"""Pins of checkpoints.huggingface and tensor_files: safetensors folders, without PyTorch."""

import re
import sys
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from samtone_tf.checkpoints import huggingface
from samtone_tf.checkpoints.huggingface import open_huggingface, read_encoder_config
from tests import tiny
from tests.checkpoints import files, made

QUERY = "encoder.block.1.layer.0.SelfAttention.q.weight"


def opened(folder):
    return open_huggingface(str(folder), f"hf:{folder}")


@pytest.mark.parametrize("changes", [{}, files.UNGATED], ids=["v1.1", "v1.0"])
def test_every_tensor_comes_under_our_name_turned_our_way(tmp_path, changes):
    config = replace(made.NUMBERS, **changes)
    settings, tensors = files.huggingface_settings(config), files.huggingface_tensors(config)
    source = opened(files.write_huggingface(tmp_path / "model", settings, tensors))
    files.assert_equal(source, config)
    assert source.name == f"hf:{tmp_path / 'model'}"
    assert (source.tokenizer, source.max_length, source.architecture) == (None, None, "sde")


def test_a_whole_t5_gives_its_encoder(tmp_path):
    tensors = files.huggingface_tensors()
    table = tensors["shared.weight"]
    tensors |= {
        "encoder.embed_tokens.weight": table.copy(),
        "decoder.embed_tokens.weight": table.copy(),
        "decoder.block.0.layer.1.EncDecAttention.q.weight": np.ones((12, 16), np.float32),
        "decoder.final_layer_norm.weight": np.ones(16, np.float32),
        "lm_head.weight": table + 1,
    }
    settings = files.huggingface_settings(model_type="mt5")
    files.assert_equal(opened(files.write_huggingface(tmp_path, settings, tensors)))


def test_the_table_may_have_either_name_and_two_tables_must_be_equal(tmp_path):
    tensors = files.huggingface_tensors()
    tensors["encoder.embed_tokens.weight"] = tensors.pop("shared.weight")
    files.assert_equal(opened(files.write_huggingface(tmp_path, tensors=tensors)))
    other = tensors["encoder.embed_tokens.weight"].copy()
    other[-1, -1] += 1e-6
    files.write_huggingface(tmp_path, tensors=tensors | {"shared.weight": other})
    with pytest.raises(
        ValueError, match=r"shared\.weight and encoder\.embed_tokens\.weight must be"
    ):
        opened(tmp_path)


def test_no_tensor_is_read_before_it_is_asked_for(tmp_path):
    source = opened(files.write_huggingface(tmp_path))
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError):
        source.query.tensors["token_embedding/embeddings"].read()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_becomes_float32(tmp_path, dtype):
    tensors = {name: t.astype(dtype) for name, t in files.huggingface_tensors().items()}
    source = opened(files.write_huggingface(tmp_path, tensors=tensors))
    for name, array in made.arrays().items():
        got = source.query.tensors[name].read()
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, array.astype(dtype).astype(np.float32), err_msg=name)


def test_other_types_are_refused_by_name(tmp_path):
    tensors = files.huggingface_tensors()
    tensors[QUERY] = tensors[QUERY].astype(np.int8)
    files.write_huggingface(tmp_path, tensors=tensors)
    with pytest.raises(ValueError, match=f"bfloat16. Received: {QUERY} of type I8 in "):
        opened(tmp_path)


def test_shards_give_the_same(tmp_path):
    files.write_settings(tmp_path, files.huggingface_settings())
    files.write_shards(tmp_path, files.huggingface_tensors())
    files.assert_equal(opened(tmp_path))


def test_shards_and_index_have_to_agree(tmp_path):
    files.write_settings(tmp_path, files.huggingface_settings())
    tensors = files.huggingface_tensors()
    places = files.write_shards(tmp_path, tensors)

    files.write_index(tmp_path, places | {"more": places[QUERY]})
    with pytest.raises(ValueError, match=r"names tensors that are missing more in model-0000"):
        opened(tmp_path)
    files.write_index(tmp_path, {name: file for name, file in places.items() if name != QUERY})
    with pytest.raises(ValueError, match=f"does not name the tensors {QUERY} in model-0000"):
        opened(tmp_path)
    files.write_index(tmp_path, [])
    with pytest.raises(ValueError, match=r"must hold `weight_map`, tensor → file\. Received: \[\]"):
        opened(tmp_path)

    files.write_index(tmp_path, places)
    (tmp_path / "model-00004-of-00004.safetensors").write_bytes(b"")
    with pytest.raises(ValueError, match=r"does not name the files model-00004-of-00004\.safe"):
        opened(tmp_path)
    (tmp_path / "model-00004-of-00004.safetensors").unlink()
    (tmp_path / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"the file model-00002-of-00003\.safetensors\. Rec"
    ):
        opened(tmp_path)


@pytest.mark.parametrize("file", ["../{}", "{}"], ids=["relative", "absolute"])
def test_an_index_cannot_name_files_elsewhere(tmp_path, file):
    folder = tmp_path / "model"
    files.write_settings(folder, files.huggingface_settings())
    places = files.write_shards(folder, files.huggingface_tensors())
    shard = folder / places[QUERY]
    shard.rename(tmp_path / shard.name)
    name = file.format(shard.name if file.startswith("..") else tmp_path / shard.name)
    moved = {tensor: name if place == shard.name else place for tensor, place in places.items()}
    files.write_index(folder, moved)
    with pytest.raises(ValueError, match=f"inside its folder. Received: '{re.escape(name)}'"):
        opened(folder)


def test_weights_and_vocabulary_may_not_be_links_out_of_the_folder(tmp_path):
    folder = files.write_huggingface(tmp_path / "model")
    tiny.tokenizer().save(tmp_path / "spiece.model")
    (folder / "spiece.model").symlink_to(tmp_path / "spiece.model")
    with pytest.raises(ValueError, match=r"inside its folder\. Received: 'spiece\.model, a link"):
        opened(folder)
    (folder / "model.safetensors").rename(tmp_path / "model.safetensors")
    (folder / "model.safetensors").symlink_to(tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"Received: 'model\.safetensors, a link"):
        opened(folder)


def test_a_snapshot_of_the_hub_is_read(tmp_path):
    folder = files.write_huggingface(tmp_path / "model")
    files.assert_equal(opened(files.as_snapshot(folder, tmp_path / "hub")))


def test_what_is_missing_left_over_or_of_another_shape_is_named(tmp_path):
    tensors = files.huggingface_tensors()
    without = {name: tensor for name, tensor in tensors.items() if name != QUERY}
    files.write_huggingface(tmp_path, tensors=without)
    with pytest.raises(ValueError, match=f"it has no {QUERY}"):
        opened(tmp_path)
    files.write_huggingface(tmp_path, tensors=without | {"encoder.query": tensors[QUERY]})
    with pytest.raises(ValueError, match=rf"no {QUERY}; nothing here takes its encoder\.query"):
        opened(tmp_path)
    turned = np.ascontiguousarray(tensors[QUERY].T)
    files.write_huggingface(tmp_path, tensors=tensors | {QUERY: turned})
    with pytest.raises(ValueError, match=rf"{QUERY} has the shape \(12, 16\), not \(16, 12\)"):
        opened(tmp_path)


@pytest.mark.parametrize(
    ("num_layers", "message"),
    [
        (2, r"nothing here takes its encoder\.block\.2\.layer\.0"),
        (4, r"it has no encoder\.block\.3\.layer\.0"),
    ],
)
def test_another_number_of_layers_is_named(tmp_path, num_layers, message):
    files.write_huggingface(tmp_path, files.huggingface_settings(num_layers=num_layers))
    with pytest.raises(ValueError, match=message):
        opened(tmp_path)


def test_a_folder_without_weights_says_what_it_has(tmp_path):
    files.write_settings(tmp_path, files.huggingface_settings())
    with pytest.raises(
        FileNotFoundError, match="shards of either. .* which has no file of weights"
    ):
        opened(tmp_path)
    (tmp_path / "tf_model.h5").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match=r"which has tf_model\.h5\. Save it with"):
        opened(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"no such thing" * 9)
    with pytest.raises(ValueError, match=r"model\.safetensors must be a safetensors file\. Receiv"):
        opened(tmp_path)


def test_pytorch_files_without_pytorch_say_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    files.write_settings(tmp_path, files.huggingface_settings())
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(ImportError, match=r"pytorch_model\.bin needs PyTorch.*`pip install torch`"):
        opened(tmp_path)


@pytest.mark.parametrize(
    ("said", "changes"),
    [
        ({"feed_forward_proj": None}, {"gated": False, "activation": "relu"}),
        ({"feed_forward_proj": "gated-relu"}, {"gated": True, "activation": "relu"}),
        ({"feed_forward_proj": "gelu_new"}, {"gated": False, "activation": "gelu"}),
        ({"feed_forward_proj": "gated-gelu_new"}, {}),
        ({"is_gated_act": True, "dense_act_fn": "gelu_new"}, {}),
        (
            {"relative_attention_num_buckets": 16, "relative_attention_max_distance": 64},
            {"num_buckets": 16, "max_distance": 64},
        ),
        ({"relative_attention_num_buckets": None, "dropout_rate": 0.5}, {}),
    ],
)
def test_numbers_and_activation_of_the_configuration(tmp_path, said, changes):
    files.write_settings(tmp_path, files.huggingface_settings(**said))
    assert read_encoder_config(tmp_path) == replace(made.NUMBERS, **changes)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"model_type": "umt5"}, "`model_type` must be t5 or mt5. Received: 'umt5' in "),
        ({"model_type": "longt5"}, "Received: 'longt5'"),
        ({"model_type": None}, "Received: None"),
        ({"feed_forward_proj": "gelu"}, "`feed_forward_proj` must be one of .* Received: 'gelu'"),
        ({"feed_forward_proj": "gated-silu"}, "Received: 'gated-silu'"),
        (
            {"is_gated_act": False},
            "say the same. Received: feed_forward_proj='gated-gelu' and is_gated_act=False",
        ),
        ({"dense_act_fn": "relu"}, "feed_forward_proj='gated-gelu' and dense_act_fn='relu'"),
        (
            {"feed_forward_proj": None, "is_gated_act": True},
            "feed_forward_proj='relu' and is_gated_act=True",
        ),
        ({"layer_norm_epsilon": 1e-5}, "`layer_norm_epsilon` must be 1e-06.* Received: 1e-05"),
        ({"d_model": None}, "`d_model` must be a positive integer. Received: None"),
        ({"num_heads": "2"}, "`num_heads` must be a positive integer. Received: '2'"),
        ({"relative_attention_num_buckets": 6}, "`num_buckets` must be a multiple of 4"),
        ({"auto_map": {"AutoModel": "code.Model"}}, "`auto_map` must not be set: neither code"),
        ({"quantization_config": {"bits": 8}}, "`quantization_config` must not be set"),
    ],
)
def test_what_the_encoder_cannot_be_is_refused_by_name(tmp_path, said, message):
    files.write_settings(tmp_path, files.huggingface_settings(**said))
    with pytest.raises(ValueError, match=message):
        read_encoder_config(tmp_path)


def test_the_vocabulary_is_the_model_before_the_json(tmp_path, monkeypatch):
    settings = files.huggingface_settings(vocab_size=tiny.tokenizer().vocabulary_size)
    config = replace(made.NUMBERS, vocabulary_size=tiny.tokenizer().vocabulary_size)
    files.write_huggingface(tmp_path, settings, files.huggingface_tensors(config))
    (tmp_path / "tokenizer.json").write_text("not even JSON")
    tiny.tokenizer().save(tmp_path / "spiece.model")
    assert opened(tmp_path).tokenizer.fingerprint == tiny.tokenizer().fingerprint
    (tmp_path / "spiece.model").unlink()
    with pytest.raises(ValueError, match=r"tokenizer\.json must be JSON"):
        opened(tmp_path)


def test_a_vocabulary_larger_than_the_table_is_refused(tmp_path):
    tiny.tokenizer().save(files.write_huggingface(tmp_path) / "spiece.model")
    with pytest.raises(ValueError, match="at most as many pieces as the model's token table"):
        opened(tmp_path)


def test_the_comparison_of_tables_is_a_few_rows_at_a_time(tmp_path, monkeypatch):
    largest = []

    def rows(start, stop):
        largest.append(stop - start)
        return np.zeros((stop - start, 3_000_000), np.float32)

    table = huggingface.StoredTensor("table", (5, 3_000_000), rows)
    assert huggingface.is_equal(table, table)
    assert max(largest) == 1
    assert len(largest) == 10
