"""`samtone compare`: two or more runs, on one data set or a suite → what is more than chance."""

import json
from pathlib import Path

from samtone_tf.cli.parser import SOURCES_HELP, make_parser

EXAMPLES = """
samtone compare runs/bm25.trec runs/exact.trec --data beir:scifact --split test
samtone compare bm25.trec old.trec new.trec --data beir:scifact --measures "nDCG@10 P@1" --json
samtone compare old/runs/exact new/runs/exact --suite beir --root beir
"""


def run(arguments: list[str]) -> None:
    """Parses, reads, tests and prints."""
    parsed = _parser().parse_args(arguments)
    if (parsed.data is None) == (parsed.suite is None):
        raise ValueError("Give either --data or --suite: what the runs were made on.")
    if len(parsed.runs) < 2:
        raise ValueError(
            f"`runs` must be two run files or more. Received: {', '.join(parsed.runs)}. "
            "Name what it is to be compared with."
        )
    if parsed.suite is None and parsed.root is not None:
        raise ValueError("--root goes with --suite only. Leave it out.")
    if parsed.suite is not None and parsed.split is not None:
        raise ValueError("--split goes with --data only: a suite names the splits. Leave it out.")
    for path in parsed.runs:
        if not Path(path).exists():
            raise FileNotFoundError(f"The run {path} does not exist. Check the spelling.")
    from samtone_tf.evaluation.comparison import correct
    from samtone_tf.evaluation.comparison_text import comparison_text

    comparisons = correct(list(_compare(parsed)))
    if parsed.json:
        made = [one.to_json() for one in comparisons]
        print(json.dumps(made[0] if parsed.suite is None else made, indent=2))
    else:
        print("\n\n".join(comparison_text(one) for one in comparisons))


def _parser():
    parser = make_parser(
        "compare",
        "Test whether runs differ by more than chance, and show the queries that moved most.",
        "RUN.trec RUN.trec [RUN.trec …] (--data SOURCE | --suite SUITE) [options]",
        EXAMPLES,
    )
    add = parser.add_argument
    add("runs", nargs="+", type=str, help="run files; for a suite, folders of SET.trec")
    add("--data", type=str, default=None, help=SOURCES_HELP)
    add("--split", type=str, default=None, help="whose judgements count; default: test")
    add("--suite", type=str, default=None, help="beir, multireqa, or a YAML file of data sets")
    add("--root", type=str, default=None, help="folder that holds the suite's data sets")
    add("--measures", type=str, default=None, help='such as "nDCG@10 P@1 AP@100 Judged@10"')
    add("--moved", type=int, default=5, help="queries shown that gained and that lost most")
    add("--moved_by", type=str, default=None, help="measure that decides; default: nDCG")
    add(
        "--drop_self",
        type=bool | None,
        default=None,
        help="ignore hits that are the query itself; default: for ArguAna and Quora",
    )
    add("--seed", type=int, default=0, help="of the bootstrap and the randomisation test")
    add("--json", action="store_true", help="print JSON")
    return parser


def _compare(parsed):
    """One comparison per data set; one data set in memory at a time."""
    from samtone_tf.data.sources import load_data
    from samtone_tf.evaluation.comparison import compare_runs
    from samtone_tf.evaluation.measure_names import parse_measures
    from samtone_tf.evaluation.measures import MEASURES
    from samtone_tf.evaluation.trec import read_run

    if parsed.measures:
        parse_measures(parsed.measures)  # raises before anything is read
    settings = {
        "moved_by": parsed.moved_by,
        "num_moved": parsed.moved,
        "seed": parsed.seed,
    }
    names = run_names(parsed.runs)
    if parsed.suite is None:
        runs = {name: read_run(path) for name, path in zip(names, parsed.runs, strict=True)}
        data = load_data(parsed.data, parsed.split or "test")
        settings |= {"measures": parsed.measures or MEASURES, "drop_self": parsed.drop_self}
        yield compare_runs(runs, data, **settings)
        return
    from samtone_tf.evaluation.suite import find_suite, source_of

    suite = find_suite(parsed.suite, parsed.root)
    sets = [one for one in suite.sets if _has_run(one.name, parsed.runs)]
    if not sets:
        raise FileNotFoundError(
            f"None of {', '.join(parsed.runs)} holds a run of the suite {suite.name}, such as "
            f"{suite.sets[0].name}.trec. Name folders like OUT/runs/exact."
        )
    for one in sets:
        files = [Path(folder) / f"{one.name}.trec" for folder in parsed.runs]
        runs = {name: read_run(file) for name, file in zip(names, files, strict=True)}
        data = load_data(source_of(one, parsed.root), one.split)
        dropped = one.drop_self if parsed.drop_self is None else parsed.drop_self
        measures = parsed.measures or suite.measures
        yield compare_runs(runs, data, measures=measures, drop_self=dropped, **settings)


def _has_run(name: str, folders: list[str]) -> bool:
    """Whether all folders hold the run of a set; raises if only some do."""
    there = [folder for folder in folders if (Path(folder) / f"{name}.trec").is_file()]
    if there and len(there) < len(folders):
        lacking = next(folder for folder in folders if folder not in there)
        raise FileNotFoundError(
            f"All folders must hold the same runs. Received: {lacking} without {name}.trec, which "
            f"{there[0]} has. Judge that set, too, or move the other run away."
        )
    return bool(there)


def run_names(paths: list[str]) -> list[str]:
    """Short names for files: their last parts, as few as tell them apart.

    Args:
        paths: as they were given.
    """
    if len(set(paths)) < len(paths):
        raise ValueError(
            f"`runs` must be different files. Received: {', '.join(paths)}. Name each once."
        )
    parts = [Path(path).with_suffix("").parts for path in paths]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    return paths
