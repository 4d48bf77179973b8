"""Differences as points with intervals around a line at zero."""

from collections.abc import Sequence

from samtone_tf.analysis.axes import (
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
from samtone_tf.analysis.bar_chart import spoken
from samtone_tf.analysis.markup import Html, join, tag
from samtone_tf.evaluation.bootstrap import Estimate

ROW, WIDTH, RIGHT = 24, 760, 24


def interval_chart(
    rows: Sequence[tuple[str, Estimate, bool]], *, x_title: str, y_title: str
) -> Html:
    """A filled point where a difference is significant, a hollow one where it is not.

    Args:
        rows: (name, difference, whether it is significant).
        x_title: what the differences are.
        y_title: what the rows are.
    """
    left = label_width([*(name for name, _, _ in rows), y_title]) + 12
    ends = [
        end
        for _, found, _ in rows
        for end in (found.value, found.low, found.high)
        if end is not None
    ]
    reach = max(0.02, max(ends), -min(ends)) * 1.05
    low = -reach if min(ends) < -0.1 * reach else -0.1 * reach
    high = reach if max(ends) > 0.1 * reach else 0.1 * reach
    scale = (WIDTH - RIGHT - left) / (high - low)

    def x(value: float) -> float:
        return left + (value - low) * scale

    top, bottom = 26, 26 + ROW * len(rows) + 4
    parts = [label(left - 8, 14, y_title, "title end")]
    for tick in ticks(low, high, 7):
        parts.append(line(x(tick), top, x(tick), bottom, "grid"))
        parts.append(label(x(tick), bottom + 16, _signed(tick), "tick middle"))
    parts.append(line(x(0), top, x(0), bottom, "axis"))
    centres = [top + 2 + ROW * (number + 0.5) for number in range(len(rows))]
    parts += row_labels([name for name, _, _ in rows], centres, left - 8)
    for (name, found, significant), y in zip(rows, centres, strict=True):
        drawn = [tag("title", f"{name}: {spoken(found)}")]
        if found.low is not None and found.high is not None:
            drawn.append(line(x(found.low), y, x(found.high), y, "range c0"))
        shown = "point c0" if significant else "point hollow c0"
        drawn.append(tag("circle", cx=place(x(found.value)), cy=place(y), r=5, class_=shown))
        parts.append(tag("g", drawn))
    parts.append(label((left + WIDTH - RIGHT) / 2, bottom + 36, x_title, "title middle"))
    words = "; ".join(
        f"{name} {found.value:+.3f}{', significant' if significant else ''}"
        for name, found, significant in rows
    )
    signs = legend([("dot c0", "significant"), ("dot hollow c0", "may be chance")])
    return join(signs, drawing(WIDTH, bottom + 44, f"Chart of {x_title}. {words}.", *parts))


def _signed(value: float) -> str:
    return short(value) if value <= 0 else f"+{short(value)}"
