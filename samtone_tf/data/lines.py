"""Text files read line by line, gzipped or not, with the place of every mistake.

The readers of one format each (`beir`, `pairs`) share this. Every error names file and line.
"""

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path

from tqdm import tqdm


def read_lines(path: Path, quiet: bool = False) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line without its end).

    A progress bar comes after 3 seconds, unless `quiet` says that somebody else shows one.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    number = 0
    with (
        opener(path, "rb") as file,
        tqdm(file, desc=path.name, unit=" lines", delay=3, leave=False, disable=quiet) as lines,
    ):
        try:
            for number, raw in enumerate(lines, start=1):
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                yield number, line.rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path}:{number}: expected UTF-8 text. "
                f"Received: byte 0x{error.object[error.start]:02x} at position {error.start}. "
                "Convert the file to UTF-8."
            ) from error
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ValueError(
                f"{path}: expected a whole gzip file. Received: {error}, after line {number}. "
                "Copy or download the file again."
            ) from error


def read_json_lines(path: Path, quiet: bool = False) -> Iterator[tuple[int, dict]]:
    """Yield (line number, object) for every line that is not blank; `quiet` as in `read_lines`."""
    for number, line in read_lines(path, quiet):
        if line.strip():
            yield number, read_json(line, f"{path}:{number}")


def read_json(line: str, place: str) -> dict:
    """Return the object of one line of JSON, or raise with `place` (file:line)."""
    try:
        record = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(
            f"{place}: expected one JSON object per line. "
            f"Received: {shorten(line)} ({error}). Correct or remove the line."
        ) from error
    if not isinstance(record, dict):
        raise ValueError(
            f"{place}: expected a JSON object in braces. "
            f"Received: {shorten(line)}. Correct or remove the line."
        )
    return record


def id_field(record: dict, name: str, place: str) -> str:
    """Return the id in field `name` as a string; whole numbers become their digits."""
    value = record.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    value = text_field(record, name, place)
    if not value.strip():
        raise ValueError(f"{place}: `{name}` is empty. Give every record an id.")
    return value


def text_field(record: dict, name: str, place: str) -> str:
    """Return the string in field `name`, or raise with `place` (file:line) and what is there."""
    if name not in record:
        raise ValueError(
            f"{place}: `{name}` is missing. Received: fields {', '.join(record) or 'none'}. "
            f"Add `{name}` to the record."
        )
    value = record[name]
    if not isinstance(value, str):
        shown = shorten(json.dumps(value, default=str))
        raise ValueError(
            f"{place}: `{name}` must be a string. Received: {shown}. Put it in quotes."
        )
    return value


def join_title(title: str, text: str) -> str:
    """Return title, one space and text; no stray space when either is empty."""
    return " ".join(part for part in (title.strip(), text.strip()) if part)


def first_few(names: list[str], count: int = 3) -> str:
    """Return the first names, and dots when there are more, for a message."""
    return ", ".join(names[:count]) + (", …" if len(names) > count else "")


def shorten(text: str, length: int = 60) -> str:
    """Return `text` quoted, on one line and cut, for a message."""
    return repr(text if len(text) <= length else text[:length] + "…")
