"""`samtone evaluate`: an exported model and a data set → measures and runs."""

import json
from pathlib import Path

from samtone_tf.cli.parser import SOURCES_HELP, make_parser

EXAMPLES = """
samtone evaluate --model saved_models/scifact/1 --data beir:scifact --split test
samtone evaluate --model saved_models/scifact/1 --data beir:scifact --search exact --bm25 \\
                 --out results.json --run run.trec
"""


def run(arguments: list[str]) -> None:
    """Parses, judges, prints and writes."""
    parser = make_parser(
        "evaluate",
        "Judge an exported model on a data set, with exact search and an index side by side.",
        "--model SAVED_MODEL --data SOURCE [options]",
        EXAMPLES,
    )
    parser.add_argument("--model", required=True, type=str, help="folder of `samtone export`")
    parser.add_argument("--data", required=True, type=str, help=SOURCES_HELP)
    parser.add_argument("--split", type=str, default="test", help="whose judgements count")
    parser.add_argument(
        "--search", type=str, default="auto", help="scann, exact, or auto: scann where it installs"
    )
    parser.add_argument("--depth", type=int, default=1000, help="documents per query in a run")
    parser.add_argument("--query_length", type=int, default=None, help="tokens; default: export's")
    parser.add_argument(
        "--document_length", type=int, default=None, help="tokens; default: export's"
    )
    parser.add_argument("--bm25", action="store_true", help="add a row for BM25")
    parser.add_argument(
        "--drop_self",
        type=bool | None,
        default=None,
        help="ignore hits that are the query itself; default: for ArguAna and Quora",
    )
    parser.add_argument("--out", type=str, default=None, help="results as JSON, a new file")
    parser.add_argument("--run", type=str, default=None, help="run of --search, TREC, a new file")
    parsed = parser.parse_args(arguments)
    for path in (parsed.out, parsed.run):
        check_new_file(path)
    from samtone_tf.data.sources import load_data
    from samtone_tf.evaluation.trec import write_run
    from samtone_tf.export.saved_encoder import SavedEncoder, check_saved_model
    from samtone_tf.judge import evaluate_model

    check_saved_model(parsed.model)
    data = load_data(parsed.data, parsed.split)
    result = evaluate_model(
        SavedEncoder(parsed.model, parsed.query_length, parsed.document_length),
        data,
        search=parsed.search,
        depth=parsed.depth,
        drop_self=parsed.drop_self,
        bm25=parsed.bm25,
    )
    print(result.table())
    searched = next(name for name in ("scann", "exact") if name in result.runs)
    if parsed.out:
        Path(parsed.out).write_text(json.dumps(result.to_json(), indent=2) + "\n", "utf-8")
    if parsed.run:
        write_run(result.runs[searched], parsed.run)


def check_new_file(path: str | None) -> None:
    """Raises before the work, not after it, when a result could not be written."""
    if path is None:
        return
    if Path(path).exists():
        raise FileExistsError(f"{path} exists and is not overwritten. Name another file.")
    if not Path(path).absolute().parent.is_dir():
        raise FileNotFoundError(f"The folder of {path} does not exist. Make it first.")
