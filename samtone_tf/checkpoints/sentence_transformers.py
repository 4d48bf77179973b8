"""sentence-transformers folders: T5, mean of tokens, projection, unit length; or a Router of them.

The types of a folder's modules are compared with five names and never imported; whatever else a
text would go through is refused by name.
"""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from samtone_tf.checkpoints.folder_files import find_file, inside, read_json, read_settings
from samtone_tf.checkpoints.hub import find_folder
from samtone_tf.checkpoints.huggingface import open_huggingface
from samtone_tf.checkpoints.source import PROJECTION, SIDES, LazyTensor, Source, TowerSource
from samtone_tf.checkpoints.tensor_files import open_tensors
from samtone_tf.config import PARTS

_NAMESPACE = "sentence_transformers."
_IN_ORDER = ("Transformer", "Pooling", "Dense", "Normalize")
_VECTOR = "sentence_embedding"
_LONGEST = 10**6  # transformers writes 1e30 for a tokenizer that cuts nothing
_MODES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""How releases before 5.4 wrote the mode of pooling: a flag for each."""
_PROMPTS = {"query": ("query",), "document": ("document", "passage", "corpus")}
"""Side → the names of its prompt; the first that is there and not empty."""


@dataclass(frozen=True)
class _Module:
    """A module of a checkpoint; the same module twice is equal to itself.

    Args:
        kind: the name of its class.
        path: of its folder, relative to the checkpoint's.
    """

    kind: str
    path: str


def open_sentence_transformers(place: str | Path, name: str) -> Source:
    """Opens a SentenceTransformer folder; its tensors are read when they are asked for.

    Args:
        place: the folder, or a repository of the Hugging Face hub; without an owner it is one
            of sentence-transformers' own, as in that package.
        name: what messages call it, such as `st:gtr-t5-base`.

    Returns:
        One tower, or those of a Router with the routes `query` and `document`. Without a Dense,
        the projection is the identity: D is H.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a module, a pooling or an activation that this package has not; names it.
    """
    folder = find_folder(_with_owner(str(place)), subfolders=True)
    sides = {side: _by_kind(modules, name) for side, modules in _routes(folder, name).items()}
    transformers = {}
    for modules in sides.values():
        module = modules["Transformer"]
        if module not in transformers:
            transformers[module] = _open_transformer(folder, module, name)
    bodies = {side: transformers[modules["Transformer"]] for side, modules in sides.items()}
    fingerprints = {body.tokenizer and body.tokenizer.fingerprint for body in bodies.values()}
    if len(fingerprints) > 1:
        raise _refusal(name, "another tokenizer for queries than for documents")
    towers = {
        side: _tower(folder, bodies[side].query, sides[side], name)
        for side in (SIDES if sides["query"] != sides["document"] else SIDES[:1])
    }
    config = _settings(folder, "config_sentence_transformers.json", needed=False)
    _warn_of_scores(config, name)
    prompts = _prompts(config, name)
    return Source(
        name,
        query=towers["query"],
        document=towers.get("document", towers["query"]),
        architecture=_architecture(sides),
        tokenizer=bodies["query"].tokenizer,
        query_prompt=prompts["query"],
        document_prompt=prompts["document"],
        max_length=bodies["query"].max_length,
        query_length=bodies["query"].query_length,
        document_length=bodies["document"].document_length,
    )


def _with_owner(place: str) -> str:
    is_short = place.replace("-", "").replace(".", "").replace("_", "").isalnum()
    return f"sentence-transformers/{place}" if is_short and not Path(place).exists() else place


def _routes(folder: Path, name: str) -> dict[str, list[_Module]]:
    """Side → the modules that its texts go through, in order."""
    listed = read_json(folder, "modules.json")
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise _refusal(name, "a modules.json that is no list of modules")
    routes: dict[str, list[_Module]] = {side: [] for side in SIDES}
    for entry in listed:
        module = _module(folder, str(entry.get("type")), entry.get("path"), name)
        if module.kind == "Router":
            inner = _router(folder, module, name)
        else:
            inner = {side: [module] for side in SIDES}
        for side in SIDES:
            routes[side] += inner[side]
    return routes


def _router(folder: Path, router: _Module, name: str) -> dict[str, list[_Module]]:
    """The modules of its two routes."""
    file = _join(router.path, "router_config.json")
    config = _settings(folder, file)
    try:
        types, structure = dict(config["types"]), dict(config["structure"])
        mappings = config.get("parameters", {}).get("route_mappings")
        paths = {key: _join(router.path, key) for key in types}
        modules = {key: _module(folder, types[key], paths[key], name) for key in types}
        routes = {route: [modules[key] for key in keys] for route, keys in structure.items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise _refusal(name, f"a {file} that cannot be understood ({error!r})") from error
    if set(routes) != set(SIDES) or mappings:
        found = ", ".join([*routes, *map(str, mappings or ())])
        raise _refusal(
            name, f"a Router with the routes {found}; the two routes query and document are read"
        )
    return routes


def _module(folder: Path, kind: str, path: Any, name: str) -> _Module:
    """One module, known by its class; nothing is imported."""
    short = kind.rpartition(".")[2]
    if not kind.startswith(_NAMESPACE) or short not in (*_IN_ORDER, "Router"):
        raise _refusal(name, f"a module of type {kind}")
    if not isinstance(path, str):
        raise _refusal(name, f"a module of type {kind} at the path {path!r}")
    _place(folder, path)  # refuses one outside, before anything is read
    return _Module(short, path)


def _place(folder: Path, path: str) -> Path:
    """The folder of a module; the first one's is that of the checkpoint."""
    return inside(folder, path) if path else folder


def _join(path: str, file: str) -> str:
    return f"{path}/{file}" if path else file


def _settings(folder: Path, file: str, needed: bool = True) -> dict[str, Any]:
    return read_settings(folder, file) if needed or find_file(folder, file) else {}


def _by_kind(modules: list[_Module], name: str) -> dict[str, _Module]:
    """Kind → module, of a route that is T5, pooling, and perhaps a projection and unit length."""
    kinds = [module.kind for module in modules]
    wanted = [kind for kind in _IN_ORDER if kind in kinds]
    if kinds != wanted or kinds[:2] != list(_IN_ORDER[:2]):
        raise _refusal(name, f"texts that go through {' → '.join(kinds) or 'nothing'}")
    if "Normalize" not in kinds:
        warnings.warn(
            f"{name} has no Normalize: there its vectors have any length, here they have length 1. "
            "Cosines are the same.",
            stacklevel=4,
        )
    return dict(zip(kinds, modules, strict=True))


def _open_transformer(folder: Path, module: _Module, name: str) -> Source:
    """T5 and its tokenizer, with the lengths that sentence-transformers cuts texts at."""
    file = _join(module.path, "sentence_bert_config.json")
    settings = _settings(folder, file, needed=False)
    refused = {
        "do_lower_case": (None, False),
        "query_expansion": (None,),
        "processing_kwargs": (None, {}),
        "transformer_task": (None, "feature-extraction"),
        "module_output_name": (None, "token_embeddings"),
    }
    _check_settings(settings, refused, file, name)
    file = _join(module.path, "tokenizer_config.json")
    longest = _settings(folder, file, needed=False).get("model_max_length")
    length = settings.get("max_seq_length") or longest
    if not isinstance(length, int) or length > _LONGEST:
        length = None
    return replace(
        open_huggingface(_place(folder, module.path), name),
        max_length=length,
        query_length=settings.get("query_length") or length,
        document_length=settings.get("document_length") or length,
    )


def _tower(
    folder: Path, body: TowerSource, modules: Mapping[str, _Module], name: str
) -> TowerSource:
    """T5 and its projection, after a look at what stands between them and behind."""
    hidden = body.encoder.hidden_dim
    _check_pooling(folder, modules["Pooling"], hidden, name)
    if "Normalize" in modules:
        file = _join(modules["Normalize"].path, "config.json")
        wanted = dict.fromkeys(("module_input_name", "module_output_name"), (None, _VECTOR))
        _check_settings(_settings(folder, file, needed=False), wanted, file, name)
    if "Dense" in modules:
        kernel = _open_dense(folder, modules["Dense"], hidden, name)
    else:
        kernel = identity(hidden)
    return replace(body, tensors={**body.tensors, PROJECTION: kernel})


def _check_pooling(folder: Path, module: _Module, hidden: int, name: str) -> None:
    file = _join(module.path, "config.json")
    config = _settings(folder, file)
    modes = config.get("pooling_mode")
    if modes is None:
        modes = [mode for flag, mode in _MODES.items() if config.get(flag)] or ["mean"]
    modes = [modes] if isinstance(modes, str) else list(modes)
    if modes != ["mean"]:
        raise _refusal(name, f"the pooling {' and '.join(map(str, modes))} in {file}")
    _check_settings(config, {"include_prompt": (None, True)}, file, name)
    for key in ("embedding_dimension", "word_embedding_dimension"):
        if config.get(key, hidden) != hidden:
            raise _refusal(name, f"{key}={config[key]} in {file} behind an encoder of {hidden}")


def _open_dense(folder: Path, module: _Module, hidden: int, name: str) -> LazyTensor:
    """The projection, (H, D)."""
    file = _join(module.path, "config.json")
    config = _settings(folder, file)
    # What is not written is what the class takes: a bias, and tanh.
    config = {"bias": True, "activation_function": "torch.nn.modules.activation.Tanh"} | config
    identities = ("torch.nn.modules.linear.Identity", "torch.nn.Identity")
    wanted = {
        "bias": (False,),
        "activation_function": (None, *identities),
        "use_residual": (None, False),
        "module_input_name": (None, _VECTOR),
        "module_output_name": (None, _VECTOR),
    }
    _check_settings(config, wanted, file, name)
    tensors = open_tensors(_place(folder, module.path))
    if list(tensors) != ["linear.weight"]:
        raise _refusal(name, f"the tensors {', '.join(tensors)} in {module.path}, not a weight")
    weight = tensors["linear.weight"]
    shape = (config.get("out_features"), hidden)
    if weight.shape != shape or config.get("in_features") != hidden:
        raise _refusal(
            name,
            f"a projection of shape {weight.shape} in {module.path}, whose configuration says "
            f"({shape[0]}, {config.get('in_features')}), behind an encoder of {hidden}",
        )
    return replace(weight.lazy(transposed=True), name=f"linear.weight of {module.path}")


def identity(hidden: int) -> LazyTensor:
    """A projection that changes nothing, (H, H)."""
    return LazyTensor("identity", (hidden, hidden), lambda: np.eye(hidden, dtype="float32"))


def _architecture(sides: Mapping[str, Mapping[str, _Module]]) -> str | list[str]:
    """What the towers share: the modules that are the same on both sides."""
    query, document = sides["query"], sides["document"]
    shared = []
    if query["Transformer"] == document["Transformer"]:
        shared += PARTS[:2]
        if "Dense" not in query and "Dense" not in document:
            shared.append("projection")
    if "Dense" in query and query["Dense"] == document.get("Dense"):
        shared.append("projection")
    named = {(): "ade", ("projection",): "ade_spl", PARTS: "sde"}
    return named.get(tuple(shared), shared)


def _prompts(config: Mapping[str, Any], name: str) -> dict[str, str]:
    """What stands before the texts of each side."""
    named, default = config.get("prompts") or {}, config.get("default_prompt_name")
    if not isinstance(named, dict) or not all(isinstance(t, str | None) for t in named.values()):
        raise _refusal(name, f"prompts={named!r:.80}, not texts by name")
    if default is not None and default not in named:
        raise _refusal(name, f"default_prompt_name={default!r}, and no such prompt")
    prompts = {key: text for key, text in named.items() if text}
    found = {}
    for side, keys in _PROMPTS.items():
        found[side] = next((prompts[k] for k in (*keys, default) if k in prompts), "")
    left = sorted(set(prompts) - {key for keys in _PROMPTS.values() for key in keys} - {default})
    if left:
        warnings.warn(
            f"{name} has prompts of other names, which are not taken: {', '.join(left)}. Set "
            "data.query_prompt and data.document_prompt to use one.",
            stacklevel=3,
        )
    return found


def _warn_of_scores(config: Mapping[str, Any], name: str) -> None:
    similarity, width = config.get("similarity_fn_name"), config.get("truncate_dim")
    if similarity not in (None, "cosine", "dot"):
        warnings.warn(
            f"{name} compares vectors by {similarity}; here they are compared by their cosine.",
            stacklevel=3,
        )
    if width is not None:
        warnings.warn(
            f"{name} keeps the first {width} numbers of a vector; here all are kept.", stacklevel=3
        )


def _check_settings(
    config: Mapping[str, Any], wanted: Mapping[str, Iterable[Any]], file: str, name: str
) -> None:
    """Refuses a setting that has a value of another meaning than this package's."""
    for key, values in wanted.items():
        if config.get(key) not in values:
            raise _refusal(name, f"{key}={config[key]!r} in {file}")


def _refusal(name: str, what: str) -> ValueError:
    return ValueError(
        "`source` must be a sentence-transformers folder whose texts go through T5, the mean over "
        "their tokens, a projection without bias or activation, and to unit length. "
        f"Received: {name}, with {what}."
    )
