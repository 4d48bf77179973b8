"""`samtone quickstart`: the whole job on docstrings, in minutes, without downloads.

Trains the same small model twice, once with in-batch softmax and once with SamToNe,
and judges both, the untrained model and BM25 on held-out pairs over the whole corpus.
"""

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path

from samtone_tf.cli.parser import make_parser
from samtone_tf.config import DataConfig, LossConfig, ModelConfig, RunConfig, TrainConfig
from samtone_tf.output_folder import check_new

EXAMPLES = """
samtone quickstart
samtone quickstart --out /tmp/quickstart --overwrite
samtone quickstart --train.steps 20
"""

RESULTS = "results.json"
MARKER = ("started.txt", "A folder of `samtone quickstart`; --overwrite replaces all of it.\n")
MODELS = ("BM25", "untrained", "in-batch softmax", "SamToNe")
MEASURES = ("P@1", "MRR", "nDCG@10", "R@100")
NUM_SEARCHES = 5

# Chosen out of some twenty settings, the first half of them judged on the held-out pairs
# and the rest on a part of the training pairs. Adafactor scales its steps by each weight's
# size, which suits a token table drawn from N(0, 1): Adam at 1e-3 hardly moves it.
CONFIG = RunConfig(
    data=DataConfig(source="docstrings", query_length=24, document_length=96),
    model=ModelConfig(
        num_layers=1, num_heads=4, head_dim=32, feedforward_dim=256, embedding_dim=256, dropout=0.0
    ),
    loss=LossConfig(temperature=0.05),
    train=TrainConfig(
        steps=240, batch_size=256, optimizer="adafactor", learning_rate=0.05, report_every=50
    ),
)


def run(arguments: list[str]) -> None:
    """Parses and runs the job."""
    parser = make_parser(
        "quickstart",
        "Train, export, index, search and evaluate on docstrings of installed packages.",
        "[--out DIR] [options]",
        EXAMPLES,
    )
    parser.add_argument("--out", type=str, default="quickstart", help="folder to write")
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier quickstart")
    parser.add_argument(
        "--train.steps", type=int, default=CONFIG.train.steps, help="updates of each model"
    )
    parsed = parser.parse_args(arguments)
    out = prepare(Path(parsed.out), parsed.overwrite)
    config = replace(CONFIG, train=replace(CONFIG.train, steps=parsed.train.steps))
    rows, searches = job(config, out)
    (out / RESULTS).write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    print(f"\n{table(rows)}\n\n{searches}")
    print(f"wrote {out}: results.json, runs/, saved_models/, indexes/")


def prepare(out: Path, overwrite: bool) -> Path:
    """An empty folder to write to.

    Raises:
        FileExistsError: it holds something, and is no earlier quickstart to replace.
    """
    import importlib.util

    if importlib.util.find_spec("bm25s") is None:
        raise ImportError(
            "The quickstart compares with BM25, which needs bm25s: pip install 'samtone-tf[mining]'"
        )
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        # A whole folder is removed below: only one with our own words in it.
        marker = out / MARKER[0]
        ours = marker.is_file() and marker.read_bytes() == MARKER[1].encode()
        if not (overwrite and ours):
            check_new(out, "out", "Choose another, or replace an earlier one with --overwrite.")
        shutil.rmtree(out)
    out.mkdir(parents=True, exist_ok=True)
    (out / MARKER[0]).write_bytes(MARKER[1].encode())
    return out


def job(config: RunConfig, out: Path) -> tuple[list[dict], str]:
    """Trains, exports, judges; returns the table's rows and the example searches."""
    from samtone_tf.data.fingerprints import split_fingerprint
    from samtone_tf.data.sources import load_data
    from samtone_tf.export.encoder import write_saved_model
    from samtone_tf.training.train import make_model, make_tokenizer, train

    started = time.perf_counter()
    training, held_out = (load_data(config.data.source, split) for split in ("train", "test"))
    say(
        started,
        f"{len(training.qrels)} training pairs; {len(held_out.qrels)} held-out pairs "
        f"(hash {split_fingerprint(held_out)}) over {len(held_out.documents)} documents",
    )
    tokenizer = make_tokenizer(config, training)
    say(started, f"vocabulary of {tokenizer.vocabulary_size} pieces trained")
    lengths = dict(
        query_length=config.data.query_length, document_length=config.data.document_length
    )
    losses = {"untrained": None, "in-batch softmax": "in_batch_softmax", "SamToNe": "samtone"}
    rows = [bm25_row(held_out)]
    say(started, "BM25 judged")
    for name, loss in losses.items():
        folder = name.lower().replace(" ", "_").replace("-", "_")
        if loss is None:
            model = make_model(config, tokenizer)
        else:
            temperature = config.loss.temperature
            chosen = replace(config, loss=LossConfig(name=loss, temperature=temperature))
            model = train(chosen, out / "runs" / folder, data=training, tokenizer=tokenizer)
            say(started, f"{name} trained")
        saved = write_saved_model(model, tokenizer, out / "saved_models" / folder / "1", **lengths)
        rows.append(judge(name, saved, held_out))
        say(started, f"{name} exported and judged")
    return rows, search(saved, held_out, out / "indexes" / folder)


def bm25_row(data) -> dict:
    """BM25 on the held-out queries."""
    from samtone_tf.evaluation.bm25 import bm25_run
    from samtone_tf.evaluation.measures import measure

    queries = {query_id: data.queries[query_id] for query_id in data.qrels}
    mean = measure(bm25_run(data.documents, queries), data.qrels).mean
    return {"model": "BM25", **{name: mean[name] for name in MEASURES}}


def judge(name: str, saved: Path, data) -> dict:
    """An export on the held-out queries, by exact search; with ScaNN's recall beside it."""
    from samtone_tf.judge import evaluate_model

    result = evaluate_model(saved, data)
    mean = result.scores["exact"].mean
    recall = result.index_recall.get("scann", {})
    return {
        "model": name,
        **{measure: mean[measure] for measure in MEASURES},
        "ScaNN recall@10": recall.get("recall@10"),
        "ScaNN recall@100": recall.get("recall@100"),
    }


def search(saved: Path, data, index: Path) -> str:
    """Five held-out questions and what the last model finds."""
    from samtone_tf.cli.search import as_text
    from samtone_tf.retriever import Retriever

    retriever = Retriever.build(saved, data, index)
    # Spread over the held-out queries, and not picked by hand.
    chosen = list(data.qrels)[:: max(1, len(data.qrels) // NUM_SEARCHES)][:NUM_SEARCHES]
    queries = [data.queries[query_id] for query_id in chosen]
    lines = [f"Five held-out questions, by {retriever.report.description}:\n"]
    for query_id, query, hits in zip(chosen, queries, retriever.search(queries, 3), strict=True):
        answer = ", ".join(data.qrels[query_id])
        lines.append(as_text(f"{query}   (written for {answer})", hits))
    return "\n".join(lines)


def table(rows: list[dict]) -> str:
    """The rows as text columns; `-` where a model has no such number."""
    names = list(rows[-1])
    cells = [names] + [[show(row.get(name)) for name in names] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in cells
    )


def show(value: str | float | None) -> str:
    """One cell of the table."""
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:.4f}"


def say(started: float, message: str) -> None:
    """A line with the seconds since the start."""
    print(f"[{time.perf_counter() - started:5.0f} s] {message}", flush=True)
