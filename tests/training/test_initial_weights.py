"""Pins of training.initial_weights: every weight of another run, its tokenizer, and refusals."""

import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

from samtone_tf.checkpoints.assign import part_variables
from samtone_tf.config import PARTS, DataConfig, ModelConfig
from samtone_tf.data.tokenizer import Tokenizer
from samtone_tf.training import train as training
from samtone_tf.training.initial_weights import (
    initial_tokenizer,
    open_initial,
    resolve,
    resolve_as,
)
from samtone_tf.training.run_folder import MODEL_FILE, load_model
from tests import tiny


def config(architecture="sde", source="sde", **changes):
    """A run that starts from one of the tiny ones; `changes` are fields of `ModelConfig`."""
    base = tiny.config(architecture, seed=7, steps=3)
    init = f"run:{tiny.run(source)}"
    return replace(base, model=replace(base.model, **{"init": init, **changes}))


def make(*arguments, **changes):
    asked = config(*arguments, **changes)
    if asked.model.init is None:
        return training.make_model(asked, tiny.tokenizer())
    source = open_initial(asked.model.init)
    return training.make_model(resolve(asked, source), tiny.tokenizer(), source)


def sides(model):
    return [model.query_tower.parts, model.document_tower.parts]


@pytest.mark.parametrize(
    ("architecture", "source"),
    [
        ("sde", "sde"),
        ("ade_spl", "ade_spl"),
        ("ade_spl", "sde"),
        ("ade", "sde"),
        ("ade", "ade_spl"),
    ],
)
@pytest.mark.parametrize("form", ["folder", "file"])
def test_every_weight_is_the_sources(architecture, source, form):
    init = f"run:{tiny.run(source)}" + ("/" + MODEL_FILE if form == "file" else "")
    model, trained = make(architecture, init=init), load_model(tiny.run(source))
    for ours, theirs in zip(sides(model), sides(trained), strict=True):
        for part in PARTS:
            for got, want in zip(ours[part].weights, theirs[part].weights, strict=True):
                np.testing.assert_array_equal(got.numpy(), want.numpy(), err_msg=got.path)
    # The weights are no others that the seed would give, and the optimizer is new.
    fresh = make(architecture, init=None)
    for ours, new in zip(sides(model), sides(fresh), strict=True):
        for part in PARTS:
            got, random = ours[part].get_weights()[0], new[part].get_weights()[0]
            assert np.abs(got - random).max() > 1e-3, part
    assert int(model.optimizer.iterations) == 0
    assert len(model.trainable_variables) == len(fresh.trainable_variables)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_layers": 2}, "it has no encoder/block_1/attention_norm/scale, .* and 1 more"),
        (
            {"hidden_dim": 24},
            r"token_embedding/embeddings is \((\d+), 16\) where this model has \(\1, 24\)",
        ),
        (
            {"num_heads": 4, "head_dim": 4},  # kernels of the same shape, but other heads
            r"position_bias/embeddings is \(32, 2\) where this model has \(32, 4\)",
        ),
        ({"embedding_dim": 9}, r"projection/kernel is \(16, 12\) where this model has \(16, 9\)"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_another_size_is_refused_with_what_differs(changes, message):
    with pytest.raises(ValueError, match=f"`model.init` must hold.*same size.*{message}"):
        make(**changes)


def test_a_source_with_more_than_the_model_is_refused(tmp_path):
    deep = training.make_model(config(num_layers=2, init=None), tiny.tokenizer())
    deep.optimizer.build(deep.trainable_variables)
    deep.save(tmp_path / "deep.keras")
    with pytest.raises(ValueError, match="this model has no place for its encoder/block_1/"):
        make(init=f"run:{tmp_path / 'deep.keras'}")


def test_towers_that_differ_do_not_start_one_that_is_shared():
    words = r"token_embedding each.*Received: 'ade_spl' in model.init='run:"
    with pytest.raises(ValueError, match=f"`model.architecture` must not share.*{words}"):
        make("sde", "ade_spl")
    with pytest.raises(ValueError, match="an? encoder each"):
        make(["encoder", "projection"], "ade_spl")


def test_another_activation_has_no_shape_and_is_refused(tmp_path):
    from samtone_tf.dual_encoder import DualEncoder

    numbers = config().model.encoder(tiny.tokenizer().vocabulary_size)
    other = DualEncoder(replace(numbers, activation="relu"), embedding_dim=tiny.DIM)
    other.save(tmp_path / "relu.keras")
    with pytest.raises(ValueError, match="activation='gelu'.*Received: .*activation='relu'"):
        make(init=f"run:{tmp_path / 'relu.keras'}")


def test_dropout_and_what_is_kept_for_the_gradient_may_differ():
    model = make(dropout=0.3, remat=True, freeze="encoder")
    assert (model.encoder_config.dropout, model.encoder_config.remat) == (0.3, True)
    want = load_model(tiny.run("sde")).query_tower.parts["encoder"].get_weights()
    got = model.query_tower.parts["encoder"].get_weights()
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_source_with_adapters_gives_its_kernels_with_them_added(tmp_path):
    """And adapters of the new run's own begin beside them."""
    adapted = make(init=None, lora_rank=2, lora_targets="all")
    kernel, lora_a, lora_b = (
        next(v for v in adapted.weights if v.path.endswith(f"block_0/attention/key/{name}"))
        for name in ("kernel", "lora_a", "lora_b")
    )
    lora_b.assign(np.random.default_rng(0).normal(size=lora_b.shape))
    adapted.optimizer.build(adapted.trainable_variables)
    adapted.save(tmp_path / "adapted.keras")
    want = kernel.numpy() + 16 / 2 * lora_a.numpy() @ lora_b.numpy()
    for changes in ({}, {"lora_rank": 3}):
        model = make(init=f"run:{tmp_path / 'adapted.keras'}", **changes)
        stack = model.query_tower.parts["encoder"]
        found = part_variables("encoder", stack)["encoder/block_0/attention/key/kernel"]
        np.testing.assert_allclose(found.numpy(), want, atol=1e-6)
        assert any(v.name == "lora_a" for v in stack.weights) is bool(changes)


# --- tokenizer -----------------------------------------------------------------------------


def other_tokenizer():
    return Tokenizer.train(["another text altogether 0123456789"], vocabulary_size=40)


def test_the_tokenizer_is_the_sources_and_no_other():
    source = open_initial(f"run:{tiny.run('sde')}")
    own = tiny.tokenizer()
    assert initial_tokenizer(source, None).fingerprint == own.fingerprint
    assert initial_tokenizer(source, own).fingerprint == own.fingerprint
    with pytest.raises(ValueError, match="`data.vocabulary` must be the one.*Leave it out"):
        initial_tokenizer(source, other_tokenizer())


def test_a_file_has_no_tokenizer():
    source = open_initial(f"run:{tiny.run('sde') / MODEL_FILE}")
    assert initial_tokenizer(source, tiny.tokenizer()) is tiny.tokenizer()
    with pytest.raises(ValueError, match="`data.vocabulary` must be set when"):
        initial_tokenizer(source, None)


def test_an_absent_source_is_refused_before_the_data_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "read_data", lambda *_: pytest.fail("read the data first"))
    with pytest.raises(FileNotFoundError, match=f"Received: {tmp_path / 'gone'}"):
        training.train(config(init=f"run:{tmp_path / 'gone'}"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("init", ["zip:t5-base", "run:", "run", "runs/one", ":x"])
def test_what_names_no_source_is_refused(init):
    with pytest.raises(ValueError, match=re.escape(f"model.init={init!r}")):
        config(init=init)


# --- whole runs ----------------------------------------------------------------------------


def test_a_run_needs_its_source_at_the_start_only(tmp_path, monkeypatch):
    """With the source's tokenizer, unasked; and killed before the first step was saved."""
    source = shutil.copytree(tiny.run("sde"), tmp_path / "source")
    changed = replace(
        config(init=f"run:{source}"), data=DataConfig(query_length=12, document_length=20)
    )
    changed = replace(changed, train=replace(changed.train, save_every=100))

    class Stop(training.Report):
        def on_train_batch_end(self, batch, logs=None):
            raise OSError("the machine is gone")

    with monkeypatch.context() as patched:
        patched.setattr(training, "Report", Stop)
        with pytest.raises(OSError, match="gone"):
            training.train(changed, tmp_path / "run", data=tiny.data())
    training.train(changed, tmp_path / "whole", data=tiny.data())
    shutil.rmtree(source)

    kept = load_model(tmp_path / "run").get_weights()
    for got, want in zip(kept, load_model(tiny.run("sde")).get_weights(), strict=True):
        np.testing.assert_array_equal(got, want)
    training.train(changed, tmp_path / "run", data=tiny.data(), resume=True)
    assert (tmp_path / "run/vocabulary.spm").read_bytes() == tiny.tokenizer().model
    runs = [load_model(tmp_path / name) for name in ("run", "whole")]
    assert [int(model.optimizer.iterations) for model in runs] == [3, 3]
    for got, want, start in zip(*(model.get_weights() for model in runs), kept, strict=True):
        np.testing.assert_array_equal(got, want)
        assert np.abs(got - start).max() > 0


# --- what is not set -----------------------------------------------------------------------


def test_what_is_not_set_is_the_sources():
    """Its numbers, its prompts, its dropout; a size that is named is insisted on."""
    base = tiny.config()
    source = open_initial(f"run:{tiny.run('ade_spl')}")
    source = replace(source, query_prompt="ask: ", document_prompt="tell: ")
    asked = replace(base, model=ModelConfig(init=source.name))
    found = resolve(asked, source)
    want = source.query.encoder
    assert found.model.encoder(tiny.tokenizer().vocabulary_size) == want
    assert (found.model.architecture, found.model.vector_dim) == ("ade_spl", tiny.DIM)
    assert (found.data.query_prompt, found.data.document_prompt) == ("ask: ", "tell: ")
    assert found.model.dropout == want.dropout == 0.1

    insists = replace(
        asked,
        model=ModelConfig(init=source.name, size="mini", architecture="ade", dropout=0.3),
        data=replace(base.data, query_prompt=""),
    )
    found = resolve(insists, source)
    assert found.model.encoder(900).num_layers == 2
    assert (found.model.architecture, found.model.dropout) == ("ade", 0.3)
    assert (found.data.query_prompt, found.data.document_prompt) == ("", "tell: ")


def test_a_resumed_run_needs_no_source_to_know_its_numbers():
    source = open_initial(f"run:{tiny.run('ade_spl')}")
    asked = replace(tiny.config(), model=ModelConfig(init="run:gone"))
    started = resolve(asked, replace(source, query_prompt="ask: "))
    assert resolve_as(asked, started) == started
    other = replace(asked, model=ModelConfig(init="run:other"))
    assert resolve_as(other, started) == other  # and is refused for the difference
    assert resolve_as(tiny.config(), started) == tiny.config()
