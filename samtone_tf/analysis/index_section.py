"""The section of indexes: recall against speed, and what each index costs."""

from collections.abc import Sequence
from pathlib import Path

from samtone_tf.analysis.axes import figure
from samtone_tf.analysis.frontier_chart import frontier_chart
from samtone_tf.analysis.markup import Html, join, tag
from samtone_tf.analysis.names import short_names
from samtone_tf.analysis.tables import Cell, Section, bullets, table
from samtone_tf.index.frontier import Frontier, Point
from samtone_tf.index.report import IndexReport


def index_section(
    frontiers: Sequence[tuple[Path, Frontier]], reports: Sequence[tuple[Path, IndexReport]]
) -> Section:
    """Tuned indexes, then the reports of all.

    Args:
        frontiers: file and what tuning measured.
        reports: file and what building measured.
    """
    folders = [path.parent.as_posix() for path, _ in (*frontiers, *reports)]
    names = short_names(folders)
    parts: list[Html] = []
    for path, frontier in frontiers:
        parts.append(_frontier(names[path.parent.as_posix()], frontier))
    if reports:
        parts.append(_reports([(names[path.parent.as_posix()], one) for path, one in reports]))
    return Section("indexes", "Indexes", join(parts))


def _frontier(name: str, frontier: Frontier) -> Html:
    said = (
        f"{frontier.num_documents:,} documents of {frontier.dim} dimensions, "
        f"{frontier.num_queries:,} queries ({frontier.queries}), compared with exact search over "
        f"{frontier.compared_with}. {_sentence(frontier.message())}"
    )
    points = [frontier.exact, *(point for point in frontier.points if point.on_frontier)]
    judged = any(point.ndcg_at_10 is not None for point in points)
    head = [
        *("search", "leaves", "reorder", "recall@10", "queries/s, one at a time"),
        *("queries/s, batched", "build\u00a0s", "bytes/vector"),
        *(("nDCG@10", "lost") if judged else ()),
    ]
    lines = [_row(point, judged) for point in points]
    return join(
        tag("h3", name),
        tag("p", said),
        figure("Speed against recall: up and to the right is better", frontier_chart(frontier)),
        table("Exact search and the frontier; the chosen point is marked", head, lines),
    )


def _row(point: Point, judged: bool) -> list:
    leaves = f"{point.num_leaves_to_search}/{point.num_leaves}" if point.num_leaves else "–"
    quality = [_number(point.ndcg_at_10, ".4f"), _number(point.ndcg_at_10_lost, "+.4f")]
    return [
        f"{point.search} (chosen)" if point.chosen else point.search,
        leaves,
        str(point.reorder or "–"),
        Cell(f"{point.recall_at_10:.4f}", best=point.chosen),
        _number(point.single_qps, ",.0f"),
        Cell(f"{point.batched_qps:,.0f}", best=point.chosen),
        _number(point.build_seconds, ",.1f"),
        _number(point.bytes_per_vector, ",.0f"),
        *(quality if judged else ()),
    ]


def _reports(reports: Sequence[tuple[str, IndexReport]]) -> Html:
    lines = [
        [
            name,
            f"{one.num_documents:,}",
            str(one.dim),
            f"{one.recall_at_10:.4f}",
            f"{one.recall_at_100:.4f}",
            f"{one.ms_per_query:.3f}",
            _number(one.build_seconds, ",.1f"),
            _number(one.bytes_per_vector, ",.0f"),
            _number(None if one.bytes_on_disk is None else one.bytes_on_disk / 1e6, ",.1f"),
        ]
        for name, one in reports
    ]
    head = [
        *("index", "documents", "dim", "recall@10", "recall@100", "ms/query"),
        *("build\u00a0s", "bytes/vector", "MB\u00a0on\u00a0disk"),
    ]
    caption = "What an index finds of exact search's best documents, and what it costs"
    made_of = [
        f"{name}: {one.description}; measured with {one.num_queries:,} queries, {one.queries}"
        for name, one in reports
    ]
    return join(table(caption, head, lines), bullets(made_of))


def _sentence(message: str) -> str:
    return f"{message[0].upper()}{message[1:]}."


def _number(value: float | None, form: str) -> str | Cell:
    return Cell("–", muted=True) if value is None else format(value, form)
