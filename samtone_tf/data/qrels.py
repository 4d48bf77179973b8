"""Files of judgements: BEIR's 3 columns or TREC's 4, with a header line or without one."""

from collections.abc import Iterator
from pathlib import Path

from samtone_tf.data.lines import read_lines, shorten

_HEADER_WORDS = {
    "query-id", "query_id", "queryid", "qid", "query", "topic",
    "corpus-id", "corpus_id", "document_id", "docid", "doc_id", "did", "pid",
    "score", "grade", "relevance", "rel", "label",
}  # fmt: skip


def read_qrels(path: Path) -> Iterator[tuple[int, str, str, int]]:
    """Yield (line number, query id, document id, grade) of every judgement.

    Fields are separated by tabs or spaces. With 4, the second is not looked at.
    """
    is_first = True
    for number, line in read_lines(path):
        fields = [field.strip() for field in line.split("\t")] if "\t" in line else line.split()
        if not any(fields):
            continue
        was_first, is_first = is_first, False
        if was_first and _is_header(fields):
            continue
        yield number, *_judgement(fields, line, f"{path}:{number}")


def _is_header(fields: list[str]) -> bool:
    # An id may be a header's word by chance, a grade never is: both ends must agree.
    return fields[0].lower() in _HEADER_WORDS and fields[-1].lower() in _HEADER_WORDS


def _judgement(fields: list[str], line: str, place: str) -> tuple[str, str, int]:
    try:
        if len(fields) not in (3, 4) or not all(fields):
            raise ValueError
        grade = float(fields[-1])
        if not grade.is_integer() or abs(grade) >= 2**31:
            raise ValueError
    except ValueError:
        raise ValueError(
            f"{place}: expected query id, document id and a whole grade (or TREC's four columns). "
            f"Received: {shorten(line)}. Correct or remove the line."
        ) from None
    return fields[0], fields[-2], int(grade)
