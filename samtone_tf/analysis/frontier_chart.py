"""Speed against recall of a tuned index: its points, the frontier, the target, the chosen point."""

import math

from samtone_tf.analysis.axes import drawing, label, legend, line, place, short, upright
from samtone_tf.analysis.markup import Html, join, tag
from samtone_tf.index.frontier import Frontier, Point

WIDTH, HEIGHT, LEFT, RIGHT, TOP = 760, 330, 74, 24, 16
RECALLS = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 1.0)
SOFTEN = 2e-3
"""Keeps recall 1 on the axis; smaller stretches the axis more near 1."""


def frontier_chart(frontier: Frontier) -> Html:
    """Recall to the right, stretched towards 1; queries per second upwards, logarithmic.

    Points that lie left of the frontier's first are left out.

    Args:
        frontier: what was measured.
    """
    best = sorted((p for p in frontier.points if p.on_frontier), key=lambda p: p.recall_at_10)
    least = min([frontier.target, *(p.recall_at_10 for p in best)])
    rest = [p for p in frontier.points if not p.on_frontier and p.recall_at_10 >= least]
    x_low, x_high = _stretch(least), _stretch(1.0)
    margin = 0.03 * (x_high - x_low)
    speeds = [p.batched_qps for p in (*best, *rest, frontier.exact)]
    y_low, y_high = math.log10(min(speeds)) - 0.08, math.log10(max(speeds)) + 0.08

    def x(recall: float) -> float:
        share = (_stretch(recall) - x_low + margin) / (x_high - x_low + 2 * margin)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(speed: float) -> float:
        return TOP + HEIGHT * (y_high - math.log10(speed)) / (y_high - y_low)

    bottom = TOP + HEIGHT
    parts = _grid(x, y, least, (y_low, y_high))
    at = y(frontier.exact.batched_qps)
    parts.append(line(LEFT, at, WIDTH - RIGHT, at, "exact"))
    parts.append(line(x(frontier.target), TOP, x(frontier.target), bottom, "cut"))
    parts += [_point(x, y, point, "point rest", 3) for point in rest]
    corners = " ".join(f"{place(x(p.recall_at_10))},{place(y(p.batched_qps))}" for p in best)
    parts.append(tag("polyline", points=corners, class_="front"))
    parts += [_point(x, y, point, "point c0", 4.5) for point in best if not point.chosen]
    parts.append(_chosen(x, y, frontier.chosen))
    title = "recall@10 against exact search, stretched towards 1"
    parts.append(label((LEFT + WIDTH - RIGHT) / 2, bottom + 36, title, "title middle"))
    parts.append(upright(14, TOP + HEIGHT / 2, "queries per second, batched"))
    signs = legend(
        [
            ("dot c0", "frontier: nothing faster finds as much"),
            ("dot rest", "other settings"),
            ("diamond c1", "chosen"),
            ("stroke cut", f"target {frontier.target:g}"),
            ("stroke exact", "speed of exact search"),
        ]
    )
    return join(signs, drawing(WIDTH, bottom + 44, _in_words(frontier, best), *parts))


def _stretch(recall: float) -> float:
    return -math.log10(1 - recall + SOFTEN)


def _grid(x, y, least: float, speeds: tuple[float, float]) -> list[Html]:
    bottom, parts, last = TOP + HEIGHT, [], -math.inf
    for recall in RECALLS:
        # Labels that would touch the one before are left out.
        if recall >= least and x(recall) - last > 42:
            last = x(recall)
            parts.append(line(last, TOP, last, bottom, "grid"))
            parts.append(label(last, bottom + 16, short(recall), "tick middle"))
    for power in range(math.floor(speeds[0]), math.ceil(speeds[1]) + 1):
        for factor in (1, 2, 5):
            speed = factor * 10.0**power
            if speeds[0] <= math.log10(speed) <= speeds[1]:
                parts.append(line(LEFT, y(speed), WIDTH - RIGHT, y(speed), "grid"))
                parts.append(label(LEFT - 6, y(speed) + 4, short(speed), "tick end"))
    parts.append(line(LEFT, bottom, WIDTH - RIGHT, bottom, "axis"))
    parts.append(line(LEFT, TOP, LEFT, bottom, "axis"))
    return parts


def _point(x, y, point: Point, class_: str, radius: float) -> Html:
    return tag(
        "circle",
        tag("title", _said(point)),
        cx=place(x(point.recall_at_10)),
        cy=place(y(point.batched_qps)),
        r=radius,
        class_=class_,
    )


def _chosen(x, y, point: Point) -> Html:
    right, down, size = x(point.recall_at_10), y(point.batched_qps), 8
    corners = ((0, -size), (size, 0), (0, size), (-size, 0))
    points = " ".join(f"{place(right + dx)},{place(down + dy)}" for dx, dy in corners)
    return tag("polygon", tag("title", f"chosen: {_said(point)}"), points=points, class_="c1 big")


def _said(point: Point) -> str:
    leaves = (
        f"{point.num_leaves_to_search} of {point.num_leaves} leaves, " if point.num_leaves else ""
    )
    again = f"reorder {point.reorder}" if point.reorder else point.search
    speed = f"{point.batched_qps:,.0f} queries per second"
    return f"{leaves}{again}: recall@10 {point.recall_at_10:.4f}, {speed}"


def _in_words(frontier: Frontier, best: list[Point]) -> str:
    points = "; ".join(
        f"{point.recall_at_10:.4f} at {point.batched_qps:,.0f}{', chosen' if point.chosen else ''}"
        for point in best
    )
    return (
        "Recall@10 against queries per second, batched. Frontier: "
        f"{points}. Exact search: {frontier.exact.batched_qps:,.0f} queries per second. "
        f"Target: {frontier.target:g}."
    )
