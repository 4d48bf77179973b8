"""Runs, and the six-column files that trec_eval and its relatives read and write.

A run file line is `query_id Q0 document_id rank score tag`. Readers of the format
sort by score and ignore the rank, so scores are written in full: two that differ
never become a tie in the file. `write_run` is what `samtone evaluate --run` calls, and
`read_run` what `samtone compare` calls.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from samtone_tf.evaluation.whole_file import write_lines

Run = dict[str, dict[str, float]]
"""Results: query id → document id → score, higher is better. Order carries no meaning."""


def ranking(scores: Mapping[str, float]) -> list[str]:
    """Document ids, best first: by score, and by id, descending, where scores are equal."""
    return sorted(scores, key=lambda document_id: (scores[document_id], document_id), reverse=True)


def write_run(run: Run, path: str | Path, tag: str = "samtone") -> None:
    """Write a run file.

    Args:
        run: scores to write; must be finite.
        path: file to write; its folder is made.
        tag: name of the run, the last column.
    """
    _check_word(tag, "tag")
    write_lines(path, _lines(run, tag))


def _lines(run: Run, tag: str) -> Iterator[str]:
    for query_id, scores in run.items():
        _check_word(query_id, "query id")
        for rank, document_id in enumerate(ranking(scores), start=1):
            _check_word(document_id, "document id")
            score = float(scores[document_id])
            if not math.isfinite(score):
                raise ValueError(
                    f"`run` must hold finite scores. Received: {score} for query {query_id!r} and "
                    f"document {document_id!r}. Look for NaN in the model's output."
                )
            # repr is the shortest text that reads back as the very same number.
            yield f"{query_id} Q0 {document_id} {rank} {score!r} {tag}\n"


def read_run(path: str | Path) -> Run:
    """Read a run file, of this package or any other, to judge it or stand it beside others.

    `measure(read_run(path), data.qrels)` judges one; `evaluate(..., runs={"other":
    read_run(path)})` shows it as a row; `compare_runs` tests two or more against each other.

    Args:
        path: file in trec_eval's six columns. Rank and tag are ignored; a document that a
            query names twice is an error.
    """
    run: Run = {}
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                query_id, document_id, score = _parse(line, f"{path}:{number}")
                scores = run.setdefault(query_id, {})
                if document_id in scores:
                    raise ValueError(
                        "A run must name a document once per query. "
                        f"Received: {path}:{number} repeats document {document_id!r} of query "
                        f"{query_id!r}. Remove one of the lines."
                    )
                scores[document_id] = score
    return run


def _parse(line: str, place: str) -> tuple[str, str, float]:
    columns = line.split()
    if len(columns) != 6:
        raise ValueError(
            "A run must have 6 columns: query_id Q0 document_id rank score tag. "
            f"Received: {len(columns)} columns at {place}. Check that it is a run file."
        )
    try:
        score = float(columns[4])
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise ValueError(
            "A run must have a finite number as score, in column 5. "
            f"Received: {columns[4]!r} at {place}. Correct that line."
        )
    return columns[0], columns[2], score


def _check_word(word: str, what: str) -> None:
    if not word or any(character.isspace() for character in word):
        raise ValueError(
            f"A run file separates columns by white space, so a {what} must be a word without "
            f"any. Received: {word!r}. Rename it, or keep the run in memory."
        )
