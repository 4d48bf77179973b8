"""`evaluate_model`: an exported model on a data set, exact search and an index side by side."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from samtone_tf.checks import check_choice
from samtone_tf.data.records import RetrievalData
from samtone_tf.evaluation.bm25 import bm25_run
from samtone_tf.evaluation.evaluate import evaluate
from samtone_tf.evaluation.evaluation import Evaluation
from samtone_tf.evaluation.measure_names import parse_measures
from samtone_tf.evaluation.measures import MEASURES
from samtone_tf.evaluation.retrieval import drops_self, self_retrieval_ids
from samtone_tf.export.saved_encoder import SavedEncoder
from samtone_tf.index.base import check_k
from samtone_tf.index.store import KINDS, build_index, resolve_kind


def evaluate_model(
    model: str | Path | SavedEncoder,
    data: RetrievalData,
    *,
    search: str = "auto",
    depth: int = 1000,
    drop_self: bool | None = None,
    bm25: bool = False,
    measures: str | Iterable[str] = MEASURES,
    seed: int = 0,
) -> Evaluation:
    """Encodes a corpus and its judged queries, searches, and judges the runs.

    Exact search is always among the rows: it shows the model, and the difference to
    it shows the index.

    Args:
        model: folder of an exported model, or one that is loaded.
        data: corpus, queries and judgements.
        search: `"scann"`, `"exact"` alone, or `"auto"`: ScaNN where it can be imported.
        depth: documents per query in each run.
        drop_self: leave out the document that is the query itself; None does so for
            ArguAna and Quora, by the name of the source.
        bm25: add a row for BM25; needs the extra `mining`.
        measures: names of ir_measures, a list or one string, such as `"nDCG@10 P@1"`.
        seed: of the bootstrap.

    Raises:
        ImportError: `"scann"` where it cannot be imported, or BM25 without bm25s.
        FileNotFoundError, ValueError: no model with this package's signatures, or data
            without a judged query.
    """
    measures = check_arguments(search, depth, measures)
    search = resolve_kind(search)
    encoder = model if isinstance(model, SavedEncoder) else SavedEncoder(model)
    runs = {}
    if bm25:  # first: where bm25s is missing, that is said before the corpus is encoded
        queries = {i: data.queries[i] for i in data.qrels if i in data.queries}
        exclude = self_retrieval_ids(data) if drops_self(data, drop_self) else None
        runs["bm25"] = bm25_run(data.documents, queries, depth, exclude=exclude)
    vectors = encoder.encode_document(list(data.documents.values()))
    built = build_index(search, vectors, list(data.documents), model=encoder.fingerprint)
    indexes = [built.exact] if search == "exact" else [built.exact, built.index]
    result = evaluate(
        data,
        encoder.encode_query,
        indexes,
        depth=depth,
        drop_self=drop_self,
        runs=runs,
        measures=measures,
        seed=seed,
    )
    return replace(result, model=model_json(encoder))


def check_arguments(search: str, depth: int, measures: str | Iterable[str]) -> list[str]:
    """Raise what `evaluate_model` would for these, before anything is read; return the names.

    Args:
        search: as for `evaluate_model`.
        depth: as for `evaluate_model`.
        measures: as for `evaluate_model`.
    """
    check_choice("search", search, KINDS)
    check_k(depth, "depth")
    return list(parse_measures(measures))


def model_json(encoder: SavedEncoder) -> dict[str, Any]:
    """What results say of the model: where it was, its fingerprint, its lengths.

    Args:
        encoder: the model.
    """
    return {
        "folder": str(encoder.folder),
        "fingerprint": encoder.fingerprint,
        "lengths": dict(encoder.lengths),
    }
