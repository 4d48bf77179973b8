"""`samtone inspect`: a data set → what is in it, as text and JSON."""

import json
import os
from pathlib import Path

from samtone_tf.cli.evaluate import check_new_file
from samtone_tf.cli.parser import SOURCES_HELP, make_parser

EXAMPLES = """
samtone inspect --data beir:scifact --vocabulary spiece.model
samtone inspect --data pairs:faq.jsonl --query_length 32 --document_length 128
samtone inspect --data tfds:squad --split validation --json squad.json
"""


def run(arguments: list[str]) -> None:
    """Parses, looks, prints and writes."""
    parser = make_parser(
        "inspect",
        "Count, measure and compare what is in a data set, and say what that implies for training.",
        "--data SOURCE [options]",
        EXAMPLES,
    )
    parser.add_argument("--data", required=True, type=str, help=SOURCES_HELP)
    parser.add_argument(
        "--split", type=str, default=None, help="default: train, or the first there is"
    )
    parser.add_argument(
        "--vocabulary",
        type=str,
        default=None,
        help="SentencePiece model that counts tokens; default: one trained on the texts",
    )
    parser.add_argument("--query_length", type=int, default=64, help="tokens kept of a query")
    parser.add_argument("--document_length", type=int, default=256, help="of a document")
    parser.add_argument("--batch_size", type=int, default=512, help="where equal texts may meet")
    parser.add_argument(
        "--against",
        type=str,
        default=None,
        help="splits to compare, with commas; default: those of train, dev, validation, test",
    )
    parser.add_argument("--sample", type=int, default=100_000, help="texts measured, of each side")
    parser.add_argument("--json", type=str, default=None, help="the same as JSON, a new file")
    parser.add_argument(
        "--cache",
        type=str,
        default=None,
        help="folder of columns, as data.cache of train; memory keeps them in memory",
    )
    parsed = parser.parse_args(arguments)
    check_new_file(parsed.json)
    from samtone_tf.data.cache import Cache, default_folder
    from samtone_tf.data.inspect_data import inspect_data

    in_memory = parsed.cache == "memory"
    found = inspect_data(
        parsed.data,
        parsed.split,
        vocabulary=parsed.vocabulary,
        query_length=parsed.query_length,
        document_length=parsed.document_length,
        batch_size=parsed.batch_size,
        against=None if parsed.against is None else _names(parsed.against),
        sample=parsed.sample,
        cache=None if in_memory else Cache(parsed.cache or default_folder()),
    )
    print(found)
    if parsed.json:
        write_json(found.to_json(), Path(parsed.json))


def write_json(found: dict, path: Path) -> None:
    """Writes to a name beside `path`, and renames."""
    building = path.with_name(f".{path.name}.building-{os.getpid()}")
    building.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", "utf-8")
    os.replace(building, path)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
