"""Pins of the import ladder: who may import whom, where TensorFlow may stand, no cycles."""

import ast
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "samtone_tf"

# A module may import from its own rung (cycles apart) and from the ones before it.
LADDER = [
    ["version", "types", "checks", "output_folder", "encoder_config", "config", "data.records"],
    ["cluster"],
    ["data", "towers", "losses", "optimizers", "metrics", "unit_norm", "checkpoints"],
    ["index", "evaluation", "mining"],
    ["dual_encoder", "merge", "tensorflow_encode", "tensorflow_step", "distribution", "workers"],
    ["training", "export"],
    ["encoding"],
    ["retriever", "vectors_to_index", "judge", "judge_suite", "tuning"],
    ["analysis"],
    ["cli"],
]
TENSORFLOW_IN = (
    "data.pipeline",
    "checkpoints.t5_tensorflow",
    "losses.tiled",
    "towers.tensorflow_dropout",
    "tensorflow_encode",
    "tensorflow_step",
    "distribution",
    "workers",
    "training.resume",
    "training.run_log",
    "export",
)
NO_KERAS_IN = (
    *("index", "evaluation", "analysis", "data"),
    *("config", "encoder_config", "types", "version"),
)
# Lower rungs that these see nothing of but the named modules.
ONLY_FROM_BELOW = {"index": ["data.records"], "evaluation": ["data.records"]}
# Inside functions only, where the next rung has to be reached: (from, to).
LAZY_UPWARD = {("dual_encoder", "tensorflow_step")}


def within(module, names):
    return any(module == name or module.startswith(f"{name}.") for name in names)


def rung(module):
    """The rung of the longest name that fits."""
    fitting = [
        (len(name), number)
        for number, names in enumerate(LADDER)
        for name in names
        if within(module, [name])
    ]
    assert fitting, f"{module} stands on no rung: add it to LADDER"
    return max(fitting)[1]


@cache
def modules():
    names = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name:  # samtone_tf/__init__.py is lazy, and judged by test_import.py
            names.append(name)
    return tuple(names)


def path_of(module):
    path = PACKAGE / (module.replace(".", "/"))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def imports(module):
    """(full name, whether inside a function) of every import."""
    found = []

    def visit(node, lazy):
        if isinstance(node, ast.Import):
            found.extend((alias.name, lazy) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                is_module = full.startswith("samtone_tf.") and path_of(full[11:]).exists()
                found.append((full if is_module else node.module, lazy))
        lazy = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            visit(child, lazy)

    visit(ast.parse(path_of(module).read_text(encoding="utf-8")), False)
    return found


def ours(module):
    """The same of the package's own modules, without `samtone_tf.`."""
    found = [(name, lazy) for name, lazy in imports(module) if name.startswith("samtone_tf.")]
    return [(name.removeprefix("samtone_tf."), lazy) for name, lazy in found]


def third_party(module, package):
    return [name for name, _ in imports(module) if within(name, [package])]


@pytest.mark.parametrize("module", modules())
def test_imports_go_down_the_ladder(module):
    for name, lazy in ours(module):
        allowed = rung(name) <= rung(module) or (lazy and (module, name) in LAZY_UPWARD)
        assert allowed, f"{module} imports {name}, which stands above it"


def test_there_are_no_cycles():
    graph = {module: [name for name, lazy in ours(module) if not lazy] for module in modules()}
    done: set[str] = set()

    def visit(module, way):
        assert module not in way, " → ".join([*way, module])
        if module not in done:
            for name in graph[module]:
                visit(name, [*way, module])
            done.add(module)

    for module in graph:
        visit(module, [])
    assert done == set(graph)


@pytest.mark.parametrize("module", modules())
def test_tensorflow_stands_in_the_marked_files_only(module):
    found = third_party(module, "tensorflow")
    assert not found or within(module, TENSORFLOW_IN), f"{module} imports {found}"


@pytest.mark.parametrize("module", [m for m in modules() if within(m, NO_KERAS_IN)])
def test_what_only_sees_arrays_and_texts_imports_no_keras(module):
    assert not third_party(module, "keras")


@pytest.mark.parametrize("module", [m for m in modules() if within(m, list(ONLY_FROM_BELOW))])
def test_index_and_evaluation_can_judge_anybodys_vectors(module):
    allowed = ONLY_FROM_BELOW[module.split(".")[0]]
    below = [name for name, _ in ours(module) if rung(name) < rung(module)]
    assert not [name for name in below if name not in allowed]


def test_nobody_reaches_into_keras_internals():
    for module in modules():
        names = [name for name, _ in imports(module)]
        assert not [name for name in names if name.startswith(("keras.src", "keras_hub.src"))]
        assert "keras.src" not in path_of(module).read_text(encoding="utf-8"), module


def test_the_ladder_names_what_exists_and_the_walk_sees_imports():
    assert {"towers.encoder", "index", "cli.main"} <= set(modules())
    assert ("losses.base", False) in ours("dual_encoder")
    assert ("tensorflow_step", True) in ours("dual_encoder")
    assert ("tensorflow", False) in imports("data.pipeline")
