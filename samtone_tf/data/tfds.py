"""Reads data sets of TensorFlow Datasets that have questions and passages.

    tfds:squad   tfds:mrqa/search_qa   tfds:my_set?question=text&passage=body/paragraph

Which features are the question and the passage is known for some sets, told from names that
people use, or said. What is not prepared yet is downloaded only with `?download=true`.
"""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tqdm import tqdm

from samtone_tf.data.pair_columns import ALIASES, PairColumns
from samtone_tf.data.pair_table import PairRows
from samtone_tf.data.place import split_place
from samtone_tf.data.records import RetrievalData
from samtone_tf.data.table import Table
from samtone_tf.data.tfds_recipes import RECIPES, Recipe, get, long_answers

_FEATURES = ("question", "passage", "title", "question_id", "passage_id")
_OPTIONS = (*_FEATURES, "skip_if", "data_dir", "download")


def read_tfds(name: str, split: str) -> RetrievalData:
    """Read one split of a prepared data set.

    The corpus is every passage of the split. Natural Questions gives the long answers, without
    markup, of the questions that have one; SQuAD 2 the questions that can be answered; TriviaQA
    a pair for every page and search result with a text.

    Args:
        name: as `tfds.builder` takes it (`set`, `set/config`, `set/config:version`), and after
            `?` what to read: `question`, `passage`, `title`, `question_id`, `passage_id`
            (features; parts of a path separated by `/` or `.`), `skip_if` (a feature that is
            true where no passage answers), `data_dir` (default: $TFDS_DATA_DIR), `download=true`.
        split: such as `train` or `validation`.

    Raises:
        ImportError: TensorFlow Datasets is not there.
        FileNotFoundError: the set is not prepared.
        ValueError: an unknown set, split or feature.
    """
    return _Set(name).rows(split).data(split)


def tabulate_tfds(name: str, split: str, folder: Path | None = None) -> Table:
    """Read one split as `read_tfds` does, into columns.

    Args:
        name: as for `read_tfds`.
        split: such as `train`.
        folder: where the columns are written; None keeps them in memory.
    """
    return _Set(name).rows(split).tabulate(split, folder)


def tfds_splits(name: str) -> tuple[str, ...]:
    """Names of the splits of a prepared data set."""
    return tuple(sorted(_Set(name).builder.info.splits))


def tfds_stamp(name: str, split: str) -> tuple[str, int]:
    """Return what changes when the data does, and about how many bytes its columns take."""
    found = _Set(name)
    found.check_split(split)
    info = found.builder.info
    shards = [(str(i.filename), i.examples_in_shard) for i in info.splits[split].file_instructions]
    stamp = f"{info.full_name} {found.recipe} {shards} {info.splits[split].num_bytes}"
    return stamp, 3 * info.splits[split].num_bytes


class _Set:
    """A prepared data set, and how it is read."""

    def __init__(self, place: str):
        self.source = f"tfds:{place}"
        self.name, options = split_place(place, _OPTIONS, "tfds")
        self.builder = _open(self.name, options)
        self._known = _flat(self.builder.info.features)
        self.recipe, self._found = self._choose(options)
        for feature in self.recipe.features():
            self._check_feature(feature)

    def rows(self, split: str) -> PairRows:
        """Pairs of one split, with the columns' own names."""
        self.check_split(split)
        columns = PairColumns()
        if self._found:
            columns.add_note(f"features read as: {self._found}")
        return PairRows(self.source, self.source, lambda: self._read(split), columns, True)

    def check_split(self, split: str) -> None:
        """Raise unless the data set has it."""
        if split not in self.builder.info.splits:
            raise ValueError(
                f"`split` must be one of those of {self.source}: "
                f"{', '.join(sorted(self.builder.info.splits))}. Received: {split}. "
                "Choose one of them."
            )

    def _choose(self, options: Mapping[str, str]) -> tuple[Recipe, str]:
        """The recipe, and what to say about it if it was guessed."""
        given = {k: v.replace(".", "/") for k, v in options.items() if k in (*_FEATURES, "skip_if")}
        whole = self.builder.info.full_name.rpartition("/")[0]  # without the version
        recipe = RECIPES.get(whole) or RECIPES.get(whole.partition("/")[0])
        guessed = {}
        if recipe is None:
            guessed = {
                option: self._guess(column)
                for option, column in (("question", "query"), ("passage", "document"))
                if option not in given
            }
            recipe = Recipe("")
        chosen = given | guessed
        if "passage" in chosen:
            title = chosen.get("title", "")
            passages = tuple((name, title) for name in chosen["passage"].split(","))
            recipe = recipe._replace(passages=passages, long_answers=False)
        elif "title" in chosen:
            passages = tuple((name, chosen["title"]) for name, _ in recipe.passages)
            recipe = recipe._replace(passages=passages)
        names = ("question", "question_id", "passage_id", "skip_if")
        recipe = recipe._replace(**{name: chosen[name] for name in names if name in chosen})
        said = ", ".join(f"{n} → {option}" for option, n in guessed.items() if n != option)
        return recipe, said

    def _guess(self, column: str) -> str:
        """The feature with one of the names that people give to a column of pairs."""
        names = (column, *ALIASES[column])
        return next((name for name in names if name in self._known), column)

    def _check_feature(self, feature: str) -> None:
        if feature not in self._known:
            raise ValueError(
                f"`source` must name features that {self.builder.info.full_name} has: "
                f"{', '.join(sorted(self._known))}. Received: {feature!r} in {self.source}. Say "
                "which are the question and the passage, as tfds:NAME?question=A&passage=B/C."
            )

    def _read(self, split: str) -> Iterator[tuple[str, dict]]:
        import tensorflow_datasets as tfds

        wanted = _nested(self.recipe.features())
        with _quiet():
            dataset = self.builder.as_dataset(
                split=split,
                shuffle_files=False,
                decoders=tfds.decode.PartialDecoding(wanted),
                read_config=tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False),
            )
        bar = tqdm(
            tfds.as_numpy(dataset),
            desc=self.name,
            total=self.builder.info.splits[split].num_examples,
            unit=" examples",
            delay=3,
            leave=False,
            disable=None,
        )
        for number, example in enumerate(bar, start=1):
            place = f"{self.source}:{number}"
            yield from ((place, row) for row in self._pairs(example, place))

    def _pairs(self, example: dict, place: str) -> Iterator[dict]:
        recipe = self.recipe
        if recipe.skip_if and bool(get(example, recipe.skip_if)):
            return
        row = {"query": _text(get(example, recipe.question), recipe.question, place)}
        for column, feature in (
            ("query_id", recipe.question_id),
            ("document_id", recipe.passage_id),
        ):
            if feature:
                row[column] = _text(get(example, feature), feature, place)
        if recipe.long_answers:
            yield from (row | found for found in long_answers(example))
        for passage, title in recipe.passages:
            texts = _texts(get(example, passage), passage, place)
            titles = _texts(get(example, title), title, place) if title else []
            if len(titles) == 1:
                titles *= len(texts)
            for number, text in enumerate(texts):
                if text.strip():
                    named = {"title": titles[number]} if len(titles) == len(texts) else {}
                    yield row | {"document": text} | named


def _open(name: str, options: Mapping[str, str]) -> Any:
    """A prepared builder."""
    try:
        import tensorflow_datasets as tfds
    except ImportError as error:
        raise ImportError(
            f"`tfds:` needs tensorflow-datasets, which could not be imported ({error}). "
            "Run: pip install tensorflow-datasets"
        ) from error
    folder = options.get("data_dir") or os.environ.get("TFDS_DATA_DIR")
    try:
        builder = tfds.builder(name, data_dir=folder)
    except (tfds.core.DatasetNotFoundError, ValueError, AssertionError) as error:
        raise ValueError(
            "`source` must be tfds: and a data set that TensorFlow Datasets knows, or one that is "
            f"in data_dir. Received: {name!r} ({_first_line(error)}). Check the spelling; the list "
            "is at https://www.tensorflow.org/datasets/catalog."
        ) from error
    if builder.info.splits:
        return builder
    if options.get("download") != "true":
        size = builder.info.download_size
        about = f", about {int(size) / 1e6:,.0f} MB," if size else ""
        raise FileNotFoundError(
            f"`source` must be a data set that is prepared. Received: tfds:{name}, which is not in "
            f"{builder.data_path}. Add ?download=true to download it{about} or set TFDS_DATA_DIR."
        )
    print(f"downloading {builder.info.full_name} to {builder.data_path}")
    builder.download_and_prepare()
    return builder


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what TensorFlow Datasets says about its own use of what it deprecates."""
    logger = logging.getLogger("absl")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "")


def _flat(features: Any, prefix: str = "") -> dict[str, Any]:
    """Path → feature, for all that are not made of others."""
    inner = getattr(features, "feature", features)  # of a Sequence
    if not hasattr(inner, "items"):
        return {prefix.rstrip("/"): features}
    found = {}
    for name, feature in inner.items():
        found |= _flat(feature, f"{prefix}{name}/")
    return found


def _nested(paths: list[str]) -> dict:
    """The tree of features to decode."""
    tree: dict = {}
    for path in paths:
        *outer, last = path.split("/")
        branch = tree
        for part in outer:
            branch = branch.setdefault(part, {})
        branch[last] = True
    return tree


def _text(value: Any, feature: str, place: str) -> str:
    texts = _texts(value, feature, place)
    if len(texts) != 1:
        raise ValueError(
            f"{place}: the feature {feature} must be one text. Received: {len(texts)} of them. "
            "Name another feature."
        )
    return texts[0]


def _texts(value: Any, feature: str, place: str) -> list[str]:
    """The texts of a feature that is one or a sequence of them; whole numbers are ids."""
    values = value.tolist() if hasattr(value, "tolist") else value
    found = []
    for one in values if isinstance(values, list) else [values]:
        if isinstance(one, bytes):
            found.append(one.decode("utf-8", "replace"))
        elif isinstance(one, str | int) and not isinstance(one, bool):
            found.append(str(one))
        else:
            raise ValueError(
                f"{place}: the feature {feature} must be a text or a sequence of texts. "
                f"Received: {type(one).__name__}. Name another feature."
            )
    return found
