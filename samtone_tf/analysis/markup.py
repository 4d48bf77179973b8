"""HTML and SVG elements that escape what is put into them."""

import re
from html import escape
from typing import Any

VOID = ("meta", "br", "hr")
# What no HTML document may hold: control characters, and halves of UTF-16 pairs.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


class Html(str):
    """Markup. Any other text is escaped when it becomes part of an element."""


def text(value: Any) -> Html:
    """The value as markup: itself if it is, else escaped.

    Args:
        value: markup, a text, or anything with one.
    """
    return value if isinstance(value, Html) else Html(escape(_FORBIDDEN.sub("\ufffd", str(value))))


def join(*parts: Any) -> Html:
    """Parts one after the other; lists among them are taken apart, None is nothing."""
    made = []
    for part in parts:
        if isinstance(part, list | tuple):
            made.append(join(*part))
        elif part is not None:
            made.append(text(part))
    return Html("".join(made))


def tag(name: str, /, *children: Any, **attributes: Any) -> Html:
    """One element.

    Args:
        name: such as `td`.
        children: as for `join`.
        attributes: `class_` stands for `class`, `aria_label` for `aria-label`; None is left out.
    """
    named = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID:
        return Html(f"<{name}{named}>")
    return Html(f"<{name}{named}>{join(*children)}</{name}>")
