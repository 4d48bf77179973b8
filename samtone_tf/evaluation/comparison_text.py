"""A comparison of runs as text: means, differences with their tests, and queries that moved."""

from collections.abc import Sequence

from samtone_tf.evaluation.bootstrap import LEVEL
from samtone_tf.evaluation.comparison import Comparison, Difference
from samtone_tf.evaluation.text_table import align, span

ALPHA = 0.05
"""Corrected p values below it are called significant."""

_WIDTH = 70


def comparison_text(comparison: Comparison) -> str:
    """What `samtone compare` prints for one data set.

    Args:
        comparison: result of `compare_runs`.
    """
    measures = list(next(iter(comparison.estimates.values())))
    lines = [["run", *measures]]
    for name, found in comparison.estimates.items():
        lines.append([name, *(f"{found[m].value:.4f}" for m in measures)])
        lines.append([f"  {LEVEL:.0%}", *(span(found[m].low, found[m].high) for m in measures)])
    counted = next(iter(comparison.scores.values())).num_queries
    parts = [
        f"{comparison.source} ({comparison.split}): {counted} queries\n",
        *align(lines),
    ]
    for pair in dict.fromkeys((d.first, d.second) for d in comparison.differences):
        own = [d for d in comparison.differences if (d.first, d.second) == pair]
        parts += ["", *_differences(pair, own)]
        parts += _moves(comparison, pair)
    return "\n".join([*parts, "", *_verdict(comparison), *comparison.notes])


def _differences(pair: tuple[str, str], own: Sequence[Difference]) -> list[str]:
    first, second = pair
    head = [
        "difference",
        f"{LEVEL:.0%}",
        "wins",
        "ties",
        "losses",
        "p rand.",
        "Holm",
        "p t",
        "Holm",
    ]
    lines = [[f"{second} - {first}", *head]]
    for one in own:
        value, low, high, _ = one.difference
        lines.append(
            [
                f"  {one.measure}",
                f"{value:+.4f}",
                "-" if low is None else f"[{low:+.4f}, {high:+.4f}]",
                *(str(count) for count in (one.wins, one.ties, one.losses)),
                *(_p(p) for p in (one.p_randomisation, one.holm_randomisation)),
                *(_p(p) for p in (one.p_t, one.holm_t)),
            ]
        )
    return align(lines)


def _moves(comparison: Comparison, pair: tuple[str, str]) -> list[str]:
    own = [move for move in comparison.moved if (move.first, move.second) == pair]
    if not own:
        return []
    lines = [f"queries that moved most, by {comparison.moved_by}:"]
    for move in own:
        text = " ".join(move.text.split())
        text = text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
        values = f"{move.change:+.4f}  {move.before:.4f} → {move.after:.4f}"
        lines.append(f"  {values}  {move.query_id}  {text}")
    return lines


def _verdict(comparison: Comparison) -> list[str]:
    lines = []
    for one in comparison.differences:
        if one.holm_randomisation < ALPHA:
            better, worse = (one.second, one.first)
            if one.difference.value < 0:
                better, worse = worse, better
            lines.append(
                f"significant: {better} is better than {worse} by {one.measure} "
                f"({abs(one.difference.value):.4f}, p {_p(one.holm_randomisation)})"
            )
    about = f"at {ALPHA} by the randomisation test, Holm over {comparison.num_tests} tests"
    return [*lines, f"{len(lines) or 'no'} significant differences {about}"]


def _p(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.4f}" if value >= 0.0001 else "<.0001"
