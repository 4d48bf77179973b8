"""The section of lengths: histograms of a data set's texts in tokens, with the cut marked."""

from collections.abc import Sequence

from samtone_tf.analysis.axes import figure
from samtone_tf.analysis.histogram_chart import histogram_chart
from samtone_tf.analysis.markup import Html, join, tag
from samtone_tf.analysis.results import Inspected, LengthCounts
from samtone_tf.analysis.tables import Section


def data_section(inspected: Sequence[Inspected]) -> Section:
    """Histograms of queries and documents.

    Args:
        inspected: one per data set.
    """
    parts = [
        join(
            tag("h3", f"{one.source} ({one.split})"),
            tag("p", f"Tokens of {one.tokens}; the end token is counted. Bins double in width."),
            tag("div", [_figure(lengths) for lengths in one.lengths], class_="charts"),
        )
        for one in inspected
    ]
    return Section("lengths", "Lengths of texts", join(parts))


def _figure(lengths: LengthCounts) -> Html:
    said = (
        f"{lengths.counted:,} {lengths.side}: median {lengths.median:,.0f}, 95 % within "
        f"{lengths.percentile_95:,.0f}, longest {lengths.longest:,}. At {lengths.limit:,} tokens, "
        f"{_share(lengths.share_cut)} of them are cut and {_share(lengths.share_of_tokens_cut)} "
        "of all tokens lost."
    )
    names = [f"{first:,}–{last:,}" for first, last, _ in lengths.bins]
    counts = [float(count) for _, _, count in lengths.bins]
    chart = histogram_chart(
        names,
        [(lengths.side, counts)],
        x_title=f"tokens of {lengths.side}",
        y_title=f"number of {lengths.side}",
        mark=(position(lengths.bins, lengths.limit), f"cut at {lengths.limit:,} tokens"),
    )
    return figure(said, chart)


def position(bins: Sequence[tuple[int, int, int]], limit: int) -> float:
    """Where a limit lies, in bins from the left: 1.0 is after the first; all kept is the end.

    Args:
        bins: (from, to, texts), one after the other.
        limit: tokens that are kept.
    """
    for number, (first, last, _) in enumerate(bins):
        if limit <= last:
            return number + max(0.0, (limit - first + 1) / (last - first + 1))
    return float(len(bins))


def _share(share: float) -> str:
    return f"{share:.1%}".replace("%", " %")
