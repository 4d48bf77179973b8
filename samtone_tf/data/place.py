"""What follows a source's colon: a path or a name, and after `?` some options."""

from collections.abc import Collection
from pathlib import Path
from urllib.parse import unquote


def split_place(place: str, allowed: Collection[str], kind: str) -> tuple[str, dict[str, str]]:
    """Return what stands before `?`, and the options after it, as `name=value&name=value`.

    A file or folder whose own name holds a `?` is taken as it is.

    Args:
        place: what follows the colon.
        allowed: names of options.
        kind: of the source, for the message.

    Raises:
        ValueError: an option that is none of these, twice, or without a value.
    """
    path, mark, rest = place.partition("?")
    if not mark or Path(place).exists():
        return place, {}
    options: dict[str, str] = {}
    for part in rest.split("&"):
        name, _, value = part.partition("=")
        if name not in allowed or not value or name in options:
            raise ValueError(
                f"`source` of kind {kind} may have the options {', '.join(allowed)}, each once, as "
                f"?name=value&name=value. Received: {part!r} in {kind}:{place}. Correct it."
            )
        options[name] = unquote(value)
    return path, options
