"""Tiny replicas of the layouts in which data sets are published."""

import gzip
import json
import sys
import types
from pathlib import Path
from typing import NamedTuple

PASSAGES = {
    "0": "Cats purr when they are content.",
    "1": "Dogs bark at strangers.",
    "007": "Agents drink martinis.",
    "7": "Seven is a prime number.",
}
QUESTIONS = {"10": "who purrs", "11": "who barks", "012": "who drinks martinis"}
ANSWERS = {"10": "0", "11": "1", "012": "007"}


def put(path: Path, text: str, zipped: bool = False) -> Path:
    """Writes a file and the folders above it; with `zipped` as .gz."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if zipped:
        path = path.with_name(path.name + ".gz")
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


def lines(*rows) -> str:
    return "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows)


def tabs(*rows) -> str:
    return "".join("\t".join(row) + "\n" for row in rows)


def write_msmarco(folder: Path, zipped: bool = False) -> str:
    put(folder / "collection.tsv", tabs(*PASSAGES.items()), zipped)
    put(folder / "queries.train.tsv", tabs(*QUESTIONS.items()), zipped)
    put(folder / "queries.dev.tsv", tabs(*QUESTIONS.items()), zipped)
    qrels = [(query, "0", passage, "1") for query, passage in ANSWERS.items()]
    put(folder / "qrels.train.tsv", tabs(*qrels[:2]), zipped)
    put(folder / "qrels.dev.small.tsv", tabs(*qrels[2:]), zipped)
    triples = [("10", "0", "7"), ("11", "1", "7"), ("10", "0", "1")]
    put(folder / "qidpidtriples.train.full.2.tsv", tabs(*triples), zipped)
    return f"msmarco:{folder}"


def write_mrqa(path: Path, *contexts: tuple[str, list[tuple[str, str, str]]], zipped=True) -> Path:
    """A file of MRQA: (context, [(question id, question, answer)])."""
    rows: list = [{"header": {"dataset": "Toy", "split": "dev"}}]
    for text, questions in contexts:
        qas = []
        for qid, question, answer in questions:
            start = text.index(answer)
            span = [start, start + len(answer) - 1]  # both ends belong to it
            found = [{"text": answer, "char_spans": [span], "token_spans": [[0, 0]]}]
            qas.append(
                {"qid": qid, "question": question, "answers": [answer], "detected_answers": found}
            )
        rows.append({"id": "", "context": text, "qas": qas, "context_tokens": []})
    return put(path, lines(*rows), zipped)


def write_candidates(path: Path, *candidates: tuple[str, int, int], zipped=True) -> Path:
    names = ("candidate_id", "response_start", "response_end")
    return put(path, lines(*(dict(zip(names, one, strict=True)) for one in candidates)), zipped)


def write_multireqa(folder: Path, zipped: bool = True) -> str:
    """Two contexts; the second repeats a sentence of the first."""
    one = "Cats purr. Dogs bark at night."
    two = "Cats purr. Owls hoot."
    for split, known in (("train", "train"), ("test", "dev")):
        write_mrqa(
            folder / known / "Toy.jsonl",
            (one, [("aa1", "who purrs", "purr"), ("aa_2", "who barks", "bark")]),
            (two, [("bb3", "who hoots", "hoot")]),
            zipped=zipped,
        )
        write_candidates(
            folder / "data" / split / "Toy" / "candidates.json",
            ("Toy_aa1/_0_0", 0, 10),
            ("Toy_aa1/_0_1", 11, 30),
            ("Toy_bb3/_0_0", 0, 10),
            ("Toy_bb3/_0_1", 11, 21),
            zipped=zipped,
        )
    return f"multireqa:{folder}"


def pair_rows() -> list[dict]:
    return [
        {"question": question, "positive": PASSAGES[ANSWERS[key]], "negative": [PASSAGES["7"]]}
        for key, question in QUESTIONS.items()
    ]


def write_parquet(path: Path, rows: list[dict] | None = None) -> str:
    import pyarrow
    from pyarrow import parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    table = pyarrow.Table.from_pylist(pair_rows() if rows is None else rows)
    parquet.write_table(table, path, row_group_size=2)
    return f"pairs:{path}"


def write_arrow(path: Path, rows: list[dict], stream: bool = True) -> None:
    import pyarrow

    path.parent.mkdir(parents=True, exist_ok=True)
    table = pyarrow.Table.from_pylist(rows)
    new = pyarrow.ipc.new_stream if stream else pyarrow.ipc.new_file
    with pyarrow.OSFile(str(path), "wb") as sink, new(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


def write_saved(folder: Path, rows: list[dict], split: str | None = None, stream=True) -> None:
    """What `Dataset.save_to_disk` writes."""
    write_arrow(folder / "data-00000-of-00001.arrow", rows, stream)
    state = {"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_split": split}
    put(folder / "state.json", json.dumps(state))
    put(folder / "dataset_info.json", "{}")


def write_saved_splits(folder: Path) -> str:
    """What `DatasetDict.save_to_disk` writes."""
    rows = pair_rows()
    write_saved(folder / "train", rows[:2], "train")
    write_saved(folder / "test", rows[2:], "test")
    put(folder / "dataset_dict.json", json.dumps({"splits": ["train", "test"]}))
    return f"pairs:{folder}"


class _Doc(NamedTuple):
    doc_id: str
    title: str
    text: str


class _Query(NamedTuple):
    query_id: str
    text: str


class _Qrel(NamedTuple):
    query_id: str
    doc_id: str
    relevance: int
    iteration: str


class _DocPair(NamedTuple):
    query_id: str
    doc_id_a: str
    doc_id_b: str


class FakeDataset:
    """As much of a data set of `ir_datasets` as is used."""

    def __init__(self, parts: dict[str, list], path: Path | None = None):
        self._parts = parts
        if path:
            self.docs_path = lambda: path

    def __getattr__(self, name: str):
        part, _, ending = name.rpartition("_")
        if name.startswith("has_"):
            return lambda: name.removeprefix("has_") in self._parts
        if ending == "iter":
            return lambda: iter(self._parts[part])
        raise AttributeError(name)


def fake_ir_datasets(monkeypatch, path: Path | None = None) -> types.ModuleType:
    """Puts a module in the place of `ir_datasets`, which knows `toy` and `whole`."""
    docs = [_Doc(key, "", text) for key, text in PASSAGES.items()]
    queries = [_Query(key, text) for key, text in QUESTIONS.items()]
    qrels = [_Qrel(query, doc, 1, "0") for query, doc in ANSWERS.items()]
    texts = {"docs": docs, "queries": queries}
    train = texts | {"qrels": qrels[:2], "docpairs": [_DocPair("10", "0", "7")]}
    module = types.ModuleType("ir_datasets")
    module.registry = {
        "toy": FakeDataset(texts, path),
        "toy/dev/small": FakeDataset(texts | {"qrels": qrels[2:]}, path),
        "toy/train": FakeDataset(train, path),
        "toy/unjudged": FakeDataset(texts, path),
        "toybox/train": FakeDataset(texts, path),
        "whole": FakeDataset(texts | {"qrels": qrels}, path),
    }
    module.load = module.registry.__getitem__
    monkeypatch.setitem(sys.modules, "ir_datasets", module)
    return module
