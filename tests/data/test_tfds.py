"""Pins of data.tfds: features by recipe, by name and by choice; splits; no silent download."""

import sys

import numpy as np
import pytest

from samtone_tf.data.sources import load_data, load_training_table
from samtone_tf.data.tfds import _flat, read_tfds, tfds_splits, tfds_stamp
from samtone_tf.data.tfds_recipes import RECIPES

tfds = pytest.importorskip("tensorflow_datasets")


def refuse(name, match, kind=ValueError, split="train"):
    with pytest.raises(kind, match=match) as caught:
        read_tfds(name, split)
    assert "\n" not in str(caught.value)


def prepare(folder, name, features, splits, version="1.0.0", config=None):
    """Writes a data set as TensorFlow Datasets keeps it; returns `?data_dir=…`."""
    with tfds.core.registered.skip_registration():

        class Toy(tfds.core.GeneratorBasedBuilder):
            VERSION = tfds.core.Version(version)
            BUILDER_CONFIGS = [tfds.core.BuilderConfig(name=config, description="")] * bool(config)

            def _info(self):
                return self.dataset_info_from_configs(features=tfds.features.FeaturesDict(features))

            def _split_generators(self, dl_manager):
                return {split: self._generate_examples(rows) for split, rows in splits.items()}

            def _generate_examples(self, rows):
                yield from enumerate(rows)

    Toy.name = name
    Toy.url_infos = {}  # looked for beside the code of a builder, of which this one has none
    builder = Toy(data_dir=str(folder), config=config)
    builder.download_and_prepare()
    return f"?data_dir={folder}"


TEXT = tfds.features.Text()
SQUAD = {
    "id": TEXT,
    "title": TEXT,
    "context": TEXT,
    "question": TEXT,
    "answers": tfds.features.Sequence({"text": TEXT, "answer_start": np.int32}),
}


def squad_row(key, context, question, **more):
    answers = {"text": ["x"], "answer_start": [0]}
    row = {"id": key, "title": "T", "context": context, "question": question, "answers": answers}
    return row | more


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """A set whose features have the names that people use."""
    folder = tmp_path_factory.mktemp("tfds")
    rows = [squad_row("007", "Cats purr.", "who purrs"), squad_row("8", "Dogs bark.", "who barks")]
    return prepare(folder, "toy_qa", SQUAD, {"train": rows, "validation": rows[1:]})


def test_question_and_context_are_told_from_their_names(toy):
    data = read_tfds(f"toy_qa:1.0.0{toy}", "train")
    assert sorted(data.queries.values()) == ["who barks", "who purrs"]
    assert sorted(data.documents.values()) == ["Cats purr.", "Dogs bark."]
    assert [(data.queries[q][4:], data.documents[d].split()[1][:-1]) for q, d in data.pairs()] == [
        (data.queries[q][4:], data.queries[q][4:].removesuffix("s")) for q, _ in data.pairs()
    ]
    assert data.notes == ("features read as: context → passage",)
    assert tfds_splits(f"toy_qa:1.0.0{toy}") == ("train", "validation")
    test = read_tfds(f"toy_qa:1.0.0{toy}", "validation")
    assert list(test.documents.values()) == ["Dogs bark."]
    assert not any("split column" in note for note in test.notes)


def test_features_can_be_said(toy):
    source = f"toy_qa:1.0.0{toy}&question=answers.text&passage=context&title=title&question_id=id"
    data = read_tfds(source, "validation")
    assert data.queries == {"8": "x"}
    assert list(data.documents.values()) == ["T Dogs bark."]
    assert data.notes == ()


def test_a_recipe_knows_squad_and_its_questions_without_answer(tmp_path):
    features = SQUAD | {"is_impossible": np.bool_}
    rows = [
        squad_row("1", "Cats purr.", "who purrs", is_impossible=False),
        squad_row("2", "Cats purr.", "who flies", is_impossible=True),
    ]
    where = prepare(tmp_path, "squad", features, {"train": rows}, "3.0.0", "v2.0")
    data = read_tfds(f"squad/v2.0:3.0.0{where}", "train")
    assert data.queries == {"1": "who purrs"}
    assert list(data.documents.values()) == ["T Cats purr."]
    assert data.notes == ()
    part = read_tfds(f"squad/v2.0:3.0.0{where}&passage=title", "train")  # the rest is the recipe's
    assert part.queries == {"1": "who purrs"}
    assert list(part.documents.values()) == ["T"]


def test_a_recipe_builds_the_long_answers_of_natural_questions(tmp_path):
    features = {
        "id": TEXT,
        "document": {
            "title": TEXT,
            "html": TEXT,
            "tokens": tfds.features.Sequence({"token": TEXT, "is_html": np.bool_}),
        },
        "question": {"text": TEXT, "tokens": tfds.features.Sequence(TEXT)},
        "annotations": tfds.features.Sequence(
            {
                "id": TEXT,
                "long_answer": {"start_token": np.int64, "end_token": np.int64},
                "short_answers": tfds.features.Sequence({"text": TEXT}),
            }
        ),
    }

    def row(key, spans):
        words = ["<P>", "Cats", "purr", ".", "</P>", "<P>", "Dogs", "bark", ".", "</P>"]
        tokens = {"token": words, "is_html": [word[0] == "<" for word in words]}
        answers = [
            {
                "id": "a",
                "long_answer": {"start_token": start, "end_token": end},
                "short_answers": [{"text": "x"}] * 2,
            }
            for start, end in spans
        ]
        document = {"title": "Animals", "html": "<html>" * 99, "tokens": tokens}
        question = {"text": f"question {key}", "tokens": ["q"]}
        return {"id": key, "document": document, "question": question, "annotations": answers}

    rows = [row("1", [(0, 5), (-1, -1), (0, 5), (5, 10)]), row("2", [(-1, -1)])]
    where = prepare(tmp_path, "natural_questions", features, {"train": rows}, "0.1.0", "default")
    data = read_tfds(f"natural_questions/default:0.1.0{where}", "train")
    assert data.queries == {"1": "question 1"}  # nobody found an answer to the other
    assert sorted(data.documents.values()) == ["Animals Cats purr .", "Animals Dogs bark ."]


def test_a_recipe_takes_every_text_of_trivia_qa(tmp_path):
    pages = {"title": TEXT, "wiki_context": TEXT}
    results = {"title": TEXT, "search_context": TEXT}
    features = {
        "question": TEXT,
        "question_id": TEXT,
        "entity_pages": tfds.features.Sequence(pages),
        "search_results": tfds.features.Sequence(results),
    }
    rows = [
        {
            "question": "who purrs",
            "question_id": "tc_1",
            "entity_pages": {"title": ["Cat", "Lion"], "wiki_context": ["Cats purr.", ""]},
            "search_results": {"title": ["Pets"], "search_context": ["A cat purrs."]},
        }
    ]
    where = prepare(tmp_path, "trivia_qa", features, {"train": rows}, "1.1.0", "rc")
    data = read_tfds(f"trivia_qa/rc:1.1.0{where}", "train")
    assert list(data.documents.values()) == ["Cat Cats purr.", "Pets A cat purrs."]
    assert list(data.qrels) == ["tc_1"]
    assert len(data.qrels["tc_1"]) == 2


@pytest.mark.parametrize(
    "name",
    [
        "squad/v1.1",
        "squad/v2.0",
        "natural_questions/default",
        "natural_questions/longt5",
        "trivia_qa/rc",
        "trivia_qa/unfiltered",
        "mrqa/search_qa",
    ],
)
def test_recipes_name_features_that_the_published_sets_have(name, tmp_path):
    features = _flat(tfds.builder(name, data_dir=str(tmp_path)).info.features)
    recipe = RECIPES.get(name) or RECIPES[name.partition("/")[0]]
    assert set(recipe.features()) <= set(features)


def test_columns_on_disk_are_kept_by_what_was_prepared(toy, tmp_path):
    from samtone_tf.data.cache import Cache

    source, cache = f"tfds:toy_qa:1.0.0{toy}", Cache(tmp_path)
    table = load_training_table(source, "train", cache)
    assert list(table.documents.texts) == list(load_data(source, "train").documents.values())
    assert cache.seen == {"pairs": "built"}
    load_training_table(source, "train", cache)
    assert cache.seen == {"pairs": "reused"}
    place = source.removeprefix("tfds:")
    stamps = [
        tfds_stamp(place, "train"),
        tfds_stamp(place, "validation"),
        tfds_stamp(f"{place}&title=title", "train"),
    ]
    assert len({stamp for stamp, _ in stamps}) == 3


def test_unknown_features_and_splits_list_the_known(toy):
    name = f"toy_qa:1.0.0{toy}"
    refuse(f"{name}&passage=body/text", r"answers/text, context, .*Received: 'body/text'")
    refuse(f"{name}&color=red", r"may have the options question, passage.*'color=red'")
    refuse(name, r"toy_qa.*: train, validation\. Received: test", split="test")
    refuse(f"{name}&question=answers/answer_start&passage=context&title=", "'title='")


def test_a_split_without_answers_is_named(tmp_path):
    features = SQUAD | {"is_impossible": np.bool_}
    rows = [squad_row("1", "Cats purr.", "who flies", is_impossible=True)]
    where = prepare(tmp_path, "toy_empty", features, {"train": rows})
    name = f"toy_empty:1.0.0{where}&skip_if=is_impossible"
    refuse(name, r"toy_empty.*: expected rows with query and document\. Received: no row")


def test_what_is_not_prepared_is_not_downloaded(tmp_path, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    refuse("squad", rf"not in {tmp_path}.*Add \?download=true", FileNotFoundError)
    refuse("no_such_set_at_all", r"tfds: and a data set.*Received: 'no_such_set_at_all'")
    assert list(tmp_path.iterdir()) == []


def test_mocked_data_of_a_known_set(tmp_path, monkeypatch):
    """`tfds.testing` makes up examples of the features that the set really has."""
    builder = tfds.builder("mrqa/squad", data_dir=str(tmp_path))
    split = tfds.core.SplitInfo(name="train", shard_lengths=[3], num_bytes=0)
    monkeypatch.setattr(
        type(builder.info), "splits", property(lambda self: {"train": split}), raising=True
    )
    with tfds.testing.mock_data(num_examples=3, policy=tfds.testing.MockPolicy.USE_CODE):
        data = read_tfds(f"mrqa/squad?data_dir={tmp_path}", "train")
    assert 1 <= len(data.queries) <= 3
    assert all(data.documents.values())


def test_without_the_package_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    refuse("squad", r"needs tensorflow-datasets.*pip install", ImportError)
