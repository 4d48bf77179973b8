"""Pins of resuming: SIGKILL at any moment loses no row, doubles none, and leaves no stray file."""

import subprocess
import sys
from pathlib import Path

import numpy as np

from samtone_tf.encoding.vectors import Vectors
from tests.encoding import killed_encoding, letters

ROOT = Path(__file__).parents[2]


def lives(out, mode):
    """How many lives were ended."""
    command = [sys.executable, "-m", "tests.encoding.killed_encoding", str(out), mode]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stderr == ""
    return int(done.stdout)


def check(folder):
    vectors = Vectors(folder)
    assert vectors.ids == list(killed_encoding.TEXTS)
    want = np.stack([letters.vector_of(text) for text in killed_encoding.TEXTS.values()])
    np.testing.assert_allclose(vectors[:], want, atol=0.01)
    names = {path.name.split("-")[0] for path in folder.iterdir()}
    assert names == {"vectors.json", "vectors", "ids", "scales", "shard"}
    assert len(list(folder.iterdir())) == 1 + 2 * 4


def test_killed_at_every_change_of_the_disk(tmp_path):
    kills = lives(tmp_path, "each")
    # Of each shard a block in two moments, three files flushed and named, and its marker.
    assert kills > 2 * (2 + 2 * 3 + 2)
    for number in range(kills + 1):
        check(tmp_path / str(number))


def test_killed_again_and_again(tmp_path):
    assert lives(tmp_path, "chain") >= 2
    check(tmp_path / "chain")
