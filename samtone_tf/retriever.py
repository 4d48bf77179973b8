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
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from samtone_tf.checks import check_choice
from samtone_tf.data.records import RetrievalData
from samtone_tf.export.saved_encoder import SavedEncoder, check_saved_model
from samtone_tf.index.base import Index, check_model
from samtone_tf.index.conditions import Crowding
from samtone_tf.index.folder import check_new_folder
from samtone_tf.index.merged import MergedIndex
from samtone_tf.index.report import MAX_QUERIES, IndexReport
from samtone_tf.index.scann_settings import ScannSettings, scann_settings
from samtone_tf.index.store import KINDS, build_index, check_settings, load_index, resolve_kind
from samtone_tf.index.vectors import check_storage


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

    Raises:
        ValueError: the index is known to hold vectors of another model.
    """

    def __init__(
        self,
        encoder: SavedEncoder,
        index: Index,
        texts: dict[str, str],
        report: IndexReport | None = None,
    ):
        check_model(index.model, encoder.fingerprint, "encoder")
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
        storage: str = "float32",
        overwrite: bool = False,
    ) -> "Retriever":
        """Encodes a corpus, builds an index over it, measures it, and writes the folder.

        Args:
            model: folder of an exported model.
            data: its documents are indexed; up to 1,000 of its queries measure the index.
            out: folder to write.
            kind: `"scann"`, `"exact"`, or `"auto"`: ScaNN where it can be imported.
            settings: of ScaNN; None derives them from the size of the corpus.
            storage: `float32`, `bfloat16` or `int8`, what the vectors are kept as.
            overwrite: replace an index that `out` already holds.

        Raises:
            FileExistsError: `out` holds something.
            FileNotFoundError, ValueError: no model with this package's signatures.
        """
        check_choice("kind", kind, KINDS)
        check_storage(storage)
        check_settings(kind, settings)
        kind = resolve_kind(kind)
        check_new_folder(out, overwrite=overwrite)
        encoder = SavedEncoder(model)
        ids = list(data.documents)
        if kind == "scann":  # what does not fit is refused before the corpus is encoded
            scann_settings(max(1, len(ids)), encoder.embedding_dim, settings)
        queries = [data.queries[query_id] for query_id in data.qrels if query_id in data.queries]
        vectors = encoder.encode_document(list(data.documents.values()))
        built = build_index(
            kind,
            vectors,
            ids,
            out,
            queries=encoder.encode_query(queries[:MAX_QUERIES]) if queries else None,
            settings=settings,
            storage=storage,
            model=encoder.fingerprint,
            extra_files=extra_files(
                data.source, model, encoder.fingerprint, out, data.documents.values()
            ),
            overwrite=overwrite,
        )
        return cls(encoder, built.index, dict(data.documents), built.report)

    @classmethod
    def load(
        cls, folder: str | Path | Sequence[str | Path], model: str | Path | None = None
    ) -> "Retriever":
        """Opens an index folder, or several that are searched as one.

        Args:
            folder: what `build` wrote; it may have been moved. Of a list, each is searched and
                the results are merged: they need one model and distinct document ids.
            model: folder of the exported model, if it is no longer where it was.

        Raises:
            FileNotFoundError: no index there, or its model is gone.
            ValueError: the model is not the one that made the vectors.
        """
        folders = [Path(folder)] if isinstance(folder, str | Path) else [Path(f) for f in folder]
        indexes = [load_index(path) for path in folders]
        index = indexes[0] if len(indexes) == 1 else MergedIndex(indexes)
        abouts = [read_about(path) for path in folders]
        encoder = SavedEncoder(model or find_model(folders[0], abouts[0]))
        texts: dict[str, str] = {}
        for path, about, part in zip(folders, abouts, indexes, strict=True):
            if encoder.fingerprint != about["fingerprint"]:
                raise ValueError(
                    "`model` must be the one that made the index's vectors. "
                    f"Received: {encoder.folder} with fingerprint {encoder.fingerprint}; {path} "
                    f"needs {about['fingerprint']}. Build the index again for this model."
                )
            texts |= zip(part.document_ids, read_texts(path), strict=False)  # there may be none
        return cls(encoder, index, texts)

    def search(
        self,
        queries: Sequence[str],
        k: int = 10,
        *,
        allowed: Collection[str] | None = None,
        crowding: Crowding | None = None,
    ) -> list[list[Hit]]:
        """The k best documents for each query, best first; fewer if the corpus is smaller.

        Args:
            queries: texts.
            k: int ≥ 1, documents per query.
            allowed: ids of the documents that may be found; None is all.
            crowding: at most so many results of one group, such as passages of one page.

        Raises:
            TypeError: one string instead of a list of them.
            ValueError: k below 1.
        """
        if isinstance(queries, str):
            raise TypeError(f"`queries` must be a list of strings. Received: {queries!r}.")
        vectors = self.encoder.encode_query(list(queries))
        given = {"allowed": allowed, "crowding": crowding}
        conditions = {name: value for name, value in given.items() if value is not None}
        found = self.index.search(vectors, k, **conditions)
        return [
            [
                Hit(i, float(score), self.texts.get(i, ""))
                for i, score in zip(ids, scores, strict=True)
            ]
            for ids, scores in zip(found.document_ids, found.scores, strict=True)
        ]


def extra_files(
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


def read_texts(folder: Path) -> list[str]:
    """The documents of an index, in its order; none where it was built without them."""
    path = folder / "texts.jsonl.gz"
    if not path.is_file():
        return []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def read_about(folder: Path) -> dict:
    """What `retriever.json` says: the model, its fingerprint, the source of the texts."""
    path = folder / "retriever.json"
    if not path.is_file():
        raise FileNotFoundError(
            f"`folder` must be an index that `samtone index` wrote. Received: {folder}, which "
            "has no retriever.json."
        )
    return json.loads(path.read_text(encoding="utf-8"))


def find_model(folder: Path, about: dict) -> Path:
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
