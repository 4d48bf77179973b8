"""Which measures can be asked for: any name that ir_measures knows and can compute here."""

import re
from collections.abc import Iterable
from typing import Any

import ir_measures

EXAMPLES = "P@1, MRR@10, nDCG@10, R@100, AP@100, Success@5, Judged@10, P(rel=2)@5"

_OTHER_NAMES = {"MRR": "RR", "MAP": "AP", "Recall": "R"}  # common name → name in ir_measures
_NEED_CUTOFF = {"P", "R", "Success", "ERR"}
_SEPARATORS = re.compile(r"[\s,]+(?![^(]*\))")  # commas and spaces outside parentheses


def split_names(text: str | Iterable[str]) -> list[str]:
    """Names from one string, such as `"nDCG@10 P(rel=2)@5"`, or the list as it is.

    Args:
        text: names between commas or white space; repeated ones are kept once.
    """
    names = _SEPARATORS.split(text.strip()) if isinstance(text, str) else list(text)
    return list(dict.fromkeys(names))


def parse_measure(name: str) -> Any:
    """The measure of ir_measures that a name stands for.

    Args:
        name: such as `nDCG@10`; see `ir_measures`. MRR, MAP and Recall are RR, AP and R.

    Raises:
        ValueError: not a measure, one without the cutoff that it needs, or one that no
            installed library computes.
    """
    fault = ""
    try:
        family, rest = re.match(r"([^\W\d]*)(.*)", name, re.DOTALL).groups()
        family = _OTHER_NAMES.get(family, family)
        parsed = ir_measures.parse_measure(family + rest)
        parsed.validate_params()
        cutoff = cutoff_of(parsed)
        if cutoff is not None and (not isinstance(cutoff, int) or cutoff < 1):
            fault = "its cutoff is not a whole number above 0"
        elif cutoff is None and family in _NEED_CUTOFF:
            fault = "it needs a cutoff"
        elif not ir_measures.DefaultPipeline.supports(parsed):
            fault = "no installed library computes it"
    except (NameError, ValueError, TypeError, AttributeError, AssertionError, KeyError) as error:
        fault = " ".join(str(error).split())[:100] or type(error).__name__
    if fault:
        raise ValueError(
            f"`measures` must be names that ir_measures can compute. Received: {name!r} ({fault}). "
            f"Use names such as {EXAMPLES}."
        )
    return parsed


def parse_measures(names: str | Iterable[str]) -> dict[str, Any]:
    """Name as given → measure of ir_measures, in order.

    Args:
        names: as for `split_names`.
    """
    parsed = {name: parse_measure(name) for name in split_names(names)}
    if not parsed:
        raise ValueError(
            f"`measures` must name at least one. Received: none. Use names such as {EXAMPLES}."
        )
    return parsed


def cutoff_of(measure: Any) -> int | None:
    """How many hits a measure looks at; None if it looks at all of them."""
    return measure.params.get("cutoff")
