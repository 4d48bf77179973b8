"""`samtone export`: a run folder → a SavedModel."""

from samtone_tf.cli.parser import make_parser

EXAMPLES = """
samtone export runs/scifact saved_models/scifact/1
samtone export runs/scifact saved_models/scifact/2 --checkpoint last
samtone export runs/faq saved_models/faq/1 --query_length 32 --document_length 128
"""


def run(arguments: list[str]) -> None:
    """Parses and exports."""
    parser = make_parser(
        "export",
        "Write the SavedModel of a trained run: strings in, unit vectors out.",
        "RUN SAVED_MODEL [options]",
        EXAMPLES,
    )
    parser.add_argument("run", type=str, help="run folder of `samtone train`")
    parser.add_argument("saved_model", type=str, help="folder to write: saved_models/NAME/VERSION")
    parser.add_argument(
        "--checkpoint",
        type=str,
        default=None,
        help="best or last; default: the best where the run was validated, else the last",
    )
    parser.add_argument("--query_length", type=int, default=64, help="tokens of a query")
    parser.add_argument("--document_length", type=int, default=512, help="tokens of a document")
    parsed = parser.parse_args(arguments)
    from samtone_tf.export.encoder import export_saved_model
    from samtone_tf.training.run_folder import choose_checkpoint

    checkpoint = choose_checkpoint(parsed.run, parsed.checkpoint)
    export_saved_model(
        parsed.run,
        parsed.saved_model,
        checkpoint=parsed.checkpoint,
        query_length=parsed.query_length,
        document_length=parsed.document_length,
    )
    print(f"wrote {parsed.saved_model}: encode_query, encode_document (text → embedding)")
    print(f"from {checkpoint}")
    if not parsed.saved_model.rstrip("/").rsplit("/", 1)[-1].isdigit():
        print("note: TF Serving only finds versions, folders with a whole number as their name")
