"""An inspection as text for a terminal: what was counted, and what it implies for training."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from samtone_tf.data.lengths import Lengths

if TYPE_CHECKING:
    from samtone_tf.data.inspection import Inspection, Shared

_BAR = 30  # characters
_TEXT = 94
_MUCH_CUT = 0.05  # of texts, from which a longer limit is worth a look
HARDLY_EVER = 0.01  # other rows of a batch with the same document
MANY_UNIQUE = 0.9  # a rate from which both towers are worth a try; the paper names 17 % and 98 %


def as_text(found: "Inspection") -> str:
    """Return `found` as lines of at most 100 characters."""
    parts = [_head(found), _counts(found), _lengths(found), _repeats(found), _advice(found)]
    parts += [_splits(found), _languages(found), _samples(found), _notes(found)]
    return "\n\n".join("\n".join(lines) for part in parts if (lines := list(part)))


def same_tower_advice(unique_documents: float, same_document: float) -> str:
    """Return what the pairs imply for `loss.same_tower`.

    Args:
        unique_documents: different documents for each pair, as the paper counts them.
        same_document: other rows of a batch with a row's document, on average.
    """
    if unique_documents >= MANY_UNIQUE:
        return (
            "same_tower: query is the safe choice; both is worth a try, since documents are as "
            "good as unique (MS MARCO: 98 %)."
        )
    if same_document < HARDLY_EVER:
        return (
            "same_tower: query is the safe choice; both is worth a try: few documents are unique, "
            "but equal ones hardly ever meet in a batch of this size."
        )
    return (
        "same_tower: query. The document side would push apart documents that are the same: both "
        "hurt where few are unique (TriviaQA: 17 %). If you try it, keep loss.masks on."
    )


def _head(found: "Inspection") -> Iterator[str]:
    has = f" (the set has {', '.join(found.splits)})" if found.splits else ""
    yield f"{found.source}, split {found.split}{has}"


def _counts(found: "Inspection") -> Iterator[str]:
    yield "Counts"
    yield _row("documents", found.documents, _if(found.empty_documents, "empty"))
    yield _row("queries", found.queries)
    yield _row(f"judged in {found.split}", found.judged_queries)
    grades = ", ".join(f"{count:,} of grade {grade}" for grade, count in found.grades.items())
    grades = f"all of grade {next(iter(found.grades))}" if len(found.grades) == 1 else grades
    yield _row("judgements", found.judgements, grades)
    per_query = found.pairs.num / max(1, found.judged_queries)
    yield _row("relevant pairs", found.pairs.num, f"{per_query:.2f} per judged query")
    if found.pairs.negatives:
        yield _row("hard negatives", found.pairs.negatives)
    yield _row("unanswerable", found.unanswerable_queries, "judged, but nothing relevant is there")
    yield _row("unjudged", found.unjudged_queries, f"in none of {', '.join(found.compared)}")
    if found.absent_documents:
        yield _row("absent", found.absent_documents, "judged documents that the corpus lacks")
    if found.queries_that_are_documents:
        what = "their text is a document's: see --drop_self of evaluate"
        yield _row("also documents", found.queries_that_are_documents, what)


def _lengths(found: "Inspection") -> Iterator[str]:
    yield f"Lengths in tokens, the end token counted ({found.tokens})"
    sides = (("queries", found.query_lengths), ("documents", found.document_lengths))
    for name, lengths in sides:
        yield from _length(name, lengths)


def _length(name: str, lengths: Lengths) -> Iterator[str]:
    some = lengths.counted < lengths.of
    of = f"{lengths.counted:,} of {lengths.of:,}" if some else f"{lengths.of:,}"
    yield (
        f"  {name} ({of}): median {lengths.median:,.0f}, mean {lengths.mean:,.1f}, 95 % within "
        f"{lengths.percentile_95:,.0f}, longest {lengths.longest:,}"
    )
    most = max(count for *_, count in lengths.histogram)
    for first, last, count in lengths.histogram:
        bar = "█" * round(_BAR * count / most) or "▏" * bool(count)
        share = _percent(count, lengths.counted)
        yield f"  {f'{first:,}–{last:,}':>15} {count:>10,} {share:>7}  {bar}".rstrip()
    cut, tokens = _percent(lengths.share_cut), _percent(lengths.share_of_tokens_cut)
    double = f"; {2 * lengths.limit:,} would cut {_percent(lengths.share_cut_at_double)}"
    more = double if lengths.share_cut > _MUCH_CUT else ""
    yield f"  cut at {lengths.limit}: {cut} of {name} lose their end, {tokens} of all tokens{more}"


def _repeats(found: "Inspection") -> Iterator[str]:
    yield "Equal texts (case and spaces aside); every id is there once, which reading makes sure of"
    for name, repeats in (("queries", found.query_repeats), ("documents", found.document_repeats)):
        extra = repeats.total - repeats.different
        more = f"{_percent(extra, repeats.total)}; one text up to {repeats.most:,} times"
        yield _row(f"repeated {name}", extra, more if extra else "")


def _advice(found: "Inspection") -> Iterator[str]:
    pairs = found.pairs
    yield f"The {pairs.num:,} pairs of {found.split}, and batches of {pairs.batch_size:,}"
    for name, repeats, same in (
        ("documents", pairs.documents, pairs.same_document),
        ("queries", pairs.queries, pairs.same_query),
    ):
        yield (
            f"  unique {name}: {_percent(repeats.unique_rate)} ({repeats.different:,}); in a batch "
            f"{same:,.2f} other rows have the same {name[:-1].replace('querie', 'query')}"
        )
    yield from _wrap(same_tower_advice(pairs.documents.unique_rate, pairs.same_document))
    if pairs.same_document > 0.5 or pairs.same_query > 0.5:
        yield from _wrap(
            "Equal texts often meet in a batch: leave loss.masks as it is, which keeps them from "
            "being each other's negatives, or set data.no_duplicates."
        )


def _splits(found: "Inspection") -> Iterator[str]:
    if not found.shared:
        return
    yield f"{'Shared between splits, by text':<30}{'queries':>23}{'pairs':>23}{'documents':>23}"
    for shared in found.shared:
        parts = (
            _of(shared.shared_queries, shared.queries),
            _of(shared.shared_pairs, shared.pairs),
            _of(shared.shared_documents, shared.documents),
        )
        columns = "".join(f"{part:>23}" for part in parts)
        yield f"  {f'{shared.split} in {shared.other}':<28}{columns}"
    if any(shared.shared_queries and _is_leak(shared) for shared in found.shared):
        yield from _wrap(
            "Queries that are trained on and judged make the numbers better than they are: take "
            "them out of train."
        )
    if any(shared.shared_documents and _is_leak(shared) for shared in found.shared):
        yield from _wrap(
            "Documents that answer in both are usual, since the corpus is one; numbers are "
            "higher than on documents that no training query had."
        )


def _is_leak(shared: "Shared") -> bool:
    return shared.other.startswith("train") and not shared.split.startswith("train")


def _languages(found: "Inspection") -> Iterator[str]:
    yield "Languages (a guess, by script and common words)"
    sides = (("queries", found.query_languages), ("documents", found.document_languages))
    for name, languages in sides:
        shares = [f"{language} {_percent(share)}" for language, share in languages.items()]
        yield f"  {name}: {', '.join(shares[:5])}{', …' if len(shares) > 5 else ''}"


def _samples(found: "Inspection") -> Iterator[str]:
    yield f"{len(found.samples)} pairs"
    for sample in found.samples:
        yield f"  Q {_short(sample.query)}"
        yield f"  D {_short(sample.document)}"


def _notes(found: "Inspection") -> Iterator[str]:
    if found.notes:
        yield "Notes of reading"
        for note in found.notes:
            yield from _wrap(note)


def _row(name: str, count: int, more: str = "") -> str:
    return f"  {name:<22} {count:>12,}  {more}".rstrip()


def _if(count: int, what: str) -> str:
    return f"{count:,} {what}" if count else ""


def _of(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,} {_percent(part, whole):>7}"


def _percent(part: float, whole: float = 1) -> str:
    share = 100 * part / whole if whole else 0
    return f"{share:.1f} %" if not 0 < share < 0.1 else "<0.1 %"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _TEXT else text[: _TEXT - 1] + "…"


def _wrap(text: str) -> Iterator[str]:
    import textwrap

    yield from textwrap.wrap(text, 96, initial_indent="  ", subsequent_indent="    ")
