"""`samtone encode`: a model and a corpus → a folder of vectors."""

from samtone_tf.cli.parser import SOURCES_HELP, make_parser

EXAMPLES = """
samtone encode --model saved_models/faq/1 --data pairs:faq.jsonl --out vectors/faq
samtone encode --model runs/faq --data 'corpus:wiki/*.jsonl.gz' --out vectors/wiki --dtype int8
samtone encode --model runs/faq --data corpus:wiki.jsonl --out vectors/wiki --shards 0:50
samtone encode --model saved_models/faq/1 --data beir:scifact --side query --out vectors/queries
samtone encode --model runs/faq --data corpus:wiki.jsonl --out vectors/wiki --beam --runner Direct
"""


def run(arguments: list[str]) -> None:
    """Parses and encodes."""
    # What follows --beam is Beam's own.
    arguments, pipeline = _split(arguments)
    parser = make_parser(
        "encode",
        "Write the vectors of a corpus to a folder; the same command goes on after a stop.",
        "--model SAVED_MODEL_OR_RUN --data SOURCE --out VECTORS [options]",
        EXAMPLES,
    )
    parser.add_argument("--model", required=True, type=str, help="SavedModel, or run folder")
    parser.add_argument(
        "--data",
        required=True,
        type=str,
        help=f"{SOURCES_HELP}; or corpus:FILES.jsonl, lines as in BEIR's corpus.jsonl, * allowed",
    )
    parser.add_argument("--out", required=True, type=str, help="folder to write, or to go on with")
    parser.add_argument("--side", type=str, default="document", help="document or query")
    parser.add_argument("--dtype", type=str, default="float32", help="float32, float16 or int8")
    parser.add_argument(
        "--shard_size", type=int, default=20_000, help="rows of a file; a kill costs one at most"
    )
    parser.add_argument(
        "--shards", type=str, default=None, help="only these, such as 0:10; default: all"
    )
    parser.add_argument(
        "--batch_tokens",
        type=int,
        default=None,
        help="tokens that a device encodes at a time; default: 2048 on a processor, else 16384",
    )
    parser.add_argument(
        "--length", type=int, default=None, help="tokens of a text; default: the export's"
    )
    parser.add_argument("--checkpoint", type=str, default=None, help="of a run: best or last")
    parser.add_argument(
        "--strategy", type=str, default="auto", help="of a run: auto, one, mirrored or tpu"
    )
    parser.add_argument("--tpu", type=str, default="", help="name or address of the TPU")
    parser.add_argument("--jit_compile", action="store_true", help="let XLA compile each shape")
    parser.add_argument(
        "--beam",
        action="store_true",
        help="run as an Apache Beam pipeline; what follows are its own options, such as --runner",
    )
    parsed = parser.parse_args(arguments)
    shards = parse_shards(parsed.shards)
    if pipeline is not None:
        _run_pipeline(parsed, pipeline)
        return
    from samtone_tf.data.corpus import open_corpus
    from samtone_tf.encoding.encode import check_out, encode_corpus

    # Before the model is loaded, which takes seconds.
    check_out(parsed.out)
    open_corpus(parsed.data, parsed.side)
    from samtone_tf.encoding.models import open_encoder

    encoder = open_encoder(
        parsed.model,
        parsed.side,
        length=parsed.length,
        checkpoint=parsed.checkpoint,
        strategy=parsed.strategy,
        tpu=parsed.tpu,
        jit_compile=parsed.jit_compile,
    )
    encoded = encode_corpus(
        encoder,
        parsed.data,
        parsed.out,
        dtype=parsed.dtype,
        shard_size=parsed.shard_size,
        shards=shards,
        batch_tokens=parsed.batch_tokens,
    )
    print(as_text(encoded, parsed.out))


def parse_shards(text: str | None) -> tuple[int, int | None] | None:
    """`"3:10"` → (3, 10), `"3:"` → (3, None)."""
    if text is None:
        return None
    first, colon, end = text.partition(":")
    if not colon or not first.isdecimal() or not (end.isdecimal() or not end):
        raise ValueError(
            "`shards` must be first:end, such as 0:10 for shards 0 to 9, or 10: for all from 10 "
            f"on. Received: shards={text!r}."
        )
    return int(first), int(end) if end else None


def as_text(encoded, out: str) -> str:
    """What was done, in a few lines."""
    about, missing = encoded.description, encoded.description.num_shards - len(encoded.done)
    side = {"query": "queries", "document": "documents"}[about.side]
    rate = encoded.num_encoded / max(encoded.seconds, 1e-9)
    lines = [f"note: {encoded.num_empty} {side} are empty"] if encoded.num_empty else []
    lines.append(
        f"encoded {encoded.num_encoded:,} {side} in {encoded.seconds:,.1f} s ({rate:,.0f} a second)"
        if encoded.num_encoded
        else "nothing was left to encode"
    )
    if missing:
        lines.append(f"{out} lacks {missing} of {about.num_shards} shards")
        return "\n".join(lines)
    lines.append(
        f"{out} is complete: {about.num_texts:,} {side}, {about.dim} {about.dtype} numbers each"
    )
    if about.dtype != "float32":
        loss = encoded.loss
        lines.append(
            f"cosine with the float32 vectors: {loss.mean_cosine:.6f} in the mean, "
            f"{loss.min_cosine:.6f} at least; no number is off by more than {loss.max_error:.2g}"
        )
    return "\n".join(lines)


def _split(arguments: list[str]) -> tuple[list[str], list[str] | None]:
    """The command's own arguments, and Beam's if it is asked for."""
    if "--beam" not in arguments:
        return arguments, None
    place = arguments.index("--beam")
    return arguments[:place], arguments[place + 1 :]


def _run_pipeline(parsed, pipeline: list[str]) -> None:
    given = {"shards": parsed.shards, "tpu": parsed.tpu or None, "strategy": parsed.strategy}
    for name, value in given.items():
        if value not in (None, "auto", "one"):
            raise ValueError(
                f"`{name}` has no meaning with --beam, whose runner shares the work. "
                f"Received: {name}={value!r}. Leave one of them out."
            )
    from samtone_tf.encoding.beam import encode_with_beam

    try:
        encode_with_beam(
            parsed.model,
            parsed.data,
            parsed.out,
            side=parsed.side,
            dtype=parsed.dtype,
            shard_size=parsed.shard_size,
            batch_tokens=parsed.batch_tokens,
            length=parsed.length,
            checkpoint=parsed.checkpoint,
            jit_compile=parsed.jit_compile,
            pipeline_options=pipeline,
        )
    except RuntimeError as error:
        # A runner wraps what a worker raised, and its whole traceback.
        last = [line for line in str(error).splitlines() if "Error: " in line][-1:]
        if not last:
            raise
        raise ValueError(last[0].partition("Error: ")[2]) from error
    print(f"wrote {parsed.out}")
