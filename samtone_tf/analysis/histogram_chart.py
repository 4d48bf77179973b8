"""Histograms: columns of counts or shares in one or more series, and a mark for a limit."""

from collections.abc import Sequence

from samtone_tf.analysis.axes import colour, drawing, label, line, place, short, ticks, upright
from samtone_tf.analysis.markup import Html, tag

LEFT, RIGHT = 66, 14


def histogram_chart(
    bins: Sequence[str],
    series: Sequence[tuple[str, Sequence[float]]],
    *,
    x_title: str,
    y_title: str,
    percent: bool = False,
    highest: float | None = None,
    edges: bool = False,
    mark: tuple[float, str] | None = None,
    width: float = 560,
    height: float = 230,
) -> Html:
    """Columns side by side for each bin.

    Args:
        bins: names of n bins; with `edges`, of the n + 1 edges between and around them.
        series: (name, n heights).
        x_title: of the axis of bins.
        y_title: of the axis of heights.
        percent: whether heights are shares of 1.
        highest: where the axis of heights ends; None takes the greatest height.
        edges: whether `bins` name edges.
        mark: (position in bins from the left, words): a dashed line.
        width: of the drawing.
        height: of the columns' field.
    """
    num = len(series[0][1])
    if highest is None:
        highest = max([1e-9, *(value for _, values in series for value in values)])
    top = 26 if mark else 10
    step = (width - LEFT - RIGHT) / num
    bottom = top + height
    scale = height / (highest * 1.06)
    parts = []
    for tick in ticks(0, highest):
        y = bottom - tick * scale
        parts.append(line(LEFT, y, width - RIGHT, y, "grid"))
        parts.append(label(LEFT - 6, y + 4, _height(tick, percent), "tick end"))
    for number, name in enumerate(bins):
        x = LEFT + step * (number + (0 if edges else 0.5))
        parts.append(label(x, bottom + 16, name, "tick middle"))
    bar = step * (0.86 if len(series) == 1 else 0.8) / len(series)
    for which, (name, values) in enumerate(series):
        for number, value in enumerate(values):
            if value:
                x = LEFT + step * (number + 0.5) + bar * (which - len(series) / 2)
                where = f"{bins[number]} to {bins[number + 1]}" if edges else bins[number]
                said = f"{name}, {where}: {_height(value, percent)}"
                parts.append(_column(x, bottom, bar, value * scale, colour(which), said))
    parts.append(line(LEFT, bottom, width - RIGHT, bottom, "axis"))
    if mark:
        parts += _mark(LEFT + step * min(max(mark[0], 0), num), mark[1], width, bottom)
    parts.append(label((LEFT + width - RIGHT) / 2, bottom + 36, x_title, "title middle"))
    parts.append(upright(14, top + height / 2, y_title))
    words = _in_words(bins, series, percent, edges)
    cut = f" {mark[1]}." if mark else ""
    return drawing(width, bottom + 44, f"Histogram of {x_title}. {words}.{cut}", *parts)


def _column(x: float, bottom: float, width: float, height: float, class_: str, said: str) -> Html:
    return tag(
        "rect",
        tag("title", said),
        x=place(x),
        y=place(bottom - height),
        width=place(max(width - 0.5, 0.5)),
        height=place(height),
        class_=class_,
    )


def _mark(x: float, words: str, width: float, bottom: float) -> list[Html]:
    """The line, and its words on the side where there is room."""
    at_right = x < width / 2
    text = label(x + (6 if at_right else -6), 16, words, f"mark{'' if at_right else ' end'}")
    return [line(x, 6, x, bottom, "cut"), text]


def _height(value: float, percent: bool) -> str:
    if not percent:
        return short(round(value, 3))
    return f"{short(round(value * 100, 1))} %"


def _in_words(bins, series, percent: bool, edges: bool) -> str:
    said = []
    for name, values in series:
        columns = [
            f"{bins[n] + ' to ' + bins[n + 1] if edges else bins[n]}: {_height(value, percent)}"
            for n, value in enumerate(values)
            if value
        ]
        said.append(f"{name}: {', '.join(columns)}")
    return "; ".join(said)
