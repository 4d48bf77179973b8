"""The data set that is always at hand: docstrings of Python packages that are installed anyway.

A query is the summary line of a docstring, its document the rest. Files are parsed,
nothing is imported. What the set holds depends on the versions of the packages, so print
`fingerprints.split_fingerprint` beside every number measured on it.
"""

import ast
import importlib.util
import re
import warnings
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from samtone_tf.data.fingerprints import fingerprint, normalise
from samtone_tf.data.records import RetrievalData

PACKAGES = ("keras", "keras_hub", "numpy", "scipy", "tensorflow", "tensorflow_datasets")
SPLITS = ("train", "test")

_TEST_PERCENT = 8
_MIN_QUERY_WORDS = 3
_MAX_QUERY_WORDS = 40
_MIN_DOCUMENT_WORDS = 8
_MAX_DOCUMENT_CHARACTERS = 2000
# Not documentation of their own: tests, re-exports, generated code, TensorFlow's old copy of Keras.
_SKIPPED_FOLDERS = {"tests", "test", "testing", "kernel_tests", "_api", "_vendor"}
_SKIPPED_STARTS = ("test_", "conftest", "gen_")
_SKIPPED_PATHS = ("tensorflow/python/keras/",)
_BOILERPLATE = re.compile(
    r"deprecated|alias (for|of)|see base class|auto-?generated|copyright|licensed under"
)


class _Docstring(NamedTuple):
    name: str  # such as numpy.linalg.svd
    query: str
    document: str


def read_docstrings(split: str = "train", packages: tuple[str, ...] = PACKAGES) -> RetrievalData:
    """Read summary → description pairs from the docstrings of installed packages.

    The corpus is the documents of both splits. No query is in both, and no two pairs
    share a query or a document (compared after `normalise`; the first in the order of
    packages and paths is kept).

    Args:
        split: `train` or `test`; a hash of the query decides, about 8 in 100 are `test`.
        packages: names of packages; those that are not installed are named in `notes`.
    """
    if split not in SPLITS:
        raise ValueError(
            f"`split` of docstrings must be one of: {', '.join(SPLITS)}. "
            f"Received: {split}. Choose one of them."
        )
    found, notes = _read_packages(tuple(packages))
    if not found:
        raise ValueError(
            "`packages` must hold an installed package with docstrings. "
            f"Received: {', '.join(packages) or 'none'}. Install one of {', '.join(PACKAGES)}."
        )
    chosen = [entry for entry in found if _split_of(entry.query) == split]
    return RetrievalData(
        source="docstrings",
        split=split,
        queries={_query_id(entry): entry.query for entry in found},
        documents={entry.name: entry.document for entry in found},
        qrels={_query_id(entry): {entry.name: 1} for entry in chosen},
        notes=notes,
    )


def _query_id(entry: _Docstring) -> str:
    return f"{entry.name}:summary"


def _split_of(query: str) -> str:
    return "test" if fingerprint(normalise(query)) % 100 < _TEST_PERCENT else "train"


@lru_cache(maxsize=2)  # both splits come from one reading, which takes seconds
def _read_packages(packages: tuple[str, ...]) -> tuple[tuple[_Docstring, ...], tuple[str, ...]]:
    roots, notes = {}, []
    for package in packages:
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            notes.append(f"package {package} is not installed; its docstrings are absent")
        else:
            # `submodule_search_locations` may change once a package is imported; this does not.
            roots[package] = Path(spec.origin).parent
    files = [(root, path) for root in roots.values() for path in _files(root)]
    seen_queries: set[str] = set()
    seen_documents: set[str] = set()
    names: dict[str, int] = {}
    kept = []
    for root, path in tqdm(files, desc="docstrings", unit=" files", delay=3, leave=False):
        for name, docstring in _docstrings(root, path):
            pair = _clean(docstring)
            if pair is None:
                continue
            query_key, document_key = normalise(pair[0]), normalise(pair[1])
            if query_key in document_key or query_key in seen_queries:
                continue
            if document_key in seen_documents:
                continue
            seen_queries.add(query_key)
            seen_documents.add(document_key)
            names[name] = names.get(name, 0) + 1  # a name may be defined twice in a file
            unique = name if names[name] == 1 else f"{name}#{names[name]}"
            kept.append(_Docstring(unique, *pair))
    return tuple(kept), tuple(notes)


def _files(root: Path) -> list[Path]:
    def is_wanted(path: Path) -> bool:
        inside = path.relative_to(root.parent)
        return not (
            path.name.startswith(_SKIPPED_STARTS)
            or path.name.endswith("_test.py")
            or _SKIPPED_FOLDERS.intersection(inside.parts[1:])
            or inside.as_posix().startswith(_SKIPPED_PATHS)
        )

    # as_posix: the same order on every system
    return sorted(filter(is_wanted, root.rglob("*.py")), key=lambda path: path.as_posix())


def _docstrings(root: Path, path: Path) -> Iterator[tuple[str, str]]:
    """Yield (qualified name, docstring) in the order of the file."""
    source = path.read_bytes()
    if b'"""' not in source and b"'''" not in source:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # escapes such as "\d" in other people's files
            tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return  # templates and files for other Python versions
    parts = path.relative_to(root.parent).with_suffix("").parts
    yield from _walk(tree, ".".join(parts).removesuffix(".__init__"))


def _walk(node: ast.AST, name: str) -> Iterator[tuple[str, str]]:
    docstring = ast.get_docstring(node)
    if docstring:
        yield name, docstring
    for child in node.body:
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _walk(child, f"{name}.{child.name}")


def _clean(docstring: str) -> tuple[str, str] | None:
    """Return (query, document), or None for a docstring that makes no pair."""
    head, _, rest = docstring.partition("\n\n")
    query = " ".join(head.split())
    document = " ".join(rest.split())
    if len(document) > _MAX_DOCUMENT_CHARACTERS:
        document = document[:_MAX_DOCUMENT_CHARACTERS].rsplit(" ", 1)[0]
    if not _MIN_QUERY_WORDS <= len(query.split()) <= _MAX_QUERY_WORDS:
        return None
    if len(document.split()) < _MIN_DOCUMENT_WORDS or _BOILERPLATE.search(query.lower()):
        return None
    return query, document
