"""`samtone index`: an exported model and a corpus, or the vectors of one → an index folder."""

from samtone_tf.cli.parser import SOURCES_HELP, make_parser

EXAMPLES = """
samtone index --model saved_models/scifact/1 --data beir:scifact --out indexes/scifact
samtone index --model saved_models/faq/1 --data pairs:faq.jsonl --out indexes/faq --kind exact
samtone index --vectors vectors/wiki --out indexes/wiki --queries vectors/questions
samtone index --model saved_models/web/1 --data beir:web --out indexes/web --num_leaves 2000 \\
              --storage int8
"""

SETTINGS = {
    "num_leaves": (int, "partitions of the corpus; 0 is none"),
    "num_leaves_to_search": (int, "partitions read per question"),
    "reorder": (int, "candidates scored again in --storage; 0 is none"),
    "dims_per_block": (int, "dimensions behind one 4-bit code; 0 is no codes"),
    "anisotropic_threshold": (float, "from 0 to below 1, the T of its quantization"),
    "training_sample_size": (int, "documents that the partitions are learned from"),
}
"""Flags that override what follows from the corpus's size, see `index.scann_settings`."""


def run(arguments: list[str]) -> None:
    """Parses and builds."""
    parser = make_parser(
        "index",
        "Encode a corpus, build an index over it, and measure that against exact search.",
        "(--model SAVED_MODEL --data SOURCE | --vectors VECTORS) --out INDEX [options]",
        EXAMPLES,
    )
    parser.add_argument("--model", type=str, default=None, help="folder of `samtone export`")
    parser.add_argument(
        "--data",
        type=str,
        default=None,
        help=f"{SOURCES_HELP}; with --vectors only for the texts of hits",
    )
    parser.add_argument(
        "--vectors", type=str, default=None, help="folder of `samtone encode`; needs no model"
    )
    parser.add_argument(
        "--queries",
        type=str,
        default=None,
        help="with --vectors: folder of `samtone encode --side query`; they measure the index",
    )
    parser.add_argument("--out", required=True, type=str, help="index folder to write")
    parser.add_argument(
        "--kind", type=str, default="auto", help="scann, exact, or auto: scann where it installs"
    )
    parser.add_argument(
        "--split",
        type=str,
        default=None,
        help="whose queries measure the index; default: the first of test, dev, validation, train",
    )
    parser.add_argument(
        "--storage", type=str, default="float32", help="of the vectors: float32, bfloat16 or int8"
    )
    for name, (kind, what) in SETTINGS.items():
        parser.add_argument(f"--{name}", type=kind | None, default=None, help=f"ScaNN: {what}")
    parser.add_argument("--overwrite", action="store_true", help="replace an index that is there")
    parsed = parser.parse_args(arguments)
    _check_flags(parsed)
    from samtone_tf.index.scann_settings import ScannSettings

    given = {name: parsed[name] for name in SETTINGS if parsed[name] is not None}
    settings = ScannSettings(**given) if given else None
    if parsed.vectors is not None:
        from samtone_tf.vectors_to_index import index_vectors

        built = index_vectors(
            parsed.vectors,
            parsed.out,
            data=parsed.data,
            queries=parsed.queries,
            kind=parsed.kind,
            settings=settings,
            storage=parsed.storage,
            overwrite=parsed.overwrite,
        )
        print(as_text(built.report, parsed.out))
        return
    from samtone_tf.export.saved_encoder import check_saved_model
    from samtone_tf.index.folder import check_new_folder
    from samtone_tf.retriever import Retriever

    check_saved_model(parsed.model)
    check_new_folder(parsed.out, overwrite=parsed.overwrite)
    data = load_split(parsed.data, parsed.split)
    for note in data.notes:
        print(f"note: {note}")
    retriever = Retriever.build(
        parsed.model,
        data,
        parsed.out,
        kind=parsed.kind,
        settings=settings,
        storage=parsed.storage,
        overwrite=parsed.overwrite,
    )
    print(as_text(retriever.report, parsed.out))


def as_text(report, out: str) -> str:
    """What was built, in a line."""
    return (
        f"wrote {out}: {report.num_documents} documents, {report.description}, "
        f"recall@10 {report.recall_at_10:.4f} and recall@100 {report.recall_at_100:.4f} against "
        f"exact search ({report.num_queries} queries, {report.queries})"
    )


def _check_flags(parsed) -> None:
    given = [
        f"--{name}"
        for name in ("model", "data", "vectors", "queries", "split")
        if getattr(parsed, name) is not None
    ]
    wrong = {"--model", "--split"} if parsed.vectors is not None else {"--queries"}
    if wrong & set(given) or (parsed.vectors is None and not {"--model", "--data"} <= set(given)):
        raise ValueError(
            "An index is built from --model and --data (and --split), or from --vectors (and "
            f"--data, --queries). Received: {' '.join(given) or 'neither'}."
        )


def load_split(source: str, split: str | None):
    """The data set with the judgements of `split`, or of the first split that it has."""
    from samtone_tf.data.sources import load_data

    if split is not None:
        return load_data(source, split)
    errors = []
    for name in ("test", "dev", "validation", "train"):
        try:
            return load_data(source, name)
        except ValueError as error:
            errors.append(error)
    raise errors[0]
