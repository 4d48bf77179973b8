"""The scores of single queries as a tab-separated file: a row per system and query.

    system  query_id  P@1  nDCG@10  …

Quoted where an id holds a tab or a quote, as `csv` with `delimiter="\\t"` reads it.
"""

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from samtone_tf.evaluation.measures import Scores
from samtone_tf.evaluation.whole_file import write_lines

COLUMNS = ("system", "query_id")


def write_per_query(scores: Mapping[str, Scores], path: str | Path) -> Path:
    """Write every value in full, so that reading gives the very same numbers.

    Args:
        scores: system → what its run is worth; all of the same queries and measures.
        path: file to write; its folder is made.
    """
    return write_lines(path, _lines(scores))


def _lines(scores: Mapping[str, Scores]) -> Iterator[str]:
    for number, (system, found) in enumerate(scores.items()):
        if number == 0:
            yield _row([*COLUMNS, *found.mean])
        for query_id, values in found.per_query.items():
            yield _row([system, query_id, *(repr(float(values[name])) for name in found.mean)])


def _row(cells: list[str]) -> str:
    text = io.StringIO()
    csv.writer(text, delimiter="\t", lineterminator="\n").writerow(cells)
    return text.getvalue()


def read_per_query(path: str | Path) -> dict[str, tuple[list[str], np.ndarray]]:
    """System → its measures, and their values as float64 `(Q, M)`, in the order of the file.

    Args:
        path: a file that `write_per_query` wrote.

    Raises:
        ValueError: another file.
    """
    with open(path, encoding="utf-8", newline="") as file:
        rows = csv.reader(file, delimiter="\t")
        header = next(rows, [])
        if tuple(header[:2]) != COLUMNS or len(header) < 3:
            raise ValueError(
                "A file of single queries must begin with the columns system, query_id and "
                f"measures. Received: {header} in {path}. Judge again to write it."
            )
        found: dict[str, list[list[float]]] = {}
        for row in rows:
            try:
                values = [float(cell) for cell in row[2:]]
                if len(row) != len(header):
                    raise ValueError
            except ValueError:
                raise ValueError(
                    f"A file of single queries must hold {len(header) - 2} numbers a line. "
                    f"Received: {row} at {path}:{rows.line_num}. Judge again to write it."
                ) from None
            found.setdefault(row[0], []).append(values)
    return {system: (header[2:], np.array(values)) for system, values in found.items()}


def matrix(scores: Scores) -> np.ndarray:
    """The values of single queries as float64 `(Q, M)`, in the order of `scores`."""
    return np.array(
        [[values[name] for name in scores.mean] for values in scores.per_query.values()],
        np.float64,
    )
