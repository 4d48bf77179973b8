"""Settings of all tests: TensorFlow as the backend, its log quiet, one seed per test."""

import atexit
import contextlib
import os
import sys
import tempfile

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"
# No test looks at, or fills, the user's own caches; processes that tests start inherit it.
_CACHE = tempfile.TemporaryDirectory(prefix="samtone_cache_")
atexit.register(_CACHE.cleanup)
os.environ["SAMTONE_CACHE"] = _CACHE.name


# PyTorch's CUDA build brings Triton, which ends the process unless it is there before TensorFlow.
with contextlib.suppress(ImportError):
    import triton  # noqa: F401


@pytest.fixture(autouse=True)
def seed_everything():
    """Seeds Keras, but does not import it for a test that has no use for it."""
    if "keras" in sys.modules:
        sys.modules["keras"].utils.set_random_seed(0)
