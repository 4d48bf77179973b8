"""`tune_index`: an index folder on disk → the same index under the fastest good settings."""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from samtone_tf.data.records import RetrievalData
from samtone_tf.index.base import Index, check_k, check_vectors
from samtone_tf.index.exact import ExactIndex
from samtone_tf.index.folder import folder_bytes, new_folder, write_json
from samtone_tf.index.frontier import Frontier, write_frontier
from samtone_tf.index.report import MAX_QUERIES, index_report
from samtone_tf.index.scann import ASSETS, ScannIndex
from samtone_tf.index.scann_settings import ScannSettings, scann_settings
from samtone_tf.index.store import load_index
from samtone_tf.index.tuning import Candidate, Quality, Tuned, perturbed, rebuilt, tune

REPLACED = ("index.json", "report.json", "tuning.json", "tuning.md", "tuning.png")
"""Files of the folder that a tuned index writes anew."""


class _Queries(NamedTuple):
    vectors: np.ndarray
    words: str  # what they are
    quality: Quality | None


def tune_index(
    folder: str | Path,
    *,
    recall: float = 0.99,
    data: RetrievalData | None = None,
    queries: Sequence[str] | np.ndarray | None = None,
    num_leaves: Sequence[int] = (),
    model: str | Path | None = None,
    seed: int = 0,
) -> Frontier:
    """Measures settings of a ScaNN index, and saves the fastest with the wanted recall@10.

    From then on `load_index` and `samtone search` use it. The folder is replaced whole, by
    one with `tuning.json`, `tuning.md` and, where matplotlib is installed, `tuning.png`.

    Args:
        folder: of an index that `samtone index` or `build_index` wrote.
        recall: wanted share of the 10 best documents by exact search, in (0, 1].
        data: its judged queries, at most 1,000, are searched, and nDCG@10 is measured on them.
        queries: texts, or vectors `(B, D)` of the index's model, in place of `data`. Without
            either, documents are perturbed, and everything written says so.
        num_leaves: numbers of partitions to build the index again with; 0 is none.
        model: folder of the exported model, if it is no longer where it was. It is loaded for
            texts only.
        seed: of the draw of queries.

    Raises:
        FileNotFoundError: no index there, or its model is gone.
        ValueError: an index that has nothing to tune.

    Example:

    >>> tune_index("indexes/faq", data=load_data("beir:faq", "test")).message()  # doctest: +SKIP
    'chosen: 20 of 100 leaves, reorder 100: recall@10 0.9912 at 8,125 queries/s batched'
    """
    _check_arguments(recall, data, queries, num_leaves)
    folder = Path(folder)
    index = load_index(folder)
    if not isinstance(index, ScannIndex):
        raise ValueError(
            f"`folder` must hold a ScaNN index. Received: {folder}, of kind {index.kind!r}, "
            "which loses nothing and has nothing to tune. Build it with --kind scann."
        )
    if index.vectors is None:
        raise ValueError(
            f"`folder` must hold an index that keeps vectors. Received: {folder}, with codes only "
            "(reorder=0). Build it again with --reorder 500 or so."
        )
    for number in num_leaves:  # what does not fit is refused before anything is measured
        scann_settings(index.num_documents, index.dim, ScannSettings(num_leaves=number))
    exact = ExactIndex(index.vectors, index.document_ids, index.model)
    chosen = _queries(folder, exact, data, queries, model, seed)
    tuned = tune(
        _candidates(folder, index, exact, num_leaves),
        exact,
        chosen.vectors,
        recall=recall,
        queries_are=chosen.words,
        quality=chosen.quality,
    )
    _save(folder, tuned, exact, chosen)
    return tuned.frontier


def _check_arguments(recall: Any, data: Any, queries: Any, num_leaves: Sequence[int]) -> None:
    if isinstance(recall, bool) or not isinstance(recall, int | float):
        raise TypeError(f"`recall` must be a number. Received: recall={recall!r}. Pass 0.99.")
    if not 0 < recall <= 1:
        raise ValueError(
            f"`recall` must be above 0 and at most 1. Received: recall={recall}. Pass 0.99."
        )
    if data is not None and queries is not None:
        raise ValueError(
            "`data` and `queries` cannot both be given. Received: both. Leave one of them out."
        )
    if isinstance(queries, str | bytes):
        raise TypeError(f"`queries` must be a list of strings. Received: {queries!r}.")
    for number in num_leaves:
        if number != 0:
            check_k(number, "num_leaves")


def _candidates(
    folder: Path, index: ScannIndex, exact: ExactIndex, num_leaves: Sequence[int]
) -> Iterator[Candidate]:
    own = folder_bytes(folder / ASSETS) / index.num_documents
    yield Candidate(index, _old_report(folder).get("build_seconds"), own)
    for number in dict.fromkeys(num_leaves):
        yield rebuilt(index, exact, number)


def _queries(
    folder: Path,
    exact: ExactIndex,
    data: RetrievalData | None,
    queries: Sequence[str] | np.ndarray | None,
    model: str | Path | None,
    seed: int,
) -> _Queries:
    """The vectors to search with, at most 1,000 of them, and the judge of nDCG@10 on them."""
    if data is None and queries is None:
        vectors = perturbed(exact, MAX_QUERIES, seed)
        words = "made up: documents of the corpus, perturbed, for no queries were given"
        return _Queries(vectors, words, None)
    if isinstance(queries, np.ndarray):
        given = check_vectors(queries, "queries", exact.dim)
        return _Queries(_some(given, seed), "given as vectors", None)
    encoder = _encoder(folder, exact, model)
    if queries is not None:
        texts = [text for text in queries if text.strip()]
        if not texts:
            raise ValueError("`queries` must hold a question. Received: none.")
        return _Queries(encoder.encode_query(_some(texts, seed)), "given", None)
    judged = [
        i for i, grades in data.qrels.items() if i in data.queries and max(grades.values()) > 0
    ]
    if not judged:
        raise ValueError(
            f"`data` must judge a query whose text is there. Received: {data.source}, split "
            f"{data.split}, with none. Choose another split."
        )
    judged = _some(judged, seed)
    vectors = encoder.encode_query([data.queries[i] for i in judged])
    words = f"judged queries of {data.source}, split {data.split}"
    return _Queries(vectors, words, _quality(data, judged, vectors, exact))


def _quality(
    data: RetrievalData, judged: list[str], vectors: np.ndarray, exact: ExactIndex
) -> Quality:
    """nDCG@10 on the judged queries, as `evaluate` measures it."""
    from samtone_tf.evaluation.measures import measure
    from samtone_tf.evaluation.retrieval import drops_self, search_run, self_retrieval_ids

    qrels = {query_id: data.qrels[query_id] for query_id in judged}
    relevant = {i for grades in qrels.values() for i, grade in grades.items() if grade > 0}
    if relevant.isdisjoint(exact.rows):
        raise ValueError(
            "`data` must judge documents of the index. Received: none of the "
            f"{len(relevant)} relevant documents of {data.source} is in it. "
            "Use the data the index was made from."
        )
    exclude = self_retrieval_ids(data) if drops_self(data) else {}

    def quality(index: Index) -> float:
        run = search_run(index, judged, vectors, 10, exclude=exclude)
        return measure(run, qrels, ["nDCG@10"]).mean["nDCG@10"]

    return quality


def _encoder(folder: Path, exact: ExactIndex, model: str | Path | None) -> Any:
    """The index's own model; TensorFlow is imported here and nowhere else on the way."""
    from samtone_tf.export.saved_encoder import SavedEncoder
    from samtone_tf.index.base import check_model
    from samtone_tf.retriever import find_model, read_about

    encoder = SavedEncoder(model or find_model(folder, read_about(folder)))
    check_model(exact.model, encoder.fingerprint, "model")
    return encoder


def _some(items: Any, seed: int) -> Any:
    """At most 1,000 items, drawn at random, in their order."""
    if len(items) <= MAX_QUERIES:
        return items
    chosen = np.sort(np.random.default_rng(seed).permutation(len(items))[:MAX_QUERIES])
    return items[chosen] if isinstance(items, np.ndarray) else [items[i] for i in chosen.tolist()]


def _save(folder: Path, tuned: Tuned, exact: ExactIndex, queries: _Queries) -> None:
    """Replace the folder by one with the chosen settings; what stays the same is linked."""
    old = _old_report(folder)
    report = index_report(tuned.index, exact, queries.vectors, build_seconds=tuned.build_seconds)
    report = replace(report, queries=queries.words)
    with new_folder(folder, overwrite=True) as temporary:
        tuned.index.write(temporary) if tuned.rebuilt else _describe(tuned.index, folder, temporary)
        for path in folder.iterdir():
            if path.name not in REPLACED and not (temporary / path.name).exists():
                _link(path, temporary / path.name)
        report = replace(
            report,
            bytes_per_vector=folder_bytes(temporary / ASSETS) / tuned.index.num_documents,
            bytes_on_disk=folder_bytes(temporary),
        )
        write_json(temporary / "report.json", {**old, **report.to_json()})
        write_frontier(tuned.frontier, temporary)


def _describe(index: ScannIndex, folder: Path, temporary: Path) -> None:
    description = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    description["settings"] = index.settings.to_json()
    write_json(temporary / "index.json", description)


def _old_report(folder: Path) -> dict[str, Any]:
    try:
        return json.loads((folder / "report.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _link(source: Path, target: Path) -> None:
    """The same file or folder in another place; copied where the file system has no links."""
    if source.is_dir():
        shutil.copytree(source, target, copy_function=_link_file)
    else:
        _link_file(source, target)


def _link_file(source: str | Path, target: str | Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
