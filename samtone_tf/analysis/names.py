"""Short names for data sets, models and files that still tell them apart."""

from collections.abc import Iterable
from pathlib import PurePosixPath


def short_names(names: Iterable[str], least: int = 1) -> dict[str, str]:
    """Name → its last parts, as few as tell all of them apart.

    Args:
        names: such as `beir:data/scifact` or `saved_models/gtr/1`.
        least: parts that are kept in any case.
    """
    whole = list(dict.fromkeys(names))
    parts = {name: PurePosixPath(name.replace(":", "/")).parts for name in whole}
    longest = max((len(part) for part in parts.values()), default=0)
    for length in range(least, longest + 1):
        found = {name: "/".join(part[-length:]) or name for name, part in parts.items()}
        if len(set(found.values())) == len(whole):
            return found
    return {name: name for name in whole}
