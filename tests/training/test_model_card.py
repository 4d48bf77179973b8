"""Pins of training.model_card: the card of a run names its data, setting and last numbers."""

import json

import pytest

from samtone_tf.config import LossConfig, RunConfig
from samtone_tf.training.model_card import write_model_card
from tests import tiny


@pytest.mark.parametrize("architecture", tiny.ARCHITECTURES)
def test_the_card_of_a_run_has_its_numbers(architecture):
    run = tiny.run(architecture)
    card = (run / "README.md").read_text()
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    shared = {"sde": "token_embedding, encoder, projection", "ade_spl": "projection"}[architecture]
    for line in (
        "# Dual encoder, mini, trained on made up",
        f"| architecture | {architecture}: the towers share {shared} |",
        "| loss | samtone, same tower: query, temperature 0.05, masks id, positives |",
        "| lengths in training | query 12, document 20 tokens |",
        "| training pairs | 60 |",
        "| steps | 5 of 8 pairs (0.7 epochs) |",
        "| negatives per query | 7 documents and 7 queries |",
        "| last step | 5 |",
        f"| last loss | {last['loss']:g} |",
        f"| last accuracy | {last['accuracy']:g} |",
    ):
        assert line in card.splitlines()


def test_a_card_says_none_and_nothing(tmp_path):
    config = RunConfig(
        model=tiny.config("ade").model, loss=LossConfig(name="in_batch_softmax", masks="none")
    )
    write_model_card(tmp_path, config, {"pairs": 3}, {"loss": 0.5})
    lines = (tmp_path / "README.md").read_text().splitlines()
    assert "| architecture | ade: the towers share nothing |" in lines
    assert "| loss | in_batch_softmax, temperature 0.05, masks none |" in lines
    assert "| pairs | 3 |" in lines
