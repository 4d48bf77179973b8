"""One case of the speed comparison for sentence-transformers: seconds per step, as a line of JSON.

A plain loop of forward, backward and AdamW's fused step around the library's own model and
losses, with token ids made beforehand: no trainer and no collator, which could only add time.
bfloat16 is torch's autocast in training, as the library's trainer has it, and weights of that
type in encoding.
"""

import argparse
import contextlib
import json
import shutil
import tempfile
from pathlib import Path

import torch
import work
from sentence_transformers import SentenceTransformer, losses
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from transformers import T5Config, T5EncoderModel, T5Tokenizer


def main() -> None:
    """Runs the case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=work.CASES)
    parser.add_argument("dtype", choices=work.DTYPES)
    parser.add_argument("folder", type=Path, help="what compare.py wrote")
    parser.add_argument("--steps", type=int, default=5)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        model = make_model(arguments.folder, folder)
    measure = encode if arguments.case == "encode" else train
    print(json.dumps(measure(model, arguments)))


def make_model(data: Path, folder: str) -> SentenceTransformer:
    """The model with random weights, through a checkpoint folder as users load one."""
    config = T5Config(
        vocab_size=work.VOCABULARY,
        d_model=work.HIDDEN,
        d_kv=work.HEAD_DIM,
        d_ff=work.FEEDFORWARD,
        num_layers=work.LAYERS,
        num_heads=work.HEADS,
        dropout_rate=work.DROPOUT,
        feed_forward_proj="gated-gelu",
    )
    T5EncoderModel(config).save_pretrained(folder)
    shutil.copy(data / "spiece.model", folder)
    T5Tokenizer.from_pretrained(folder).save_pretrained(folder)
    transformer = Transformer(folder, max_seq_length=work.DOCUMENT_LENGTH)
    pooling = Pooling(work.HIDDEN, pooling_mode="mean")
    return SentenceTransformer(modules=[transformer, pooling, Normalize()], device="cpu")


def train(model: SentenceTransformer, arguments) -> dict:
    """Seconds of each training step, with dropout and AdamW."""
    case = arguments.case
    scale = 1 / work.TEMPERATURE
    loss = (
        losses.CachedMultipleNegativesRankingLoss(model, scale, mini_batch_size=work.CHUNK)
        if case == "cached"
        else losses.MultipleNegativesRankingLoss(model, scale)
    )
    optimizer = torch.optim.AdamW(model.parameters(), work.RATE, weight_decay=0.0, fused=True)
    tokens = work.read_tokens(arguments.folder)
    model.train()

    def autocast():
        if arguments.dtype == "float32":
            return contextlib.nullcontext()
        return torch.autocast("cpu", dtype=torch.bfloat16)

    def features(ids):
        longest = int((ids != 0).sum(axis=1).max())  # as its collator pads
        ids = torch.from_numpy(ids[:, :longest]).long()
        return {"input_ids": ids, "attention_mask": (ids != 0).long()}

    def step(i: int) -> None:
        rows = work.batch(tokens, case, i)
        with autocast():
            value = loss([features(rows["query"]), features(rows["document"])], None)
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
        float(value)

    first = work.timed(lambda: step(0))
    seconds = [work.timed(lambda i=i: step(i)) for i in range(1, arguments.steps + 1)]
    return {"first": first, "seconds": seconds}


def encode(model: SentenceTransformer, arguments) -> dict:
    """Seconds to encode the documents, from strings to vectors."""
    documents = work.read_documents(arguments.folder)
    if arguments.dtype == "bfloat16":
        model = model.bfloat16()

    def run():
        model.encode(documents, batch_size=work.ENCODE_BATCH, show_progress_bar=False)

    first = work.timed(run)
    return {"first": first, "seconds": [work.timed(run) for _ in range(arguments.steps)]}


if __name__ == "__main__":
    main()
