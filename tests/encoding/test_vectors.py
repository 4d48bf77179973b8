"""Pins of encoding.vectors: rows, ids and blocks of memory-mapped shards; damage is named."""

import json

import numpy as np
import pytest

from samtone_tf.encoding.encode import encode_corpus
from samtone_tf.encoding.vectors import Vectors
from tests.encoding import letters

TEXTS = {**letters.TEXTS, **letters.many(15)}  # 23
WANT = np.stack([letters.vector_of(text) for text in TEXTS.values()])
TOLERANCE = {"float32": 1e-6, "float16": 5e-4, "int8": 0.01}


@pytest.fixture(scope="module", params=TOLERANCE)
def folder(request, tmp_path_factory):
    """(dtype, vectors in three shards); read them only."""
    out = tmp_path_factory.mktemp("vectors") / "v"
    encode_corpus(letters.encoder(), TEXTS, out, dtype=request.param, shard_size=9)
    return request.param, out


def test_rows_are_float32_in_the_order_of_the_corpus(folder):
    dtype, out = folder
    vectors = Vectors(out)
    assert (len(vectors), vectors.shape, vectors.ids) == (23, (23, letters.DIM), list(TEXTS))
    near = {"atol": TOLERANCE[dtype], "rtol": 0}
    np.testing.assert_allclose(vectors[:], WANT, **near)
    np.testing.assert_allclose(np.asarray(vectors), WANT, **near)
    np.testing.assert_allclose(list(vectors), WANT, **near)
    for rows in (slice(5, 20), slice(None, None, -2), slice(30, 40), [8, 9, -1, 8], np.array([0])):
        found = vectors[rows]
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, WANT[rows], **near)
    for row in (0, 9, 22, -1, np.int64(-23)):
        np.testing.assert_allclose(vectors[row], WANT[row], **near)
    assert vectors[[]].shape == (0, letters.DIM)


@pytest.mark.parametrize("num_rows", [1, 4, 9, 100])
def test_blocks_are_all_rows_with_their_ids(folder, num_rows):
    dtype, out = folder
    blocks = list(Vectors(out).blocks(num_rows))
    assert [name for ids, _ in blocks for name in ids] == list(TEXTS)
    assert all(len(ids) == len(rows) <= num_rows for ids, rows in blocks)
    np.testing.assert_allclose(
        np.concatenate([rows for _, rows in blocks]), WANT, atol=TOLERANCE[dtype]
    )


def test_matrices_are_all_rows_mapped_unless_they_have_scales(folder):
    dtype, out = folder
    vectors = Vectors(out)
    matrices = vectors.matrices()
    assert len(matrices) == (1 if dtype == "int8" else 3)
    np.testing.assert_array_equal(np.concatenate(matrices).astype("float32"), vectors[:])
    assert all((matrix.base is None) == (dtype == "int8") for matrix in matrices)


def test_files_can_be_read_with_numpy_alone(folder):
    dtype, out = folder
    parts = [np.load(path) for path in sorted(out.glob("vectors-*.npy"))]
    assert [part.dtype for part in parts] == [np.dtype(dtype)] * 3
    assert [len(part) for part in parts] == [9, 9, 5]
    stored = np.concatenate(parts).astype("float32")
    if dtype == "int8":
        stored *= np.concatenate([np.load(path) for path in sorted(out.glob("scales-*"))])[:, None]
    np.testing.assert_allclose(stored, WANT, atol=TOLERANCE[dtype])
    lines = b"".join(path.read_bytes() for path in sorted(out.glob("ids-*.txt")))
    assert lines.decode("utf-8", "surrogatepass").split("\n")[:-1] == list(TEXTS)


def test_what_was_lost_is_measured_and_written(folder):
    dtype, out = folder
    vectors = Vectors(out)
    loss = vectors.loss
    assert loss.num_rows == 23
    found = vectors[:].astype("float64")
    cosines = np.vecdot(found, WANT) / np.linalg.norm(found, axis=1)
    assert loss.mean_cosine == pytest.approx(cosines.mean(), abs=1e-6)
    assert loss.min_cosine == pytest.approx(cosines.min(), abs=1e-6)
    assert loss.max_error == pytest.approx(np.abs(found - WANT).max(), abs=1e-6)
    about = json.loads((out / "vectors.json").read_text())
    assert about["done"] == "0-2"
    if dtype == "float32":
        assert loss.max_error == 0
        assert "loss" not in about
    else:
        assert about["loss"]["max_error"] == loss.max_error > 0


def test_nothing_is_read_before_it_is_asked_for(folder, monkeypatch):
    _, out = folder
    opened = []
    load = np.load
    monkeypatch.setattr(np, "load", lambda path, **how: opened.append(how) or load(path, **how))
    vectors = Vectors(out)
    assert not opened
    vectors[10]
    assert 1 <= len(opened) <= 2
    assert all(how["mmap_mode"] == "r" for how in opened)


def test_rows_that_are_not_there(folder):
    _, out = folder
    vectors = Vectors(out)
    with pytest.raises(IndexError):
        vectors[23]
    with pytest.raises(IndexError, match=r"from -23 to 22. Received: rows from -24 to 3"):
        vectors[[3, -24]]
    with pytest.raises(TypeError, match="array of bool"):
        vectors[np.ones(23, bool)]
    with pytest.raises(ValueError, match="num_rows=0"):
        next(vectors.blocks(0))


def copy(folder, tmp_path):
    for path in folder[1].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def test_no_vectors_and_missing_shards(folder, tmp_path):
    with pytest.raises(FileNotFoundError, match="gone, which has no vectors.json"):
        Vectors(tmp_path / "gone")
    out = copy(folder, tmp_path)
    for shard in (0, 2):
        (out / f"shard-0000{shard}.json").unlink()
    with pytest.raises(ValueError, match="hold all 3 shards. .*without shards 0, 2. Run"):
        Vectors(out)


DAMAGES = [
    (name, damage)
    for name in ("vectors-00001.npy", "ids-00001.txt", "shard-00001.json")
    for damage in ("cut", "odd", "gone")
][:-1]  # without its marker a shard is missing, and not damaged


@pytest.mark.parametrize(("name", "damage"), DAMAGES)
def test_damaged_files_are_named_and_can_be_made_anew(folder, tmp_path, name, damage):
    dtype, out = folder[0], copy(folder, tmp_path)
    path = out / name
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(content[: len(content) // 2] if damage == "cut" else b"\xff" * 7)
    with pytest.raises(ValueError, match=f"{name}.*Remove .*shard-00001.json|{name}.*Remove it"):
        Vectors(out)[:], Vectors(out).ids
    (out / "shard-00001.json").unlink()
    encode_corpus(letters.encoder(), TEXTS, out, dtype=dtype, shard_size=9)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda text: text[:20], "vectors.json that can be read"),
        (lambda text: "[]", "vectors.json that can be read"),
        (lambda text: text.replace('"format": 1', '"format": 2'), "format 1 of vectors.*format 2"),
        (lambda text: text.replace('"dim"', '"dims"'), "vectors.json that can be read.*dim"),
        (lambda text: text.replace('"num_texts": 23', '"num_texts": 24'), "23 rows for 24 texts"),
    ],
)
def test_a_description_that_is_none_is_refused(folder, tmp_path, change, match):
    out = copy(folder, tmp_path)
    path = out / "vectors.json"
    path.write_text(change(path.read_text()))
    with pytest.raises(ValueError, match=match):
        Vectors(out)
