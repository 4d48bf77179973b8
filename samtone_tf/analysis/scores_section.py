"""The section of single queries: how often systems fail, half succeed and succeed."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from samtone_tf.analysis.axes import colour, figure, legend, short
from samtone_tf.analysis.histogram_chart import histogram_chart
from samtone_tf.analysis.markup import Html, join, tag
from samtone_tf.analysis.names import short_names
from samtone_tf.analysis.results import QueryValues
from samtone_tf.analysis.tables import Section

BINS = 10


def scores_section(query_values: Sequence[QueryValues]) -> Section:
    """A histogram per data set, all systems side by side, all to one scale.

    Args:
        query_values: values of single queries, one per data set.
    """
    systems = list(dict.fromkeys(s for one in query_values for s in one.values))
    said = (
        f"Each query's own value in {BINS} bins: a mean of 0.5 may be all queries half right, or "
        "half of them right. Shares are of the set's queries."
    )
    binned = [_binned(one) for one in query_values]
    highest = max(float(found.max()) for _, _, found_of in binned for found in found_of.values())
    figures = [
        _figure(title, one, systems, found, highest)
        for title, one, found in zip(_titles(query_values), query_values, binned, strict=True)
    ]
    signs = legend([(colour(number), name) for number, name in enumerate(systems)])
    body = join(tag("p", said), signs, tag("div", figures, class_="charts"))
    return Section("queries", "Single queries", body)


def _titles(query_values: Sequence[QueryValues]) -> list[str]:
    """Names of the sets, with where the values are from if a set has several."""
    names = short_names(one.name for one in query_values)
    origins = short_names((one.origin for one in query_values), least=2)
    times = Counter(one.name for one in query_values)
    return [
        names[one.name] + (f" · {origins[one.origin]}" if times[one.name] > 1 else "")
        for one in query_values
    ]


Binned = tuple[str, np.ndarray, dict[str, np.ndarray]]
"""The measure, the edges of its bins, and system → shares of queries in them."""


def _binned(one: QueryValues) -> Binned:
    measure = chosen_measure(next(iter(one.values.values()))[0])
    columns = {
        system: values[:, measures.index(measure)]
        for system, (measures, values) in one.values.items()
    }
    edges = bin_edges(list(columns.values()))
    return measure, edges, {system: shares(column, edges) for system, column in columns.items()}


def _figure(
    title: str, one: QueryValues, systems: Sequence[str], binned: Binned, highest: float
) -> Html:
    measure, edges, found = binned
    nothing = np.zeros(BINS)
    num = max(len(values) for _, values in one.values.values())
    chart = histogram_chart(
        [short(round(float(edge), 3)) for edge in edges],
        [(system, found.get(system, nothing).tolist()) for system in systems],
        x_title=f"{measure} of a query",
        y_title="share of queries",
        percent=True,
        highest=highest,
        edges=True,
        width=520,
        height=170,
    )
    return figure(f"{title}, {num:,} queries", chart)


def chosen_measure(measures: Sequence[str]) -> str:
    """The first nDCG, which tells more of a query than hit or miss; else the first.

    Args:
        measures: that there are.
    """
    return next((name for name in measures if name.startswith("nDCG")), measures[0])


def bin_edges(columns: Sequence[np.ndarray]) -> np.ndarray:
    """From 0 to 1, or to what values there are beyond; float64 `(BINS + 1,)`.

    Args:
        columns: values `(Q,)` of each system.
    """
    low = min(0.0, *(float(column.min()) for column in columns))
    high = max(1.0, *(float(column.max()) for column in columns))
    return low + (high - low) * np.arange(BINS + 1) / BINS  # 0.3 is 0.3, as linspace has it not


def shares(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Shares of the values in each bin, the upper end belonging to the last.

    Args:
        values: floats `(Q,)`.
        edges: floats `(n + 1,)`.
    """
    counts, _ = np.histogram(values, edges)
    return counts / len(values)
