"""Sections → one HTML document that needs nothing else: no script, font, image or network."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from samtone_tf.analysis.markup import Html, tag
from samtone_tf.analysis.style import STYLE
from samtone_tf.analysis.tables import Section, bullets, table
from samtone_tf.version import __version__

# Says to the browser that nothing may be fetched or run, whatever a text holds.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(
    title: str,
    sections: Sequence[Section],
    files: Sequence[tuple[Path, str]],
    *,
    command: str | None = None,
    notes: Sequence[str] = (),
) -> str:
    """The whole document.

    Args:
        title: of the page.
        sections: in order.
        files: what it was made from, with their kinds.
        command: that made it.
        notes: what could not be shown.
    """
    dates = [_date(path) for path, _ in files]
    between = f"{min(dates)[:10]} to {max(dates)[:10]}"
    when = min(dates)[:10] if min(dates)[:10] == max(dates)[:10] else between
    links = [tag("li", tag("a", one.title, href=f"#{one.slug}")) for one in sections]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="generator", content=f"samtone-tf {__version__}"),
        tag("title", title),
        tag("style", Html(STYLE)),
    )
    num = f"{len(files)} file" + ("s" if len(files) > 1 else "")
    body = tag(
        "body",
        tag(
            "header",
            tag("h1", title),
            tag("p", f"From {num} of {when}.", class_="soft"),
            tag("nav", tag("ul", links), aria_label="Contents") if len(links) > 1 else None,
        ),
        tag("main", [_section(one) for one in sections]),
        _footer(files, command, notes),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _section(section: Section) -> Html:
    heading = tag("h2", section.title, id=f"{section.slug}-title")
    named = f"{section.slug}-title"
    return tag("section", heading, section.body, id=section.slug, aria_labelledby=named)


def _footer(files: Sequence[tuple[Path, str]], command: str | None, notes: Sequence[str]) -> Html:
    lines = [[path.as_posix(), kind, _date(path)] for path, kind in files]
    return tag(
        "footer",
        table("Made from", ["file", "kind", "written"], lines, texts=2),
        bullets(notes),
        tag("p", "Made with ", tag("code", command)) if command else None,
        tag("p", f"samtone-tf {__version__}"),
    )


def _date(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).strftime("%Y-%m-%d %H:%M UTC")
