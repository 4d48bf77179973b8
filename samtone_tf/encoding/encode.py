"""`encode_corpus`: the texts of a corpus → a folder of vectors; goes on where it was stopped.

The corpus is read twice, a window of texts at a time: once to count and hash it, once to encode
it. Neither its texts nor its vectors are ever in memory at once.
"""

import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

from tqdm import tqdm

from samtone_tf.checks import check_at_least, check_choice
from samtone_tf.data.corpus import SIDES, Corpus, open_corpus
from samtone_tf.data.records import RetrievalData
from samtone_tf.encoding.description import (
    FILE,
    TEMPORARY,
    Description,
    as_ranges,
    done_shards,
    remove_temporary,
)
from samtone_tf.encoding.number_formats import DTYPES, Loss
from samtone_tf.encoding.scan import Scan, TextHash, scan
from samtone_tf.encoding.shard import (
    ShardWriter,
    check_room,
    flush_folder,
    is_full,
    no_room,
    num_bytes,
)
from samtone_tf.encoding.text_encoder import TextEncoder
from samtone_tf.encoding.vectors import Vectors

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

SHARD_SIZE = 20_000
WINDOW = 8192  # texts that are sorted by length together

T = TypeVar("T")


@dataclass(frozen=True)
class Encoded:
    """What a call of `encode_corpus` did.

    Args:
        description: of the folder.
        num_empty: texts of the corpus without a letter; they have vectors, too.
        num_encoded: texts that this call encoded; the others were done before, or are others' work.
        seconds: it took to encode and write them.
        done: shards that are done now.
        loss: of all rows; None while shards are missing.
    """

    description: Description
    num_empty: int
    num_encoded: int
    seconds: float
    done: tuple[int, ...]
    loss: Loss | None


class _Window(NamedTuple):
    """Some texts of one shard."""

    shard: int
    ids: list[str]
    texts: list[str | bytes]


def encode_corpus(
    model: str | Path | TextEncoder,
    data: str | RetrievalData | Mapping[str, str | bytes],
    out: str | Path,
    *,
    side: str | None = None,
    dtype: str = "float32",
    shard_size: int = SHARD_SIZE,
    shards: tuple[int, int | None] | None = None,
    batch_tokens: int | None = None,
) -> Encoded:
    """Encodes a corpus of any size into a folder, which `Vectors` reads.

    Rows are in the order of the corpus. Stopped at any moment, even by SIGKILL or a lost
    machine, the same call goes on with the first shard that is not done, and no row is lost or
    there twice. A vector depends on its text alone, not on the batch it was in.

    Args:
        model: folder of an exported model, or a run folder; or what `open_encoder` returned,
            which has settings for lengths, checkpoints and devices.
        data: as for `open_corpus`: `"beir:FOLDER"`, `"corpus:FILES.jsonl"`, id → text …
        out: folder to write: new, empty, or begun with the same model, data and settings.
        side: `"document"` or `"query"`: which tower, and which texts of `data`. None is the
            encoder's where `model` is one, else `"document"`.
        dtype: of the files: `"float32"`, `"float16"` or `"int8"`.
        shard_size: rows of a shard: what is lost at most when the process is killed.
        shards: first shard, and the one behind the last (None: no end), that this
            call encodes; None is all. So several machines share a corpus.
        batch_tokens: tokens that a replica encodes at a time; None is the encoder's choice, 2,048
            on a processor and 16,384 elsewhere.

    Raises:
        FileExistsError: `out` holds something else.
        FileNotFoundError: no such model or data.
        ValueError: a bad setting; no text; an id that is not one; `out` was begun with another
            model, other data or other settings; data that changed while it was read.
        OSError: no room on the disk, or another process writes to `out`.

    Example:

    >>> encode_corpus("saved_models/faq/1", "pairs:faq.jsonl", "vectors/faq", dtype="int8")
    >>> Vectors("vectors/faq")[:10]
    """
    if side is None:
        side = model.side if isinstance(model, TextEncoder) else "document"
    check_choice("side", side, SIDES)
    check_choice("dtype", dtype, DTYPES)
    check_at_least("shard_size", shard_size, 1)
    if batch_tokens is not None:
        check_at_least("batch_tokens", batch_tokens, 1)
    out = check_out(out)
    corpus = open_corpus(data, side)
    encoder = as_encoder(model, side)
    counted = scan(corpus, shard_size)
    description = describe(encoder, corpus, counted, dtype, shard_size)
    mine = _range(shards, counted.num_shards)
    out.mkdir(parents=True, exist_ok=True)
    with _lock(out, exclusive=shards is None):
        start_folder(out, description)
        if shards is None:  # nobody else is at work
            remove_temporary(out, FILE)
        before = set(done_shards(out))
        todo = [shard for shard in mine if shard not in before]
        start = time.perf_counter()
        try:
            check_room(out, num_bytes(_num_rows(todo, description), encoder.dim, dtype))
            _encode_shards(encoder, corpus, counted, description, out, todo, batch_tokens)
        except OSError as error:
            if is_full(error):
                raise no_room(out, str(error)) from error
            raise
        except KeyboardInterrupt:
            raise KeyboardInterrupt("the same command goes on with it") from None
    seconds = time.perf_counter() - start
    done = tuple(done_shards(out))
    return Encoded(
        description,
        counted.num_empty,
        _num_rows(todo, description),
        seconds,
        done,
        Vectors(out).loss if len(done) == counted.num_shards else None,
    )


def check_out(out: str | Path) -> Path:
    """The folder as a path, if it is new, empty or one of vectors."""
    out = Path(out)
    if out.is_dir() and (out / FILE).is_file():
        return out
    # What a kill in the very first moment leaves.
    left = out.is_dir() and all(path.name.endswith(TEMPORARY) for path in out.iterdir())
    if out.exists() and not left:
        raise FileExistsError(
            "`out` must be a new or empty folder, or one that the same command began: nothing is "
            f"overwritten. Received: {out}. Choose another folder, or remove this one yourself."
        )
    return out


def describe(
    encoder: TextEncoder, corpus: Corpus, counted: Scan, dtype: str, shard_size: int
) -> Description:
    """What a folder of these vectors says of itself."""
    return Description(
        model=encoder.fingerprint,
        model_path=encoder.path,
        side=encoder.side,
        length=encoder.length,
        dim=encoder.dim,
        dtype=dtype,
        source=corpus.source,
        data=counted.fingerprint,
        num_texts=counted.num_texts,
        order="corpus",
        shard_size=shard_size,
        num_shards=counted.num_shards,
    )


def start_folder(out: Path, description: Description) -> None:
    """Writes `vectors.json`, or compares it with the one that is there."""
    if (out / FILE).is_file():
        Description.read(out).check_same(description, out)
        return
    description.write(out, {"done": "none"})
    flush_folder(out)


def as_encoder(model: str | Path | TextEncoder, side: str) -> TextEncoder:
    """One side of a model, which is opened if it is not."""
    if not isinstance(model, TextEncoder):
        # Not at the top: to read and to describe vectors needs neither Keras nor TensorFlow.
        from samtone_tf.encoding.models import open_encoder

        return open_encoder(model, side)
    if model.side != side:
        raise ValueError(
            f"`side` must be that of the encoder. Received: side={side!r} for an encoder of side "
            f"{model.side!r}. Open it for the other side."
        )
    return model


def _range(shards: tuple[int, int | None] | None, num_shards: int) -> range:
    first, end = shards or (0, None)
    end = num_shards if end is None else min(end, num_shards)
    if not 0 <= first < end:
        raise ValueError(
            f"`shards` must be first:end within 0:{num_shards}, with at least one shard. "
            f"Received: {':'.join(str(x) for x in shards or ())}. The corpus fills "
            f"{num_shards} shards; lower `shard_size` in a new folder for more."
        )
    return range(first, end)


def _num_rows(shards: list[int], description: Description) -> int:
    size, num = description.shard_size, description.num_texts
    return sum(min(size, num - shard * size) for shard in shards)


def _encode_shards(
    encoder: TextEncoder,
    corpus: Corpus,
    counted: Scan,
    description: Description,
    out: Path,
    todo: list[int],
    batch_tokens: int | None,
) -> None:
    windows = _windows(corpus, counted, description.shard_size, todo)
    tokenised = ((window, encoder.tokenize(window.texts)) for window in windows)
    parts = iter(_ahead(tokenised))
    name = {"query": "queries", "document": "documents"}[encoder.side]
    total = _num_rows(todo, description)
    with tqdm(total=total, desc=f"encode {name}", unit=" texts", delay=3, leave=False) as bar:
        for shard in todo:
            num_rows = _num_rows([shard], description)
            with ShardWriter(out, shard, num_rows, description) as writer:
                while writer.loss.num_rows < num_rows:
                    window, tokens = next(parts)
                    writer.add(window.ids, encoder.encode(tokens, batch_tokens, bar.update))
                writer.finish()
            _note_progress(out, description)


def _note_progress(out: Path, description: Description) -> None:
    """Says in `vectors.json` which shards are done, and at the end what was lost."""
    done = done_shards(out)
    more = {"done": as_ranges(done)}
    if len(done) == description.num_shards and description.dtype != "float32":
        more["loss"] = asdict(Vectors(out).loss)
    description.write(out, more)


def _windows(corpus: Corpus, counted: Scan, shard_size: int, todo: list[int]) -> Iterator[_Window]:
    """The texts of some shards, none of which ends before it was compared with the first reading.

    Raises:
        ValueError: it is not the corpus that was counted.
    """
    if not todo:
        return
    digest, wanted, row = TextHash(), set(todo), 0
    end = min((todo[-1] + 1) * shard_size, counted.num_texts)
    ids: list[str] = []
    texts: list[str | bytes] = []
    for text_id, text in corpus.read():
        digest.add(text_id, text)
        shard, row = row // shard_size, row + 1
        if shard in wanted:
            ids.append(text_id)
            texts.append(text)
        is_end = row % shard_size == 0 or row == counted.num_texts
        if is_end and digest.mark() != counted.marks[shard]:
            break
        if ids and (is_end or len(ids) == WINDOW):
            yield _Window(shard, ids, texts)
            ids, texts = [], []
        if row == end:
            return
    raise ValueError(
        "`data` must stay as it is while it is read. "
        f"Received: {corpus.source}, which changed between two readings, before text {row + 1}. "
        "Encode it again into a new folder."
    )


def _ahead(items: Iterator[T]) -> Iterator[T]:
    """The same items, each made in a thread while the one before is in use."""
    nothing = object()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(next, items, nothing)
        while (item := future.result()) is not nothing:
            future = pool.submit(next, items, nothing)
            yield item


@contextmanager
def _lock(folder: Path, exclusive: bool) -> Iterator[None]:
    """Keeps a second process of this machine from encoding the same shards.

    Those that encode a range of shards may work side by side.
    """
    if fcntl is None:
        yield
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(number, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(number)
        raise OSError(
            f"`out` must be written by one process at a time. Received: {folder}, which another "
            "process writes to. Wait for it, or give each a range of `shards`."
        ) from error
    except OSError:  # some network file systems have no locks
        pass
    try:
        yield
    finally:
        os.close(number)
