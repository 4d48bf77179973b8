"""Checks of single arguments: each returns nothing, or raises with what was received."""

import numbers
import warnings
from typing import Any


def check_at_least(name: str, value: float, smallest: float) -> None:
    """Raises ValueError when `value` is below `smallest`."""
    if value < smallest:
        raise ValueError(f"`{name}` must be at least {smallest}. Received: {name}={value}.")


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raises ValueError when `value` is none of `choices`."""
    if value not in choices:
        raise ValueError(
            f"`{name}` must be one of {', '.join(choices)}. Received: {name}={value!r}."
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
