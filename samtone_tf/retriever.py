"""`Retriever`: an exported model, an index and the texts behind it; what `samtone search` asks.

INDEX/index.json, ids.json, …   the index itself (see `index.store`)
INDEX/report.json               recall against exact search, sizes, times
INDEX/retriever.json            where the model was, and its fingerprint
INDEX/texts.jsonl.gz            the documents' texts, one JSON string a line, in row order; absent
                                where an index was built from vectors alone
"""

import gzip
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samtone_tf.checks import check_choice
from samtone_tf.data.corpus import open_corpus
from samtone_tf.data.records import RetrievalData
from samtone_tf.encoding.vectors import Vectors
from samtone_tf.export.saved_encoder import SavedEncoder, check_saved_model
from samtone_tf.index.base import Index
from samtone_tf.index.folder import check_new_folder
from samtone_tf.index.report import MAX_QUERIES, IndexReport
from samtone_tf.index.scann_settings import ScannSettings
from samtone_tf.index.store import KINDS, BuiltIndex, build_index, load_index, resolve_kind


class Hit(NamedTuple):
    """One search result; a higher score is better, and 1 is the highest.

    The text is empty where the index was built from vectors alone.
    """

    document_id: str
    score: float
    text: str


class Retriever:
    """Answers questions with documents.

    Make one with `Retriever.build`, or open an index folder with `Retriever.load`.

    Args:
        encoder: the exported model.
        index: over vectors of that model's document side.
        texts: document id → text; may lack some, or all.
        report: what was measured when the index was built.
    """

    def __init__(
        self,
        encoder: SavedEncoder,
        index: Index,
        texts: dict[str, str],
        report: IndexReport | None = None,
    ):
        self.encoder, self.index, self.texts, self.report = encoder, index, texts, report

    @classmethod
    def build(
        cls,
        model: str | Path,
        data: RetrievalData,
        out: str | Path,
        *,
        kind: str = "auto",
        settings: ScannSettings | None = None,
        overwrite: bool = False,
    ) -> "Retriever":
        """Encodes a corpus, builds an index over it, measures it, and writes the folder.

        Args:
            model: folder of an exported model.
            data: its documents are indexed; up to 1,000 of its queries measure the index.
            out: folder to write.
            kind: `"scann"`, `"exact"`, or `"auto"`: ScaNN where it can be imported.
            settings: of ScaNN; None derives them from the size of the corpus.
            overwrite: replace an index that `out` already holds.

        Raises:
            FileExistsError: `out` holds something.
            FileNotFoundError, ValueError: no model with this package's signatures.
        """
        check_choice("kind", kind, KINDS)
        kind = resolve_kind(kind)
        check_new_folder(out, overwrite=overwrite)
        encoder = SavedEncoder(model)
        ids = list(data.documents)
        queries = [data.queries[query_id] for query_id in data.qrels if query_id in data.queries]
        vectors = encoder.encode_document(list(data.documents.values()))
        built = build_index(
            kind,
            vectors,
            ids,
            out,
            queries=encoder.encode_query(queries[:MAX_QUERIES]) if queries else None,
            settings=settings,
            model=encoder.fingerprint,
            extra_files=_extra_files(
                data.source, model, encoder.fingerprint, out, data.documents.values()
            ),
            overwrite=overwrite,
        )
        return cls(encoder, built.index, dict(data.documents), built.report)

    @classmethod
    def load(cls, folder: str | Path, model: str | Path | None = None) -> "Retriever":
        """Opens an index folder.

        Args:
            folder: what `build` wrote; it may have been moved.
            model: folder of the exported model, if it is no longer where it was.

        Raises:
            FileNotFoundError: no index there, or its model is gone.
            ValueError: the model is not the one that made the vectors.
        """
        folder = Path(folder)
        index = load_index(folder)
        path = folder / "retriever.json"
        if not path.is_file():
            raise FileNotFoundError(
                f"`folder` must be an index that `samtone index` wrote. Received: {folder}, which "
                "has no retriever.json."
            )
        about = json.loads(path.read_text(encoding="utf-8"))
        encoder = SavedEncoder(model or _find_model(folder, about))
        if encoder.fingerprint != about["fingerprint"]:
            raise ValueError(
                "`model` must be the one that made the index's vectors. "
                f"Received: {encoder.folder} with fingerprint {encoder.fingerprint}; the index "
                f"needs {about['fingerprint']}. Build the index again for this model."
            )
        if not (folder / "texts.jsonl.gz").is_file():
            return cls(encoder, index, {})
        with gzip.open(folder / "texts.jsonl.gz", "rt", encoding="utf-8") as lines:
            texts = [json.loads(line) for line in lines]
        return cls(encoder, index, dict(zip(index.document_ids, texts, strict=True)))

    def search(self, queries: Sequence[str], k: int = 10) -> list[list[Hit]]:
        """The k best documents for each query, best first; fewer if the corpus is smaller.

        Raises:
            TypeError: one string instead of a list of them.
            ValueError: k below 1.
        """
        if isinstance(queries, str):
            raise TypeError(f"`queries` must be a list of strings. Received: {queries!r}.")
        found = self.index.search(self.encoder.encode_query(list(queries)), k)
        return [
            [
                Hit(i, float(score), self.texts.get(i, ""))
                for i, score in zip(ids, scores, strict=True)
            ]
            for ids, scores in zip(found.document_ids, found.scores, strict=True)
        ]


def index_vectors(
    vectors: str | Path | Vectors,
    out: str | Path,
    *,
    data: str | RetrievalData | Mapping[str, str | bytes] | None = None,
    queries: str | Path | Vectors | None = None,
    kind: str = "auto",
    settings: ScannSettings | None = None,
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
        np.asarray(vectors),
        vectors.ids,
        out,
        queries=None if queries is None else queries[:MAX_QUERIES],
        settings=settings,
        model=about.model,
        extra_files=_extra_files(about.source, about.model_path, about.model, out, texts),
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


def _extra_files(
    source: str, model: str | Path, fingerprint: str, out: str | Path, texts: Iterable[str] | None
) -> dict[str, bytes]:
    """The files of a retriever beside those of the index."""
    folder = Path(model).resolve()
    about = {
        "source": source,
        "model": str(folder),
        "model_relative": os.path.relpath(folder, Path(out).resolve()),
        "fingerprint": fingerprint,
    }
    files = {"retriever.json": (json.dumps(about, indent=2) + "\n").encode()}
    if texts is not None:
        lines = "".join(json.dumps(text) + "\n" for text in texts)
        files["texts.jsonl.gz"] = gzip.compress(lines.encode(), compresslevel=6, mtime=0)
    return files


def _find_model(folder: Path, about: dict) -> Path:
    """Where the model was, or where it is if both folders moved together."""
    for candidate in (Path(about["model"]), folder.resolve() / about["model_relative"]):
        if (candidate / "saved_model.pb").is_file():
            return candidate
    try:
        return check_saved_model(about["model"])
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"The index {folder} needs the model {about['model']}, which is no longer there. "
            "Name its new place with --model (in Python: Retriever.load(folder, model=...))."
        ) from error
