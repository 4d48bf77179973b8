"""`evaluate_model`: an exported model on a data set, exact search and an index side by side."""

from pathlib import Path

from samtone_tf.checks import check_choice
from samtone_tf.data.records import RetrievalData
from samtone_tf.evaluation.bm25 import bm25_run
from samtone_tf.evaluation.evaluate import evaluate
from samtone_tf.evaluation.evaluation import Evaluation
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

    Raises:
        ImportError: `"scann"` where it cannot be imported, or BM25 without bm25s.
        FileNotFoundError, ValueError: no model with this package's signatures, or data
            without a judged query.
    """
    check_choice("search", search, KINDS)
    search = resolve_kind(search)
    check_k(depth, "depth")
    encoder = model if isinstance(model, SavedEncoder) else SavedEncoder(model)
    vectors = encoder.encode_document(list(data.documents.values()))
    built = build_index(search, vectors, list(data.documents), model=encoder.fingerprint)
    indexes = [built.exact] if search == "exact" else [built.exact, built.index]
    runs = {}
    if bm25:
        queries = {i: data.queries[i] for i in data.qrels if i in data.queries}
        exclude = self_retrieval_ids(data) if drops_self(data, drop_self) else None
        runs["bm25"] = bm25_run(data.documents, queries, depth, exclude=exclude)
    return evaluate(
        data, encoder.encode_query, indexes, depth=depth, drop_self=drop_self, runs=runs
    )
