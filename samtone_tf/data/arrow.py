"""Rows of .parquet files and of folders of Hugging Face `datasets`, a batch in memory at a time.

A folder is one of these:

    dataset_dict.json, SPLIT/{state.json, data-*.arrow}     DatasetDict.save_to_disk
    state.json, data-*.arrow                                Dataset.save_to_disk: one split
    [data/]SPLIT-00000-of-00002.parquet, [data/]SPLIT.parquet, SPLIT/0000.parquet
    NAME-SPLIT[-00000-of-00002].arrow                       the cache of `datasets`
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from samtone_tf.data.folders import what_is_in
from samtone_tf.data.pair_columns import PairColumns

_BATCH = 1024  # rows
_ENDING = re.compile(r"(-\d{5}-of-\d{5}(-\w+)?)?\.(parquet|arrow)$")


class Shard(NamedTuple):
    """One file of rows, and the split that it belongs to; None where there are no splits."""

    path: Path
    split: str | None = None


def find_shards(folder: Path) -> list[Shard]:
    """Return the files of a folder, split by split.

    Raises:
        FileNotFoundError: no file of rows in it, or one is missing.
        ValueError: a folder of several data sets.
    """
    if (folder / "dataset_dict.json").is_file():
        splits = _read_json(folder / "dataset_dict.json").get("splits", [])
        return [shard for split in splits for shard in _saved(folder / split, split)]
    if (folder / "state.json").is_file():
        return _saved(folder, None)
    parquet = _parquet(folder) or _parquet(folder / "data")
    if parquet:
        return parquet
    arrow = [Shard(path, _split_of(path.name)) for path in sorted(folder.glob("*.arrow"))]
    if arrow:
        return arrow
    inner = [path for path in sorted(folder.iterdir()) if path.is_dir() and _parquet(path)]
    if len(inner) == 1:
        return _parquet(inner[0])
    if inner:
        raise ValueError(
            f"`file` must be a folder of one data set. Received: {folder}, which holds those of "
            f"{', '.join(path.name for path in inner)}. Name one of these folders."
        )
    raise FileNotFoundError(
        f"`file` must be a file of pairs, or a folder of Hugging Face datasets: what save_to_disk "
        f"wrote, or parquet files named as SPLIT-00000-of-00001.parquet. Received: {folder}, which "
        f"holds {what_is_in(folder)}. Name such a folder."
    )


def arrow_rows(shards: list[Shard], columns: PairColumns) -> Iterator[tuple[str, dict]]:
    """Yield (place, row) of every row; a place is FILE:NUMBER, counted from 1 in each file.

    Args:
        shards: where they are.
        columns: decides which columns are read at all.
    """
    for shard in shards:
        number = 0
        bar = tqdm(desc=shard.path.name, unit=" rows", delay=3, leave=False, disable=None)
        with bar:
            for batch in _batches(shard.path, columns):
                for row in batch.to_pylist():
                    number += 1
                    if shard.split is not None:
                        row["split"] = shard.split
                    yield f"{shard.path}:{number}", row
                bar.update(batch.num_rows)


def _batches(path: Path, columns: PairColumns) -> Iterator:
    pyarrow = import_pyarrow()
    read = _parquet_batches if path.suffix == ".parquet" else _arrow_batches
    try:
        for batch in read(path, columns):
            yield _with_strings(batch, pyarrow)
    except pyarrow.ArrowInvalid as error:
        raise ValueError(
            f"{path}: expected a whole {path.suffix[1:]} file of UTF-8 texts. "
            f"Received: {error}. Copy or download the file again."
        ) from error


def _parquet_batches(path: Path, columns: PairColumns) -> Iterator:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        wanted = columns.wanted(tuple(file.schema_arrow.names), str(path))
        yield from file.iter_batches(batch_size=_BATCH, columns=wanted)


def _arrow_batches(path: Path, columns: PairColumns) -> Iterator:
    import pyarrow

    with pyarrow.memory_map(str(path)) as file:
        try:
            reader = pyarrow.ipc.open_stream(file)
            batches = iter(reader)
        except pyarrow.ArrowInvalid:  # not a stream: the format with random access
            reader = pyarrow.ipc.open_file(file)
            batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
        wanted = columns.wanted(tuple(reader.schema.names), str(path))
        for batch in batches:
            for start in range(0, batch.num_rows, _BATCH):
                yield batch.select(wanted).slice(start, _BATCH)


def _with_strings(batch, pyarrow):
    """Some writers store texts as bytes."""
    for place, field in enumerate(batch.schema):
        if pyarrow.types.is_binary(field.type) or pyarrow.types.is_large_binary(field.type):
            texts = batch.column(place).cast(pyarrow.large_string())
            batch = batch.set_column(place, field.name, texts)
    return batch


def import_pyarrow():
    """Return pyarrow, or say how to get it."""
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(
            "Files of parquet and of Hugging Face datasets need pyarrow, which could not be "
            f"imported ({error}). Run: pip install 'samtone-tf[datasets]'"
        ) from error
    return pyarrow


def _saved(folder: Path, split: str | None) -> list[Shard]:
    """What `save_to_disk` wrote of one split."""
    if not (folder / "state.json").is_file():
        raise FileNotFoundError(
            f"`file` must be a folder that save_to_disk wrote. Received: {folder}, which lacks "
            "state.json. Copy or save it again."
        )
    state = _read_json(folder / "state.json")
    files = [folder / entry["filename"] for entry in state.get("_data_files", [])]
    for path in files:
        if not path.is_file():
            raise FileNotFoundError(
                f"`file` must be a whole folder of datasets. Received: {folder}, which lacks "
                f"{path.name}. Copy or save it again."
            )
    return [Shard(path, split or state.get("_split")) for path in files]


def _parquet(folder: Path) -> list[Shard]:
    found = [Shard(path, _split_of(path.name)) for path in sorted(folder.glob("*.parquet"))]
    if found or not folder.is_dir():
        return found
    # SPLIT/0000.parquet, as the hub converts what people upload.
    inner = [path for path in sorted(folder.glob("*/*.parquet")) if path.stem.isdigit()]
    return [Shard(path, path.parent.name) for path in inner]


def _split_of(name: str) -> str:
    split = _ENDING.sub("", name)
    return split if name.endswith(".parquet") else split.rpartition("-")[2]


def _read_json(path: Path) -> dict:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path}: expected the JSON that save_to_disk wrote. Received: {error}. "
            "Copy or save the folder again."
        ) from error
    return found if isinstance(found, dict) else {}
