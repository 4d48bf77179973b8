"""`samtone plan`: what a training step needs on each device, before anything is built."""

from samtone_tf.cli.parser import make_parser
from samtone_tf.config import ModelConfig

EXAMPLES = """
samtone plan --model.size t5.1.1-xxl --strategy tpu --replicas 8 --batch 512
samtone plan --model.size t5.1.1-base --device gpu-t4 --batch 64
samtone plan --model.size t5.1.1-large --model.lora_rank 8 --memory 24 --batch 256 --chunk 16
samtone plan --model.size t5.1.1-base --model.architecture ade --model.dtype mixed_bfloat16 \\
             --negatives 1 --optimizer adam --device gpu-a100-40
"""


def run(arguments: list[str]) -> None:
    """Parses, counts and prints."""
    parser = make_parser(
        "plan",
        "Parameters and memory of a training step, from formulas: does it fit, and what if not.",
        "--model.size SIZE --batch PAIRS [options]",
        EXAMPLES,
    )
    parser.add_argument("--batch", type=int, default=256, help="pairs, over all replicas")
    parser.add_argument("--replicas", type=int, default=1, help="devices that share the batch")
    parser.add_argument(
        "--strategy", type=str, default="auto", help="tpu plans for tpu-v2, others for gpu-t4"
    )
    parser.add_argument(
        "--device",
        type=str,
        default=None,
        help="tpu-v2, tpu-v3, tpu-v4, tpu-v5e, tpu-v5p, tpu-v6e, gpu-t4, gpu-l4, gpu-a100-40, "
        "gpu-a100-80 or gpu-h100",
    )
    parser.add_argument(
        "--memory", type=float, default=None, help="GB of one replica, instead of a device's"
    )
    parser.add_argument("--optimizer", type=str, default="adafactor", help="adafactor, adam or sgd")
    parser.add_argument("--query_length", type=int, default=64, help="tokens of a query")
    parser.add_argument("--document_length", type=int, default=256, help="tokens of a document")
    parser.add_argument("--negatives", type=int, default=0, help="hard negatives per query")
    parser.add_argument(
        "--chunk", type=int, default=None, help="as --train.gradient_cache_chunk: pairs at a time"
    )
    parser.add_argument(
        "--vocabulary_size", type=int, default=8000, help="pieces; T5 sizes have 32,128 rows"
    )
    parser.add_class_arguments(ModelConfig, "model", skip={"init"})
    parsed = parser.instantiate(parser.parse_args(arguments))
    from samtone_tf.training.plan import plan

    print(
        plan(
            parsed.model,
            batch_size=parsed.batch,
            replicas=parsed.replicas,
            query_length=parsed.query_length,
            document_length=parsed.document_length,
            num_negatives=parsed.negatives,
            optimizer=parsed.optimizer,
            gradient_cache_chunk=parsed.chunk,
            vocabulary_size=parsed.vocabulary_size,
            strategy=parsed.strategy,
            device=parsed.device,
            memory=parsed.memory,
        )
    )
