"""In-batch softmax, query-side SamToNe and PAIR on the same budget, over several seeds.

One model per (architecture, loss, seed), trained from random weights on the union of the
training pairs of several BEIR folders and judged by exact search on the test queries of each
over its whole corpus. Every run has the same number of steps, the same batches (a function of
the seed) and the same settings; only the loss differs. A run that is in the results file is
not trained again, so a comparison that was cut off goes on where it was.

    python benchmarks/losses_compared.py --data DIR/medquad DIR/dstc9_faq DIR/nq_small \\
        --vocabulary spiece.model --out compared
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

from samtone_tf.config import DataConfig, LossConfig, ModelConfig, RunConfig, TrainConfig
from samtone_tf.data.sources import load_data

LOSSES = ("in_batch_softmax", "samtone", "pair")
MEASURES = ("P@1", "MRR@10", "nDCG@10")


def main() -> None:
    """Trains what is missing, judges it, prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+", type=Path, required=True, help="BEIR folders")
    parser.add_argument("--vocabulary", required=True, help="SentencePiece model")
    parser.add_argument("--out", type=Path, required=True, help="folder for results.jsonl")
    parser.add_argument("--architectures", nargs="+", default=["sde", "ade_spl"])
    parser.add_argument("--losses", nargs="+", default=LOSSES)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=256)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    results = arguments.out / "results.jsonl"
    done = read(results)
    pairs = write_pairs(arguments.data, arguments.out / "pairs.jsonl")
    # Seeds outermost: a comparison that is cut off has seen every loss equally often.
    cases = [
        {"architecture": architecture, "loss": loss, "seed": seed}
        for seed in arguments.seeds
        for architecture in arguments.architectures
        for loss in arguments.losses
    ]
    for case in cases:
        if any(row["case"] == case for row in done):
            continue
        started = time.perf_counter()
        scores = run(case, pairs, arguments)
        row = {"case": case, "seconds": round(time.perf_counter() - started, 1), "scores": scores}
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        done.append(row)
        print(json.dumps(row), flush=True)
    print(table(done))


def read(path: Path) -> list[dict]:
    """Rows of an earlier start."""
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_pairs(folders: list[Path], path: Path) -> Path:
    """The union of the training pairs as one file."""
    with path.open("w", encoding="utf-8") as file:
        for folder in folders:
            data = load_data(f"beir:{folder}", "train")
            for pair in data.pairs():
                query, document = data.queries[pair.query_id], data.documents[pair.document_id]
                line = {"query": query, "document": document}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
    return path


def make_config(case: dict, pairs: Path, arguments) -> RunConfig:
    """The settings, which all runs share but for the three that are compared."""
    return RunConfig(
        data=DataConfig(
            source=f"pairs:{pairs}",
            query_length=24,
            document_length=64,
            vocabulary=arguments.vocabulary,
        ),
        model=ModelConfig(
            architecture=case["architecture"],
            embedding_dim=256,
            hidden_dim=192,
            num_heads=3,
            dtype="mixed_bfloat16",
        ),
        loss=LossConfig(name=case["loss"]),
        train=TrainConfig(
            steps=arguments.steps,
            batch_size=arguments.batch,
            optimizer="adam",
            seed=case["seed"],
            save_every=arguments.steps,
        ),
    )


def run(case: dict, pairs: Path, arguments) -> dict[str, dict[str, float]]:
    """Data set → measure → value of one run."""
    from samtone_tf.export.encoder import export_saved_model
    from samtone_tf.judge import evaluate_model
    from samtone_tf.training.train import train

    with tempfile.TemporaryDirectory() as folder:
        trained = Path(folder) / "run"
        train(make_config(case, pairs, arguments), trained)
        lengths = {"query_length": 24, "document_length": 64}
        saved = export_saved_model(trained, Path(folder) / "1", **lengths)
        scores = {}
        for data in arguments.data:
            judged = evaluate_model(saved, load_data(f"beir:{data}", "test"), search="exact")
            mean = judged.scores["exact"].mean
            scores[data.name] = {name: mean[name] for name in MEASURES}
    return scores


def table(rows: list[dict]) -> str:
    """Mean and standard deviation over the seeds, a line per architecture and loss, in Markdown."""
    names = list(rows[0]["scores"])
    head = ["architecture", "loss", "seeds", *(f"{name} {MEASURES[0]}" for name in names)]
    head += ["mean nDCG@10"]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    groups: dict[tuple, list[dict]] = {}
    for row in rows:
        groups.setdefault((row["case"]["architecture"], row["case"]["loss"]), []).append(row)
    for (architecture, loss), group in groups.items():
        columns = [[row["scores"][name][MEASURES[0]] for row in group] for name in names]
        columns.append(
            [statistics.mean(row["scores"][name]["nDCG@10"] for name in names) for row in group]
        )
        cells = [architecture, loss, str(len(group)), *map(spread, columns)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def spread(values: list[float]) -> str:
    """Mean ± sample standard deviation."""
    if len(values) < 2:
        return f"{values[0]:.4f}"
    return f"{statistics.mean(values):.4f} ± {statistics.stdev(values):.4f}"


if __name__ == "__main__":
    main()
