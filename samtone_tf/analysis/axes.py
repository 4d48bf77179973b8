"""What all charts share: sizes, ticks, labels, legends, and a drawing with a text alternative."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from samtone_tf.analysis.markup import Html, join, tag

NUM_COLOURS = 6
"""Colours of series, the classes `c0` to `c5`; further series begin again, lighter."""

CHARACTER = 7.2
"""Width of a character in a drawing, in its units: a little more than the average."""


def colour(place: int) -> str:
    """Class of a series.

    Args:
        place: of the series, from 0.
    """
    again = " again" if place >= NUM_COLOURS else ""
    return f"c{place % NUM_COLOURS}{again}"


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from `low` to `high`, at most about `most`: multiples of 1, 2 or 5 · 10ⁿ.

    Args:
        low: of the axis.
        high: of the axis; greater.
        most: how many would do.
    """
    rough = (high - low) / max(most - 1, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(round(number * step, 12)) for number in np.arange(first, last + 1)]


def short(value: float) -> str:
    """A number of an axis: `0.2`, `1,000`, without zeros at the end."""
    return f"{value:,.6f}".rstrip("0").rstrip(".")


def place(value: float) -> str:
    """A coordinate, to a hundredth."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def cut_text(text: str, most: int) -> str:
    """The text, or its beginning and `…` where it has more than `most` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def drawing(width: float, height: float, alternative: str, *parts: Any) -> Html:
    """An SVG image that is read out as `alternative`, in a frame that scrolls.

    Args:
        width: in units of about a pixel.
        height: of the same units.
        alternative: what the image says, in words and numbers.
        parts: elements.
    """
    image = tag(
        "svg",
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {place(width)} {place(height)}",
        style=f"max-width:{place(width)}px;min-width:{place(0.72 * width)}px",
        role="img",
        aria_label=alternative,
    )
    return tag("div", image, class_="scroll")


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Html:
    """A straight line."""
    return tag("line", x1=place(x1), y1=place(y1), x2=place(x2), y2=place(y2), class_=class_)


def label(x: float, y: float, text: str, class_: str = "tick", **more: Any) -> Html:
    """A text; classes `end` and `middle` say what of it stands at x."""
    return tag("text", text, x=place(x), y=place(y), class_=class_, **more)


def upright(x: float, y: float, text: str) -> Html:
    """The title of a vertical axis, around (x, y)."""
    turn = f"rotate(-90 {place(x)} {place(y)})"
    return label(x, y, text, "title middle", transform=turn)


def row_labels(names: Sequence[str], centres: Sequence[float], right: float) -> list[Html]:
    """Names of rows, right-aligned, shortened to what fits and whole when pointed at.

    Args:
        names: of the rows.
        centres: y of each.
        right: x where they end.
    """
    most = max(4, int(right / CHARACTER))
    made = []
    for name, y in zip(names, centres, strict=True):
        whole = tag("title", name) if len(name) > most else None
        made.append(label(right, y + 4, join(whole, cut_text(name, most)), "name end"))
    return made


def label_width(names: Sequence[str], most: float = 210) -> float:
    """Width that names of rows need, up to `most`."""
    return min(most, max(map(len, names)) * CHARACTER + 8)


def legend(entries: Sequence[tuple[str, str]]) -> Html:
    """Signs and what they mean.

    Args:
        entries: (classes of the sign, words).
    """
    items = [
        tag("li", tag("span", class_=f"sign {classes}", aria_hidden="true"), words)
        for classes, words in entries
    ]
    return tag("ul", items, class_="legend")


def figure(caption: Any, *parts: Any) -> Html:
    """A chart with its caption above.

    Args:
        caption: one sentence.
        parts: legend and drawing.
    """
    return tag("figure", tag("figcaption", caption), join(*parts))
