"""Checks of single arguments: each returns nothing, or raises with what was received."""

import math
import numbers
import warnings
from typing import Any


def check_at_least(name: str, value: float, smallest: float) -> None:
    """Raises ValueError when `value` is below `smallest`."""
    if value < smallest:
        raise ValueError(f"`{name}` must be at least {smallest}. Received: {name}={value}.")


def check_choice(name: str, value: Any, choices: tuple[str | None, ...]) -> None:
    """Raises ValueError when `value` is none of `choices`."""
    if value not in choices:
        raise ValueError(
            f"`{name}` must be one of {', '.join(map(str, choices))}. Received: {name}={value!r}."
        )


def check_temperature(temperature: float) -> None:
    """Raises when a temperature cannot be one, and warns when it looks like its inverse."""
    if isinstance(temperature, bool) or not isinstance(temperature, numbers.Real):
        raise TypeError(f"`temperature` must be a number. Received: temperature={temperature!r}.")
    if not temperature > 0 or temperature == float("inf"):
        raise ValueError(
            "`temperature` must be greater than 0 and finite. "
            f"Received: temperature={temperature}. Published T5 dual encoders use 0.01."
        )
    if temperature > 1:
        warnings.warn(
            f"`temperature` is {temperature}: cosines are DIVIDED by it, so above 1 the loss can "
            f"hardly tell documents apart. If {temperature} is a scale, pass "
            f"temperature={1 / temperature:g} instead.",
            stacklevel=3,
        )


def check_same_tower(same_tower: str, bidirectional: bool, used: bool = True) -> None:
    """Raises when document-side terms are asked for without the direction they belong to."""
    if used and same_tower != "query" and not bidirectional:
        raise ValueError(
            "`same_tower` adds document-side terms to the document-to-query direction, which "
            f"`bidirectional=False` leaves out. Received: same_tower={same_tower!r}, "
            "bidirectional=False. Use same_tower='query' or bidirectional=True."
        )


def check_vocabulary(num_pieces: int, num_rows: int) -> None:
    """Raises when a tokenizer makes ids that a model's token table has no row for."""
    if num_pieces > num_rows:
        raise ValueError(
            "`tokenizer` must have at most as many pieces as the model's token table has rows. "
            f"Received: {num_pieces} pieces, {num_rows} rows. Use the tokenizer that the model was "
            "trained with."
        )


def check_learned_temperature(
    temperature: float, learned: bool, smallest: float, largest: float
) -> None:
    """Raises when the range of a learned temperature is none, or does not hold the start."""
    if not learned:
        if (smallest, largest) != (0.01, 1.0):
            raise ValueError(
                "`min_temperature` and `max_temperature` bound a temperature that is learned. "
                f"Received: min_temperature={smallest}, max_temperature={largest}, and "
                "learn_temperature=False. Leave them out, or set learn_temperature=True."
            )
        return
    if not 0 < smallest < largest < math.inf:
        raise ValueError(
            "`min_temperature` must be greater than 0 and less than `max_temperature`. "
            f"Received: min_temperature={smallest}, max_temperature={largest}."
        )
    if not smallest <= temperature <= largest:
        raise ValueError(
            f"`temperature` must be from min_temperature={smallest} to max_temperature={largest}, "
            f"where it is learned. Received: temperature={temperature}."
        )


def check_similarity_margin(margin: float | None, kind: str) -> None:
    """Raises when a margin of cosines is no finite number, or has a kind and no value."""
    check_choice("similarity_margin_kind", kind, ("absolute", "relative"))
    if margin is None:
        if kind != "absolute":
            raise ValueError(
                "`similarity_margin_kind` needs a `similarity_margin`. Received: "
                f"similarity_margin_kind={kind!r} and no margin. Set it, to 0.1 perhaps."
            )
        return
    if isinstance(margin, bool) or not isinstance(margin, numbers.Real):
        raise TypeError(
            f"`similarity_margin` must be a number. Received: similarity_margin={margin!r}."
        )
    if not math.isfinite(margin):
        raise ValueError(
            f"`similarity_margin` must be finite. Received: similarity_margin={margin}. "
            "Use None for no such mask."
        )


def check_alpha(alpha: float) -> None:
    """Raises ValueError unless PAIR's share is from 0 to 1."""
    if not 0 <= alpha <= 1:
        raise ValueError(
            f"`alpha` must be from 0 to 1. Received: alpha={alpha}. PAIR's authors use 0.1."
        )


def check_hinge_margin(margin: float) -> None:
    """Raises ValueError unless the margin of a triplet loss is above 0 and below 2."""
    if not 0 < margin < 2:
        raise ValueError(
            "`margin` must be greater than 0 and less than 2, as a difference of cosines. "
            f"Received: margin={margin}. 0.2 is usual."
        )
