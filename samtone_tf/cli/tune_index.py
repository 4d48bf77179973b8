"""`samtone tune-index`: the fastest settings of an index with a wanted recall."""

from pathlib import Path

from samtone_tf.cli.parser import SOURCES_HELP, make_parser

EXAMPLES = """
samtone tune-index indexes/faq --recall 0.99 --data pairs:faq.jsonl
samtone tune-index indexes/web --queries questions.txt --num_leaves 1000 2000 4000
"""


def run(arguments: list[str]) -> None:
    """Parses, tunes and prints the frontier."""
    parser = make_parser(
        "tune-index",
        "Measure settings of a ScaNN index, and keep the fastest with the wanted recall.",
        "INDEX [--recall 0.99] [--data SOURCE | --queries FILE] [options]",
        EXAMPLES,
    )
    parser.add_argument("index", type=str, help="index folder of `samtone index`; replaced whole")
    parser.add_argument(
        "--recall", type=float, default=0.99, help="wanted share of the 10 best documents"
    )
    parser.add_argument(
        "--data", type=str, default=None, help=f"whose judged queries to use: {SOURCES_HELP}"
    )
    parser.add_argument(
        "--split", type=str, default=None, help="of --data; default: test, dev or train"
    )
    parser.add_argument(
        "--queries",
        type=str,
        default=None,
        help="questions, one a line, or a .npy file of their vectors; without this and --data, "
        "documents are perturbed",
    )
    parser.add_argument(
        "--num_leaves",
        type=int,
        nargs="+",
        default=[],
        help="build again with so many partitions, too; 0 is none",
    )
    parser.add_argument("--model", type=str, default=None, help="the model, if it was moved")
    parsed = parser.parse_args(arguments)
    from samtone_tf.cli.index import load_split
    from samtone_tf.tuning import tune_index

    data = None if parsed.data is None else load_split(parsed.data, parsed.split)
    frontier = tune_index(
        parsed.index,
        recall=parsed.recall,
        data=data,
        queries=None if parsed.queries is None else read_query_file(parsed.queries),
        num_leaves=parsed.num_leaves,
        model=parsed.model,
    )
    folder = Path(parsed.index)
    print((folder / "tuning.md").read_text(encoding="utf-8"), end="")
    print(f"wrote {folder / 'tuning.json'} and {folder / 'tuning.md'}")
    if (folder / "tuning.png").exists():
        print(f"plot: {folder / 'tuning.png'}")
    else:
        print("no plot: matplotlib is not installed; pip install samtone-tf[analysis]")
    print(frontier.message())


def read_query_file(name: str):
    """Vectors of a .npy file, or the lines of a text file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a .npy file that holds no array of numbers.
    """
    path = Path(name)
    if not path.is_file():
        raise FileNotFoundError(
            f"`queries` must be a file. Received: {name}, which does not exist. Write questions "
            "into it, one a line."
        )
    if path.suffix != ".npy":
        return path.read_text(encoding="utf-8").splitlines()
    import numpy as np

    try:
        return np.load(path, allow_pickle=False)
    except ValueError as error:
        raise ValueError(
            f"`queries` must be questions or an array of floats. Received: {name}, which NumPy "
            "cannot read. Write it with numpy.save."
        ) from error
