"""`evaluate_suite`: an exported model on many data sets, one folder of results, resumable.

OUT/suite.json                  which suite, which model
OUT/sets/NAME.json              results of one set; written last, so there means finished
OUT/sets/NAME.per_query.tsv     its values of single queries
OUT/runs/SYSTEM/NAME.trec       its runs
OUT/results.json, OUT/table.md  all sets together
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from samtone_tf.data.sources import check_data, load_data
from samtone_tf.evaluation.evaluation import FORMAT
from samtone_tf.evaluation.per_query import read_per_query, write_per_query
from samtone_tf.evaluation.suite import Suite, SuiteSet, find_suite, source_of
from samtone_tf.evaluation.suite_results import SuiteResults, gather
from samtone_tf.evaluation.trec import write_run
from samtone_tf.evaluation.whole_file import write_lines
from samtone_tf.export.saved_encoder import SavedEncoder, check_saved_model
from samtone_tf.index.store import resolve_kind
from samtone_tf.judge import check_arguments, evaluate_model

MARKER = "suite.json"


def evaluate_suite(
    model: str | Path,
    suite: str | Path | Suite,
    out: str | Path,
    *,
    root: str | Path | None = None,
    search: str = "auto",
    depth: int = 1000,
    measures: str | Iterable[str] | None = None,
    bm25: bool = False,
    query_length: int | None = None,
    document_length: int | None = None,
    drop_self: bool | None = None,
    allow_missing: bool = False,
    overwrite: bool = False,
    seed: int = 0,
) -> SuiteResults:
    """Judge a model on every set of a suite; sets that `out` holds already are not judged again.

    Args:
        model: folder of an exported model.
        suite: `"beir"`, `"multireqa"`, a YAML file, or a `Suite`.
        out: folder of the results; a new one, or one of the same model and settings.
        root: folder that holds the sets, where the suite names them as `{root}/…`.
        search: as for `evaluate_model`.
        depth: as for `evaluate_model`.
        measures: as for `evaluate_model`; None takes the suite's.
        bm25: as for `evaluate_model`.
        query_length: tokens; None takes the set's, or else the export's.
        document_length: the same for documents.
        drop_self: as for `evaluate_model`; None takes the set's.
        allow_missing: leave out sets that are not there.
        overwrite: judge all sets again.
        seed: of the bootstrap.

    Raises:
        FileNotFoundError: the model or a set is not there, before any work.
        FileExistsError: `out` holds something else.
        ValueError: `out` holds results of another model or of other settings.
    """
    check_saved_model(model)
    suite = find_suite(suite, root)
    chosen = check_arguments(search, depth, suite.measures if measures is None else measures)
    suite = replace(suite, measures=tuple(chosen))
    out = Path(out)
    job = _Job(model, out, root, query_length, document_length)
    common = {
        "search": resolve_kind(search),
        "depth": depth,
        "measures": list(suite.measures),
        "bm25": bm25,
        "seed": seed,
    }
    settings = {one.name: common | job.own_settings(one, drop_self) for one in suite.sets}
    _check_folder(out)
    if overwrite:
        for one in suite.sets:
            _file(out, one.name).unlink(missing_ok=True)
    finished = {one.name for one in suite.sets if _file(out, one.name).is_file()}
    missing = _find_missing(
        [one for one in suite.sets if one.name not in finished], root, allow_missing
    )
    if len(missing) == len(suite.sets):
        raise FileNotFoundError(f"None of the sets is there: {', '.join(missing)}. Check `root`.")
    job.check_model(overwrite)
    for name in sorted(finished):
        _check_same(out, name, settings[name], job.fingerprint)
    job.write_marker(suite.name)
    todo = [one for one in suite.sets if one.name not in finished | set(missing)]
    with tqdm(todo, desc="sets", unit="set", disable=None) as bar:
        for one in bar:
            bar.set_postfix_str(one.name)
            job.judge(one, settings[one.name])
    judged = [one.name for one in suite.sets if one.name not in missing]
    results = gather(
        suite,
        {name: _read(_file(out, name)) for name in judged},
        {name: read_per_query(_side_file(out, name)) for name in judged},
        tuple(missing),
        seed,
    )
    write_lines(out / "results.json", [json.dumps(results.to_json(), indent=2) + "\n"])
    write_lines(out / "table.md", [results.markdown()])
    return results


class _Job:
    """One model and one folder; the model is loaded when it is first needed."""

    def __init__(self, model, out: Path, root, query_length, document_length):
        self.model, self.out, self.root = model, out, root
        self.lengths = {"query_length": query_length, "document_length": document_length}
        self._encoders: dict[tuple, SavedEncoder] = {}

    def own_settings(self, one: SuiteSet, drop_self: bool | None) -> dict[str, Any]:
        """What decides the results of one set, beside the model and what all sets share."""
        lengths = {
            name: getattr(one, name) if given is None else given
            for name, given in self.lengths.items()
        }
        dropped = one.drop_self if drop_self is None else drop_self
        return {"data": one.data, "split": one.split, "drop_self": dropped, **lengths}

    def encoder(self, query_length: int | None = None, document_length: int | None = None):
        """The model with these lengths; loaded once for each."""
        key = (query_length, document_length)
        if key not in self._encoders:
            self._encoders[key] = SavedEncoder(self.model, *key)
        return self._encoders[key]

    @property
    def fingerprint(self) -> str:
        return self.encoder().fingerprint

    def check_model(self, overwrite: bool) -> None:
        """Raises ValueError when the folder holds results of another model."""
        marker = self.out / MARKER
        if overwrite or not marker.is_file():
            return
        before = _read(marker)["model"]
        if before["fingerprint"] != self.fingerprint:
            raise ValueError(
                f"`out` must be a new folder, or one of the same model. Received: {self.out}, "
                f"with results of {before['folder']} (fingerprint {before['fingerprint']}), not of "
                f"{self.model} ({self.fingerprint}). Name another folder, or allow overwriting."
            )

    def write_marker(self, suite: str) -> None:
        about = {"folder": str(self.model), "fingerprint": self.fingerprint}
        content = {"format": FORMAT, "kind": "suite folder", "suite": suite, "model": about}
        write_lines(self.out / MARKER, [json.dumps(content, indent=2) + "\n"])

    def judge(self, one: SuiteSet, settings: dict[str, Any]) -> None:
        """Judge one set and write its files, the one that says it is finished last."""
        result = evaluate_model(
            self.encoder(settings["query_length"], settings["document_length"]),
            load_data(source_of(one, self.root), one.split),
            **{name: settings[name] for name in ("search", "depth", "drop_self", "bm25")},
            measures=settings["measures"],
            seed=settings["seed"],
        )
        for system, run in result.runs.items():
            write_run(run, self.out / "runs" / system / f"{one.name}.trec", tag=system)
        side = write_per_query(result.scores, _side_file(self.out, one.name))
        content = {**result.to_json(), "per_query": side.name, "settings": settings}
        write_lines(_file(self.out, one.name), [json.dumps(content, indent=2) + "\n"])


def _check_folder(out: Path) -> None:
    """Raises if the folder holds what no suite wrote."""
    if out.exists() and not out.is_dir():
        raise FileExistsError(f"`out` must be a folder. Received: {out}, which is a file.")
    if not out.exists() or not any(out.iterdir()):
        return
    marker = out / MARKER
    if not marker.is_file() or _read(marker).get("kind") != "suite folder":
        raise FileExistsError(
            "`out` must be a new or empty folder, or one with results of a suite. "
            f"Received: {out}, which holds something else. Name another folder."
        )


def _find_missing(sets: list[SuiteSet], root, allow_missing: bool) -> list[str]:
    """Names of the sets that are not there, if that is allowed; a wrong split never is."""
    missing = {}
    for one in sets:
        try:
            check_data(source_of(one, root), one.split)
        except FileNotFoundError as error:
            missing[one.name] = str(error)
    if missing and not allow_missing:
        first = next(iter(missing.values()))
        raise FileNotFoundError(
            f"{len(missing)} of {len(sets)} sets are not there: {', '.join(missing)}. {first} "
            "Or leave them out with --allow_missing."
        )
    return list(missing)


def _check_same(out: Path, name: str, settings: dict[str, Any], fingerprint: str) -> None:
    """Raises if a finished set was judged otherwise than it would be now."""
    before = _read(_file(out, name))
    then = before.get("settings", {}) | {"model": before.get("model", {}).get("fingerprint")}
    now = settings | {"model": fingerprint}
    other = [key for key in now if then.get(key) != now[key]]
    if other:
        key = other[0]
        raise ValueError(
            f"`out` must hold results of the same settings. Received: {_file(out, name)} with "
            f"{key}={then.get(key)!r}, not {now[key]!r}. Name another folder, or allow overwriting."
        )


def _file(out: Path, name: str) -> Path:
    return out / "sets" / f"{name}.json"


def _side_file(out: Path, name: str) -> Path:
    return out / "sets" / f"{name}.per_query.tsv"


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError("no mapping")
    except ValueError as error:
        raise ValueError(
            f"A file of results must be JSON that a suite wrote. Received: {path}, where {error}. "
            "Remove it, and its set is judged again."
        ) from error
    return content
