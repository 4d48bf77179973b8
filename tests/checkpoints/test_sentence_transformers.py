"""Pins of checkpoints.sentence_transformers: what is read, and refusals that name the reason."""

import json
import shutil
import warnings
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from samtone_tf.checkpoints.card import Card
from samtone_tf.checkpoints.sentence_transformers import open_sentence_transformers
from samtone_tf.checkpoints.write_sentence_transformers import write_sentence_transformers
from samtone_tf.data.tokenizer import Tokenizer
from tests.checkpoints import peer

ARCHITECTURES = ("sde", "ade", "ade_spl")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Architecture → folder; each is made once. Read them; copy one to change it."""
    root = tmp_path_factory.mktemp("made")

    def write(architecture):
        folder = root / architecture
        folder.mkdir()
        write_sentence_transformers(peer.source(architecture), folder, peer.LENGTHS, Card("made"))
        return folder

    return lru_cache(write)


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


@pytest.mark.parametrize(
    ("prompts", "default", "want"),
    [
        ({"query": "q: ", "passage": "p: "}, None, ("q: ", "p: ")),
        ({"query": "q: ", "document": "d: ", "passage": "p: "}, None, ("q: ", "d: ")),
        ({"query": "", "document": ""}, None, ("", "")),
        ({"task": "t: "}, "task", ("t: ", "t: ")),
        ({"query": "q: ", "task": "t: "}, "task", ("q: ", "t: ")),
        (None, None, ("", "")),
    ],
)
def test_prompts(changed, prompts, default, want):
    settings = {"prompts": prompts, "default_prompt_name": default}
    source = read(changed("config_sentence_transformers.json", **settings))
    assert (source.query_prompt, source.document_prompt) == want


def test_prompts_of_other_names_are_told(changed):
    folder = changed("config_sentence_transformers.json", prompts={"query": "q: ", "STS": "s: "})
    with pytest.warns(UserWarning, match="prompts of other names, which are not taken: STS"):
        assert read(folder).query_prompt == "q: "


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"similarity_fn_name": "euclidean"}, "compares vectors by euclidean; here .* cosine"),
        ({"truncate_dim": 8}, "keeps the first 8 numbers of a vector; here all are kept"),
    ],
)
def test_other_scores_are_told(changed, changes, message):
    with pytest.warns(UserWarning, match=message):
        read(changed("config_sentence_transformers.json", **changes))


POOLING = "1_Pooling/config.json"
DENSE = "2_Dense/config.json"
BODY = "sentence_bert_config.json"


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        *(
            (POOLING, {"pooling_mode": mode}, rf"the pooling {mode} in 1_Pooling/config\.json")
            for mode in ("cls", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
        ),
        (POOLING, {"pooling_mode": ["mean", "max"]}, "the pooling mean and max in"),
        (POOLING, {"pooling_mode": "attention"}, "the pooling attention in"),
        (POOLING, {"include_prompt": False}, "include_prompt=False in 1_Pooling"),
        (POOLING, {"embedding_dimension": 7}, "embedding_dimension=7 in .* an encoder of 16"),
        (DENSE, {"bias": True}, "bias=True in 2_Dense"),
        (
            DENSE,
            {"activation_function": "torch.nn.modules.activation.Tanh"},
            r"activation_function='torch\.nn\.modules\.activation\.Tanh' in 2_Dense",
        ),
        (DENSE, {"activation_function": "os.system"}, "activation_function='os.system'"),
        (DENSE, {"use_residual": True}, "use_residual=True"),
        (
            DENSE,
            {"module_input_name": "token_embeddings"},
            "module_input_name='token_embeddings' in",
        ),
        (DENSE, {"out_features": 15}, r"a projection of shape \(10, 16\) in 2_Dense, .* \(15, 16"),
        (BODY, {"do_lower_case": True}, "do_lower_case=True in sentence_bert_config.json"),
        (BODY, {"transformer_task": "fill-mask"}, "transformer_task='fill-mask'"),
        (BODY, {"query_expansion": {"strategy": "min", "length": 3}}, "query_expansion="),
        (
            "config_sentence_transformers.json",
            {"default_prompt_name": "gone"},
            "default_prompt_name='gone', and no such prompt",
        ),
    ],
    ids=str,
)
def test_what_this_package_has_not_is_refused_by_name(changed, file, changes, message):
    with pytest.raises(ValueError, match=rf"whose texts go through T5.*st:changed, with {message}"):
        read(changed(file, **changes))


def test_flags_of_several_poolings_are_refused(changed):
    folder = changed(POOLING)
    config = {"word_embedding_dimension": 16, "pooling_mode_mean_tokens": True}
    (folder / POOLING).write_text(json.dumps(config | {"pooling_mode_max_tokens": True}))
    with pytest.raises(ValueError, match="the pooling max and mean in"):
        read(folder)


@pytest.mark.parametrize("kind", ["Dropout", "LayerNorm", "CNN", "LSTM", "Asym", "WordWeights"])
def test_other_modules_are_refused_by_name(changed, kind):
    add(changed(POOLING), f"sentence_transformers.models.{kind}", "2_Dense")


@pytest.mark.parametrize("kind", ["modeling.Custom", "builtins.eval", "os.system", "Dense"])
def test_types_that_are_not_theirs_are_never_imported(changed, kind, monkeypatch):
    monkeypatch.setattr("importlib.import_module", lambda name, *_: pytest.fail(name))
    add(changed(POOLING), kind, "2_Dense")


def add(folder, kind, path):
    modules = json.loads((folder / "modules.json").read_text())
    modules.append({"idx": 4, "name": "4", "path": path, "type": kind})
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ValueError, match=f"a module of type {kind}"):
        read(folder)


@pytest.mark.parametrize("order", [(0, 2, 1, 3), (0, 1, 2, 2, 3), (1, 2, 3), (0, 2, 3)])
def test_another_order_is_refused(changed, order):
    folder = changed(POOLING)
    modules = json.loads((folder / "modules.json").read_text())
    (folder / "modules.json").write_text(json.dumps([modules[i] for i in order]))
    kinds = " → ".join(("Transformer", "Pooling", "Dense", "Normalize")[i] for i in order)
    with pytest.raises(ValueError, match=f"with texts that go through {kinds}"):
        read(folder)


@pytest.mark.parametrize("path", ["../1_Pooling", "/etc", "a/../../b", "C:\\windows", "..\\x"])
def test_a_path_out_of_the_folder_is_refused(changed, path):
    folder = changed(POOLING)
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["path"] = path
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ValueError, match="may only name files inside its folder"):
        read(folder)


@pytest.mark.parametrize("route", ["../query", "/query"])
def test_a_path_out_of_a_router_is_refused(made, tmp_path, route):
    folder = tmp_path / "router"
    shutil.copytree(made("ade"), folder)
    text = (folder / "router_config.json").read_text()
    (folder / "router_config.json").write_text(text.replace("query_1_Pooling", route))
    with pytest.raises(ValueError, match="may only name files inside its folder"):
        read(folder)


def test_a_link_out_of_the_folder_is_refused(changed, tmp_path):
    folder = changed(POOLING)
    shutil.move(folder / "2_Dense", tmp_path / "elsewhere")
    (folder / "2_Dense").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="a link to"):
        read(folder)


@pytest.mark.parametrize(
    "file",
    [
        "modules.json",
        POOLING,
        DENSE,
        "config.json",
        "2_Dense/model.safetensors",
        "model.safetensors",
    ],
)
def test_a_file_that_is_gone_is_named(changed, file):
    folder = changed(POOLING)
    (folder / file).unlink()
    with pytest.raises(FileNotFoundError, match=Path(file).name.replace(".", r"\.")):
        read(folder)


@pytest.mark.parametrize("file", ["modules.json", DENSE, "router_config.json"])
@pytest.mark.parametrize("text", ["{", "[1]", '"x"', "null", '{"types": 3, "structure": []}'])
def test_a_file_that_is_not_understood_is_named(made, tmp_path, file, text):
    folder = tmp_path / "broken"
    shutil.copytree(made("ade" if "router" in file else "sde"), folder)
    (folder / file).write_text(text)
    with pytest.raises(ValueError, match=rf"{file}|bias=True"):
        read(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c["structure"].pop("query"), "with the routes document; the two routes"),
        (lambda c: c["structure"].update(image=[]), "with the routes query, document, image"),
        (
            lambda c: c["parameters"].update(route_mappings={"('query', 'text')": "document"}),
            r"with the routes query, document, \('query', 'text'\)",
        ),
        (lambda c: c["structure"].update(query=["gone"]), "cannot be understood"),
    ],
)
def test_other_routers_are_refused(made, tmp_path, change, message):
    folder = tmp_path / "router"
    shutil.copytree(made("ade"), folder)
    path = folder / "router_config.json"
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))
    with pytest.raises(ValueError, match=message):
        read(folder)


def test_a_router_whose_routes_share_modules(made, tmp_path):
    folder = tmp_path / "router"
    shutil.copytree(made("ade"), folder)
    path = folder / "router_config.json"
    config = json.loads(path.read_text())
    structure = config["structure"]
    structure["document"][:2] = structure["query"][:2]
    path.write_text(json.dumps(config))
    source = read(folder)
    assert source.architecture == ["token_embedding", "encoder"]
    structure["document"] = structure["query"]
    path.write_text(json.dumps(config))
    source = read(folder)
    assert source.architecture == "sde"
    assert source.document is source.query


def test_the_encoder_may_lie_in_a_folder_of_its_own(made, tmp_path):
    """As releases before 2.0 had it."""
    folder, inner = tmp_path / "older", tmp_path / "older" / "0_Transformer"
    shutil.copytree(made("sde"), folder)
    inner.mkdir()
    for file in folder.iterdir():
        if file.is_file() and file.name not in ("modules.json", "README.md"):
            shutil.move(file, inner)
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (folder / "modules.json").write_text(json.dumps(modules))
    source, want = read(folder), read(made("sde"))
    assert source.max_length == want.max_length == 80
    assert source.query_prompt == ""  # their file lies in the folder itself
    for name, tensor in source.query.tensors.items():
        np.testing.assert_array_equal(tensor.read(), want.query.tensors[name].read())


def test_two_tokenizers_are_refused(made, tmp_path):
    folder = tmp_path / "router"
    shutil.copytree(made("ade"), folder)
    other = Tokenizer.train(["some other words", "of another language"], 40)
    other.save(folder / "document_0_Transformer" / "spiece.model")
    with pytest.raises(ValueError, match="another tokenizer for queries than for documents"):
        read(folder)


def test_a_name_without_owner_is_one_of_theirs(made, monkeypatch):
    import huggingface_hub

    asked = []

    def download(repository, **arguments):
        asked.append((repository, arguments))
        return str(made("sde"))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert open_sentence_transformers("gtr-t5-base", "st:gtr-t5-base").max_length == 80
    assert open_sentence_transformers("owner/name", "st:owner/name").max_length == 80
    assert [name for name, _ in asked] == ["sentence-transformers/gtr-t5-base", "owner/name"]
    # No Python file, and nothing that a pickle could hide in while there are safetensors.
    assert all(".py" not in " ".join(a["allow_patterns"]).replace("pytorch", "") for _, a in asked)


def test_nothing_is_warned_of_where_all_is_read(made):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for architecture in ARCHITECTURES:
            read(made(architecture))
