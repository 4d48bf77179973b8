"""Pins of config: published sizes, what is refused and how, and that a config stays plain data."""

import json
import warnings
from dataclasses import FrozenInstanceError

import pytest

from samtone_tf import config, encoder_config
from samtone_tf.config import (
    SECTIONS,
    DataConfig,
    LossConfig,
    ModelConfig,
    RunConfig,
    TrainConfig,
    ValidationConfig,
)
from samtone_tf.encoder_config import EncoderConfig

# layers, width, heads, head width, feed-forward width: the t5.1.1 gin files and, for ours, design;
# T5 as first published: Raffel et al. 2020, section 3.7.
PUBLISHED = {
    "mini": (2, 256, 4, 64, 512),
    "t5-small": (6, 512, 8, 64, 2048),
    "t5-base": (12, 768, 12, 64, 3072),
    "t5-large": (24, 1024, 16, 64, 4096),
    "t5-3b": (24, 1024, 32, 128, 16384),
    "t5-11b": (24, 1024, 128, 128, 65536),
    "t5.1.1-small": (8, 512, 6, 64, 1024),
    "t5.1.1-base": (12, 768, 12, 64, 2048),
    "t5.1.1-large": (24, 1024, 16, 64, 2816),
    "t5.1.1-xl": (24, 2048, 32, 64, 5120),
    "t5.1.1-xxl": (24, 4096, 64, 64, 10240),
}


@pytest.mark.parametrize("size", PUBLISHED)
def test_sizes_are_the_published_ones(size):
    made = EncoderConfig.make(size)
    numbers = (made.num_layers, made.hidden_dim, made.num_heads, made.head_dim)
    assert (*numbers, made.feedforward_dim) == PUBLISHED[size]
    first = size.startswith("t5-")
    assert (made.gated, made.activation) == ((False, "relu") if first else (True, "gelu"))
    assert (made.vocabulary_size, made.num_buckets, made.max_distance) == (32128, 32, 128)


def test_there_is_no_other_size():
    assert set(encoder_config.SIZES) == set(PUBLISHED)


def test_an_encoder_is_made_from_a_name_a_dict_or_another_one():
    base = EncoderConfig.make("mini", vocabulary_size=900, dropout=None)
    assert (base.vocabulary_size, base.dropout, base.hidden_dim) == (900, 0.0, 256)
    assert EncoderConfig.make(base) == base
    assert EncoderConfig.make(base.to_dict()) == base
    assert EncoderConfig.make(json.loads(json.dumps(base.to_dict())), dropout=0.2).dropout == 0.2


NUMBERS = EncoderConfig.make("mini").to_dict()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_layers": 0}, "`num_layers` must be at least 1. Received: num_layers=0"),
        ({"hidden_dim": 0}, "`hidden_dim`"),
        ({"num_heads": -1}, "`num_heads`.*num_heads=-1"),
        ({"head_dim": 0}, "`head_dim`"),
        ({"feedforward_dim": 0}, "`feedforward_dim`"),
        ({"vocabulary_size": 2}, "`vocabulary_size` must be at least 3"),
        ({"activation": "swish"}, "gelu, relu.*activation='swish'"),
        ({"num_buckets": 6}, "multiple of 4.*num_buckets=6"),
        ({"num_buckets": 0}, "num_buckets=0"),
        ({"max_distance": 8}, "`max_distance` must be at least 9.*max_distance=8"),
        ({"dropout": 1.0}, r"\[0, 1\).*dropout=1.0"),
        ({"dropout": -0.1}, "dropout=-0.1"),
        ({"lora_rank": -1}, "`lora_rank` must be from 0, for no adapters, to 256.*lora_rank=-1"),
        ({"lora_rank": 257}, "to 256, the smallest side.*lora_rank=257"),
        ({"lora_rank": 9, "lora_targets": "all", "feedforward_dim": 8}, "to 8,.*lora_rank=9"),
        ({"lora_targets": "qv"}, "query_value, all.*lora_targets='qv'"),
        ({"lora_alpha": 0.0}, "`lora_alpha` must be greater than 0.*lora_alpha=0.0"),
        ({"lora_alpha": float("inf")}, "lora_alpha=inf"),
        ({"dropuot": 0.1}, r"Unknown encoder fields: \['dropuot'\]"),
    ],
    ids=lambda value: next(iter(value.items())).__repr__() if isinstance(value, dict) else "",
)
def test_encoder_numbers_that_cannot_be(change, message):
    with pytest.raises(ValueError, match=message):
        EncoderConfig.make({**NUMBERS, **change})


def test_adapters_are_settings_of_a_run():
    made = ModelConfig(lora_rank=4, lora_alpha=8.0, lora_targets="all").encoder(300)
    assert (made.lora_rank, made.lora_alpha, made.lora_targets) == (4, 8.0, "all")
    with pytest.raises(ValueError, match=r"`freeze` must not hold encoder.*\['encoder'\].*_rank=4"):
        ModelConfig(lora_rank=4, freeze="encoder")
    with pytest.raises(ValueError, match="`lora_rank` must be from 0.*lora_rank=1000"):
        ModelConfig(lora_rank=1000)


def test_an_unknown_size_is_named_beside_the_known_ones():
    with pytest.raises(ValueError, match=r"mini, t5-small.*size='t5-huge'"):
        EncoderConfig.make("t5-huge")


@pytest.mark.parametrize(
    ("architecture", "shared"),
    [
        ("sde", ("token_embedding", "encoder", "projection")),
        ("ade_spl", ("projection",)),
        ("ade", ()),
        ([], ()),
        (["projection", "token_embedding"], ("token_embedding", "projection")),
    ],
    ids=str,
)
def test_what_an_architecture_shares(architecture, shared):
    assert config.shared_parts(architecture) == shared


@pytest.mark.parametrize("architecture", ["SDE", ["projektion"], ["encoder", "pooling"]], ids=str)
def test_an_unknown_architecture_or_part_is_refused(architecture):
    with pytest.raises(ValueError, match="Received: .*(SDE|projektion|pooling)"):
        config.shared_parts(architecture)


@pytest.mark.parametrize(
    ("given", "rules"),
    [
        ("", ()),
        ("none", ()),
        ([], ()),
        ("id", ("id",)),
        ("positives, id", ("id", "positives")),
        (("text", "positives", "id"), ("id", "text", "positives")),
    ],
    ids=str,
)
def test_mask_rules(given, rules):
    assert config.mask_rules(given) == rules


@pytest.mark.parametrize(
    ("architecture", "freeze", "parts"),
    [
        ("sde", "", ()),
        ("sde", "none", ()),
        ("ade", ["encoder", "token_embedding"], ("token_embedding", "encoder")),
        ("ade", "projection, encoder", ("encoder", "projection")),
        ("ade_fte", (), ("token_embedding",)),
        ("ade_fte", "token_embedding", ("token_embedding",)),
        (["projection"], ["projection"], ("projection",)),
    ],
    ids=str,
)
def test_frozen_parts(architecture, freeze, parts):
    assert config.frozen_parts(architecture, freeze) == parts


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DataConfig(query_length=1), "data.query_length=1"),
        (lambda: DataConfig(document_length=1), "data.document_length=1"),
        (lambda: DataConfig(num_negatives=-1), "data.num_negatives=-1"),
        (lambda: DataConfig(max_positives=0), "data.max_positives=0"),
        (lambda: ModelConfig(size="huge"), "size='huge'"),
        (lambda: ModelConfig(architecture="tied"), "architecture='tied'"),
        (lambda: ModelConfig(embedding_dim=0), "model.embedding_dim=0"),
        (lambda: ModelConfig(dropout=2), "dropout=2"),
        (lambda: ModelConfig(num_layers=0), "num_layers=0"),
        (lambda: ModelConfig(freeze="pooling"), "'pooling'"),
        (lambda: ModelConfig(freeze="token_embedding,encoder,projection"), "freeze=.*projection"),
        (lambda: ModelConfig(init="t5-base"), "model.init='t5-base'"),
        (lambda: LossConfig(temperature=0), "temperature=0"),
        (lambda: LossConfig(masks="ids"), "'ids'"),
        (lambda: LossConfig(name="ranknet"), "loss.name='ranknet'"),
        (lambda: LossConfig("pair", alpha=2), "alpha=2"),
        (lambda: LossConfig("triplet", margin=0), "margin=0"),
        (lambda: LossConfig("triplet", "both", bidirectional=False), "same_tower='both'"),
        (lambda: LossConfig(similarity_margin=float("inf")), "similarity_margin=inf"),
        (lambda: LossConfig(similarity_margin_kind="relative"), "no margin"),
        (lambda: LossConfig(min_temperature=0.02), "min_temperature=0.02"),
        (lambda: LossConfig(temperature=2e-3, learn_temperature=True), "temperature=0.002"),
        (lambda: TrainConfig(steps=0), "train.steps=0"),
        (lambda: TrainConfig(batch_size=1), "train.batch_size=1"),
        (lambda: TrainConfig(learning_rate=0), "train.learning_rate=0"),
        (lambda: TrainConfig(learning_rate=float("nan")), "train.learning_rate=nan"),
        (lambda: TrainConfig(warmup_steps=-1), "train.warmup_steps=-1"),
        (lambda: TrainConfig(steps=10, warmup_steps=10), "warmup_steps=10, steps=10"),
        (lambda: TrainConfig(seed=-1), "train.seed=-1"),
        (lambda: TrainConfig(report_every=0), "train.report_every=0"),
        (lambda: TrainConfig(save_every=0), "train.save_every=0"),
        (lambda: ValidationConfig(every=0), "validation.every=0"),
        (lambda: ValidationConfig(queries=0), "validation.queries=0"),
        (lambda: ValidationConfig(documents=-1), "validation.documents=-1"),
        (lambda: ValidationConfig(patience=0), "validation.patience=0"),
        (lambda: ValidationConfig(split="none", patience=2), "patience=2 and split='none'"),
    ],
)
def test_a_value_out_of_range_is_named(make, message):
    with pytest.raises(ValueError, match=f"Received: .*{message}"):
        make()


def test_c07_a_scale_as_temperature_warns_and_a_temperature_does_not():
    with pytest.warns(UserWarning, match=r"pass temperature=0\.05"):
        LossConfig(temperature=20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert LossConfig(temperature=0.01).temperature == 0.01


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("samtone", ["alpha", "other_queries", "margin", "reduction"]),
        ("in_batch_softmax", ["same_tower", "alpha", "margin"]),
        ("pair", ["same_tower", "margin", "reduction"]),
        ("triplet", ["temperature", "learn_temperature", "min_temperature", "log_q", "alpha"]),
        ("gte", ["same_tower", "bidirectional", "directions", "alpha"]),
    ],
)
def test_an_option_that_a_loss_has_not_is_refused(name, options):
    # At its default as well: it would be ignored.
    values = {option: value for each in config.LOSSES.values() for option, value in each.items()}
    values |= {"same_tower": "query", "temperature": 0.05}
    for option in options:
        with pytest.raises(ValueError, match=f"`loss.{option}` is no option of the loss {name}"):
            LossConfig(name, **{option: values[option]})


def test_what_is_not_set_gets_the_losss_default():
    assert (LossConfig().same_tower, LossConfig("triplet").same_tower) == ("query", None)
    assert LossConfig().arguments["temperature"] == 0.05
    assert "temperature" not in LossConfig("triplet").arguments
    assert LossConfig("pair").alpha == 0.1
    assert LossConfig("gte").bidirectional is None
    for name in config.LOSSES:
        made = LossConfig(name)
        assert LossConfig(**vars(made)) == made  # as config.yaml holds it


def test_temperature_rate_and_dropout_suit_where_the_weights_come_from():
    """0.05 and 0.02 from scratch; what SamToNe, T5 and GTR use from published weights."""

    def defaults(**changes):
        made = RunConfig(**changes)
        return made.loss.temperature, made.train.peak_rate, made.model.dropout

    adam = TrainConfig(optimizer="adam")
    assert defaults() == (0.05, 0.02, 0.1)
    assert defaults(train=adam) == (0.05, 0.001, 0.1)
    run, published = ModelConfig(init="run:r"), ModelConfig(init="hf:t5")
    assert defaults(model=run) == (0.05, 0.02, None)  # dropout: the run's own, once it is read
    assert defaults(model=published) == (0.01, 0.001, None)
    assert defaults(model=published, train=adam) == (0.01, 0.0001, None)
    asked = {"loss": LossConfig(temperature=0.3), "train": TrainConfig(learning_rate=0.5)}
    assert defaults(model=published, **asked)[:2] == (0.3, 0.5)
    assert defaults(model=published, loss=LossConfig("triplet"))[0] is None
    again = RunConfig(**vars(RunConfig(model=published)))
    assert again == RunConfig(model=published)


def test_what_is_not_set_is_mini_without_weights_to_start_from():
    scratch, from_weights = ModelConfig(), ModelConfig(init="st:gtr")
    assert (scratch.size, scratch.architecture) == ("mini", "sde")
    assert (from_weights.size, from_weights.architecture) == (None, None)
    old = ModelConfig(size="t5-base", init="hf:x").encoder(32000)
    assert (old.gated, old.activation, old.feedforward_dim) == (False, "relu", 3072)
    assert ModelConfig(gated=False, activation="relu").encoder(900).gated is False


def test_c24_published_sizes_keep_the_published_table_and_mini_fits_its_tokenizer():
    assert ModelConfig(size="t5.1.1-small").encoder(32000).vocabulary_size == 32128
    assert ModelConfig(size="t5.1.1-small").encoder(250112).vocabulary_size == 250112
    assert ModelConfig(size="mini").encoder(8000).vocabulary_size == 8000
    assert ModelConfig(size="mini", vocabulary_size=8064).encoder(8000).vocabulary_size == 8064


def test_model_numbers_override_the_sizes():
    made = ModelConfig(num_layers=3, hidden_dim=32, dropout=0.0).encoder(100)
    assert (made.num_layers, made.hidden_dim, made.num_heads, made.dropout) == (3, 32, 4, 0.0)


def test_default_width_of_the_vectors():
    assert ModelConfig().vector_dim == 256
    assert ModelConfig(size="t5.1.1-large").vector_dim == 768
    assert ModelConfig(embedding_dim=32).vector_dim == 32


def test_a_run_is_plain_data_and_cannot_change():
    run = RunConfig(loss=LossConfig(masks="positives,id"))
    plain = json.loads(json.dumps(run.to_dict()))
    assert plain == run.to_dict()
    assert plain["loss"]["masks"] == ["id", "positives"]
    assert LossConfig(**plain["loss"]) == run.loss
    assert TrainConfig(**plain["train"]) == run.train
    assert plain.keys() == SECTIONS.keys()
    with pytest.raises(FrozenInstanceError):
        run.train.steps = 5


@pytest.mark.parametrize(
    ("every", "steps", "used"), [(None, 1000, 100), (None, 25, 2), (None, 3, 1), (7, 1000, 7)]
)
def test_validation_comes_ten_times_a_run_unless_it_is_said(every, steps, used):
    config = RunConfig(train=TrainConfig(steps=steps), validation=ValidationConfig(every=every))
    assert config.validation_every == used
