"""`index_vectors`: a folder of vectors → an index, without the model."""

from collections.abc import Mapping
from pathlib import Path

from samtone_tf.checks import check_choice
from samtone_tf.data.corpus import open_corpus
from samtone_tf.data.records import RetrievalData
from samtone_tf.encoding.vectors import Vectors
from samtone_tf.index.folder import check_new_folder
from samtone_tf.index.report import MAX_QUERIES
from samtone_tf.index.scann_settings import ScannSettings
from samtone_tf.index.store import KINDS, BuiltIndex, build_index
from samtone_tf.retriever import extra_files


def index_vectors(
    vectors: str | Path | Vectors,
    out: str | Path,
    *,
    data: str | RetrievalData | Mapping[str, str | bytes] | None = None,
    queries: str | Path | Vectors | None = None,
    kind: str = "auto",
    settings: ScannSettings | None = None,
    storage: str = "float32",
    overwrite: bool = False,
) -> BuiltIndex:
    """Builds an index from the vectors of a corpus, without the model, and writes its folder.

    `Retriever.load` opens it with an export of the same model.

    Args:
        vectors: what `encode_corpus` wrote for the document side.
        out: folder to write.
        data: the corpus, for the texts of hits; None leaves them out.
        queries: what `encode_corpus` wrote for the query side: up to 1,000 of them measure the
            index. None samples documents.
        kind: `"scann"`, `"exact"`, or `"auto"`: ScaNN where it can be imported.
        settings: of ScaNN; None derives them from the size of the corpus.
        storage: of the index's vectors: `"float32"`, `"bfloat16"` or `"int8"`.
        overwrite: replace an index that `out` already holds.

    Raises:
        FileExistsError: `out` holds something.
        FileNotFoundError: no vectors there.
        ValueError: vectors of the other side, incomplete ones, queries of another model, or data
            that lacks a document.
    """
    check_choice("kind", kind, KINDS)
    check_new_folder(out, overwrite=overwrite)
    vectors = _open_vectors(vectors, "vectors", "document")
    about = vectors.description
    if queries is not None:
        queries = _open_vectors(queries, "queries", "query")
        if queries.description.model != about.model:
            raise ValueError(
                "`queries` must be vectors of the model that made `vectors`. Received: "
                f"{queries.folder} of model {queries.description.model}, and {vectors.folder} of "
                f"{about.model}. Encode the queries with the other model."
            )
    texts = None if data is None else _texts_of(data, vectors)
    return build_index(
        kind,
        vectors.matrices(),
        vectors.ids,
        out,
        queries=None if queries is None else queries[:MAX_QUERIES],
        settings=settings,
        storage=storage,
        model=about.model,
        extra_files=extra_files(about.source, about.model_path, about.model, out, texts),
        overwrite=overwrite,
    )


def _open_vectors(vectors: str | Path | Vectors, name: str, side: str) -> Vectors:
    vectors = vectors if isinstance(vectors, Vectors) else Vectors(vectors)
    if vectors.description.side != side:
        raise ValueError(
            f"`{name}` must be vectors of side {side}. Received: {vectors.folder}, of side "
            f"{vectors.description.side}. Encode with --side {side}."
        )
    return vectors


def _texts_of(data, vectors: Vectors) -> list[str]:
    """The texts of rows of vectors, in their order."""
    corpus = open_corpus(data, "document")
    texts = dict(corpus.read())
    missing = [i for i in vectors.ids if i not in texts]
    if missing or len(texts) != len(vectors):
        example = f", such as {missing[0]!r}" if missing else ""
        raise ValueError(
            "`data` must be the corpus that the vectors were made of. "
            f"Received: {corpus.source} with {len(texts)} documents, which lacks {len(missing)} of "
            f"{len(vectors)}{example}. Name {vectors.description.source}."
        )
    found = (texts[i] for i in vectors.ids)
    return [text.decode("utf-8", "replace") if isinstance(text, bytes) else text for text in found]
