"""`samtone convert`: a run or a published checkpoint → what another tool loads, or a run folder."""

from samtone_tf.cli.parser import make_parser

EXAMPLES = """
samtone convert runs/scifact hub/scifact --to sentence-transformers --license apache-2.0
samtone convert runs/scifact hub/scifact-t5 --to huggingface --checkpoint last
samtone convert st:sentence-transformers/gtr-t5-base runs/gtr --to keras
samtone convert hf:google/t5-v1_1-base runs/start --to keras --architecture ade_spl
samtone convert best.keras hub/best --to sentence-transformers --vocabulary vocabulary.spm
"""


def run(arguments: list[str]) -> None:
    """Parses and converts."""
    parser = make_parser(
        "convert",
        "Write a trained or published model for another tool, or as a run folder.",
        "SOURCE OUT --to TARGET [options]",
        EXAMPLES,
    )
    parser.add_argument(
        "source",
        type=str,
        help="run folder, .keras file, or hf:, keras_hub:, t5_tf: or st: and a place",
    )
    parser.add_argument("out", type=str, help="folder to write; must be new or empty")
    parser.add_argument(
        "--to", type=str, required=True, help="sentence-transformers, huggingface or keras"
    )
    parser.add_argument(
        "--architecture",
        type=str | list[str] | None,
        default=None,
        help="sde, ade_spl, ade_ste, ade, or a list of shared parts; default: the source's",
    )
    parser.add_argument(
        "--checkpoint",
        type=str | None,
        default=None,
        help="best or last; default: the best where the run was validated, else the last",
    )
    parser.add_argument(
        "--vocabulary",
        type=str | None,
        default=None,
        help="SentencePiece model, for a source without one, such as a .keras file",
    )
    parser.add_argument("--license", type=str, default="unknown", help="for the model card")
    for side, default in (("query", 64), ("document", 512)):
        parser.add_argument(
            f"--{side}_length",
            type=int | None,
            default=None,
            help=f"tokens of a {side}; default: the source's, or {default}",
        )
    parsed = parser.parse_args(arguments)
    from samtone_tf.training.convert import convert

    options = parsed.as_dict()
    out = convert(options.pop("source"), options.pop("out"), options.pop("to"), **options)
    print(f"wrote {out}")
    if parsed.to == "keras":
        print(f"next: samtone export {out} saved_models/NAME/1")
    elif parsed.to == "huggingface" and list(out.rglob("projection.safetensors")):
        print("T5 has no place for the projection: it lies beside, in projection.safetensors")
