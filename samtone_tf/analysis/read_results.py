"""Result files and folders of every kind → `Results`, or one clear line."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from samtone_tf.analysis.parse_results import (
    parse_compared,
    parse_evaluation,
    parse_frontier,
    parse_index_report,
    parse_inspected,
    parse_suite,
)
from samtone_tf.analysis.results import QueryValues, Results
from samtone_tf.evaluation.evaluation import FORMAT
from samtone_tf.evaluation.per_query import read_per_query

KNOWN = (
    "evaluation, suite and comparison (`samtone evaluate`, `samtone compare --json`), "
    "tuning.json and report.json of an index, and what `samtone inspect --json` writes"
)
OF_FOLDERS = ("results.json", "tuning.json", "report.json")
"""Files that are looked for in a folder."""


def read_results(paths: Sequence[str | Path]) -> Results:
    """Read all of them; each file once.

    Args:
        paths: JSON files, `.tsv` files of single queries, folders of suites and of indexes.

    Raises:
        FileNotFoundError: there is no such file, or a folder without results.
        ValueError: no path, broken JSON, an unknown kind, or a file that lacks something.
    """
    if not paths:
        raise ValueError("`results` must name a file or folder at least. Received: none.")
    results, seen = Results(), set()
    files = [file for path in paths for file in _files(Path(path))]
    for file in files:
        if file.resolve() not in seen:
            seen.add(file.resolve())
            _read(file, results)
    _add_side_files(results, seen)
    return results


def _files(path: Path) -> list[Path]:
    """The files that a path stands for."""
    if not path.exists():
        raise FileNotFoundError(
            f"`results` must be files or folders. Received: {path}, which does not exist. "
            "Check the spelling."
        )
    if not path.is_dir():
        return [path]
    found = [path / name for name in OF_FOLDERS if (path / name).is_file()]
    # A suite that is not finished has no results.json yet, but sets.
    found = found or sorted((path / "sets").glob("*.json"))
    if not found:
        raise FileNotFoundError(
            f"`results` must be folders of a suite or an index. Received: {path}, which holds "
            f"none of {', '.join(OF_FOLDERS)} and sets/*.json. Name the files in it."
        )
    return found


def _read(path: Path, results: Results) -> None:
    if path.suffix == ".tsv":
        name = path.name.removesuffix(".tsv").removesuffix(".per_query")
        results.query_values.append(QueryValues(name, _values(path), path.as_posix()))
        results.files.append((path, "values of single queries"))
        return
    content = _load(path)
    kind, add = _kind(path, content)
    try:
        add(path, content, results)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(
            f"`results` must be complete. Received: {path}, a file of kind {kind} that cannot "
            f"be used: {what}. Write it again."
        ) from error
    results.files.append((path, kind))


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"`results` must be JSON, or end in .tsv. Received: {path}, which cannot be read: "
            f"{error}. Write it again."
        ) from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


Add = Callable[[Path, Any, Results], None]


def _kind(path: Path, content: Any) -> tuple[str, Add]:
    """What a file is, in words, and what takes it in."""
    many = isinstance(content, list) and bool(content)
    first = content[0] if many else content
    keys = set(first) if isinstance(first, dict) else set()
    named = first.get("kind") if keys else None
    if named == "comparison":
        _check_format(path, first)
        return "comparison", _add_compared
    if not many and keys:
        if named in ("evaluation", "suite"):
            _check_format(path, first)
            return named, _add_judged
        if {"target", "exact", "points"} <= keys:
            return "tuned index", _add_frontier
        if {"recall_at_10", "recall_at_100", "ms_per_query"} <= keys:
            return "index report", _add_index_report
        if {"query_lengths", "document_lengths"} <= keys:
            return "inspection", _add_inspected
    said = f"kind {named!r}" if named is not None else "no known kind"
    raise ValueError(
        f"`results` must be of a known kind: {KNOWN}. Received: {path}, which is of {said}. "
        "Leave it out."
    )


def _check_format(path: Path, content: dict[str, Any]) -> None:
    if content.get("format") != FORMAT:
        raise ValueError(
            f'`results` must have "format": {FORMAT}. Received: {path} with '
            f"{content.get('format')!r}. Judge again with this version."
        )


def _add_judged(path: Path, content: Any, results: Results) -> None:
    parse = parse_suite if content["kind"] == "suite" else parse_evaluation
    results.judged.append(parse(path, content))


def _add_compared(path: Path, content: Any, results: Results) -> None:
    for one in content if isinstance(content, list) else [content]:
        results.compared.append(parse_compared(path, one))


def _add_frontier(path: Path, content: Any, results: Results) -> None:
    results.frontiers.append((path, parse_frontier(content)))


def _add_index_report(path: Path, content: Any, results: Results) -> None:
    results.index_reports.append((path, parse_index_report(content)))


def _add_inspected(path: Path, content: Any, results: Results) -> None:
    results.inspected.append(parse_inspected(path, content))


def _add_side_files(results: Results, seen: set[Path]) -> None:
    """Values of single queries that evaluation files name, or that a suite's folder holds."""
    for judged in results.judged:
        for row in judged.rows:
            for name, wanted in row.side_files.items():
                # The folder may have been moved since: then it lies beside the JSON.
                places = (judged.path.parent / wanted, judged.path.parent / Path(wanted).name)
                file = next((place for place in places if place.is_file()), None)
                if file is None:
                    if judged.suite is None:
                        results.notes.append(f"{wanted}, the values of {name}, is not there.")
                elif file.resolve() not in seen:
                    seen.add(file.resolve())
                    origin = judged.model or judged.path.as_posix()
                    results.query_values.append(QueryValues(name, _values(file), origin))


def _values(path: Path) -> dict[str, tuple[list[str], np.ndarray]]:
    values = read_per_query(path)
    if not values or not all(np.isfinite(found).all() for _, found in values.values()):
        raise ValueError(
            f"`results` must be finite values of single queries. Received: {path}, which holds "
            "none or others. Judge again to write it."
        )
    return values
