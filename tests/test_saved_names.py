"""Pins of the names under which classes are written into `.keras` files: they never change."""

import importlib
import pkgutil

import keras
import pytest

import samtone_tf

# A file saved today must load in every later version: add names, never rename or remove one.
NAMES = {
    "Adafactor": "samtone_tf.optimizers.adafactor",
    "DualEncoder": "samtone_tf.dual_encoder",
    "Gte": "samtone_tf.losses.gte",
    "InBatchSoftmax": "samtone_tf.losses.contrastive",
    "InverseSquareRoot": "samtone_tf.optimizers.schedules",
    "LinearDecay": "samtone_tf.optimizers.schedules",
    "MaskedMeanPooling": "samtone_tf.towers.pooling",
    "Pair": "samtone_tf.losses.pair",
    "SamToNe": "samtone_tf.losses.contrastive",
    "T5Attention": "samtone_tf.towers.attention",
    "T5Encoder": "samtone_tf.towers.encoder",
    "T5FeedForward": "samtone_tf.towers.encoder",
    "T5RelativePositionBias": "samtone_tf.towers.attention",
    "Tower": "samtone_tf.towers.tower",
    "Triplet": "samtone_tf.losses.triplet",
}


def import_everything():
    for module in pkgutil.walk_packages(samtone_tf.__path__, "samtone_tf."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of compiled dependencies
def test_the_registered_names_are_these_and_no_others():
    import_everything()
    registered = {
        name: thing.__module__
        for name, thing in keras.saving.get_custom_objects().items()
        if name.startswith("samtone_tf>")
    }
    assert registered == {f"samtone_tf>{name}": module for name, module in NAMES.items()}


@pytest.mark.parametrize("name", NAMES)
def test_a_class_is_written_under_its_own_name(name):
    thing = getattr(importlib.import_module(NAMES[name]), name)
    assert keras.saving.get_registered_name(thing) == f"samtone_tf>{name}"
    assert keras.saving.get_registered_object(f"samtone_tf>{name}") is thing
