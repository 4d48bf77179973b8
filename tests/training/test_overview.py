"""Pins of training.overview: every number of the first table."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from samtone_tf.config import LossConfig, ValidationConfig
from samtone_tf.data.validation_set import choose
from samtone_tf.training import train as training
from samtone_tf.training.memory import StepMemory
from samtone_tf.training.overview import as_lines, describe
from tests import tiny


def make_facts(config, statistics=None, held_out=None, notes=()):
    batches = SimpleNamespace(
        num_pairs=60, steps_per_epoch=7, notes=notes, statistics=statistics or {}
    )
    model = training.make_model(config, tiny.tokenizer())
    schedule = training.make_schedule(config.train)
    return describe(config, tiny.data(), batches, model, schedule, held_out)


def test_every_number():
    facts = make_facts(tiny.config(), notes=("odd",))
    memory = facts.pop("expected memory")
    table, block = tiny.tokenizer().vocabulary_size * 16, 4 * 16 * 16 + 3 * 16 * 32 + 2 * 16
    assert facts == {
        "training pairs": 60,
        "documents": 60,
        "parameters": f"{table + block + 32 * 2 + 16 + 16 * 12:,} trainable",
        "replicas": 1,
        "global batch": "8 pairs",
        "negatives per query": "7 documents and 7 queries",
        "temperature": "0.05 (1/τ = 20)",
        "steps per epoch": 7,
        "steps": "5 of 8 pairs (0.7 epochs)",
        "learning rate": "first, middle, end: 1.00e-02, 6.00e-03, 0.00e+00",
        "validation": "none (see --validation.split)",
        "note 1": "odd",
    }
    parts = ", ".join(rf"{name} \d MB" for name in StepMemory._fields)
    assert re.fullmatch(rf"about \d MB per replica \({parts}\)", memory)


def test_parameters_of_which_a_part_trains():
    base = tiny.config()
    model = replace(base.model, lora_rank=2)
    adapters, projection = 2 * 2 * (16 * 2 + 2 * 16) // 2, 16 * 12
    all_of_them = make_facts(base)["parameters"].removesuffix(" trainable").replace(",", "")
    total = int(all_of_them) + adapters
    found = make_facts(replace(base, model=model))["parameters"]
    assert found == f"{adapters + projection:,} of {total:,} trainable"


def test_memory_with_and_without_gradient_caching():
    memory = make_facts(tiny.config(gradient_cache_chunk=2))["expected memory"]
    assert re.search(r"; \d+ MB without gradient caching$", memory)


def test_the_plan_of_validation():
    held_out = choose(tiny.data(), 10, 20, seed=0)
    config = replace(tiny.config(steps=40), validation=ValidationConfig(patience=3))
    assert make_facts(config, held_out=held_out)["validation"] == (
        "nDCG@10 every 4 steps, 10 of 60 train queries over 30 of 60 documents: higher than over "
        "the whole corpus; the run ends after 3 without a better one"
    )


def test_a_table_is_aligned():
    assert as_lines({"a": 1, "longer": "x y"}) == "a       1\nlonger  x y"


@pytest.mark.parametrize(
    ("loss", "num_negatives", "words"),
    [
        ({"name": "in_batch_softmax"}, 0, "7 documents"),
        ({"same_tower": "query"}, 0, "7 documents and 7 queries"),
        ({"same_tower": "both"}, 0, "7 documents and 7 queries"),
        ({"same_tower": "document"}, 0, "7 documents"),
        ({"name": "gte"}, 0, "7 documents and 7 queries"),
        ({"name": "pair"}, 0, "7 documents"),
        ({"name": "triplet", "same_tower": "both"}, 0, "7 documents and 7 queries"),
        ({"name": "in_batch_softmax"}, 2, "23 documents"),  # 7 + 8 × 2
        ({"name": "in_batch_softmax", "negatives_scope": "own"}, 2, "9 documents"),  # 7 + 2
    ],
    ids=str,
)
def test_negatives_per_query_are_counted(loss, num_negatives, words):
    base = tiny.config()
    config = replace(
        base,
        loss=LossConfig(**loss),
        data=replace(base.data, num_negatives=num_negatives),
    )
    facts = make_facts(config, statistics={"negatives_per_query": num_negatives})
    assert facts["negatives per query"] == words


def test_the_temperature_there_is():
    assert "temperature" not in make_facts(replace(tiny.config(), loss=LossConfig("triplet")))
    learned = replace(tiny.config(), loss=LossConfig(learn_temperature=True))
    assert make_facts(learned)["temperature"] == "0.05 (1/τ = 20), learned from 0.01 to 1"
