"""Pins of training.train: determinism, whole batches (C03), refusals, config → objects."""

import json
from dataclasses import replace

import keras
import numpy as np
import pytest

from samtone_tf.config import LossConfig, ModelConfig, TrainConfig
from samtone_tf.data.tokenizer import Tokenizer
from samtone_tf.losses.contrastive import InBatchSoftmax, SamToNe
from samtone_tf.losses.gte import Gte
from samtone_tf.losses.pair import Pair
from samtone_tf.losses.triplet import Triplet
from samtone_tf.optimizers.adafactor import Adafactor
from samtone_tf.training import train as training
from samtone_tf.training.run_folder import load_model
from tests import tiny


def train(out, config, data=None):
    return training.train(config, out, data=data or tiny.data(), tokenizer=tiny.tokenizer())


def metrics(run):
    path = run / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def weights(run):
    return [np.asarray(variable) for variable in load_model(run).trainable_variables]


@pytest.fixture(scope="module")
def line_per_step(tmp_path_factory):
    """The run of `tiny.run("sde")` once more, but with a line and a checkpoint for every step."""
    out = tmp_path_factory.mktemp("runs") / "again"
    train(out, tiny.config(report_every=1, save_every=1))
    return out


def test_same_seed_gives_the_same_weights_to_the_bit(line_per_step):
    for once, again in zip(weights(tiny.run("sde")), weights(line_per_step), strict=True):
        np.testing.assert_array_equal(once, again)


def test_another_seed_gives_other_first_weights_and_another_order(tmp_path):
    """With a rate of almost nothing, a run's last weights are its first."""
    configs = [tiny.config(steps=1, learning_rate=1e-12, seed=seed) for seed in (0, 1)]
    for config in configs:
        train(tmp_path / str(config.train.seed), config)
    for one, other in zip(weights(tmp_path / "0"), weights(tmp_path / "1"), strict=True):
        # Scales of norms all start at 1.
        assert (np.abs(one - other).max() > 1e-3) == (one.ndim > 1)
    orders = [
        training.make_batches(config, tiny.data(), tiny.tokenizer()).batch(0)["query_id"]
        for config in configs
    ]
    assert set(orders[0]) != set(orders[1])


def test_each_line_is_the_mean_of_the_steps_since_the_line_before(line_per_step):
    lines, single = metrics(tiny.run("sde")), metrics(line_per_step)
    assert [line["step"] for line in lines] == [2, 4, 5]
    assert [line["step"] for line in single] == [1, 2, 3, 4, 5]
    for name in ("loss", "accuracy"):
        values = [line[name] for line in single]
        assert len(set(values)) > 1
        want = [np.mean(values[0:2]), np.mean(values[2:4]), values[4]]
        np.testing.assert_allclose([line[name] for line in lines], want, atol=1e-5)


def test_training_learns(tmp_path):
    """Sixty pairs that share two words each are learnt in two hundred steps."""
    base = tiny.config(steps=200, report_every=20, learning_rate=0.05, optimizer="adafactor")
    train(tmp_path / "run", replace(base, model=replace(base.model, dropout=0.0)))
    lines = metrics(tmp_path / "run")
    assert lines[-1]["loss"] < 0.5 * lines[0]["loss"]
    assert lines[-1]["accuracy"] > 0.6


def softmax_loss(query, document, temperature):
    """Both directions, summed, meaned over the pairs; by loops."""
    scores = query @ document.T / temperature
    losses = []
    for i in range(len(scores)):
        row, column = np.exp(scores[i]).sum(), np.exp(scores[:, i]).sum()
        losses.append(np.log(row) + np.log(column) - 2 * scores[i, i])
    return np.mean(losses)


def test_c03_every_reported_loss_is_of_a_whole_batch(tmp_path):
    """Nine pairs in batches of 8: a tail of one pair, whose loss is 0, must not dilute the mean."""
    base = tiny.config(steps=4, report_every=1, learning_rate=1e-12)
    config = replace(
        base,
        model=replace(base.model, dropout=0.0),
        loss=LossConfig(name="in_batch_softmax", masks="none", temperature=0.5),
    )
    nine = replace(tiny.data(), qrels=dict(list(tiny.data().qrels.items())[:9]))
    model = train(tmp_path / "run", config, nine)
    batches = training.make_batches(config, nine, tiny.tokenizer())
    want = []
    for step in range(4):
        batch = batches.batch(step)
        query, document = (
            np.asarray(encode(batch[side]), "float64")
            for side, encode in (("query", model.encode_query), ("document", model.encode_document))
        )
        assert len(query) == 8
        want.append(softmax_loss(query, document, 0.5))
    np.testing.assert_allclose(
        [line["loss"] for line in metrics(tmp_path / "run")], want, rtol=1e-4
    )


def test_what_exists_is_refused_before_any_work(tmp_path, monkeypatch):
    (tmp_path / "notes.txt").write_text("mine")
    monkeypatch.setattr(training, "read_data", lambda *_: pytest.fail("read the data first"))
    with pytest.raises(FileExistsError, match=f"Received: {tmp_path}"):
        training.train(tiny.config(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_batch_larger_than_the_data_is_refused_and_leaves_no_folder(tmp_path):
    with pytest.raises(ValueError, match="number of pairs, 60. Received: batch_size=61"):
        train(tmp_path / "run", tiny.config(batch_size=61))
    assert not (tmp_path / "run").exists()


def test_a_loss_that_is_no_number_stops_the_run_and_saves_nothing(tmp_path):
    with pytest.raises(
        FloatingPointError, match=r"The (loss|gradient norm) became .* at step 2\. "
    ):
        train(tmp_path / "run", tiny.config(learning_rate=1e38, report_every=5))
    assert not list((tmp_path / "run" / "checkpoints").iterdir())


def test_a_poisoned_batch_stops_the_run_at_its_step_and_keeps_the_checkpoint(tmp_path, monkeypatch):
    """The vector of one token is infinite, and no batch before the fourth has it."""
    make_batches, make_model = training.make_batches, training.make_model
    poison = tiny.tokenizer().vocabulary_size - 1

    def poisoned_batches(*arguments):
        made = make_batches(*arguments)
        batch = made.batch

        def with_poison(step):
            found = batch(step)
            ids = found["document"]["token_ids"]
            ids[ids == poison] = poison - 1
            if step == 3:
                ids[2, 0] = poison
            return found

        made.batch = with_poison
        return made

    def poisoned_model(*arguments):
        model = make_model(*arguments)
        table = model.query_tower.parts["token_embedding"].embeddings
        rows = np.arange(poison + 1)[:, None]
        table.assign(np.where(rows == poison, np.inf, table.numpy()))
        return model

    monkeypatch.setattr(training, "make_batches", poisoned_batches)
    monkeypatch.setattr(training, "make_model", poisoned_model)
    with pytest.raises(FloatingPointError, match=r"The loss became nan at step 4\. "):
        train(tmp_path / "run", tiny.config(steps=20, report_every=10, save_every=2))
    assert int(load_model(tmp_path / "run").optimizer.iterations) == 2
    assert metrics(tmp_path / "run") == []


def test_the_data_of_the_config_is_read_and_its_vocabulary_trained(tmp_path):
    folder = tiny.write_beir(tmp_path / "beir")
    base = tiny.config(steps=1)
    config = replace(base, data=replace(base.data, source=f"beir:{folder}"))
    training.train(config, tmp_path / "run")
    trained = Tokenizer.from_file(tmp_path / "run" / "vocabulary.spm")
    assert trained.fingerprint == tiny.tokenizer().fingerprint  # the very same texts


@pytest.mark.parametrize("cache", ["folder", "memory"])
def test_token_ids_are_kept_between_runs_and_said_so(tmp_path, capsys, cache):
    folder = tmp_path / "cache" if cache == "folder" else None
    base = tiny.config(steps=1)
    source = f"beir:{tiny.write_beir(tmp_path / 'beir')}"
    base = replace(base, data=replace(base.data, source=source, cache=str(folder or "memory")))
    for number, how in enumerate(("built", "reused")):
        training.train(base, tmp_path / str(number), tokenizer=tiny.tokenizer())
        lines = [line for line in capsys.readouterr().out.splitlines() if "token cache" in line]
        tables = ("pairs", "queries-tokens", "documents-tokens")
        parts = ", ".join(f"{name} {how}" for name in tables)
        assert lines == ([f"token cache: {folder} ({parts})"] if folder else [])
    np.testing.assert_equal(weights(tmp_path / "0"), weights(tmp_path / "1"))
    assert (tmp_path / "cache").exists() == (cache == "folder")


def test_a_vocabulary_file_is_used_as_it_is(tmp_path):
    tiny.tokenizer().save(tmp_path / "given.spm")
    base = tiny.config()
    config = replace(base, data=replace(base.data, vocabulary=str(tmp_path / "given.spm")))
    config = replace(config, train=replace(config.train, steps=1))
    training.train(config, tmp_path / "run", data=tiny.data())
    assert (tmp_path / "run" / "vocabulary.spm").read_bytes() == tiny.tokenizer().model


def test_an_absent_vocabulary_is_refused_before_the_data_is_read(tmp_path):
    base = tiny.config()
    data = replace(base.data, vocabulary=str(tmp_path / "none.spm"), source="beir:also_absent")
    with pytest.raises(FileNotFoundError, match="none.spm"):
        training.train(replace(base, data=data), tmp_path / "run")


def test_an_interrupt_saves_the_model(tmp_path, monkeypatch):
    class Interrupt(training.Report):
        def on_train_batch_end(self, batch, logs=None):
            if int(self.model.optimizer.iterations) == 3:
                raise KeyboardInterrupt

    monkeypatch.setattr(training, "Report", Interrupt)
    with pytest.raises(KeyboardInterrupt, match="the model of step 3 is saved in"):
        train(tmp_path / "run", tiny.config(steps=5))
    assert int(load_model(tmp_path / "run").optimizer.iterations) == 3


@pytest.mark.parametrize(
    ("optimizer", "given", "used"),
    [("adafactor", None, 0.02), ("adam", None, 0.001), ("adam", 0.5, 0.5)],
)
def test_each_optimizer_has_its_own_default_rate(optimizer, given, used):
    config = TrainConfig(optimizer=optimizer, learning_rate=given)
    assert float(training.make_schedule(config)(0)) == pytest.approx(used)


def test_xla_and_determinism_are_not_promised_together():
    with pytest.raises(ValueError, match="train.deterministic=false"):
        TrainConfig(jit_compile=True)


def test_the_vocabulary_never_sees_queries_of_other_splits():
    texts = dict(tiny.data().queries) | {"unjudged": "ʘʘʘ " * 50}
    trained = training.make_tokenizer(tiny.config(), replace(tiny.data(), queries=texts))
    assert 2 in trained.tokenize(["ʘ"])[0]  # unknown


NARROW = dict(num_layers=1, hidden_dim=8, num_heads=1, head_dim=8, feedforward_dim=8)


@pytest.mark.parametrize(("size", "rows"), [("t5.1.1-small", 32_128), ("mini", None)])
def test_c24_rows_of_the_token_table(size, rows):
    model = replace(tiny.config(), model=ModelConfig(size=size, embedding_dim=4, **NARROW))
    made = training.make_model(model, tiny.tokenizer())
    table = made.query_tower.parts["token_embedding"].variables[0]
    assert tuple(table.shape) == (rows or tiny.tokenizer().vocabulary_size, 8)


def test_losses_by_name():
    common = dict(temperature=0.3, directions="mean", negatives_scope="own")
    samtone = training.make_loss(
        LossConfig(name="samtone", same_tower="both", masks="id,text", **common)
    )
    want = SamToNe(same_tower="both", masks=("id", "text"), **common)
    assert type(samtone) is SamToNe
    assert samtone.get_config() == want.get_config()
    config = LossConfig(name="in_batch_softmax", bidirectional=False, masks="none", **common)
    plain = training.make_loss(config)
    want = InBatchSoftmax(bidirectional=False, masks=(), **common)
    assert type(plain) is InBatchSoftmax
    assert plain.get_config() == want.get_config()


@pytest.mark.parametrize(
    ("config", "want"),
    [
        (LossConfig("pair", alpha=0.3, other_queries=True), Pair(0.05, 0.3, True)),
        (LossConfig("triplet", "both", margin=0.4), Triplet(0.4, "both")),
        (
            LossConfig("triplet", reduction="mean", similarity_margin=0.1),
            Triplet(reduction="mean", similarity_margin=0.1),
        ),
        (LossConfig("gte", log_q=True), Gte(0.05, log_q=True)),
        (
            LossConfig(learn_temperature=True, max_temperature=0.5),
            SamToNe(0.05, learn_temperature=True, max_temperature=0.5),
        ),
    ],
    ids=lambda value: value.name if isinstance(value, LossConfig) else "",
)
def test_other_losses_by_name(config, want):
    got = training.make_loss(config)
    assert type(got) is type(want)
    assert got.get_config() == want.get_config()


@pytest.mark.parametrize(
    ("name", "kind"),
    [("adam", keras.optimizers.Adam), ("adafactor", Adafactor)],
)
def test_optimizers_by_name(name, kind):
    config = TrainConfig(optimizer=name, learning_rate=0.25, steps=40, warmup_steps=20)
    optimizer = training.make_optimizer(config)
    assert type(optimizer) is kind
    rates = []
    for step in (0, 10, 20, 30, 40):
        optimizer.iterations.assign(step)
        rates.append(float(optimizer.learning_rate))
    np.testing.assert_allclose(rates, [0, 0.125, 0.25, 0.125, 0], atol=1e-7)
