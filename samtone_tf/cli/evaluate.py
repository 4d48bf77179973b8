"""`samtone evaluate`: an exported model and a data set, or a suite of them → measures and runs."""

import json
from pathlib import Path

from samtone_tf.cli.parser import SOURCES_HELP, make_parser

EXAMPLES = """
samtone evaluate --model saved_models/scifact/1 --data beir:scifact --split test
samtone evaluate --model saved_models/scifact/1 --data beir:scifact --search exact --bm25 \\
                 --measures "nDCG@10 P@1 AP@100 Judged@10" --out results.json --runs runs/scifact
samtone evaluate --model saved_models/scifact/1 --suite beir --root beir --out results/beir --bm25
"""
ONE_SET = ("run", "runs", "per_query", "split")
SUITE = ("root", "allow_missing", "overwrite")


def run(arguments: list[str]) -> None:
    """Parses, judges, prints and writes."""
    parsed = _parser().parse_args(arguments)
    if (parsed.data is None) == (parsed.suite is None):
        raise ValueError("Give either --data or --suite: one data set, or several.")
    other, why = (SUITE, "--suite") if parsed.suite is None else (ONE_SET, "--data")
    for name in other:
        if getattr(parsed, name) not in (None, False):
            raise ValueError(f"--{name} goes with {why} only. Leave it out.")
    if parsed.suite is None:
        _evaluate_set(parsed)
    else:
        _evaluate_suite(parsed)


def _parser():
    parser = make_parser(
        "evaluate",
        "Judge an exported model on a data set, or a suite of them, beside an index and BM25.",
        "--model SAVED_MODEL (--data SOURCE | --suite SUITE --out FOLDER) [options]",
        EXAMPLES,
    )
    add = parser.add_argument
    add("--model", required=True, type=str, help="folder of `samtone export`")
    add("--data", type=str, default=None, help=SOURCES_HELP)
    add("--split", type=str, default=None, help="whose judgements count; default: test")
    add("--search", type=str, default="auto", help="scann, exact, or auto: scann if installed")
    add("--depth", type=int, default=1000, help="documents per query in a run")
    add("--measures", type=str, default=None, help='such as "nDCG@10 P@1 AP@100 Judged@10"')
    add("--query_length", type=int, default=None, help="tokens; default: export's")
    add("--document_length", type=int, default=None, help="tokens; default: export's")
    add("--bm25", action="store_true", help="add a row for BM25")
    add(
        "--drop_self",
        type=bool | None,
        default=None,
        help="ignore hits that are the query itself; default: for ArguAna and Quora",
    )
    add("--seed", type=int, default=0, help="of the bootstrap intervals")
    add("--out", type=str, default=None, help="results as JSON, a new file; of a suite, a folder")
    add("--per_query", type=str, default=None, help="values of single queries, TSV, a new file")
    add("--run", type=str, default=None, help="run of --search, TREC, a new file")
    add("--runs", type=str, default=None, help="folder for the runs of all rows, SYSTEM.trec")
    add("--suite", type=str, default=None, help="beir, multireqa, or a YAML file of data sets")
    add("--root", type=str, default=None, help="folder that holds the suite's data sets")
    add("--allow_missing", action="store_true", help="leave out sets that are not there")
    add("--overwrite", action="store_true", help="judge sets again that --out holds already")
    return parser


def _evaluate_set(parsed) -> None:
    for path in (parsed.out, parsed.run, parsed.per_query):
        check_new_file(path)
    if parsed.runs:
        for system in ("exact", "scann", "bm25"):
            check_new_file(Path(parsed.runs) / f"{system}.trec", make_folder=True)
    from samtone_tf.data.sources import load_data
    from samtone_tf.evaluation.measures import MEASURES
    from samtone_tf.evaluation.per_query import write_per_query
    from samtone_tf.evaluation.trec import write_run
    from samtone_tf.evaluation.whole_file import write_lines
    from samtone_tf.export.saved_encoder import SavedEncoder, check_saved_model
    from samtone_tf.judge import check_arguments, evaluate_model

    check_saved_model(parsed.model)
    chosen = check_arguments(parsed.search, parsed.depth, parsed.measures or MEASURES)
    data = load_data(parsed.data, parsed.split or "test")
    result = evaluate_model(
        SavedEncoder(parsed.model, parsed.query_length, parsed.document_length),
        data,
        search=parsed.search,
        depth=parsed.depth,
        drop_self=parsed.drop_self,
        bm25=parsed.bm25,
        measures=chosen,
        seed=parsed.seed,
    )
    print(result.table())
    searched = next(name for name in ("scann", "exact") if name in result.runs)
    if parsed.run:
        write_run(result.runs[searched], parsed.run)
    if parsed.runs:
        for system, found in result.runs.items():
            write_run(found, Path(parsed.runs) / f"{system}.trec", tag=system)
    if parsed.per_query:
        write_per_query(result.scores, parsed.per_query)
    if parsed.out:
        side = str(Path(parsed.per_query).absolute()) if parsed.per_query else None
        content = {**result.to_json(), "per_query": side}
        write_lines(parsed.out, [json.dumps(content, indent=2) + "\n"])


def _evaluate_suite(parsed) -> None:
    if parsed.out is None:
        raise ValueError("--suite needs --out, the folder of its results. Name one.")
    from samtone_tf.judge_suite import evaluate_suite

    names = ("search", "depth", "measures", "bm25", "query_length", "document_length", "drop_self")
    results = evaluate_suite(
        parsed.model,
        parsed.suite,
        parsed.out,
        root=parsed.root,
        allow_missing=parsed.allow_missing,
        overwrite=parsed.overwrite,
        seed=parsed.seed,
        **{name: getattr(parsed, name) for name in names},
    )
    print(results.markdown())
    print(f"wrote {parsed.out}: table.md, results.json, sets/, runs/")


def check_new_file(path: str | Path | None, make_folder: bool = False) -> None:
    """Raises before the work, not after it, when a result could not be written.

    Args:
        path: file that must not be there; None is no file.
        make_folder: its folder will be made, and need not be there.
    """
    if path is None:
        return
    if Path(path).exists():
        raise FileExistsError(f"{path} exists and is not overwritten. Name another file.")
    parent = Path(path).absolute().parent
    if make_folder and parent.exists() and not parent.is_dir():
        raise FileExistsError(f"{parent} is a file, and no folder for runs. Name another.")
    if not make_folder and not parent.is_dir():
        raise FileNotFoundError(f"The folder of {path} does not exist. Make it first.")
