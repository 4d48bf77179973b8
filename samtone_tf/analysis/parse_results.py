"""The JSON of one result file → records; what is missing or no number raises."""

import math
from dataclasses import fields
from pathlib import Path
from typing import Any

from samtone_tf.analysis.results import (
    Compared,
    Difference,
    IndexLoss,
    Inspected,
    Judged,
    JudgedSet,
    LengthCounts,
    Move,
    Published,
    Scores,
)
from samtone_tf.evaluation.bootstrap import Estimate
from samtone_tf.index.frontier import Frontier, Point
from samtone_tf.index.report import IndexReport


def parse_evaluation(path: Path, content: dict[str, Any]) -> Judged:
    """Results on one data set.

    Args:
        path: the file.
        content: of kind `evaluation`.
    """
    losses = {
        row["system"]: IndexLoss(
            row.get("index", row["system"]),
            {name: _number(share) for name, share in row["index_recall"].items()},
            {name: _estimate(score) for name, score in row["index_loss"].items()},
        )
        for row in content["rows"]
        if "index_recall" in row
    }
    lengths = content["model"].get("lengths") or {}
    facts = {
        "split": content["split"],
        "documents": f"{content['num_documents']:,}",
        "depth of the search": f"{content['depth']:,}",
        "lengths": ", ".join(f"{side} {tokens} tokens" for side, tokens in lengths.items()),
    }
    counts = content["counts"]
    notes = [
        f"{system}: {found['num_unanswered']} queries unanswered, counted 0"
        for system, found in counts.items()
        if found["num_unanswered"]
    ]
    side = content.get("per_query")
    row = JudgedSet(
        name=str(content["source"]),
        split=str(content["split"]),
        num_queries=int(content["num_queries"]),
        scores=_scores(content["rows"]),
        losses=losses,
        facts={label: fact for label, fact in facts.items() if fact},
        notes=(*notes, *map(str, content["notes"])),
        side_files={str(content["source"]): side} if side else {},
    )
    return Judged(
        path, None, _model(content), _some(content["measures"], "measures"), (row,), _level(content)
    )


def parse_suite(path: Path, content: dict[str, Any]) -> Judged:
    """Results on a suite.

    Args:
        path: the file, `results.json`.
        content: of kind `suite`.
    """
    rows = [
        JudgedSet(
            name=str(one["set"]),
            split=None,
            num_queries=int(one["num_queries"]),
            scores=_scores(one["rows"]),
            side_files={part: f"sets/{part}.per_query.tsv" for part in one["parts"]},
        )
        for one in content["sets"]
    ]
    published = [
        Published(
            str(one["system"]),
            str(one["measure"]),
            str(one["source"]),
            {row: _number(value) for row, value in one["scores"].items()},
            _number_or_none(one["average"]),
        )
        for one in content["references"]
    ]
    return Judged(
        path,
        str(content["suite"]),
        _model(content),
        _some(content["measures"], "measures"),
        _some(rows, "sets"),
        _level(content),
        averages=_scores(content["averages"]["rows"]),
        published=tuple(published),
        missing=tuple(map(str, content["missing"])),
    )


def parse_compared(path: Path, content: dict[str, Any]) -> Compared:
    """A comparison of runs on one data set.

    Args:
        path: the file.
        content: of kind `comparison`.
    """
    return Compared(
        path,
        source=str(content["source"]),
        split=str(content["split"]),
        num_queries=int(content["num_queries"]),
        num_tests=int(content["tests"]["num_tests"]),
        level=_level(content),
        differences=_some([_difference(one) for one in content["differences"]], "differences"),
        moved_by=str(content["moved_by"]),
        moved=tuple(
            Move(
                *(str(one[key]) for key in ("first", "second", "query_id", "text")),
                before=_number(one["before"]),
                after=_number(one["after"]),
            )
            for one in content["moved"]
        ),
        notes=tuple(map(str, content["notes"])),
    )


def _difference(one: dict[str, Any]) -> Difference:
    return Difference(
        *(str(one[key]) for key in ("first", "second", "measure")),
        difference=_estimate(one["difference"]),
        **{key: int(one[key]) for key in ("wins", "ties", "losses")},
        **{key: _number(one[key]) for key in ("p_randomisation", "holm_randomisation")},
        **{key: _number_or_none(one[key]) for key in ("p_t", "holm_t")},
    )


def parse_frontier(content: dict[str, Any]) -> Frontier:
    """The points of a tuned index.

    Args:
        content: of `tuning.json`.
    """
    points = tuple(_point(point) for point in content["points"])
    if sum(point.chosen for point in points) != 1:
        raise ValueError("one of `points` must be chosen")
    given = {**content, "exact": _point(content["exact"]), "points": points}
    return Frontier(**{field.name: given[field.name] for field in fields(Frontier)})


def _point(content: dict[str, Any]) -> Point:
    point = Point(**{field.name: content[field.name] for field in fields(Point)})
    if _number(point.batched_qps) <= 0 or not 0 <= _number(point.recall_at_10) <= 1:
        raise ValueError("`points` must have a speed above 0 and a recall from 0 to 1")
    return point


def parse_index_report(content: dict[str, Any]) -> IndexReport:
    """What an index costs.

    Args:
        content: of `report.json`.
    """
    known = [field.name for field in fields(IndexReport) if field.name in content]
    report = IndexReport(**{name: content[name] for name in known})
    for value in (report.recall_at_10, report.recall_at_100, report.ms_per_query):
        _number(value)
    return report


def parse_inspected(path: Path, content: dict[str, Any]) -> Inspected:
    """The lengths of a data set's texts.

    Args:
        path: the file.
        content: of `samtone inspect --json`.
    """
    numbers = ("counted", "limit", "longest")
    shares = ("median", "percentile_95", "share_cut", "share_of_tokens_cut")
    lengths = []
    for side in ("query", "document"):
        found = content[f"{side}_lengths"]
        bins = tuple(tuple(int(edge) for edge in one) for one in found["histogram"])
        if not bins or any(len(one) != 3 for one in bins):
            raise ValueError("a histogram must have bins of (from, to, texts)")
        lengths.append(
            LengthCounts(
                side="queries" if side == "query" else "documents",
                bins=bins,
                **{name: int(found[name]) for name in numbers},
                **{name: _number(found[name]) for name in shares},
            )
        )
    names = (str(content[key]) for key in ("source", "split", "tokens"))
    return Inspected(path, *names, lengths=tuple(lengths))


def _some(items: list, name: str) -> tuple:
    """The items, if there are any."""
    if not items:
        raise ValueError(f"`{name}` must hold one at least")
    return tuple(items)


def _scores(rows: list[dict[str, Any]]) -> Scores:
    return {
        str(row["system"]): {name: _estimate(score) for name, score in row["scores"].items()}
        for row in _some(rows, "rows")
    }


def _estimate(score: dict[str, Any]) -> Estimate:
    low, high = _number_or_none(score["low"]), _number_or_none(score["high"])
    return Estimate(_number(score["value"]), low, high, int(score["n"]))


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError(f"{value!r} is no finite number")
    return float(value)


def _number_or_none(value: Any) -> float | None:
    return None if value is None else _number(value)


def _level(content: dict[str, Any]) -> float:
    return _number(content["interval"]["level"])


def _model(content: dict[str, Any]) -> str:
    return str((content["model"] or {}).get("folder", ""))
