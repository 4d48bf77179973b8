"""`samtone search`: questions → documents of an index, or of several."""

import json
import sys
from pathlib import Path

from samtone_tf.cli.parser import make_parser

EXAMPLES = """
samtone search indexes/scifact "do vaccines cause autism"
samtone search indexes/faq "opening hours" "do you take cards" --k 3
samtone search indexes/faq indexes/manuals "how do I reset it"
cat questions.txt | samtone search indexes/faq - --json > hits.jsonl
"""


def run(arguments: list[str]) -> None:
    """Parses, searches and prints."""
    parser = make_parser(
        "search",
        "Ask an index questions, or several indexes of one model as if they were one.",
        'INDEX [INDEX …] "a question" … [options]',
        EXAMPLES,
    )
    parser.add_argument("index", type=str, help="index folder of `samtone index`")
    parser.add_argument(
        "query",
        type=str,
        nargs="+",
        help="questions; - reads one a line from standard input. Index folders that come first "
        "are searched, too",
    )
    parser.add_argument("--k", type=int, default=10, help="documents per question")
    parser.add_argument("--json", action="store_true", help="one JSON object per question")
    parser.add_argument("--model", type=str, default=None, help="the model, if it was moved")
    parsed = parser.parse_args(arguments)
    if parsed.k < 1:
        raise ValueError(f"`k` must be at least 1. Received: k={parsed.k}.")
    folders, given = split_arguments(parsed.query)
    queries = read_queries(given)
    from samtone_tf.retriever import Retriever

    hits = Retriever.load([parsed.index, *folders], model=parsed.model).search(queries, parsed.k)
    for query, found in zip(queries, hits, strict=True):
        print(as_json(query, found) if parsed.json else as_text(query, found))


def split_arguments(given: list[str]) -> tuple[list[str], list[str]]:
    """Index folders, which come first, and questions.

    Raises:
        ValueError: a folder that is no index, or no question behind the indexes.
    """
    for place, argument in enumerate(given):
        if not Path(argument).is_dir():
            return given[:place], given[place:]
        if not (Path(argument) / "index.json").is_file():
            raise ValueError(
                f"`index` must be a folder of `samtone index`. Received: {argument}, a folder "
                "without index.json. If it is meant as a question, say more."
            )
    raise ValueError(
        f"`query` must hold a question behind the indexes. Received: only index folders, the last "
        f"is {given[-1]}. Add one in quotes."
    )


def read_queries(given: list[str]) -> list[str]:
    """The questions of the command line; `-` stands for the lines of standard input."""
    queries = []
    for query in given:
        queries.extend([line.rstrip("\n") for line in sys.stdin] if query == "-" else [query])
    if not any(query.strip() for query in queries):
        raise ValueError("`query` must hold at least one question. Received: only empty ones.")
    return queries


def as_json(query: str, hits: list) -> str:
    """One line per question: `{"query": …, "hits": [{"document_id", "score", "text"}]}`."""
    return json.dumps({"query": query, "hits": [hit._asdict() for hit in hits]}, ensure_ascii=False)


def as_text(query: str, hits: list, width: int = 100) -> str:
    """The question and its hits, texts cut to `width` characters."""
    lines = [query]
    for rank, hit in enumerate(hits, 1):
        text = " ".join(hit.text.split())
        text = text if len(text) <= width else text[: width - 1] + "…"
        lines.append(f"  {rank:>2}  {hit.score:.4f}  {hit.document_id}  {text}")
    return "\n".join(lines) + "\n"
