"""Bars with interval whiskers, a group of them per data set or measure."""

from collections.abc import Sequence

from samtone_tf.analysis.axes import (
    colour,
    drawing,
    label,
    label_width,
    legend,
    line,
    place,
    row_labels,
    short,
    ticks,
)
from samtone_tf.analysis.markup import Html, join, tag
from samtone_tf.evaluation.bootstrap import Estimate

BAR, SPACE, WIDTH, VALUE = 13, 14, 760, 52


def bar_chart(
    groups: Sequence[str],
    series: Sequence[str],
    values: Sequence[Sequence[Estimate | None]],
    *,
    x_title: str,
    y_title: str,
) -> Html:
    """Horizontal bars from 0, and a whisker from `low` to `high` on each.

    Args:
        groups: names of the rows, G of them.
        series: names of the bars in each, S of them.
        values: `(G, S)`; None has no bar.
        x_title: of the axis of values.
        y_title: of the rows.
    """
    left = label_width([*groups, y_title]) + 12
    known = [value for row in values for value in row if value is not None]
    high = max([0.05, *(v.value if v.high is None else max(v.value, v.high) for v in known)])
    high = 1.0 if 0.8 < high <= 1 else high
    low = min([0.0, *(v.value if v.low is None else min(v.value, v.low) for v in known)])
    scale = (WIDTH - VALUE - left) / (high - low)

    def x(value: float) -> float:
        return left + (value - low) * scale

    group_height = BAR * len(series) + SPACE
    top, bottom = 26, 26 + group_height * len(groups)
    parts = [label(left - 8, 14, y_title, "title end")]
    for tick in ticks(low, high):
        parts.append(line(x(tick), top, x(tick), bottom, "grid"))
        parts.append(label(x(tick), bottom + 16, short(tick), "tick middle"))
    centres = [top + group_height * (number + 0.5) for number in range(len(groups))]
    parts += row_labels(groups, centres, left - 8)
    for number, row in enumerate(values):
        y = top + group_height * number + SPACE / 2
        for which, value in enumerate(row):
            if value is not None:
                parts.append(_bar(x, y + BAR * which, which, value, series[which], groups[number]))
    parts.append(line(x(0), top, x(0), bottom, "axis"))
    parts.append(label((left + WIDTH - VALUE) / 2, bottom + 36, x_title, "title middle"))
    signs = legend([(colour(which), name) for which, name in enumerate(series)])
    words = _in_words(groups, series, values, x_title)
    return join(signs if len(series) > 1 else None, drawing(WIDTH, bottom + 44, words, *parts))


def _bar(x, y: float, which: int, value: Estimate, system: str, group: str) -> Html:
    ends = sorted((x(0), x(value.value)))
    bar = tag(
        "rect",
        x=place(ends[0]),
        y=place(y + 1),
        width=place(ends[1] - ends[0]),
        height=place(BAR - 2),
        class_=colour(which),
    )
    parts, right = [tag("title", f"{group}, {system}: {spoken(value)}"), bar], ends[1]
    if value.low is not None and value.high is not None:
        middle = y + BAR / 2
        low, high = x(value.low), x(value.high)
        parts += [
            line(low, middle, high, middle, "whisker"),
            line(low, middle - 3, low, middle + 3, "whisker"),
            line(high, middle - 3, high, middle + 3, "whisker"),
        ]
        right = max(right, high)
    parts.append(label(right + 5, y + BAR / 2 + 4, f"{value.value:.3f}", "value"))
    return tag("g", parts)


def spoken(value: Estimate) -> str:
    """A value with its interval in words."""
    if value.low is None or value.high is None:
        return f"{value.value:.4f}"
    return f"{value.value:.4f}, interval {value.low:.4f} to {value.high:.4f}"


def _in_words(groups, series, values, x_title: str) -> str:
    rows = []
    for group, row in zip(groups, values, strict=True):
        found = [
            f"{name} {value.value:.3f}"
            for name, value in zip(series, row, strict=True)
            if value is not None
        ]
        rows.append(f"{group}: {', '.join(found) or 'nothing'}")
    return f"Bar chart of {x_title}. {'; '.join(rows)}."
