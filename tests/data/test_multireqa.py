"""Pins of data.multireqa: sentences as documents, answers by span, the folders people have."""

import pytest

from samtone_tf.data.multireqa import multireqa_splits, read_multireqa
from tests.data.replicas import put, write_candidates, write_mrqa, write_multireqa


def refuse(folder, match, kind=ValueError, split="train"):
    with pytest.raises(kind, match=match) as caught:
        read_multireqa(folder, split)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("zipped", [True, False], ids=["gz", "plain"])
@pytest.mark.parametrize("split", ["train", "test"])
def test_sentences_that_hold_an_answer_are_relevant(tmp_path, zipped, split):
    write_multireqa(tmp_path, zipped)
    data = read_multireqa(tmp_path, split)
    assert data.documents == {
        "Toy_aa1/_0_0": "Cats purr.",  # in both contexts: one document
        "Toy_aa1/_0_1": "Dogs bark at night.",
        "Toy_bb3/_0_1": "Owls hoot.",
    }
    assert data.queries == {"aa1": "who purrs", "aa_2": "who barks", "bb3": "who hoots"}
    assert data.qrels == {
        "aa1": {"Toy_aa1/_0_0": 1},
        "aa_2": {"Toy_aa1/_0_1": 1},
        "bb3": {"Toy_bb3/_0_1": 1},
    }
    assert data.notes == ()
    assert multireqa_splits(tmp_path) == ("train", "test")


def test_a_span_must_lie_within_the_sentence(tmp_path):
    text = "One two. Three four."
    write_mrqa(
        tmp_path / "dev" / "Toy.jsonl", (text, [("q", "?", "two. Three"), ("r", "?", "four")])
    )
    candidates = tmp_path / "dev" / "Toy" / "candidates.json"
    write_candidates(candidates, ("Toy_q/_0_0", 0, 8), ("Toy_q/_0_1", 9, 20))
    data = read_multireqa(tmp_path, "dev")
    assert data.qrels == {"r": {"Toy_q/_0_1": 1}}
    assert set(data.queries) == {"q", "r"}  # q is unjudged, and still a query
    write_candidates(candidates, ("Toy_q/_0_0", 0, 8), ("Toy_q/_0_1", 9, 18))
    refuse(tmp_path, r"Toy\.jsonl\.gz: no relevant pair is left", split="dev")


def test_mrqas_file_may_have_a_longer_name(tmp_path):
    write_multireqa(tmp_path)
    for split in ("train", "dev"):
        path = tmp_path / split / "Toy.jsonl.gz"
        path.rename(path.with_name("Toy-web.jsonl.gz"))
    assert len(read_multireqa(tmp_path, "train").documents) == 3


def test_one_of_several_sets_is_named_behind_the_folder(tmp_path):
    write_multireqa(tmp_path)
    write_candidates(
        tmp_path / "data" / "train" / "Other" / "candidates.json", ("Other_x/_0_0", 0, 1)
    )
    refuse(tmp_path, r"multireqa:.*/Other\. Received: .*holds Other, Toy")
    assert len(read_multireqa(tmp_path / "Toy", "train").documents) == 3
    refuse(tmp_path / "Other", r"contexts as train/Other\.jsonl\.gz", FileNotFoundError)


def test_candidates_of_absent_contexts_are_counted(tmp_path):
    write_multireqa(tmp_path)
    candidates = tmp_path / "data" / "train" / "Toy" / "candidates.json"
    write_candidates(candidates, ("Toy_aa1/_0_0", 0, 10), ("Toy_zz/_0_0", 0, 3))
    notes = read_multireqa(tmp_path, "train").notes
    assert notes == ("1 candidates are of contexts that are absent, such as Toy_zz/_0_0",)
    put(candidates, "", zipped=True)
    refuse(tmp_path, r"no candidate belongs to a context of .*Received: no line")
    write_candidates(candidates, ("Toy_zz/_0_0", 0, 3))
    refuse(tmp_path, r"no candidate belongs to a context of .*1 of others, such as 'Toy_zz/_0_0'")


@pytest.mark.parametrize("name", ["aa1", "Toy_aa1", "aa1_0_1", "Toy_aa1_0", "Toy_aa1/_0_1"])
def test_ids_of_candidates_hold_the_question_in_any_form(tmp_path, name):
    write_multireqa(tmp_path)
    write_candidates(tmp_path / "data" / "train" / "Toy" / "candidates.json", (name, 0, 10))
    assert read_multireqa(tmp_path, "train").qrels == {"aa1": {name: 1}}


def test_bad_lines_name_their_number(tmp_path):
    write_multireqa(tmp_path, zipped=False)
    candidates = tmp_path / "data" / "train" / "Toy" / "candidates.json"
    whole = candidates.read_text()
    put(candidates, whole + '{"candidate_id": "Toy_aa1/_0_2", "response_start": "3"}\n')
    refuse(tmp_path, r"candidates\.json:5: `response_start` and `response_end` must be whole")
    put(candidates, whole + '{"response_start": 3, "response_end": 4}\n')
    refuse(tmp_path, r"candidates\.json:5: `candidate_id` is missing")
    put(candidates, whole)
    contexts = tmp_path / "train" / "Toy.jsonl"
    text = contexts.read_text()
    put(contexts, text + '{"context": "x"}\n')
    refuse(tmp_path, r"Toy\.jsonl:4: expected a context with a list `qas`")
    put(contexts, text.replace("detected_answers", "answers_found"))
    refuse(tmp_path, r"Toy\.jsonl:2: question 'aa1' must have `detected_answers`")


def test_bad_folders_say_what_is_there(tmp_path):
    refuse(tmp_path / "gone", "gone, which does not exist", FileNotFoundError)
    put(tmp_path / "a" / "readme.txt", "x")
    refuse(tmp_path / "a", r"SPLIT/NAME/candidates\.json\.gz.*holds readme\.txt", FileNotFoundError)
    write_multireqa(tmp_path / "b")
    refuse(tmp_path / "b", r"candidates of Toy for: train, test\. Received: dev", split="dev")
