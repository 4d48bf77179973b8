"""Pins of resuming: SIGKILL at any moment loses no row, doubles none, and leaves no stray file."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from samtone_tf.encoding.vectors import Vectors
from tests.encoding import killed_encoding, letters

ROOT = Path(__file__).parents[2]


def lives(out, mode, dtype):
    """How many lives were ended."""
    command = [sys.executable, "-m", "tests.encoding.killed_encoding", str(out), mode, dtype]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stderr == ""
    return int(done.stdout)


def check(folder, dtype):
    vectors = Vectors(folder)
    assert vectors.ids == list(killed_encoding.TEXTS)
    want = np.stack([letters.vector_of(text) for text in killed_encoding.TEXTS.values()])
    tolerance = {"float32": 1e-6, "int8": 0.01}[dtype]
    np.testing.assert_allclose(vectors[:], want, atol=tolerance)
    names = {path.name.split("-")[0] for path in folder.iterdir()}
    scales = {"scales"} if dtype == "int8" else set()
    assert names == {"vectors.json", "vectors", "ids", "shard", *scales}
    assert len(list(folder.iterdir())) == 1 + 3 * (3 + len(scales))


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_killed_at_every_change_of_the_disk(tmp_path, dtype):
    kills = lives(tmp_path, "each", dtype)
    # Three shards of at least a block in two moments, three flushes, three names …
    assert kills > 3 * (2 + 5 + 4)
    for number in range(kills + 1):
        check(tmp_path / str(number), dtype)


def test_killed_again_and_again(tmp_path):
    assert lives(tmp_path, "chain", "int8") >= 2
    check(tmp_path / "chain", "int8")
