"""Reads MultiReQA: sentences of MRQA's contexts are the documents that questions are asked of.

MultiReQA publishes where sentences begin and end, MRQA the texts. Both are in one folder:

    [data/]SPLIT/NAME/candidates.json.gz            MultiReQA: candidate_id, response_start, …_end
    [mrqa/|data/]SPLIT/NAME….jsonl.gz               MRQA: contexts with their questions

SPLIT is train, dev or test; NAME is SQuAD, TriviaQA, SearchQA and so on, and an MRQA file may
go on after it (TriviaQA-web.jsonl.gz). The test sets lie in MRQA's folder `dev`. Every file may
be without .gz. `multireqa:FOLDER/NAME` chooses one set where a folder has several.

A sentence answers a question when it holds one of the spans that MRQA detected as its answer.
Equal sentences are one document. One context is in memory at a time.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samtone_tf.data import grouping
from samtone_tf.data.collection import Collection, Stream
from samtone_tf.data.columns import Numbers, Texts
from samtone_tf.data.fingerprints import fingerprint
from samtone_tf.data.folders import check_is_folder, what_is_in
from samtone_tf.data.lines import read_json_lines, shorten, text_field
from samtone_tf.data.records import RetrievalData
from samtone_tf.data.table import Table

SPLITS = ("train", "dev", "test")
_CANDIDATES = ("candidates.json", "candidates.jsonl")
# DATASET_QID/_CONTEXT_SENTENCE, of which releases leave out some.
_NUMBERS = re.compile(r"/?(_\d+){1,2}$")


class _Files(NamedTuple):
    candidates: Path
    mrqa: Path


def read_multireqa(folder: str | Path, split: str) -> RetrievalData:
    """Read one split of a MultiReQA set.

    Args:
        folder: where the files are, with the name of the set behind it if there are several.
        split: `train`, `dev` or `test`.

    Raises:
        FileNotFoundError: candidates or contexts are not there.
        ValueError: a line that is none, candidates of other contexts, or no answered question.
    """
    return _collection(folder, split, None).read()


def tabulate_multireqa(folder: str | Path, split: str, into: Path | None = None) -> Table:
    """Read one split as `read_multireqa` does, into columns.

    Args:
        folder: as for `read_multireqa`.
        split: `train`, `dev` or `test`.
        into: the folder where the columns are written; None keeps them in memory.
    """
    return _collection(folder, split, into).tabulate(into)


def multireqa_splits(folder: str | Path) -> tuple[str, ...]:
    """Names of the splits that have candidates."""
    return tuple(_candidates(*_root(Path(folder))))


def multireqa_files(folder: str | Path, split: str) -> tuple[Path, Path]:
    """Return the two files of one split: candidates and MRQA's contexts."""
    root, name = _root(Path(folder))
    candidates = _candidates(root, name)
    if split not in candidates:
        raise ValueError(
            f"`split` must be one of those that {root} has candidates of {name} for: "
            f"{', '.join(candidates)}. Received: {split}. Choose one of them."
        )
    where = ("dev", "test") if split == "test" else (split,)  # MRQA calls its own test sets dev
    for part in where:
        for folder in (root / "mrqa" / part, root / "data" / part, root / part):
            # The shortest name: SQuAD.jsonl.gz before SQuADv2.jsonl.gz.
            found = sorted(folder.glob(f"{name}*.jsonl*"), key=lambda path: len(path.name))
            found += sorted((folder / name).glob("*.jsonl*"))
            found = [path for path in found if not path.name.startswith("candidates")]
            if found:
                return _Files(candidates[split], found[0])
    raise FileNotFoundError(
        f"`folder` must hold MRQA's contexts as {where[0]}/{name}.jsonl.gz. "
        f"Received: {root}, which holds {what_is_in(root)}. Download the file from mrqa.github.io "
        f"and put it into {root / 'mrqa' / where[0]}."
    )


def _root(folder: Path) -> tuple[Path, str]:
    """The folder of all sets, and the name of one."""
    if not folder.exists() and folder.parent.is_dir() and folder.name in _names(folder.parent):
        return folder.parent, folder.name
    check_is_folder(folder, "a folder of MultiReQA and MRQA files", "SPLIT/NAME/candidates.json.gz")
    names = _names(folder)
    if len(names) == 1:
        return folder, names[0]
    if names:
        raise ValueError(
            f"`source` must name one set, as multireqa:{folder}/{names[0]}. Received: {folder}, "
            f"which holds {', '.join(names)}. Choose one of them."
        )
    raise FileNotFoundError(
        "`folder` must hold SPLIT/NAME/candidates.json.gz, as github.com/google-research-datasets/"
        f"MultiReQA has it. Received: {folder}, which holds {what_is_in(folder)}. "
        "Name the folder of its files."
    )


def _all_candidates(root: Path) -> Iterator[tuple[str, str, Path]]:
    """(split, name, file) of every set."""
    for split in SPLITS:
        for base in (root / "data", root):
            for file in _CANDIDATES:
                for path in sorted((base / split).glob(f"*/{file}*")):
                    yield split, path.parent.name, path


def _names(root: Path) -> list[str]:
    return sorted({name for _, name, _ in _all_candidates(root)})


def _candidates(root: Path, name: str) -> dict[str, Path]:
    return {split: path for split, found, path in _all_candidates(root) if found == name}


def _collection(folder: str | Path, split: str, into: Path | None) -> Collection:
    files = multireqa_files(folder, split)
    sentences = _Sentences(files, into)
    return Collection(
        source=f"multireqa:{folder}",
        split=split,
        documents=Stream(str(files.candidates), sentences.documents, "the candidates"),
        queries=Stream(str(files.mrqa), sentences.queries, "the questions"),
        judgements=Stream(str(files.mrqa), sentences.judgements, "the answers"),
        notes=sentences.notes,
    )


class _Sentence(NamedTuple):
    """One candidate; `place` counts all candidates, ordered by context."""

    place: int
    text: str
    start: int
    end: int

    def holds_one_of(self, spans: list[tuple[int, int]]) -> bool:
        """Whether one of (first, last) characters is in it."""
        return any(self.start <= first and last < self.end for first, last in spans)


class _Sentences:
    """The candidates of one split, ordered by the context that they are cut out of.

    Args:
        files: where they are.
        into: the folder for what is kept of each candidate; None keeps it in memory.
    """

    def __init__(self, files: _Files, into: Path | None):
        self._files = files
        names = ("candidate_contexts", "candidate_starts", "candidate_ends")
        columns = [Numbers(into, name) for name in names]
        ids = Texts(into, "candidate_ids")
        questions = _questions(files.mrqa)
        num_unknown, example = 0, ""
        for number, record in read_json_lines(files.candidates):
            candidate_id, start, end = _candidate(record, f"{files.candidates}:{number}")
            context = _find_context(candidate_id, questions)
            if context is None:
                num_unknown, example = num_unknown + 1, candidate_id
                continue
            for column, value in zip(columns, (context, start, end), strict=True):
                column.append(value)
            ids.append(candidate_id)
        contexts, self._starts, self._ends = (column.finish() for column in columns)
        self._ids = ids.finish()
        if not len(contexts):
            found = f"{num_unknown} of others, such as {example!r}" if num_unknown else "no line"
            raise ValueError(
                f"{files.candidates}: no candidate belongs to a context of {files.mrqa}. "
                f"Received: {found}. Put MRQA's file of the same set and split there."
            )
        order = np.argsort(contexts, kind="stable")
        self._order, self._sorted = order, contexts[order]
        self._first = self._find_equal()
        self.notes = ()
        if num_unknown:
            example = f"such as {example}"
            self.notes = (f"{num_unknown} candidates are of contexts that are absent, {example}",)

    def documents(self) -> Iterator[tuple[int, str, str]]:
        """Every different sentence, by the id of its first candidate."""
        for number, _, sentences in self._walk():
            for sentence in sentences:
                if self._first[sentence.place] == sentence.place and sentence.text:
                    yield number, self._ids[self._order[sentence.place]], sentence.text

    def queries(self) -> Iterator[tuple[int, str, str]]:
        """Every question of a context that has candidates."""
        for number, context, _ in self._walk():
            place = f"{self._files.mrqa}:{number}"
            for question in context["qas"]:
                text = text_field(question, "question", place).strip()
                if text:
                    yield number, text_field(question, "qid", place), text

    def judgements(self) -> Iterator[tuple[int, str, str, int]]:
        """A question and a sentence that holds one of its answers, once each."""
        for number, context, sentences in self._walk():
            place = f"{self._files.mrqa}:{number}"
            for question in context["qas"]:
                spans = _spans(question, place)
                answers = dict.fromkeys(
                    int(self._first[sentence.place])
                    for sentence in sentences
                    if sentence.text and sentence.holds_one_of(spans)
                )
                for answer in answers:
                    document_id = self._ids[self._order[answer]]
                    yield number, text_field(question, "qid", place), document_id, 1

    def _find_equal(self) -> np.ndarray:
        """Int64, the place of the first candidate with the same text, for every place."""
        numbers = np.empty(len(self._order), np.int64)
        for _, _, sentences in self._walk():
            for sentence in sentences:
                numbers[sentence.place] = fingerprint(sentence.text)
        number_of, first = grouping.number(numbers)
        return first[number_of]

    def _walk(self) -> Iterator[tuple[int, dict, list["_Sentence"]]]:
        """(line, context, its candidates), context by context."""
        for row, (number, context) in enumerate(_contexts(self._files.mrqa)):
            first, last = np.searchsorted(self._sorted, [row, row + 1]).tolist()
            if first == last:
                continue
            text = text_field(context, "context", f"{self._files.mrqa}:{number}")
            sentences = []
            for place in range(first, last):
                candidate = self._order[place]
                start, end = int(self._starts[candidate]), int(self._ends[candidate])
                sentences.append(_Sentence(place, text[start:end].strip(), start, end))
            yield number, context, sentences


def _contexts(path: Path) -> Iterator[tuple[int, dict]]:
    """(line, context) of an MRQA file; its first line is a header."""
    for number, record in read_json_lines(path):
        if "header" in record and "qas" not in record:
            continue
        questions = record.get("qas")
        if not isinstance(questions, list) or not all(isinstance(q, dict) for q in questions):
            raise ValueError(
                f"{path}:{number}: expected a context with a list `qas` of questions. "
                f"Received: fields {', '.join(record) or 'none'}. Use a file of MRQA."
            )
        yield number, record


def _questions(path: Path) -> dict[int, int]:
    """Fingerprint of every question's id → the number of its context."""
    found = {}
    for row, (number, context) in enumerate(_contexts(path)):
        for question in context["qas"]:
            qid = text_field(question, "qid", f"{path}:{number}")
            found.setdefault(fingerprint(qid), row)
    return found


def _candidate(record: dict, place: str) -> tuple[str, int, int]:
    candidate_id = text_field(record, "candidate_id", place)
    span = [record.get(name) for name in ("response_start", "response_end")]
    if not all(type(value) is int for value in span) or not 0 <= span[0] <= span[1]:
        raise ValueError(
            f"{place}: `response_start` and `response_end` must be whole numbers, the first not "
            f"above the second. Received: {shorten(str(span))}. Correct or remove the line."
        )
    return candidate_id, span[0], span[1]


def _find_context(candidate_id: str, questions: dict[int, int]) -> int | None:
    """The context of the question whose id is in a candidate's."""
    without_numbers = _NUMBERS.sub("", candidate_id)
    for name in (without_numbers, without_numbers.partition("_")[2], candidate_id):
        if name and (found := questions.get(fingerprint(name))) is not None:
            return found
    return None


def _spans(question: dict, place: str) -> list[tuple[int, int]]:
    """First and last character of every detected answer."""
    spans = []
    try:
        for answer in question["detected_answers"]:
            spans += [(int(first), int(last)) for first, last in answer["char_spans"]]
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"{place}: question {question.get('qid')!r} must have `detected_answers` with "
            "`char_spans`. Received: none, or of another form. Use a file of MRQA."
        ) from None
    return spans
