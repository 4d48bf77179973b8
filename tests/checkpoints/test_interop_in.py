"""Pins of the readers against transformers: its states to 1e-5, its tokens on real texts.

Matrices are square, so that one turned the wrong way passes the check of shapes and has to show
in the numbers; texts have up to 150 tokens, so that the most distant position buckets are used.
"""

import json
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from samtone_tf.checkpoints.assign import load_t5  # noqa: E402
from samtone_tf.checkpoints.huggingface import open_huggingface  # noqa: E402
from samtone_tf.checkpoints.t5_tensorflow import open_t5_tensorflow  # noqa: E402
from samtone_tf.checkpoints.tokenizer_json import (  # noqa: E402
    make_tokenizer_json,
    read_tokenizer_json,
)
from samtone_tf.data.tokenizer import Tokenizer  # noqa: E402
from tests import checks  # noqa: E402
from tests.checkpoints import files  # noqa: E402
from tests.checkpoints.test_tokenizer_json import (  # noqa: E402
    SHARED,
    assert_equal_tokens,
    our_ids,
    real_texts,
)

pytestmark = pytest.mark.interop

NUMBERS = {
    "vocab_size": 60,
    "d_model": 64,
    "d_kv": 16,
    "d_ff": 64,
    "num_layers": 3,
    "num_decoder_layers": 1,
    "num_heads": 4,
}
V1_0 = {"feed_forward_proj": "relu"}
V1_1 = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
KINDS = {
    "v1.0": ("T5ForConditionalGeneration", V1_0),
    "v1.1": ("T5ForConditionalGeneration", V1_1),
    "encoder alone": ("T5EncoderModel", V1_1),
    "without a head": ("T5Model", V1_0),
    "mt5": ("MT5ForConditionalGeneration", V1_1),
}


def model(kind="v1.1"):
    """A random T5 of transformers: weights wide enough that every part of it matters, and not so
    wide that attention jumps with float32's last digits."""
    name, settings = KINDS[kind]
    made = getattr(transformers, name)
    made = made(made.config_class(**NUMBERS, **settings)).eval()
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if parameter.dim() == 1:  # a norm
                parameter.uniform_(0.5, 1.5, generator=random)
            else:
                is_table = "shared" in name or "embed" in name or "bias" in name
                width = 1.0 if is_table else 0.8 * parameter.shape[1] ** -0.5
                parameter.normal_(0.0, width / 2 if ".q." in name else width, generator=random)
    return made


def ragged_tokens():
    tokens = checks.make_tokens(np.random.default_rng(2), 4, 150, vocabulary_size=60)
    tokens["token_ids"][0] = np.random.default_rng(3).integers(3, 60, 150)
    tokens["padding_mask"][0] = True  # one row uses every distance
    return tokens


def their_states(made):
    tokens = ragged_tokens()
    mask = tokens["padding_mask"]
    with torch.no_grad():
        found = made.get_encoder()(
            input_ids=torch.tensor(tokens["token_ids"], dtype=torch.long),
            attention_mask=torch.tensor(mask, dtype=torch.long),
        ).last_hidden_state
    checks.assert_nonzero(found.numpy()[mask])
    return found.numpy()[mask]


def our_states(source, **settings):
    tokens = ragged_tokens()
    return np.asarray(load_t5(source, **settings)(**tokens), np.float32)[tokens["padding_mask"]]


def opened(folder):
    return open_huggingface(str(folder), f"hf:{folder}")


def assert_same_states(source, made):
    np.testing.assert_allclose(our_states(source), their_states(made), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_states_are_those_of_transformers(tmp_path, kind):
    made = model(kind)
    made.save_pretrained(tmp_path)
    assert (tmp_path / "model.safetensors").is_file()
    assert_same_states(opened(tmp_path), made)


def test_the_comparison_would_see_another_activation_or_a_turned_matrix(tmp_path):
    made = model()
    made.save_pretrained(tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    spoken = ("is_gated_act", "dense_act_fn")
    settings = {key: value for key, value in settings.items() if key not in spoken}
    files.write_settings(tmp_path, settings | {"feed_forward_proj": "gated-relu"})
    want = their_states(made)
    assert np.abs(our_states(opened(tmp_path)) - want).max() > 1e-2
    files.write_settings(tmp_path, settings)
    with torch.no_grad():
        for block in made.encoder.block:  # as a reader would that does not turn it
            weight = block.layer[0].SelfAttention.o.weight
            weight.copy_(weight.T.clone())
    assert np.abs(their_states(made) - want).max() > 1e-2


def test_shards_of_safetensors(tmp_path):
    made = model()
    made.save_pretrained(tmp_path, max_shard_size="100KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 2
    assert_same_states(opened(tmp_path), made)


@pytest.mark.parametrize("zipped", [True, False], ids=["as of today", "before PyTorch 1.6"])
def test_pytorchs_own_files(tmp_path, zipped):
    made = model("v1.0")
    made.config.save_pretrained(tmp_path)
    file = tmp_path / "pytorch_model.bin"
    torch.save(made.state_dict(), file, _use_new_zipfile_serialization=zipped)
    assert_same_states(opened(tmp_path), made)


def test_shards_of_pytorchs_own_files(tmp_path):
    made = model()
    made.config.save_pretrained(tmp_path)
    state, places = made.state_dict(), {}
    for i in range(3):
        file = f"pytorch_model-{i + 1:05d}-of-00003.bin"
        part = {name: state[name] for name in sorted(state)[i::3]}
        torch.save(part, tmp_path / file)
        places |= dict.fromkeys(part, file)
    files.write_index(tmp_path, places, "pytorch_model.bin")
    assert_same_states(opened(tmp_path), made)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("file", ["model.safetensors", "pytorch_model.bin"])
def test_half_precision_weights(tmp_path, dtype, file):
    made = model().to(dtype)
    if file.endswith("bin"):
        made.config.save_pretrained(tmp_path)
        torch.save(made.state_dict(), tmp_path / file)
    else:
        made.save_pretrained(tmp_path)
    assert_same_states(opened(tmp_path), made.to(torch.float32))


def test_in_bfloat16_pooled_states_point_the_same_way(tmp_path):
    made = model()
    made.save_pretrained(tmp_path)
    tokens = ragged_tokens()
    mask = tokens["padding_mask"]

    def pooled(flat):
        states = np.zeros((*mask.shape, flat.shape[-1]))
        states[mask] = flat
        mean = states.sum(1) / mask.sum(1, keepdims=True)
        return mean / np.linalg.norm(mean, axis=1, keepdims=True)

    got = pooled(our_states(opened(tmp_path), dtype="mixed_bfloat16"))
    assert (got * pooled(their_states(made))).sum(1).min() >= 0.9999


def test_t5s_own_checkpoints(tmp_path):
    for kind in ("v1.0", "v1.1"):
        made = model(kind)
        prefix = files.write_tensorflow(tmp_path / kind / "model.ckpt-1", as_mesh(made))
        assert_same_states(open_t5_tensorflow(prefix, f"t5_tf:{prefix}"), made)


def as_mesh(made):
    """The names of T5's own code, of which transformers says how it reads them."""
    found = {}
    for name, parameter in made.state_dict().items():
        tensor, parts = parameter.numpy(), name.split(".")
        if name == "shared.weight":
            found["shared/embedding"] = tensor
        elif name == "encoder.final_layer_norm.weight":
            found["encoder/final_layer_norm/scale"] = tensor
        elif parts[:2] == ["encoder", "block"]:
            place = f"encoder/block_{int(parts[2]):03d}/layer_{int(parts[4]):03d}/"
            last = {"layer_norm": "/scale", "DenseReluDense": "/kernel"}.get(parts[5], "")
            found[place + "/".join(parts[5:-1]) + last] = tensor.T
    return found


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_a_pickle_that_would_run_code_is_refused(tmp_path):
    folder = tmp_path / "model"
    model().config.save_pretrained(folder)
    sprung = tmp_path / "sprung"
    with open(folder / "pytorch_model.bin", "wb") as file:
        pickle.dump({"shared.weight": Trap(sprung)}, file, protocol=2)
    with pytest.raises(ValueError, match=r"refuses \(.*\)\. Ask for safetensors instead"):
        opened(folder)
    torch.save({"shared.weight": Trap(sprung)}, folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"refuses \(.*\)\. Ask for safetensors instead"):
        opened(folder)
    assert not sprung.exists()
    torch.save({"state_dict": {"a": torch.ones(1)}}, folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"must hold tensors by name\. Received: a dict"):
        opened(folder)


@pytest.fixture(scope="module")
def t5():
    if not SHARED.is_dir():
        pytest.skip("the real data sets are not beside the checkout")
    return Tokenizer.from_file(SHARED / "t5_tokenizer" / "spiece.model")


def test_transformers_gives_our_tokens_from_our_tokenizer_json(tmp_path, t5):
    (tmp_path / "tokenizer.json").write_text(json.dumps(make_tokenizer_json(t5)), encoding="utf-8")
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "pad_token": "<pad>",
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    files.write_settings(tmp_path, {"model_type": "t5"})
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert len(theirs) == 32_100
    want = theirs(real_texts())["input_ids"]
    assert_equal_tokens(our_ids(t5, real_texts()), want, real_texts())


def test_a_tokenizer_json_of_transformers_gives_its_tokens(tmp_path, t5):
    t5.save(tmp_path / "spiece.model")
    files.write_settings(tmp_path, {"model_type": "t5"})
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    theirs.save_pretrained(tmp_path / "saved")
    assert not (tmp_path / "saved" / "spiece.model").exists()
    want = theirs(real_texts())["input_ids"]
    read = read_tokenizer_json(tmp_path / "saved")
    assert_equal_tokens(our_ids(read, real_texts()), want, real_texts())
