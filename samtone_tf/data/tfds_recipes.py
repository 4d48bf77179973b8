"""What the features of well-known data sets of TensorFlow Datasets are: question, passage, ids."""

from collections.abc import Iterator
from typing import Any, NamedTuple


class Recipe(NamedTuple):
    """Which features of a data set are what; parts of a path are separated by `/`.

    Args:
        question: one text.
        passages: (passage, its title or ""), one or many texts each; several are alternatives,
            of which each gives pairs.
        question_id: of the question, if it has one.
        passage_id: of the passage, if it has one.
        skip_if: a feature that is true where no passage answers.
        long_answers: build the passages from Natural Questions' tokens instead.
    """

    question: str
    passages: tuple[tuple[str, str], ...] = ()
    question_id: str = ""
    passage_id: str = ""
    skip_if: str = ""
    long_answers: bool = False

    def features(self) -> list[str]:
        """Every feature that is read."""
        found = [self.question, self.question_id, self.passage_id, self.skip_if]
        found += [name for pair in self.passages for name in pair]
        if self.long_answers:
            found += _LONG_ANSWERS
        return list(dict.fromkeys(name for name in found if name))


_LONG_ANSWERS = [
    "document/title",
    "document/tokens/token",
    "document/tokens/is_html",
    "annotations/long_answer/start_token",
    "annotations/long_answer/end_token",
]
RECIPES = {
    "squad": Recipe("question", (("context", "title"),), question_id="id"),
    "squad/v2.0": Recipe(
        "question", (("context", "title"),), question_id="id", skip_if="is_impossible"
    ),
    "natural_questions": Recipe("question/text", question_id="id", long_answers=True),
    "natural_questions/longt5": Recipe("question", (("context", "title"),), question_id="id"),
    "trivia_qa": Recipe(
        "question",
        (
            ("entity_pages/wiki_context", "entity_pages/title"),
            ("search_results/search_context", "search_results/title"),
        ),
        question_id="question_id",
    ),
    "mrqa": Recipe("question", (("context", ""),), question_id="qid"),
}


def get(example: Any, path: str) -> Any:
    """Return the feature at a path; parts of it are separated by `/`."""
    for part in path.split("/"):
        example = example[part]
    return example


def long_answers(example: dict) -> Iterator[dict]:
    """The passages that annotators of Natural Questions chose, each once."""
    tokens = get(example, "document/tokens/token")
    is_html = get(example, "document/tokens/is_html")
    answers = get(example, "annotations/long_answer")
    spans = zip(answers["start_token"].tolist(), answers["end_token"].tolist(), strict=True)
    title = get(example, "document/title").decode("utf-8", "replace")
    for start, end in dict.fromkeys(spans):
        if start < 0:  # this annotator found no answer
            continue
        words = tokens[start:end][~is_html[start:end]].tolist()
        text = b" ".join(words).decode("utf-8", "replace").strip()
        if text:
            yield {"document": text, "title": title}
