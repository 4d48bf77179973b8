"""HTML tables: numbers to the right, intervals small beside them, the best marked."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from samtone_tf.analysis.markup import Html, join, tag
from samtone_tf.evaluation.bootstrap import Estimate
from samtone_tf.evaluation.text_table import short


class Cell(NamedTuple):
    """One cell.

    Args:
        content: text, or markup.
        is_text: stands to the left; numbers stand to the right.
        best: of its row or column.
        muted: less important.
    """

    content: Any
    is_text: bool = False
    best: bool = False
    muted: bool = False


class Section(NamedTuple):
    """A part of the page with a title of its own; `slug` is where links lead."""

    slug: str
    title: str
    body: Html


def table(
    caption: Any, head: Sequence[str], rows: Sequence[Sequence[Cell | str]], texts: int = 1
) -> Html:
    """A table in a frame that scrolls.

    Args:
        caption: one sentence above it.
        head: names of the columns.
        rows: cells; the first of each row is its name.
        texts: columns from the left that hold texts.
    """
    heads = [
        tag("th", name, scope="col", class_="text" if number < texts else None)
        for number, name in enumerate(head)
    ]
    lines = []
    for row in rows:
        cells = [_cell(cell, number < texts) for number, cell in enumerate(row[1:], 1)]
        first = row[0].content if isinstance(row[0], Cell) else row[0]
        lines.append(tag("tr", tag("th", first, scope="row", class_="text", dir="auto"), cells))
    made = tag(
        "table",
        tag("caption", caption),
        tag("thead", tag("tr", heads)),
        tag("tbody", lines),
    )
    return tag("div", made, class_="scroll", tabindex="0", role="group", aria_label=caption)


def _cell(cell: Cell | str, is_text: bool) -> Html:
    cell = cell if isinstance(cell, Cell) else Cell(cell)
    is_text = is_text or cell.is_text
    classes = [
        name
        for name, is_so in (("text", is_text), ("best", cell.best), ("muted", cell.muted))
        if is_so
    ]
    return tag(
        "td",
        cell.content,
        class_=" ".join(classes) or None,
        dir="auto" if is_text else None,
    )


def value_cell(found: Estimate | None, best: bool = False) -> Cell:
    """A mean and its interval.

    Args:
        found: None is a dash.
        best: whether to mark it.
    """
    if found is None:
        return Cell("–", muted=True)
    value = f"{found.value:.4f}"
    number = tag("strong", value) if best else value
    return Cell(join(number, interval(found)), best=best)


def interval(found: Estimate) -> Html | None:
    """` [low, high]`, small; None where there is none."""
    if found.low is None or found.high is None:
        return None
    return join(" ", tag("small", f"[{short(found.low)}, {short(found.high)}]"))


def best_of(found: Sequence[Estimate | None]) -> list[bool]:
    """Which are the greatest, if there is a choice: at least two, and not all the same."""
    values = [one.value for one in found if one is not None]
    if len(values) < 2 or max(values) == min(values):
        return [False] * len(found)
    return [one is not None and one.value == max(values) for one in found]


def fold(summary: str, body: Html, is_open: bool = False) -> Html:
    """A part that is shown on demand.

    Args:
        summary: its title.
        body: what is folded.
        is_open: from the beginning.
    """
    return tag("details", tag("summary", summary), body, open="" if is_open else None)


def bullets(items: Sequence[Any]) -> Html | None:
    """A list; None for no items."""
    return tag("ul", [tag("li", item, dir="auto") for item in items]) if items else None
