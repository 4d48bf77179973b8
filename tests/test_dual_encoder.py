"""Pins of dual_encoder: what towers share, saving and loading in a fresh process, errors."""

import json
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from samtone_tf.config import ARCHITECTURES as NAMES
from samtone_tf.dual_encoder import DualEncoder, pair_vectors
from samtone_tf.losses.contrastive import InBatchSoftmax, SamToNe
from tests import checks

# Keras's own use of NumPy when it writes weights.

ROOT = Path(__file__).parent.parent
PER_TOWER = {"token_embedding": 1, "encoder": 2 + 9, "projection": 1}
ARCHITECTURES = {
    "sde": ["token_embedding", "encoder", "projection"],
    "ade_spl": ["projection"],
    "ade": [],
    "list": ["token_embedding", "projection"],
    "whole list": ["token_embedding", "encoder", "projection"],
    "encoder only": ["encoder"],
    "ade_ste": ["token_embedding"],
}


def spelled(name):
    return name if name in NAMES else ARCHITECTURES[name]


def make_model(architecture="sde", **arguments):
    return DualEncoder(checks.TINY, architecture, embedding_dim=8, **arguments)


def compiled(architecture="sde", rate=0.1, **arguments):
    model = make_model(architecture, **arguments)
    model.compile(keras.optimizers.SGD(rate), loss=SamToNe(0.05, same_tower="both"))
    return model


def part_variables(tower):
    return {name: {id(v) for v in layer.variables} for name, layer in tower.parts.items()}


# --- sharing -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_towers_share_exactly_the_named_parts(name):
    model = make_model(spelled(name))
    query, document = part_variables(model.query_tower), part_variables(model.document_tower)
    for part in PER_TOWER:
        assert len(query[part]) == len(document[part]) == PER_TOWER[part]
        if part in ARCHITECTURES[name]:
            assert query[part] == document[part], part
        else:
            assert not query[part] & document[part], part
    own = sum(n for part, n in PER_TOWER.items() if part not in ARCHITECTURES[name])
    assert len(model.trainable_variables) == sum(PER_TOWER.values()) + own
    assert len({id(v) for v in model.trainable_variables}) == len(model.trainable_variables)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_unshared_parts_start_apart_and_shared_parts_stay_one(name):
    model = compiled(spelled(name))
    checks.fit(model, [checks.make_batch(4)])
    for part in PER_TOWER:
        towers = (model.query_tower, model.document_tower)
        pair = [tower.parts[part].get_weights() for tower in towers]
        equal = all(np.array_equal(a, b) for a, b in zip(*pair, strict=True))
        assert equal == (part in ARCHITECTURES[name]), part


@pytest.mark.parametrize("side", ["query", "document"])
def test_ade_a_tower_learns_from_its_own_side_alone(side):
    model = compiled("ade")
    batch = checks.make_batch(4, num_negatives=0)
    weights = {"query": model.query_tower, "document": model.document_tower}
    with tf.GradientTape() as tape:
        vectors = model(batch)[side]
        value = tf.reduce_sum(vectors * np.arange(8, dtype="float32"))
    own, other = side, {"query": "document", "document": "query"}[side]
    found = tape.gradient(
        value, [[v.value for v in weights[name].trainable_variables] for name in (own, other)]
    )
    assert all(g is not None for g in found[0])
    assert all(g is None for g in found[1])


# --- call ----------------------------------------------------------------------------------


@pytest.mark.parametrize("architecture", ["sde", "ade"])
def test_call_gives_unit_vectors_of_every_text(architecture):
    model = make_model(architecture)
    batch = checks.make_batch(5, num_negatives=3)
    got = model(batch)
    assert {name: tuple(x.shape) for name, x in got.items()} == {
        "query": (5, 8),
        "document": (5, 8),
        "negatives": (5, 3, 8),
    }
    for vectors in got.values():
        assert vectors.dtype == tf.float32
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=-1), 1, atol=1e-6)
    # Each slot holds the vector of its own text, encoded alone.
    for row, slot in [(0, 0), (2, 1), (4, 2)]:
        tokens = {name: x[row, slot][None] for name, x in batch["negatives"].items()}
        np.testing.assert_allclose(
            got["negatives"][row, slot], model.encode_document(tokens)[0], atol=1e-6
        )
    np.testing.assert_allclose(got["document"], model.encode_document(batch["document"]), atol=1e-6)
    np.testing.assert_allclose(got["query"], model.encode_query(batch["query"]), atol=1e-6)
    as_document = model.encode_document(batch["query"]).numpy()
    assert np.allclose(as_document, got["query"], atol=1e-6) == (architecture == "sde")


def test_without_negatives_there_are_none():
    assert set(make_model()(checks.make_batch(3, num_negatives=0))) == {"query", "document"}


def test_predict_gives_the_vectors():
    model = compiled()
    batches = [checks.make_batch(3, 1, seed) for seed in (0, 1)]
    got = model.predict(checks.as_dataset(batches), verbose=0)
    want = np.concatenate([model(batch)["query"] for batch in batches])
    np.testing.assert_allclose(got["query"], want, atol=1e-6)
    assert got["negatives"].shape == (6, 1, 8)


def test_compute_loss_is_the_mean_of_the_loss():
    model = compiled()
    batch = checks.as_tensors(checks.make_batch(6))
    vectors = model(batch)
    ids = {n: batch[n] for n in ("query_id", "document_id", "negative_id", "positive_ids")}
    per_pair = model.loss(vectors["query"], vectors["document"], vectors["negatives"], **ids)
    got = model.compute_loss(x=batch, y_pred=vectors)
    np.testing.assert_allclose(got, np.mean(per_pair), rtol=1e-6)
    assert np.ptp(per_pair) > 0.1
    pairs = pair_vectors(vectors, batch)
    assert pairs.negative is vectors["negatives"]
    assert pairs.ids.positives is batch["positive_ids"]


def test_mixed_bfloat16_keeps_float32_weights_and_projection():
    model = make_model(dtype="mixed_bfloat16")
    assert {weight.dtype for weight in model.trainable_variables} == {"float32"}
    tower = model.query_tower
    assert tower.encoder.stack.blocks[0].attention.query.compute_dtype == "bfloat16"
    assert tower.projection.compute_dtype == tower.pooling.compute_dtype == "float32"


@pytest.mark.parametrize("architecture", ["sde", "ade_spl"])
def test_mixed_bfloat16_vectors_are_close_and_one_step_trains(architecture):
    full, half = compiled(architecture), compiled(architecture, dtype="mixed_bfloat16")
    half.set_weights(full.get_weights())
    batch = checks.make_batch(6)
    got, want = half(batch), full(batch)
    for name, vectors in want.items():
        assert got[name].dtype == tf.float32
        assert (np.sum(got[name] * vectors, axis=-1) > 0.999).all()
    losses = [checks.fit(model, [batch])["loss"] for model in (half, full)]
    assert losses[0] == pytest.approx(losses[1], rel=0.05)
    assert all(np.isfinite(weight).all() for weight in half.get_weights())


# --- freezing ------------------------------------------------------------------------------

FROZEN = [
    ("sde", "token_embedding", ["token_embedding"]),
    ("ade", ["token_embedding", "encoder"], ["token_embedding", "encoder"]),
    ("ade_spl", ("projection",), ["projection"]),
    ("ade_fte", (), ["token_embedding"]),
    ("ade_fte", "encoder, token_embedding", ["token_embedding", "encoder"]),
    ("ade_ste", "none", []),
]


def values(model, parts):
    towers = (model.query_tower, model.document_tower)
    return [w for tower in towers for part in parts for w in tower.parts[part].get_weights()]


@pytest.mark.parametrize(("architecture", "freeze", "parts"), FROZEN, ids=str)
def test_frozen_parts_stay_to_the_bit_and_all_others_train(architecture, freeze, parts):
    model = compiled(architecture, freeze=freeze)
    others = [part for part in PER_TOWER if part not in parts]
    before = {name: values(model, name) for name in (tuple(parts), tuple(others))}
    checks.fit(model, [checks.make_batch(4)] * 2)
    for name, old in before.items():
        equal = [np.array_equal(a, b) for a, b in zip(old, values(model, name), strict=True)]
        assert set(equal) <= {name == tuple(parts)}, name
    trainable = {id(v) for v in model.trainable_variables}
    for tower in (model.query_tower, model.document_tower):
        for part, layer in tower.parts.items():
            assert all((id(v) in trainable) == (part not in parts) for v in layer.weights), part
    assert model.get_config()["freeze"] == parts


def test_a_frozen_part_has_no_slots():
    free, frozen = make_model("ade"), make_model("ade", freeze="token_embedding")
    slots = []
    for model in (free, frozen):
        model.compile(keras.optimizers.Adam(), loss=SamToNe(0.05))
        checks.fit(model, [checks.make_batch(4)])
        slots.append(sum(v.shape == (50, 16) for v in model.optimizer.variables))
    assert slots == [4, 0]  # two moments of two tables


def test_frozen_parts_of_two_towers_start_equal_and_are_two():
    for architecture in ("ade", "ade_fte", "ade_spl"):
        model = make_model(architecture, freeze=["token_embedding"])
        query, document = (tower.parts for tower in (model.query_tower, model.document_tower))
        pairs = {part: (query[part], document[part]) for part in query}
        assert pairs["token_embedding"][0] is not pairs["token_embedding"][1]
        np.testing.assert_array_equal(*(x.get_weights()[0] for x in pairs["token_embedding"]))
        kernels = [x.blocks[0].attention.query.kernel.numpy() for x in pairs["encoder"]]
        assert np.abs(kernels[0] - kernels[1]).max() > 1e-3


def test_a_frozen_model_saves_and_loads_with_different_tables(tmp_path):
    model = compiled("ade", freeze="token_embedding", rate=0.01)
    table = model.document_tower.parts["token_embedding"]
    table.set_weights([2 * table.get_weights()[0]])
    checks.fit(model, [checks.make_batch(4)])
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for got, want in zip(values(loaded, PER_TOWER), values(model, PER_TOWER), strict=True):
        np.testing.assert_array_equal(got, want)
    places = [[v.trainable for v in m.query_tower.weights] for m in (loaded, model)]
    assert places[0] == places[1]
    assert len(loaded.trainable_variables) == len(model.trainable_variables) == 2 * 12
    checks.fit(loaded, [checks.make_batch(4)])
    np.testing.assert_array_equal(
        loaded.document_tower.parts["token_embedding"].get_weights()[0], table.get_weights()[0]
    )


@pytest.mark.parametrize(
    ("architecture", "freeze"),
    [
        ("sde", ["token_embedding", "encoder", "projection"]),
        ("ade_fte", "encoder,projection"),
    ],
)
def test_something_must_be_left_to_train(architecture, freeze):
    with pytest.raises(ValueError, match="`freeze` must leave a part that trains.*projection"):
        make_model(architecture, freeze=freeze)


# --- saving --------------------------------------------------------------------------------

SAVED = ("sde", "ade_spl", "ade", "list")
FRESH = """
import json, sys
import numpy as np
import samtone_tf
assert "keras" not in sys.modules
from tests import checks
folder = sys.argv[1]
batch = checks.make_batch(6)
for name in sys.argv[2:]:
    model = samtone_tf.load_model(f"{folder}/{name}.keras")
    before = model(batch)
    logs = checks.fit(model, [batch])
    np.savez(f"{folder}/{name}.npz", *model.get_weights(), loss=logs["loss"],
             **{f"before_{side}": x for side, x in before.items()})
    described = {"loss": model.loss.get_config(), "kind": type(model.loss).__name__,
                 "model": model.get_config(), "iterations": int(model.optimizer.iterations)}
    open(f"{folder}/{name}.json", "w").write(json.dumps(described))
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Models trained for two steps and saved, then loaded and trained on in one fresh process."""
    folder = tmp_path_factory.mktemp("saved")
    batch = checks.make_batch(6)
    models = {}
    for name in SAVED:
        model = make_model(spelled(name), seed=3, dropout=0.1)
        model.compile(
            keras.optimizers.Adam(0.01),
            loss=SamToNe(0.05, "both", True, "mean", ("id", "positives"), "own"),
        )
        checks.fit(model, [batch] * 2)
        model.save(folder / f"{name}.keras")
        models[name] = model
    command = [sys.executable, "-c", FRESH, str(folder), *models]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder, models, batch


@pytest.mark.slow
@pytest.mark.parametrize("name", SAVED)
def test_a_saved_model_goes_on_in_a_fresh_process(saved, name):
    folder, models, batch = saved
    model = models[name]
    found = np.load(folder / f"{name}.npz")
    described = json.loads((folder / f"{name}.json").read_text())

    for side, vectors in model(batch).items():
        np.testing.assert_allclose(found[f"before_{side}"], vectors, atol=1e-6, err_msg=side)
    assert described["kind"] == "SamToNe"
    assert described["loss"] == json.loads(json.dumps(model.loss.get_config()))
    config = json.loads(json.dumps(model.get_config()))
    assert described["model"] == config
    assert config["architecture"] == spelled(name)

    logs = checks.fit(model, [batch])  # the third step, in both
    np.testing.assert_allclose(found["loss"], logs["loss"], rtol=1e-5)
    assert described["iterations"] == int(model.optimizer.iterations) == 3
    weights = model.get_weights()
    for place, weight in enumerate(weights):
        np.testing.assert_allclose(found[f"arr_{place}"], weight, atol=1e-5)
    assert f"arr_{len(weights)}" not in found


def test_saved_towers_stay_shared_after_loading(tmp_path):
    for name in ("ade_spl", "list", "encoder only"):
        model = make_model(spelled(name))
        model.save(tmp_path / "model.keras")
        loaded = keras.saving.load_model(tmp_path / "model.keras")
        assert len(loaded.trainable_variables) == len(model.trainable_variables)
        query, document = part_variables(loaded.query_tower), part_variables(loaded.document_tower)
        for part in PER_TOWER:
            assert (query[part] == document[part]) == (part in ARCHITECTURES[name])
        for one, other in zip(model.get_weights(), loaded.get_weights(), strict=True):
            np.testing.assert_array_equal(one, other)


def test_weights_alone_save_and_load(tmp_path):
    model, other = make_model("ade_spl"), make_model("ade_spl")
    model.save_weights(tmp_path / "model.weights.h5")
    batch = checks.make_batch(4)
    assert np.abs(other(batch)["query"] - model(batch)["query"]).max() > 0.01
    other.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(other(batch)["query"], model(batch)["query"])


def test_config_round_trip():
    model = make_model(["encoder"], dropout=0.3, seed=7, dtype="mixed_bfloat16", name="towers")
    revived = checks.assert_config_round_trip(model)
    assert revived.name == "towers"
    assert (revived.seed, revived.encoder_config.dropout) == (7, 0.3)
    assert revived.architecture == ["encoder"]
    assert revived.dtype_policy.name == "mixed_bfloat16"


# --- errors --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "mixed_float16"])
def test_float16_is_refused_with_the_reason(dtype):
    with pytest.raises(ValueError, match=f"dtype='{dtype}'.*65504"):
        make_model(dtype=dtype)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"encoder": "t5-huge"}, "size='t5-huge'"),
        ({"encoder": {**checks.TINY, "depth": 2}}, r"Unknown encoder fields: \['depth'\]"),
        ({"architecture": "siamese"}, "sde, ade_spl, ade.*architecture='siamese'"),
        ({"architecture": ["pooling"]}, "token_embedding, encoder, projection.*'pooling'"),
        ({"freeze": "decoder"}, "`freeze` may list the parts token_embedding.*'decoder'"),
        ({"embedding_dim": 0}, "embedding_dim=0"),
        ({"dropout": 1.5}, "dropout=1.5"),
    ],
    ids=["size", "field", "architecture", "part", "frozen part", "embedding_dim", "dropout"],
)
def test_unknown_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        DualEncoder(**{"encoder": checks.TINY, "embedding_dim": 8, **arguments})


@pytest.mark.parametrize("loss", ["mse", None], ids=str)
@pytest.mark.parametrize("run", [checks.fit, checks.evaluate], ids=["fit", "evaluate"])
def test_a_loss_of_another_kind_is_a_type_error(run, loss):
    model = make_model()
    model.compile(keras.optimizers.SGD(), loss=loss)
    with pytest.raises(TypeError, match="InBatchSoftmax or a SamToNe.*Call compile"):
        run(model, [checks.make_batch(3)])


@pytest.mark.parametrize("name", ["metrics", "weighted_metrics"])
def test_metrics_of_compile_are_refused(name):
    model = make_model()
    model.compile(keras.optimizers.SGD(), loss=InBatchSoftmax(), **{name: ["accuracy"]})
    message = "metrics` of compile are not supported.*fit reports.*loss.*accuracy.*masked_fraction"
    with pytest.raises(ValueError, match=message):
        checks.fit(model, [checks.make_batch(3)])


def test_fit_before_compile_says_so():
    with pytest.raises(ValueError, match="compile"):
        checks.fit(make_model(), [checks.make_batch(3)])
