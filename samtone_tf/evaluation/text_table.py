"""Rows of cells as lines of text: the first column to the left, the others to the right."""

from collections.abc import Sequence


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """One line per row, columns two spaces apart, no space at the end of a line.

    Args:
        rows: cells; every row has as many.
    """
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def short(value: float) -> str:
    """Four digits after the point, without the 0 before it, for narrow columns."""
    return f"{value:.4f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.4f}"


def span(low: float | None, high: float | None) -> str:
    """An interval in one cell; `-` where there is none."""
    return "-" if low is None or high is None else f"{short(low)}-{short(high)}"


def first_names(names: Sequence[str], most: int = 5) -> str:
    """The first few, and a sign that there are more."""
    return ", ".join([*names[:most], *(["…"] if len(names) > most else [])])
