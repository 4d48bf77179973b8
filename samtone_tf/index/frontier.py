"""What speed costs in recall: measured points of an index, as JSON, a table and a plot."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Point:
    """One setting of a search, measured.

    Args:
        search: what it does: `exact`, or as `ScannSettings.search` names it.
        num_leaves: partitions of the corpus.
        num_leaves_to_search: partitions read per query.
        reorder: candidates scored again.
        recall_at_10: share of the 10 best documents by exact search that are found.
        batched_qps: queries a second, all searched as one batch on all cores.
        single_qps: queries a second, one after the other on one thread; None where it was not
            worth measuring, since another point is as fast and finds more.
        build_seconds: wall time of building, None if unknown.
        bytes_per_vector: size of the index's own files by document.
        ndcg_at_10: of the judged queries, None without judgements.
        ndcg_at_10_lost: how much less that is than by exact search.
        on_frontier: whether no other point is faster and finds as much.
        chosen: whether it is the one that was chosen.
    """

    search: str
    num_leaves: int
    num_leaves_to_search: int
    reorder: int
    recall_at_10: float
    batched_qps: float
    single_qps: float | None = None
    build_seconds: float | None = None
    bytes_per_vector: float | None = None
    ndcg_at_10: float | None = None
    ndcg_at_10_lost: float | None = None
    on_frontier: bool = False
    chosen: bool = False


@dataclass(frozen=True)
class Frontier:
    """All points that were measured, and the one that was chosen.

    Args:
        target: recall@10 that was asked for.
        reached: whether the chosen point has it.
        num_documents: of the index.
        dim: of an embedding.
        num_queries: that recall and speed were measured with.
        queries: what they were, in words.
        compared_with: what exact search compared, such as `float32 vectors`.
        exact: exact search over the same documents with the same queries.
        points: in order of falling speed.
    """

    target: float
    reached: bool
    num_documents: int
    dim: int
    num_queries: int
    queries: str
    compared_with: str
    exact: Point
    points: tuple[Point, ...]

    @property
    def chosen(self) -> Point:
        """The point whose settings the index keeps."""
        return next(point for point in self.points if point.chosen)

    def to_json(self) -> dict[str, Any]:
        """The fields, as JSON holds them."""
        return asdict(self)

    def message(self) -> str:
        """One sentence on what was chosen, and whether it reaches the target."""
        point = self.chosen
        what = (
            f"{point.num_leaves_to_search} of {point.num_leaves} leaves, "
            if point.num_leaves
            else ""
        ) + (f"reorder {point.reorder}" if point.reorder else point.search)
        found = f"recall@10 {point.recall_at_10:.4f} at {point.batched_qps:,.0f} queries/s batched"
        if self.reached:
            return f"chosen: {what}: {found}"
        return (
            f"recall@10 of {self.target:g} was not reached; best is {what}: {found}. Try more "
            "reordering by building again with --dims_per_block 1 or --storage float32"
        )

    def table(self) -> str:
        """Markdown: exact search, then the frontier; `*` marks the chosen point."""
        head = (
            "| search | leaves | reorder | recall@10 | queries/s, one at a time | batched "
            "| build s | bytes/vector | nDCG@10 | lost |\n|---|---|---|---|---|---|---|---|---|---|"
        )
        rows = [self.exact, *(point for point in self.points if point.on_frontier)]
        return "\n".join([head, *(_row(point) for point in rows)])


def write_frontier(frontier: Frontier, folder: Path) -> bool:
    """Writes `tuning.json`, `tuning.md` and, with matplotlib, `tuning.png`.

    Returns:
        Whether the plot was written; it is left out where matplotlib is not installed.
    """
    from samtone_tf.index.folder import write_json

    write_json(folder / "tuning.json", frontier.to_json())
    lines = [
        f"{frontier.num_documents:,} documents of {frontier.dim} dimensions; "
        f"{frontier.num_queries} queries, {frontier.queries}; compared with exact search over "
        f"{frontier.compared_with}.",
        frontier.table(),
        frontier.message() + ".",
    ]
    (folder / "tuning.md").write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    try:
        _plot(frontier, folder / "tuning.png")
    except ImportError:
        return False
    return True


def _row(point: Point) -> str:
    leaves = f"{point.num_leaves_to_search}/{point.num_leaves}" if point.num_leaves else ""
    cells = [
        ("* " if point.chosen else "") + point.search,
        leaves,
        str(point.reorder or ""),
        f"{point.recall_at_10:.4f}",
        _number(point.single_qps, ",.0f"),
        _number(point.batched_qps, ",.0f"),
        _number(point.build_seconds, ",.1f"),
        _number(point.bytes_per_vector, ",.0f"),
        _number(point.ndcg_at_10, ".4f"),
        _number(point.ndcg_at_10_lost, ".4f"),
    ]
    return "| " + " | ".join(cells) + " |"


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _plot(frontier: Frontier, path: Path) -> None:
    """Recall against speed, a logarithmic axis; no window is opened."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    rest = [point for point in frontier.points if not point.on_frontier]
    best = sorted(
        (point for point in frontier.points if point.on_frontier), key=lambda p: p.recall_at_10
    )
    for points, style in ((rest, {"s": 10, "color": "0.75"}), (best, {"s": 22})):
        axes.scatter([p.recall_at_10 for p in points], [p.batched_qps for p in points], **style)
    axes.plot([p.recall_at_10 for p in best], [p.batched_qps for p in best], label="frontier")
    chosen = frontier.chosen
    axes.scatter(
        [chosen.recall_at_10], [chosen.batched_qps], marker="*", s=180, zorder=3, label="chosen"
    )
    axes.axhline(frontier.exact.batched_qps, linestyle=":", color="0.4", label="exact search")
    axes.axvline(frontier.target, linestyle="--", color="0.4", label=f"target {frontier.target:g}")
    axes.set_yscale("log")
    axes.set_xlabel("recall@10 against exact search")
    axes.set_ylabel("queries per second, batched")
    axes.set_title(f"{frontier.num_documents:,} documents × {frontier.dim}")
    axes.legend()
    figure.savefig(path, dpi=120)
