"""Reads what the package `ir_datasets` knows by id: BEIR, MS MARCO, Vaswani and hundreds more.

An id and a split together name one of its data sets: `msmarco-passage` and `dev/small` are
`msmarco-passage/dev/small`, which may be written out just as well. Where a set has one kind
of judgements only, such as `vaswani`, the split is called `test`.

The package downloads what is not there yet, into $IR_DATASETS_HOME, and says so itself.
"""

from collections.abc import Iterator
from pathlib import Path

from samtone_tf.data.collection import Collection, NegativeRows, Stream, negative_rows
from samtone_tf.data.fingerprints import fingerprint
from samtone_tf.data.lines import first_few, join_title
from samtone_tf.data.records import RetrievalData
from samtone_tf.data.table import Records, Table

_ONLY = "test"  # the split of a set that is not divided


def read_ir_datasets(dataset_id: str, split: str) -> RetrievalData:
    """Read one split of a data set of `ir_datasets`.

    A document's text is title, one space, text where it has these, and else what the package
    makes of it (`default_text`). Pairs of documents (`docpairs`, as MS MARCO's triples are)
    become hard negatives. Queries without text are left out.

    Args:
        dataset_id: such as `beir/scifact`, with or without its split.
        split: the rest of the id, such as `test`.

    Raises:
        ImportError: the package is not there.
        ValueError: an id or a split that it does not know, or a set without texts or judgements.
    """
    return _collection(dataset_id, split).read()


def tabulate_ir_datasets(dataset_id: str, split: str, into: Path | None = None) -> Table:
    """Read one split as `read_ir_datasets` does, into columns.

    Args:
        dataset_id: as for `read_ir_datasets`.
        split: as for `read_ir_datasets`.
        into: the folder where the columns are written; None keeps them in memory.
    """
    return _collection(dataset_id, split, into).tabulate(into)


def ir_datasets_splits(dataset_id: str) -> tuple[str, ...]:
    """Names of the judgements that belong to an id."""
    return tuple(_splits(dataset_id))


def ir_datasets_stamp(dataset_id: str, split: str) -> tuple[str, int] | None:
    """Return what changes when the data does, and about how many bytes its columns take.

    None for a set that does not say in which files it is.
    """
    whole = _resolve(dataset_id, split)
    dataset = _load(whole)
    finders = [getattr(dataset, f"{part}_path", None) for part in ("docs", "queries", "qrels")]
    places = [Path(place) for find in finders if find is not None and (place := find())]
    files = [place for place in places if place.is_file()]
    if not files:
        return None
    states = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return f"{whole} {states}", 12 * sum(size for _, size, _ in states)


def _package():
    try:
        import ir_datasets
    except ImportError as error:
        raise ImportError(
            "`ir_datasets:` needs the package ir_datasets, which could not be imported "
            f"({error}). Run: pip install 'samtone-tf[datasets]'"
        ) from error
    return ir_datasets


def _load(dataset_id: str):
    package = _package()
    try:
        return package.load(dataset_id)
    except KeyError:
        kind = dataset_id.partition("/")[0]
        near = sorted(name for name in package.registry if name.partition("/")[0] == kind)
        known = f"those of {kind} are {first_few(near, 12)}" if near else "none begins like that"
        raise ValueError(
            f"`source` must be ir_datasets: and an id that the package knows; {known}. "
            f"Received: {dataset_id!r}. The list is at https://ir-datasets.com."
        ) from None


def _is_judged(dataset) -> bool:
    return dataset.has_docs() and dataset.has_queries() and dataset.has_qrels()


def _splits(dataset_id: str) -> dict[str, str]:
    """Split → the whole id."""
    own = _load(dataset_id)
    found = {}
    if _is_judged(own):
        found[dataset_id.rpartition("/")[2] if "/" in dataset_id else _ONLY] = dataset_id
    for name in _package().registry:
        if name.startswith(f"{dataset_id}/") and _is_judged(_load(name)):
            found[name.removeprefix(f"{dataset_id}/")] = name
    return dict(sorted(found.items()))


def _resolve(dataset_id: str, split: str) -> str:
    splits = _splits(dataset_id)
    if split in splits:
        return splits[split]
    if dataset_id in splits.values() and dataset_id.endswith(f"/{split}"):
        return dataset_id
    if not splits:
        raise ValueError(
            f"`source` must name a data set with documents, queries and judgements. Received: "
            f"ir_datasets:{dataset_id}, which lacks some. See https://ir-datasets.com."
        )
    raise ValueError(
        f"`split` must be one of those of ir_datasets:{dataset_id}: {', '.join(splits)}. "
        f"Received: {split}. Choose one of them."
    )


def _collection(dataset_id: str, split: str, into: Path | None = None) -> Collection:
    whole = _resolve(dataset_id, split)
    dataset = _load(whole)
    name = f"ir_datasets:{whole}"

    def negatives(queries: Records, documents: Records) -> NegativeRows:
        pairs = (
            (fingerprint(pair.query_id), fingerprint(pair.doc_id_b))
            for pair in dataset.docpairs_iter()
        )
        return negative_rows(pairs, queries, documents, into)

    return Collection(
        source=f"ir_datasets:{dataset_id}",
        split=split,
        documents=Stream(f"{name} documents", lambda: _documents(dataset), "the documents"),
        queries=Stream(f"{name} queries", lambda: _queries(dataset), "the queries"),
        judgements=Stream(f"{name} judgements", lambda: _judgements(dataset), "the judgements"),
        negatives=negatives if dataset.has_docpairs() else None,
    )


def _documents(dataset) -> Iterator[tuple[int, str, str]]:
    for number, document in enumerate(dataset.docs_iter(), start=1):
        text = getattr(document, "text", None)
        if text is None:
            text = _default_text(document)
        title = getattr(document, "title", None)
        yield number, str(document.doc_id), join_title(title or "", text)


def _queries(dataset) -> Iterator[tuple[int, str, str]]:
    for number, query in enumerate(dataset.queries_iter(), start=1):
        text = getattr(query, "text", None)
        text = (_default_text(query) if text is None else text).strip()
        if text:
            yield number, str(query.query_id), text


def _judgements(dataset) -> Iterator[tuple[int, str, str, int]]:
    for number, judgement in enumerate(dataset.qrels_iter(), start=1):
        grade = int(judgement.relevance)
        yield number, str(judgement.query_id), str(judgement.doc_id), grade


def _default_text(record) -> str:
    """The package's own text of a record, which is absent before 0.5 and for images."""
    make = getattr(record, "default_text", None)
    if make is not None:
        return make()
    texts = [value for value in record[1:] if isinstance(value, str)]
    return " ".join(text.strip() for text in texts if text.strip())
