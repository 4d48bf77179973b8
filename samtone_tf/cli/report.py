"""`samtone report`: results of any kind → one HTML page that opens offline."""

import shlex

from samtone_tf.cli.parser import make_parser

EXAMPLES = """
samtone report results/gtr --out gtr.html
samtone report results.json comparison.json indexes/faq lengths.json --out report.html
samtone report old/results.json new/results.json --out report.html --title "Old and new" --overwrite
"""


def run(arguments: list[str]) -> None:
    """Parses, reads and writes."""
    parser = make_parser(
        "report",
        "Show results as one HTML page: tables with intervals, comparisons, indexes, histograms.",
        "RESULTS [RESULTS …] --out FILE.html [options]",
        EXAMPLES,
    )
    parser.add_argument(
        "results",
        nargs="+",
        type=str,
        help="JSON of evaluate, compare and inspect, .tsv of single queries, folders of suites "
        "and indexes",
    )
    parser.add_argument("--out", required=True, type=str, help="HTML file, a new one")
    parser.add_argument("--title", type=str, default=None, help="default: what was judged")
    parser.add_argument("--overwrite", action="store_true", help="replace --out if it exists")
    parsed = parser.parse_args(arguments)
    from samtone_tf.analysis.report import write_report

    out = write_report(
        parsed.results,
        parsed.out,
        title=parsed.title,
        overwrite=parsed.overwrite,
        command=shlex.join(["samtone", "report", *arguments]),
    )
    print(f"wrote {out}")
