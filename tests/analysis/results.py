"""Tiny results of every kind as files: made by the functions that make real ones, or literals."""

import json
from dataclasses import asdict, replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np

from samtone_tf.data.lengths import summarise
from samtone_tf.data.records import RetrievalData
from samtone_tf.evaluation.comparison import compare_runs
from samtone_tf.evaluation.evaluate import evaluate
from samtone_tf.evaluation.per_query import write_per_query
from samtone_tf.index.exact import ExactIndex

SCRIPT = '<script>alert("x")</script>'
VOID = {"meta", "br", "hr", "link", "img", "input"}


def data(num=6, source="beir:data/tiny"):
    """Queries whose one relevant document has their number."""
    ids = range(num)
    return RetrievalData(
        source=source,
        split="test",
        queries={f"q{i}": f"question {i} {SCRIPT}" for i in ids},
        documents={f"d{i}": f"text {i}" for i in ids},
        qrels={f"q{i}": {f"d{i}": 1} for i in ids},
    )


def runs(num=6):
    """A run that always finds it first, and one that does so for even numbers."""
    right = {f"q{i}": {f"d{i}": 2.0, f"d{(i + 1) % num}": 1.0} for i in range(num)}
    half = {
        f"q{i}": {f"d{i}": 2.0 if i % 2 == 0 else 1.0, f"d{(i + 1) % num}": 1.5} for i in range(num)
    }
    return {"right": right, "half": half}


def evaluation(path, *, model="saved/one/1", source="beir:data/tiny", per_query=None):
    """A file as `samtone evaluate --out` writes it: exact search and two runs."""
    table = data(source=source)
    index = ExactIndex.build(np.eye(6, dtype=np.float32), list(table.documents))
    found = evaluate(
        table,
        lambda texts: np.eye(6, dtype=np.float32)[[int(text.split()[1]) for text in texts]],
        [index],
        runs=runs(),
        measures="P@1 nDCG@10",
    )
    found = replace(found, model={"folder": model, "fingerprint": "f", "lengths": {"query": 64}})
    if per_query:
        write_per_query(found.scores, per_query)
    content = {**found.to_json(), "per_query": str(per_query) if per_query else None}
    return write(path, content)


def comparison(path, source="beir:data/tiny"):
    """A file as `samtone compare --json` prints it."""
    found = compare_runs(
        {name: run for name, run in reversed(runs().items())},
        data(source=source),
        measures="nDCG@10 P@1",
    )
    return write(path, found.to_json())


def score(value, low=None, high=None, n=10):
    return {"value": value, "low": low, "high": high, "n": n}


def suite(path, *, model="saved/one/1", values=((0.5, 0.75), (0.25, 0.125)), published=True):
    """`results.json` of two sets and two systems; `values` are (set, system)."""
    names, systems = ("first", "second"), ("exact", "bm25")
    rows = [
        [
            {"system": system, "scores": {"nDCG@10": score(v, v - 0.05, v + 0.05)}}
            for system, v in zip(systems, row, strict=True)
        ]
        for row in values
    ]
    means = np.mean(values, axis=0).tolist()
    averages = [
        {"system": system, "scores": {"nDCG@10": score(mean, mean - 0.01, mean + 0.01, 2)}}
        for system, mean in zip(systems, means, strict=True)
    ]
    reference = {
        "system": "GTR",
        "measure": "nDCG@10",
        "source": "A paper & its table",
        "scores": {"first": 0.6, "second": 0.4},
        "average": 0.5,
    }
    content = {
        "format": 2,
        "kind": "suite",
        "suite": "two sets",
        "model": {"folder": model, "fingerprint": "f", "lengths": {}},
        "measures": ["nDCG@10"],
        "interval": {"level": 0.95, "method": "m", "draws": 10, "seed": 0},
        "systems": list(systems),
        "sets": [
            {"set": name, "parts": [name], "num_queries": 10, "rows": row}
            for name, row in zip(names, rows, strict=True)
        ],
        "averages": {"over": 2, "rows": averages},
        "references": [reference] if published else [],
        "missing": [],
    }
    return write(path, content)


def point(recall, speed, **more):
    return {
        "search": "tree + codes + reorder",
        "num_leaves": 100,
        "num_leaves_to_search": 10,
        "reorder": 60,
        "recall_at_10": recall,
        "batched_qps": speed,
        "single_qps": None,
        "build_seconds": 1.5,
        "bytes_per_vector": 640.0,
        "ndcg_at_10": None,
        "ndcg_at_10_lost": None,
        "on_frontier": True,
        "chosen": False,
        **more,
    }


def tuned(folder):
    """An index folder's `tuning.json` and `report.json`."""
    exact = point(1.0, 200.0, search="exact", num_leaves=0, reorder=0, on_frontier=False)
    content = {
        "target": 0.99,
        "reached": True,
        "num_documents": 60_000,
        "dim": 256,
        "num_queries": 1000,
        "queries": "given",
        "compared_with": "float32 vectors",
        "exact": exact,
        "points": [
            point(0.9, 9000.0),
            point(0.992, 5000.0, chosen=True, num_leaves_to_search=53),
            point(0.991, 3000.0, on_frontier=False),
            point(1.0, 1500.0),
        ],
    }
    report = {
        "kind": "scann",
        "search": "tree + codes + reorder",
        "num_documents": 60_000,
        "dim": 256,
        "recall_at_10": 0.992,
        "recall_at_100": 0.98,
        "num_queries": 1000,
        "queries": "given",
        "ms_per_query": 0.25,
        "settings": {"num_leaves": 100},
    }
    write(folder / "tuning.json", content)
    write(folder / "report.json", report)
    return folder


def inspection(path):
    """What matters of `samtone inspect --json`."""
    lengths = {
        "query_lengths": asdict(summarise(np.array([3, 9, 12, 20]), 64, of=4)),
        "document_lengths": asdict(summarise(np.array([30, 100, 300, 600]), 200, of=4)),
    }
    return write(path, {"source": "beir:x", "split": "train", "tokens": "v.spm", **lengths})


def write(path, content):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


class Page(HTMLParser):
    """A page as a parser sees it: elements with their texts; raises where tags do not match."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.elements, self._open = [], []
        self.feed(html)
        self.close()
        assert not self._open, f"not closed: {[name for name, _, _ in self._open]}"

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs), f"{tag}: an attribute twice"
        element = (tag, dict(attrs), [])
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag):
        assert self._open, f"</{tag}> closes nothing"
        assert self._open[-1][0] == tag, f"</{tag}> closes <{self._open[-1][0]}>"
        self._open.pop()

    def handle_data(self, data):
        for _, _, texts in self._open:
            texts.append(data)

    def all(self, tag, **attributes):
        """(attributes, text) of the elements of a kind."""
        return [
            (attrs, "".join(texts))
            for name, attrs, texts in self.elements
            if name == tag and all(attrs.get(key) == value for key, value in attributes.items())
        ]

    def texts(self, tag, **attributes):
        return [text for _, text in self.all(tag, **attributes)]

    def rows(self):
        """Cells of all rows of all tables."""
        found = []
        for tag, _, texts in self.elements:
            if tag == "tr":
                found.append([])
            elif tag in ("td", "th"):
                found[-1].append("".join(texts))
        return found
