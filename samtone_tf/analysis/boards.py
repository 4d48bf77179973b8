"""Files of evaluation results → boards: those of one suite, or all single sets, side by side."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from samtone_tf.analysis.names import short_names
from samtone_tf.analysis.results import Judged, JudgedSet, Published, Scores

WITHOUT_MODEL = ("bm25",)
"""Systems that are the same whichever model was judged."""


@dataclass
class Board:
    """One table per measure.

    Args:
        title: the suite's name, or what the single sets are.
        measures: in order.
        systems: columns.
        rows: data set → system → measure → estimate.
        num_queries: data set → how many.
        averages: system → measure → estimate; empty without a suite.
        published: results of others.
        origins: the files' contents that went into it.
        sets: data set → its records, one of each file.
    """

    title: str
    measures: list[str] = field(default_factory=list)
    systems: list[str] = field(default_factory=list)
    rows: dict[str, Scores] = field(default_factory=dict)
    num_queries: dict[str, int] = field(default_factory=dict)
    averages: Scores = field(default_factory=dict)
    published: list[Published] = field(default_factory=list)
    origins: list[Judged] = field(default_factory=list)
    sets: dict[str, list[tuple[Judged, JudgedSet]]] = field(default_factory=dict)


def make_boards(judged: Sequence[Judged]) -> list[Board]:
    """Suites by their names, then all single data sets.

    The same system of two models is two columns, with the models' names; BM25 is one column,
    unless two files disagree on it.

    Args:
        judged: files of evaluation results.
    """
    suites = dict.fromkeys(one.suite for one in judged if one.suite is not None)
    boards = [_board(name, [one for one in judged if one.suite == name]) for name in suites]
    single = [one for one in judged if one.suite is None]
    if single:
        title = "Data sets" if len({_key(one, one.rows[0]) for one in single}) > 1 else ""
        boards.append(_board(title, single))
    return boards


def _board(title: str, judged: list[Judged]) -> Board:
    board = Board(title, origins=judged)
    names = dict.fromkeys(row.name for one in judged for row in one.rows)
    # A suite chose its names; sources are long.
    shown = {name: name for name in names} if judged[0].suite else short_names(names)
    splits = {row.split for one in judged for row in one.rows}
    for one, labels in zip(judged, _labels(judged), strict=True):
        board.measures = _union(board.measures, one.measures)
        board.published = _union(board.published, one.published)
        for row in one.rows:
            name = shown[row.name] + (f" ({row.split})" if len(splits) > 1 else "")
            board.systems = _union(board.systems, (labels[system] for system in row.scores))
            board.num_queries.setdefault(name, row.num_queries)
            board.sets.setdefault(name, []).append((one, row))
            _add(board.rows.setdefault(name, {}), row.scores, labels)
        _add(board.averages, one.averages, labels)
    board.title = title or next(iter(board.rows))
    return board


def _add(into: Scores, scores: Scores, labels: dict[str, str]) -> None:
    for system, found in scores.items():
        into.setdefault(labels[system], {}).update(found)


def _labels(judged: list[Judged]) -> list[dict[str, str]]:
    """For each file: system → its column."""
    models = short_names((one.model or one.path.as_posix() for one in judged), least=2)
    files = short_names(one.path.as_posix() for one in judged)
    made: list[dict[str, str]] = []
    taken: dict[tuple[str, str], dict] = {}
    for one in judged:
        labels = {}
        for system in dict.fromkeys(system for row in one.rows for system in row.scores):
            alone = len(models) == 1 or system in WITHOUT_MODEL
            label = system if alone else f"{system} · {models[one.model or one.path.as_posix()]}"
            mine = {_key(one, row): row.scores[system] for row in one.rows if system in row.scores}
            if any(not _agree(taken.get((label, key)), found) for key, found in mine.items()):
                label += f" ({files[one.path.as_posix()]})"
            for key, found in mine.items():
                taken[label, key] = {**taken.get((label, key), {}), **found}
            labels[system] = label
        made.append(labels)
    return made


def _agree(one: dict | None, other: dict) -> bool:
    return one is None or all(one[name] == other[name] for name in one.keys() & other.keys())


def _key(one: Judged, row: JudgedSet) -> str:
    return f"{row.name} {row.split}"


def _union(first: list, second: Iterable) -> list:
    """Both, each thing once, in order; they need not be hashable."""
    made = list(first)
    for one in second:
        if one not in made:
            made.append(one)
    return made
