"""`write_report`: results of judging, comparing, tuning and inspecting → one HTML page."""

from collections.abc import Sequence
from pathlib import Path

from samtone_tf.analysis.boards import make_boards
from samtone_tf.analysis.compared_section import compared_section
from samtone_tf.analysis.data_section import data_section
from samtone_tf.analysis.index_section import index_section
from samtone_tf.analysis.judged_section import judged_section
from samtone_tf.analysis.page import page
from samtone_tf.analysis.read_results import read_results
from samtone_tf.analysis.results import Results
from samtone_tf.analysis.scores_section import scores_section
from samtone_tf.analysis.tables import Section
from samtone_tf.evaluation.whole_file import write_lines


def write_report(
    results: Sequence[str | Path] | str | Path,
    out: str | Path,
    *,
    title: str | None = None,
    overwrite: bool = False,
    command: str | None = None,
) -> Path:
    """Writes one page that shows results, opens in any browser, and fetches nothing.

    It has a section for each kind of result among the files: tables and bars with intervals,
    comparisons, indexes, lengths of texts, values of single queries. The same files give the
    same page.

    Args:
        results: files that `samtone evaluate`, `compare --json` and `inspect --json` wrote,
            `tuning.json` and `report.json` of an index, `.tsv` files of single queries, and
            folders of suites and indexes; in any order and mixture.
        out: HTML file to write; its folder is made.
        title: of the page; None takes that of its first section, such as the suite's name.
        overwrite: replace `out` if it exists.
        command: that is shown at the end of the page.

    Returns:
        `out`.

    Raises:
        FileExistsError: `out` is there, or is a folder.
        FileNotFoundError: one of `results` is not there, or a folder without results.
        ValueError: no results, broken JSON, an unknown kind of file, or an incomplete one.

    Example:

    >>> write_report(["results/gtr", "indexes/faq"], "report.html")  # doctest: +SKIP
    """
    out = check_out(out, overwrite)
    found = read_results([results] if isinstance(results, str | Path) else list(results))
    sections = make_sections(found)
    title = title or f"Report: {sections[0].title}"
    made = page(title, sections, found.files, command=command, notes=found.notes)
    return write_lines(out, [made])


def check_out(out: str | Path, overwrite: bool) -> Path:
    """The file as a path, if it may be written.

    Args:
        out: to be written.
        overwrite: whether it may be there.

    Raises:
        FileExistsError: it is there, or is a folder.
    """
    out = Path(out)
    if out.is_dir():
        raise FileExistsError(
            f"`out` must be an HTML file. Received: {out}, a folder. Name a file in it."
        )
    if out.exists() and not overwrite:
        raise FileExistsError(
            f"`out` must be a new file. Received: {out}, which exists. Name another, or allow "
            "overwriting."
        )
    return out


def make_sections(found: Results) -> list[Section]:
    """A section for everything that there is.

    Args:
        found: what was read.
    """
    boards = make_boards(found.judged)
    sections = [judged_section(board, f"results-{n}") for n, board in enumerate(boards, 1)]
    if found.compared:
        sections.append(compared_section(found.compared))
    if found.query_values:
        sections.append(scores_section(found.query_values))
    if found.frontiers or found.index_reports:
        sections.append(index_section(found.frontiers, found.index_reports))
    if found.inspected:
        sections.append(data_section(found.inspected))
    return sections
