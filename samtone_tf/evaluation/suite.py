"""Which data sets are judged together: BEIR, MultiReQA, or a list in a YAML file."""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samtone_tf.evaluation.measure_names import parse_measures
from samtone_tf.evaluation.measures import MEASURES
from samtone_tf.evaluation.references import references

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

BEIR = (
    "trec-covid", "bioasq", "nfcorpus", "nq", "hotpotqa", "fiqa", "signal1m", "trec-news",
    "robust04", "arguana", "webis-touche2020", "cqadupstack", "quora", "dbpedia-entity",
    "scidocs", "fever", "climate-fever", "scifact",
)  # fmt: skip
"""The 18 sets that BEIR judges without training on them, by the names of their folders."""

CQADUPSTACK = (
    "android", "english", "gaming", "gis", "mathematica", "physics", "programmers", "stats",
    "tex", "unix", "webmasters", "wordpress",
)  # fmt: skip
"""The parts of CQADupStack, which counts as one set: the mean over them."""

MULTIREQA = {
    "SearchQA": "dev", "TriviaQA": "dev", "HotpotQA": "dev", "NaturalQuestions": "dev",
    "SQuAD": "dev", "BioASQ": "test", "RelationExtraction": "test", "TextbookQA": "test",
}  # fmt: skip
"""The 8 sets of MultiReQA, and the split that it judges: MRQA's dev where there is a train."""


@dataclass(frozen=True)
class SuiteSet:
    """One data set of a suite.

    Args:
        name: of its files and its row; letters, digits, `.`, `_` and `-`.
        data: source, such as `beir:{root}/scifact`; `{root}` stands for `--root`.
        split: whose judgements count.
        group: sets of one group are averaged first and count as one.
        query_length: tokens of a query; None takes what the model's export was given.
        document_length: the same for documents.
        drop_self: leave out a query's hit on itself; None decides by the source's name.
    """

    name: str
    data: str
    split: str = "test"
    group: str | None = None
    query_length: int | None = None
    document_length: int | None = None
    drop_self: bool | None = None


@dataclass(frozen=True)
class Suite:
    """Data sets that are judged together.

    Args:
        name: for titles.
        sets: in the order of the table.
        measures: the first one is the suite's own, with intervals in the Markdown table.
        references: name of the published results in `references.json`; None has none.
    """

    name: str
    sets: tuple[SuiteSet, ...]
    measures: tuple[str, ...] = MEASURES
    references: str | None = None

    @property
    def rows(self) -> dict[str, list[str]]:
        """Row of the table → its sets: one, or those of a group, at the place of the first."""
        found: dict[str, list[str]] = {}
        for one in self.sets:
            found.setdefault(one.group or one.name, []).append(one.name)
        return found


def find_suite(suite: str | Path | Suite, root: str | Path | None = None) -> Suite:
    """The suite that a name or a file stands for.

    Args:
        suite: `"beir"`, `"multireqa"`, a YAML file, or one that is made.
        root: folder that holds the sets, one folder each, by their usual names.

    Raises:
        FileNotFoundError: no such file, or no such folder.
        ValueError: another name, a file that is no suite, or no `root` where one is needed.
    """
    if isinstance(suite, Suite):
        found = suite
    elif suite in _BUILT_IN:
        found = _BUILT_IN[suite]()
    elif Path(suite).suffix in (".yaml", ".yml"):
        found = read_suite(suite)
    else:
        raise ValueError(
            f"`suite` must be {', '.join(_BUILT_IN)} or a file that ends in .yaml. "
            f"Received: {str(suite)!r}. docs/evaluation.md shows such a file."
        )
    references(found.references)  # raises if there are none of that name
    if root is not None and not Path(root).is_dir():
        raise FileNotFoundError(
            f"`root` must be the folder that holds the sets. Received: {root}, which does not "
            "exist or is a file. Check the spelling."
        )
    needs = [one.name for one in found.sets if "{root}" in one.data]
    if root is None and needs:
        raise ValueError(
            f"`root` must name the folder that holds the sets of the suite {found.name}. "
            f"Received: none, and {len(needs)} sets need it, such as {needs[0]}. Add it."
        )
    return found


def source_of(one: SuiteSet, root: str | Path | None) -> str:
    """The source of a set, `{root}` filled in.

    Args:
        one: the set.
        root: folder that holds the sets; None where no source needs it.
    """
    return one.data if root is None else one.data.replace("{root}", str(root))


def read_suite(path: str | Path) -> Suite:
    """Read a suite from a YAML file.

        name: mine                      # for titles; default: the file's name
        measures: nDCG@10 P@1 R@100     # default: those of `samtone evaluate`
        references: beir                # published results, matched by name; default: none
        sets:
          - name: scifact
            data: beir:{root}/scifact
            split: test                 # and the other fields of `SuiteSet`

    Args:
        path: the file.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not YAML, an unknown or missing field, a name twice.
    """
    import yaml

    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"`suite` must be an existing YAML file. Received: {path}, which does not exist. "
            "Check the spelling."
        )
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"`suite` must be YAML. Received: {path}, where {reason}.") from error
    if not isinstance(content, dict) or not isinstance(content.get("sets"), list):
        raise ValueError(
            f"`suite` must hold a list named `sets`. Received: {path}, without one. "
            "docs/evaluation.md shows such a file."
        )
    _check_fields(content, ("name", "measures", "references", "sets"), str(path))
    fields = {key: content[key] for key in ("name", "references") if content.get(key)}
    if content.get("measures"):
        fields["measures"] = tuple(parse_measures(_names(content["measures"], path)))
    return make_suite(
        str(fields.pop("name", path.stem)),
        [_set(entry, f"{path}, set {number}") for number, entry in enumerate(content["sets"], 1)],
        **fields,
    )


def _names(measures: Any, path: Path) -> str | list[str]:
    if isinstance(measures, str | list):
        return measures
    raise ValueError(
        f"`measures` of a suite must be text or a list. Received: {measures!r} in {path}. "
        "Write for example measures: nDCG@10 R@100."
    )


def make_suite(name: str, sets: list[SuiteSet], **fields: Any) -> Suite:
    """A suite whose sets have distinct names.

    Args:
        name: for titles.
        sets: at least one.
        **fields: `measures` and `references` of `Suite`.
    """
    names = Counter(one.name for one in sets)
    twice = [one for one, count in names.items() if count > 1]
    groups = {one.group for one in sets if one.group} & names.keys()
    if not sets or twice or groups:
        raise ValueError(
            "`sets` must be one or more, with names that are distinct and no group's. "
            f"Received: {len(sets)} sets; more than once: {[*twice, *sorted(groups)]}. Rename them."
        )
    return Suite(name, tuple(sets), **fields)


def _set(entry: Any, place: str) -> SuiteSet:
    if not isinstance(entry, dict):
        raise ValueError(
            f"A set must be a mapping with `name` and `data`. Received: {entry!r} in {place}."
        )
    _check_fields(entry, tuple(SuiteSet.__dataclass_fields__), place)
    entry = {key: value for key, value in entry.items() if value is not None}
    for key in ("name", "data", *(entry.keys() & {"split", "group"})):
        if not isinstance(entry.get(key), str):
            raise ValueError(
                f"A set must have a text as `{key}`. Received: {entry.get(key)!r} in {place}."
            )
    for key in ("name", "group"):
        if entry.get(key) is not None and not _NAME.fullmatch(str(entry[key])):
            raise ValueError(
                f"`{key}` of a set must be letters, digits, '.', '_' or '-', since files are "
                f"named by it. Received: {entry[key]!r} in {place}. Rename it."
            )
    for key in ("query_length", "document_length"):
        if not isinstance(entry.get(key), int | None) or isinstance(entry.get(key), bool):
            raise ValueError(
                f"`{key}` of a set must be a whole number. Received: {entry[key]!r} in {place}."
            )
    if not isinstance(entry.get("drop_self"), bool | None):
        raise ValueError(
            f"`drop_self` of a set must be true or false. Received: {entry['drop_self']!r} "
            f"in {place}."
        )
    return SuiteSet(**entry)


def _check_fields(found: dict, known: tuple[str, ...], place: str) -> None:
    strange = [str(key) for key in found if key not in known]
    if strange:
        raise ValueError(
            f"A suite must have no other fields than {', '.join(known)}. "
            f"Received: {', '.join(strange)} in {place}. Remove or correct them."
        )


def _beir() -> Suite:
    sets = []
    for name in BEIR:
        parts = CQADUPSTACK if name == "cqadupstack" else ("",)
        for part in parts:
            sets.append(
                SuiteSet(
                    name=f"{name}-{part}" if part else name,
                    data=f"beir:{{root}}/{name}/{part}".rstrip("/"),
                    group=name if part else None,
                    drop_self=True if name in ("arguana", "quora") else None,
                )
            )
    return make_suite("beir", sets, measures=("nDCG@10", "R@100"), references="beir")


def _multireqa() -> Suite:
    sets = [
        SuiteSet(name, f"multireqa:{{root}}/{name}", split) for name, split in MULTIREQA.items()
    ]
    return make_suite("multireqa", sets, measures=("P@1", "MRR"), references="multireqa")


_BUILT_IN = {"beir": _beir, "multireqa": _multireqa}
