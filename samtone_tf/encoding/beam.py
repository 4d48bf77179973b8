"""`encode_with_beam`: a folder of vectors, written by the workers of an Apache Beam runner.

    lines ─► (id, text) ─► count and hash ─► vectors.json
                  └──────► by hash of the id into shards ─► one shard: sort, encode, write

Each worker process opens the model once. A shard is written whole or not at all, under names that
depend on its number only: a bundle that a runner tries again writes the same files again,
and a pipeline that is started again leaves out the shards that are done. Beam has no order, so the
rows of a shard are sorted by id; `ids-00000.txt` says which text each of them is.

Beam is imported when a pipeline is made, by the extra `beam`.
"""

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from samtone_tf.checks import check_at_least, check_choice
from samtone_tf.data.beir import beir_texts, text_of
from samtone_tf.data.corpus import SIDES, open_corpus
from samtone_tf.data.fingerprints import fingerprint
from samtone_tf.data.lines import read_json
from samtone_tf.data.records import RetrievalData
from samtone_tf.encoding.description import Description
from samtone_tf.encoding.encode import SHARD_SIZE, WINDOW
from samtone_tf.encoding.number_formats import DTYPES, Loss
from samtone_tf.encoding.scan import check_text
from samtone_tf.encoding.shard import ShardWriter
from samtone_tf.encoding.store import Store, is_remote, local_copy
from samtone_tf.encoding.text_encoder import TextEncoder

Row = tuple[bytes, bytes]
"""Id and text; as bytes, since Beam's strings hold no half of a surrogate pair."""


class Job(NamedTuple):
    """What every worker has to know.

    Args:
        model: folder of an export or a run, or a function that returns a `TextEncoder`.
        out: folder to write.
        side, dtype, shard_size, batch_tokens: as for `encode_corpus`.
        opening: settings of `open_encoder`.
        source: name of the data.
    """

    model: str | Callable[[], TextEncoder]
    out: str
    side: str
    dtype: str
    shard_size: int
    batch_tokens: int | None
    opening: tuple[tuple[str, Any], ...]
    source: str


class Count(NamedTuple):
    """Of texts, whatever their order: how many, how many of them empty, and a sum of hashes."""

    num_texts: int
    num_empty: int
    hashes: int


def encode_with_beam(
    model: str | Path | Callable[[], TextEncoder],
    data: str | RetrievalData | Mapping[str, str | bytes],
    out: str | Path,
    *,
    side: str = "document",
    dtype: str = "float32",
    shard_size: int = SHARD_SIZE,
    batch_tokens: int | None = None,
    length: int | None = None,
    checkpoint: str | None = None,
    jit_compile: bool = False,
    pipeline_options: Any = (),
) -> None:
    """Encodes a corpus with an Apache Beam pipeline, and waits for its end.

    Model, data and `out` must be where every worker sees them: shared folders, or paths that
    Beam's file systems know, such as `gs://bucket/vectors`. The workers need this package.

    Args:
        model: folder of an exported model, or a run folder; or a picklable function that
            returns a `TextEncoder`, which each worker process calls once.
        data: as for `open_corpus`. Lines of `beir:` and `corpus:` are read by all workers,
            other kinds of source by one.
        out: folder to write, or to go on with.
        side: `"document"` or `"query"`.
        dtype: of the files: `"float32"`, `"float16"` or `"int8"`.
        shard_size: rows of a shard, about: texts fall to shards by a hash of their ids. A
            worker holds the texts of one shard.
        batch_tokens: tokens that a worker encodes at a time; None is the encoder's choice.
        length: the most tokens of a text; None is the export's.
        checkpoint: of a run folder, `"last"` or `"best"`.
        jit_compile: let XLA compile each shape of a batch.
        pipeline_options: Beam's `PipelineOptions`, or its flags as a list of strings, such as
            `["--runner=FlinkRunner", "--flink_master=localhost:8081"]`.

    Raises:
        ImportError: Beam is not installed.
        ValueError, RuntimeError: as `encode_corpus`; from a worker, as the runner wraps it.
    """
    check_choice("side", side, SIDES)
    check_choice("dtype", dtype, DTYPES)
    check_at_least("shard_size", shard_size, 1)
    if batch_tokens is not None:
        check_at_least("batch_tokens", batch_tokens, 1)
    beam = import_beam()
    from apache_beam.options.pipeline_options import PipelineOptions

    opening = {"length": length, "checkpoint": checkpoint, "jit_compile": jit_compile}
    job = Job(
        model if callable(model) else str(model),
        str(out),
        side,
        dtype,
        shard_size,
        batch_tokens,
        tuple(opening.items()),
        data if isinstance(data, str) else getattr(data, "source", "texts"),
    )
    Store(job.out).check_usable()
    if not isinstance(pipeline_options, PipelineOptions):
        pipeline_options = PipelineOptions(list(pipeline_options))
    with beam.Pipeline(options=pipeline_options) as pipeline:
        _build(beam, pipeline, job, data)


def import_beam() -> Any:
    """Apache Beam, or an ImportError that says how to get it."""
    try:
        import apache_beam
    except ImportError as error:
        raise ImportError(
            f"Encoding with --beam needs Apache Beam, which cannot be imported here ({error}). See "
            "docs/encoding.md for how to install it; without it, leave --beam out."
        ) from error
    return apache_beam


def _build(beam, pipeline, job: Job, data) -> None:
    one = beam.pvalue.AsSingleton
    rows = _read(beam, pipeline, job, data)
    begun = (
        rows
        | "count each" >> beam.Map(count_text)
        | "count all" >> beam.CombineGlobally(add_counts)
        | "begin" >> beam.Map(begin, job)
    )
    # Every shard is written, those that no id falls to as well.
    shards = begun | "name shards" >> beam.FlatMap(name_shards)
    texts = rows | "to shards" >> beam.Map(to_shard, one(begun))
    written = (
        (texts, shards)
        | "together" >> beam.Flatten()
        | "by shard" >> beam.GroupByKey()
        | "encode" >> beam.Map(encode_shard, job, one(begun))
    )
    (written | "sum" >> beam.CombineGlobally(sum) | "finish" >> beam.Map(finish, job, one(begun)))


def _read(beam, pipeline, job: Job, data):
    """Rows of the corpus: of files line by line, on all workers; of others on one."""
    if not isinstance(data, str):
        texts = list(read_rows(data, job.side))
        return pipeline | "texts" >> beam.Create(texts) | "spread" >> beam.Reshuffle()
    pattern = _file_pattern(data, job.side)
    if pattern is None:
        return (
            pipeline
            | "data" >> beam.Create([data])
            | "read" >> beam.FlatMap(read_rows, job.side)
            | "spread" >> beam.Reshuffle()
        )
    side = "document" if data.startswith("corpus:") else job.side
    lines = beam.io.ReadFromTextWithFilename(pattern, coder=beam.coders.BytesCoder())
    return pipeline | "lines" >> lines | "parse" >> beam.FlatMap(parse_line, side)


def _file_pattern(data: str, side: str) -> str | None:
    """The files of JSON lines that a source stands for, if it does."""
    kind, _, place = data.partition(":")
    if kind == "corpus" and place:
        if not is_remote(place):
            open_corpus(data, side)  # says what is wrong
        return place
    if kind == "beir" and place:
        if not is_remote(place):
            return str(beir_texts(place, side))
        return f"{place.rstrip('/')}/{'queries' if side == 'query' else 'corpus'}.jsonl*"
    open_corpus(data, side)
    return None


def read_rows(data, side: str) -> Iterator[Row]:
    """Rows of a source that is no file of lines."""
    corpus = open_corpus(data, side)
    for text_id, text in corpus.read():
        check_text(text_id, text, corpus.source)
        yield _bytes(text_id), _bytes(text)


def parse_line(line: tuple[str, bytes], side: str) -> Iterator[Row]:
    """The row of one line of a file; none for a blank line."""
    file, raw = line
    try:
        text = raw.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{file}: expected UTF-8 text. Received: {raw[:60]!r}. Convert the file to UTF-8."
        ) from error
    if text.strip():
        text_id, content = text_of(read_json(text, file), side, file)
        check_text(text_id, content, file)
        yield _bytes(text_id), _bytes(content)


def count_text(row: Row) -> Count:
    """Of one text."""
    digest = hashlib.blake2b(digest_size=16)
    for part in row:
        digest.update(len(part).to_bytes(8, "big") + part)
    return Count(1, int(not row[1].strip()), int.from_bytes(digest.digest(), "big"))


def add_counts(counts: Iterable[Count]) -> Count:
    """Of all of them."""
    total = Count(0, 0, 0)
    for count in counts:
        hashes = (total.hashes + count[2]) % 2**128
        total = Count(total.num_texts + count[0], total.num_empty + count[1], hashes)
    return total


def begin(count: Count, job: Job) -> Description:
    """Writes `vectors.json`, or compares it with the one that is there.

    Raises:
        ValueError: no text, or `out` holds vectors of another model, other data or settings.
    """
    count = Count(*count)
    if count.num_empty == count.num_texts:
        found = f"{count.num_texts} empty texts" if count.num_texts else "no text"
        raise ValueError(
            f"`data` must hold a text that is not empty. Received: {job.source} with {found}."
        )
    encoder = shared_encoder(job)
    description = Description(
        model=encoder.fingerprint,
        model_path="" if callable(job.model) else job.model,
        side=job.side,
        length=encoder.length,
        dim=encoder.dim,
        dtype=job.dtype,
        source=job.source,
        data=f"{count.hashes:032x}",
        num_texts=count.num_texts,
        order="hash",
        shard_size=job.shard_size,
        num_shards=-(-count.num_texts // job.shard_size),
    )
    Store(job.out).start(description)
    return description


def name_shards(description: Description) -> Iterator[tuple[int, None]]:
    """Every shard once."""
    return ((shard, None) for shard in range(description.num_shards))


def to_shard(row: Row, description: Description) -> tuple[int, Row]:
    """The row behind the number of its shard."""
    return fingerprint(_string(row[0])) % description.num_shards, row


def encode_shard(
    grouped: tuple[int, Iterable[Row | None]], job: Job, description: Description
) -> int:
    """Encodes and writes one shard, unless that is done; returns its rows.

    Raises:
        ValueError: an id that comes twice.
    """
    shard, values = grouped
    store = Store(job.out)
    marker = store.read_marker(shard)
    if marker is not None:
        return int(marker["num_rows"])
    rows = sorted(row for row in values if row is not None)
    for (before, _), (text_id, _) in zip(rows, rows[1:], strict=False):
        if before == text_id:
            raise ValueError(
                f"`data` must name every text once. Received: id {_string(text_id)!r} twice in "
                f"{job.source}. Remove one of the two."
            )
    encoder = shared_encoder(job)
    with (
        store.writing() as folder,
        ShardWriter(folder, shard, len(rows), description) as writer,
    ):
        for start in range(0, len(rows), WINDOW):
            part = rows[start : start + WINDOW]
            tokens = encoder.tokenize([text for _, text in part])
            vectors = encoder.encode(tokens, job.batch_tokens)
            writer.add([_string(text_id) for text_id, _ in part], vectors)
        writer.finish()
    return len(rows)


def finish(num_rows: int, job: Job, description: Description) -> None:
    """Says in `vectors.json` that all is done.

    Raises:
        ValueError: the shards do not hold every text: the data changed meanwhile.
    """
    if num_rows != description.num_texts:
        raise ValueError(
            "`data` must stay as it is while it is read. "
            f"Received: {job.source}, of which {description.num_texts} texts were counted and "
            f"{num_rows} written. Encode it again into a new folder."
        )
    more: dict[str, Any] = {"done": f"0-{description.num_shards - 1}"}
    store = Store(job.out)
    if description.dtype != "float32":
        markers = (store.read_marker(shard) for shard in range(description.num_shards))
        more["loss"] = asdict(sum((Loss(**marker["loss"]) for marker in markers), Loss()))
    store.describe(description, more)


_ENCODERS: dict[Job, TextEncoder] = {}
_LOCK = threading.Lock()


def shared_encoder(job: Job) -> TextEncoder:
    """The model of this process, opened when it is first asked for, by whichever thread."""
    key = job._replace(out="", dtype="", shard_size=0, batch_tokens=None, source="")
    with _LOCK:
        if key not in _ENCODERS:
            _ENCODERS[key] = _open(job)
        return _ENCODERS[key]


def _open(job: Job) -> TextEncoder:
    if callable(job.model):
        return job.model()
    from samtone_tf.encoding.models import open_encoder

    opening = dict(job.opening)
    with local_copy(job.model) as folder:
        encoder = open_encoder(folder, job.side, strategy="one", **opening)
    return replace(encoder, path=job.model)


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


def _string(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogatepass")
