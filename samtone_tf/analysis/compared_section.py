"""The section of comparisons: what is more than chance, and the queries that moved most."""

from collections.abc import Sequence
from itertools import compress
from pathlib import Path

from samtone_tf.analysis.axes import figure
from samtone_tf.analysis.interval_chart import interval_chart
from samtone_tf.analysis.markup import Html, join, tag
from samtone_tf.analysis.names import short_names
from samtone_tf.analysis.results import Compared, Difference, Move
from samtone_tf.analysis.tables import Cell, Section, bullets, fold, interval, table

ALPHA = 0.05
"""Corrected p values below this are called significant."""


def compared_section(compared: Sequence[Compared]) -> Section:
    """All comparisons, whichever files they are from.

    Args:
        compared: one per data set.
    """
    names = short_names(one.source for one in compared)
    splits = {one.split for one in compared}
    labels = [
        names[one.source] + (f" ({one.split})" if len(splits) > 1 else "") for one in compared
    ]
    parts = [_verdicts(compared), *_charts(compared, labels), _table(compared, labels)]
    for label, one in zip(labels, compared, strict=True):
        if one.moved:
            title = f"Queries that moved most by {one.moved_by}: {label}"
            parts.append(fold(title, _moved(one), is_open=len(compared) == 1))
    notes = [
        f"{label}: {note}"
        for label, one in zip(labels, compared, strict=True)
        for note in one.notes
    ]
    parts.append(fold("Notes", bullets(notes)) if notes else None)
    return Section("comparisons", "Comparisons", join(parts))


def significant(difference: Difference) -> bool:
    """By the randomisation test, after Holm's correction."""
    return difference.holm_randomisation < ALPHA


def _verdicts(compared: Sequence[Compared]) -> Html:
    files: dict[Path, list[Compared]] = {}
    for one in compared:
        files.setdefault(one.path, []).append(one)
    said = []
    for path, group in files.items():
        differences = [difference for one in group for difference in one.differences]
        num = sum(map(significant, differences))
        named = f"{path.name}: " if len(files) > 1 else ""
        said.append(
            f"{named}{num} of {len(differences)} differences are significant at {ALPHA} by the "
            f"paired randomisation test, Holm's correction over {group[0].num_tests} tests."
        )
    return join([tag("p", sentence) for sentence in said])


def _charts(compared: Sequence[Compared], labels: Sequence[str]) -> list[Html]:
    """A chart per pair of runs; of several data sets, per pair and measure."""
    groups: dict[tuple[str, ...], list] = {}
    for label, one in zip(labels, compared, strict=True):
        for found in one.differences:
            pair = (found.second, found.first)
            one_set = len(compared) == 1
            key, name = (pair, found.measure) if one_set else ((*pair, found.measure), label)
            groups.setdefault(key, []).append((name, found.difference, significant(found)))
    made = []
    level = f"{compared[0].level:.0%}".replace("%", " %")
    for key, rows in groups.items():
        second, first, *measure = key
        what = f"difference in {measure[0]}" if measure else "difference"
        title = f"{what}: {second} minus {first}"
        rows_are = "data set" if measure else "measure"
        chart = interval_chart(rows, x_title=title, y_title=rows_are)
        caption = f"{title[0].upper()}{title[1:]}, with {level} intervals; right of 0, {second} is "
        made.append(figure(f"{caption}better", chart))
    return made


def _table(compared: Sequence[Compared], labels: Sequence[str]) -> Html:
    """All differences; sets and runs have columns where there are several."""
    pairs = {(found.first, found.second) for one in compared for found in one.differences}
    shown = [len(compared) > 1, len(pairs) > 1]
    lines = []
    for label, one in zip(labels, compared, strict=True):
        for found in one.differences:
            names = [label, f"{found.second} − {found.first}"]
            lines.append([*compress(names, shown), *_line(found)])
    head = [
        *compress(("set", "runs"), shown),
        *("measure", "difference", "wins", "ties", "losses"),
        *("p, randomisation", "Holm", "p, t test", "Holm"),
    ]
    first, second = min(pairs)
    what = "All differences" if len(pairs) > 1 else f"{second} minus {first}"
    where = f" on {labels[0]}, {compared[0].num_queries:,} queries" if len(compared) == 1 else ""
    caption = f"{what}{where}; significant differences are marked"
    return table(caption, head, lines, texts=1 + sum(shown))


def _line(found: Difference) -> list[Cell | str]:
    value = found.difference
    shown = f"{value.value:+.4f}"
    return [
        found.measure,
        Cell(join(tag("strong", shown) if significant(found) else shown, interval(value))),
        *(f"{number:,}" for number in (found.wins, found.ties, found.losses)),
        p_value(found.p_randomisation),
        Cell(p_value(found.holm_randomisation), best=significant(found)),
        p_value(found.p_t),
        p_value(found.holm_t),
    ]


def p_value(value: float | None) -> str:
    """Four digits, or that it is less."""
    if value is None:
        return "–"
    return "<.0001" if value < 1e-4 else f"{value:.4f}"


def _moved(one: Compared) -> Html:
    tables = []
    pairs: dict[tuple[str, str], list[Move]] = {}
    for move in one.moved:
        pairs.setdefault((move.first, move.second), []).append(move)
    for (first, second), moves in pairs.items():
        lines = [
            [
                move.query_id,
                move.text,
                f"{move.before:.4f}",
                f"{move.after:.4f}",
                f"{move.after - move.before:+.4f}",
            ]
            for move in moves
        ]
        caption = f"{one.moved_by} of single queries, from {first} to {second}"
        tables.append(table(caption, ["query", "text", first, second, "change"], lines, texts=2))
    return join(tables)
