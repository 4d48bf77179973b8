"""The section of one board: averages, a table and bars per measure, what an index lost."""

from samtone_tf.analysis.axes import figure
from samtone_tf.analysis.bar_chart import bar_chart
from samtone_tf.analysis.boards import Board
from samtone_tf.analysis.markup import Html, join, tag
from samtone_tf.analysis.tables import (
    Cell,
    Section,
    best_of,
    bullets,
    fold,
    interval,
    table,
    value_cell,
)


def judged_section(board: Board, slug: str) -> Section:
    """The board as tables and charts.

    Args:
        board: to show.
        slug: where links to it lead.
    """
    parts = [_lead(board)]
    if len(board.rows) == 1:
        name = next(iter(board.rows))
        parts += [_by_measure(board, name, board.rows[name]), _bars_by_measure(board, name)]
    else:
        if board.averages:
            parts.append(_averages(board))
        for number, measure in enumerate(board.measures):
            body = join(_by_set(board, measure), _bars_by_set(board, measure))
            parts.append(fold(measure, body, is_open=number == 0))
    parts += [_published(board), _losses(board), _small_print(board)]
    return Section(slug, board.title, join(parts))


def _lead(board: Board) -> Html:
    level = f"{board.origins[0].level:.0%}".replace("%", " %")
    queries = sum(board.num_queries.values())
    sets = f"{len(board.rows)} data sets, " if len(board.rows) > 1 else ""
    said = [
        f"{sets}{queries:,} queries. In brackets and as whiskers: {level} bootstrap intervals over "
        "the queries. "
    ]
    if len(board.systems) > 1:
        said.append(
            "The best value is marked; whether it is better by more than chance, only a paired "
            "test of the differences says (samtone compare)."
        )
    missing = dict.fromkeys(name for one in board.origins for name in one.missing)
    if missing:
        said.append(f" Not there and left out: {', '.join(missing)}.")
    return tag("p", said)


def _by_measure(board: Board, name: str, row) -> Html:
    """Systems down, measures across; the best of each column."""
    columns = [[row.get(s, {}).get(m) for s in board.systems] for m in board.measures]
    best = [best_of(column) for column in columns]
    lines = [
        [system, *(value_cell(columns[c][r], best[c][r]) for c in range(len(columns)))]
        for r, system in enumerate(board.systems)
    ]
    caption = f"{name}: {board.num_queries[name]:,} queries"
    return table(caption, ["system", *board.measures], lines)


def _averages(board: Board) -> Html:
    """Systems down, measures across, published ones below."""
    columns = [[board.averages.get(s, {}).get(m) for s in board.systems] for m in board.measures]
    best = [best_of(column) for column in columns]
    lines = [
        [system, *(value_cell(columns[c][r], best[c][r]) for c in range(len(columns)))]
        for r, system in enumerate(board.systems)
    ]
    for system in dict.fromkeys(p.system for p in board.published):
        known = {p.measure: p.average for p in board.published if p.system == system}
        cells = [_published_cell(known.get(measure)) for measure in board.measures]
        if any(value is not None for value in known.values()):
            lines.append([f"{system} (published)", *cells])
    caption = f"Average of {len(board.rows)}, each counting once; the best of each column is marked"
    return table(caption, ["system", *board.measures], lines)


def _by_set(board: Board, measure: str) -> Html:
    """Data sets down, systems across, published ones at the right; the best of each row."""
    published = [p for p in board.published if p.measure == measure]
    lines = []
    for name, row in board.rows.items():
        found = [row.get(system, {}).get(measure) for system in board.systems]
        cells = [value_cell(*pair) for pair in zip(found, best_of(found), strict=True)]
        theirs = [_published_cell(p.scores.get(name)) for p in published]
        lines.append([name, f"{board.num_queries[name]:,}", *cells, *theirs])
    if board.averages:
        found = [board.averages.get(system, {}).get(measure) for system in board.systems]
        cells = [value_cell(*pair) for pair in zip(found, best_of(found), strict=True)]
        theirs = [_published_cell(p.average) for p in published]
        lines.append([f"average of {len(board.rows)}", "", *cells, *theirs])
    head = ["set", "queries", *board.systems, *(f"{p.system} (published)" for p in published)]
    caption = f"{measure} by data set" + (
        "; the best of each row is marked" if len(board.systems) > 1 else ""
    )
    return table(caption, head, lines)


def _bars_by_set(board: Board, measure: str) -> Html:
    values = [
        [row.get(system, {}).get(measure) for system in board.systems]
        for row in board.rows.values()
    ]
    chart = bar_chart(list(board.rows), board.systems, values, x_title=measure, y_title="data set")
    return figure(f"{measure} by data set", chart)


def _bars_by_measure(board: Board, name: str) -> Html:
    row = board.rows[name]
    values = [[row.get(s, {}).get(m) for s in board.systems] for m in board.measures]
    chart = bar_chart(
        board.measures, board.systems, values, x_title="value of the measure", y_title="measure"
    )
    return figure(f"All measures on {name}", chart)


def _published_cell(value: float | None) -> Cell:
    return Cell("–" if value is None else f"{value:.3f}", muted=True)


def _published(board: Board) -> Html | None:
    """Where the published numbers are from."""
    names: dict[str, list[str]] = {}
    for one in board.published:
        names.setdefault(one.source, []).append(f"{one.system} ({one.measure})")
    return bullets(
        [f"Published: {', '.join(systems)}. {source}." for source, systems in names.items()]
    )


def _losses(board: Board) -> Html | None:
    """What approximate indexes found of exact search's best, and what that cost."""
    found = [
        (name, row.losses[system])
        for name, rows in board.sets.items()
        for _, row in rows
        for system in row.losses
    ]
    if not found:
        return None
    recalls = list(dict.fromkeys(key for _, loss in found for key in loss.recall))
    lines = []
    for name, loss in found:
        shares = [f"{loss.recall[key]:.4f}" if key in loss.recall else "–" for key in recalls]
        lost = [loss.loss.get(measure) for measure in board.measures]
        cells = [
            Cell("–", muted=True) if one is None else Cell(join(f"{one.value:+.4f}", interval(one)))
            for one in lost
        ]
        lines.append([name, Cell(loss.description, is_text=True), *shares, *cells])
    head = ["set", "index", *recalls, *(f"{measure} lost" for measure in board.measures)]
    return table("What the index costs: exact search minus index", head, lines, texts=2)


def _small_print(board: Board) -> Html | None:
    """Facts and notes of each file's sets."""
    items = []
    for name, rows in board.sets.items():
        for one, row in rows:
            facts = [f"{label}: {fact}" for label, fact in row.facts.items()]
            if one.model and row.facts:
                facts.insert(0, f"model: {one.model}")
            said = "; ".join([*facts, *row.notes])
            if said:
                items.append(f"{name}: {said}")
    models = dict.fromkeys(one.model for one in board.origins if one.suite and one.model)
    items += [f"model: {model}" for model in models]
    return fold("How this was judged, and notes", bullets(items)) if items else None
