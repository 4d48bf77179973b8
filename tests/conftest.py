"""Settings of all tests: TensorFlow as the backend, its log quiet, one seed per test."""

import os
import sys

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"


@pytest.fixture(autouse=True)
def seed_everything():
    """Seeds Keras, but does not import it for a test that has no use for it."""
    if "keras" in sys.modules:
        sys.modules["keras"].utils.set_random_seed(0)
