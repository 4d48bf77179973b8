"""Pins of encoding.encode: order, resuming, what is refused, ranges of shards, bounded memory."""

import errno
import json
import shutil

import numpy as np
import pytest

from samtone_tf.encoding import encode as module
from samtone_tf.encoding import shard as shard_module
from samtone_tf.encoding.encode import encode_corpus
from samtone_tf.encoding.vectors import Vectors
from tests.encoding import letters

TEXTS = {**letters.TEXTS, **letters.many(15)}  # 23
WANT = np.stack([letters.vector_of(text) for text in TEXTS.values()])


def encode(out, data=TEXTS, encoder=None, **changes):
    return encode_corpus(encoder or letters.encoder(), data, out, **{"shard_size": 9} | changes)


def check(out, want=WANT, ids=tuple(TEXTS)):
    vectors = Vectors(out)
    assert vectors.ids == list(ids)
    np.testing.assert_allclose(vectors[:], want, atol=1e-6)


@pytest.mark.parametrize("shard_size", [1, 5, 23, 1000])
@pytest.mark.parametrize(("window", "batch_tokens"), [(1, 64), (4, 1), (4, 64), (100, 10_000)])
def test_sizes_change_nothing(tmp_path, monkeypatch, shard_size, window, batch_tokens):
    monkeypatch.setattr(module, "WINDOW", window)
    done = encode(tmp_path / "v", shard_size=shard_size, batch_tokens=batch_tokens)
    check(tmp_path / "v")
    assert (done.num_encoded, done.num_empty) == (23, sum(not t.strip() for t in TEXTS.values()))
    assert done.done == tuple(range(-(-23 // shard_size)))


def test_replicas_get_equal_numbers_of_rows(tmp_path):
    seen = []

    def encode_tokens(tokens):
        seen.append(tokens["token_ids"].shape)
        return letters.encode_tokens(tokens)

    encoder = letters.encoder(encode_tokens=encode_tokens, num_replicas=3)
    encode(tmp_path / "v", encoder=encoder, batch_tokens=48)
    check(tmp_path / "v")
    assert all(rows % 3 == 0 and rows * width <= 3 * 48 for rows, width in seen)


def test_a_second_call_has_nothing_left_to_do(tmp_path):
    encode(tmp_path / "v")
    before = {path: path.read_bytes() for path in (tmp_path / "v").iterdir()}
    encoder = letters.encoder(encode_tokens=lambda _: pytest.fail("encoded again"))
    done = encode(tmp_path / "v", encoder=encoder)
    assert (done.num_encoded, done.done) == (0, (0, 1, 2))
    assert {path: path.read_bytes() for path in (tmp_path / "v").iterdir()} == before


def test_it_goes_on_with_the_first_shard_that_is_not_done(tmp_path):
    encode(tmp_path / "v", shards=(0, 2))
    with pytest.raises(ValueError, match="without shards 2"):
        Vectors(tmp_path / "v")
    assert json.loads((tmp_path / "v" / "vectors.json").read_text())["done"] == "0-1"
    done = encode(tmp_path / "v")
    assert (done.num_encoded, done.done) == (5, (0, 1, 2))
    check(tmp_path / "v")


def test_machines_share_a_corpus_in_any_order(tmp_path):
    for shards in [(2, None), (0, 1), (1, 2)]:
        encode(tmp_path / "v", shards=shards)
    check(tmp_path / "v")


@pytest.mark.parametrize("shards", [(3, None), (2, 2), (2, 1), (7, 9)])
def test_a_range_without_shards_is_refused(tmp_path, shards):
    with pytest.raises(ValueError, match=r"`shards` must be first:end within 0:3.* fills 3 shards"):
        encode(tmp_path / "v", shards=shards)
    assert not (tmp_path / "v").exists()


CHANGES = {
    "model": ({"encoder": letters.encoder(fingerprint="other")}, "model 'letters' and not 'other'"),
    "side": ({"encoder": letters.encoder("query")}, "side 'document' and not 'query'"),
    "length": ({"encoder": letters.encoder(length=25)}, "length 24 and not 25"),
    "dtype": ({"dtype": "int8"}, "dtype 'float32' and not 'int8'"),
    "shards": ({"shard_size": 8}, "shard_size 9 and not 8"),
    "a text": ({"data": TEXTS | {"a": "The old harbour"}}, r"data '\w{32}' and not '\w{32}'"),
    "a text more": ({"data": TEXTS | {"new": "text"}}, "num_texts 23 and not 24"),
    "order": ({"data": dict(reversed(TEXTS.items()))}, "data"),
    "an id": ({"data": {"z" if i == "7" else i: text for i, text in TEXTS.items()}}, "data"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_differs_from_the_begin_is_named_and_refused(tmp_path, name):
    encode(tmp_path / "v", shards=(0, 1))
    before = {path: path.read_bytes() for path in (tmp_path / "v").iterdir()}
    changes, match = CHANGES[name]
    with pytest.raises(ValueError, match=f"same model, data and settings.*{match}"):
        encode(tmp_path / "v", **changes)
    assert {path: path.read_bytes() for path in (tmp_path / "v").iterdir()} == before


def test_models_and_data_may_move(tmp_path):
    encode(tmp_path / "v", encoder=letters.encoder(path="/here"), shards=(0, 1))
    encode(tmp_path / "v", encoder=letters.encoder(path="/there"))
    check(tmp_path / "v")


class Changing(dict):
    """Texts that are others when they are read for the second time."""

    def __init__(self, before, after):
        super().__init__(before)
        self.readings = [list(before.items()), list(after.items())]

    def items(self):
        return iter(self.readings.pop(0))


@pytest.mark.parametrize(
    "after",
    [
        TEXTS | {"id 3": "another"},  # the second shard
        dict(list(TEXTS.items())[:20]),
        dict(list(TEXTS.items())[:9]),
        TEXTS | {"new": "text"},
    ],
    ids=["changed", "shorter", "a shard only", "longer"],
)
def test_data_that_change_while_they_are_read_are_refused(tmp_path, after):
    if len(after) > 23:  # what comes behind the last text is not looked at
        encode(tmp_path / "v", data=Changing(TEXTS, after))
        check(tmp_path / "v")
        return
    with pytest.raises(ValueError, match="which changed between two readings"):
        encode(tmp_path / "v", data=Changing(TEXTS, after))
    encode(tmp_path / "v")
    check(tmp_path / "v")


BAD = {
    "no texts": ({"data": {}}, ValueError, "texts with no text"),
    "empty texts": ({"data": {"a": "", "b": b" ", "c": "\n"}}, ValueError, "3 empty texts"),
    "a number as id": ({"data": {7: "a"}}, TypeError, "Received: 7 of type int"),
    "no text": ({"data": {"a": None}}, TypeError, "Received: NoneType for id 'a'"),
    "an empty id": ({"data": {"": "a"}}, ValueError, "ids that fill one line"),
    "two lines": ({"data": {"a\nb": "a"}}, ValueError, r"ids that fill one line.*'a\\nb'"),
    "shard size 0": ({"shard_size": 0}, ValueError, "`shard_size` must be at least 1.*=0"),
    "batch of 0": ({"batch_tokens": 0}, ValueError, "`batch_tokens` must be at least 1.*=0"),
    "bfloat16": ({"dtype": "bfloat16"}, ValueError, "float32, float16, int8.*'bfloat16'"),
    "the other side": ({"side": "query"}, ValueError, "side='query' for an encoder of side 'doc"),
    "no side": ({"side": "left"}, ValueError, "`side` must be one of"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_writes_nothing(tmp_path, name):
    changes, kind, match = BAD[name]
    with pytest.raises(kind, match=match):
        encode(tmp_path / "v", **changes)
    assert not (tmp_path / "v").exists()


def test_an_id_twice_is_named_with_both_places(tmp_path):
    lines = [json.dumps({"_id": name, "text": "a"}) for name in ("a", "b", "c", "b")]
    (tmp_path / "c.jsonl").write_text("\n".join(lines))
    with pytest.raises(ValueError, match="id 'b' of texts 2 and 4 in corpus:"):
        encode(tmp_path / "v", data=f"corpus:{tmp_path / 'c.jsonl'}")


def test_what_is_there_is_never_overwritten(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    for out in (tmp_path / "mine", tmp_path / "mine" / "letter.txt"):
        with pytest.raises(FileExistsError, match=f"nothing is overwritten. Received: {out}"):
            encode(out)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / ".vectors.json.0a1b.writing").write_text("{")
    encode(tmp_path / "empty")
    check(tmp_path / "empty")
    assert not list((tmp_path / "empty").glob(".*"))


def test_a_model_that_gives_nan_is_refused(tmp_path):
    def broken(tokens):
        vectors = letters.encode_tokens(tokens)
        vectors[0, 0] = np.nan
        return vectors

    with pytest.raises(FloatingPointError, match="`model` must give finite vectors"):
        encode(tmp_path / "v", encoder=letters.encoder(encode_tokens=broken))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_disk_that_fills_up_is_named_and_the_same_call_goes_on(tmp_path, monkeypatch, code):
    fsync, calls = shard_module.os.fsync, []

    def full(number):
        calls.append(number)
        if len(calls) == 9:  # in the second shard
            raise OSError(code, "no room")
        return fsync(number)

    monkeypatch.setattr(shard_module.os, "fsync", full)
    with pytest.raises(OSError, match="`out` must have room.*Shards that are done stay: make room"):
        encode(tmp_path / "v")
    assert not list((tmp_path / "v").glob(".*"))
    assert (tmp_path / "v" / "shard-00000.json").is_file()
    assert not (tmp_path / "v" / "shard-00001.json").is_file()
    assert encode(tmp_path / "v").num_encoded == 14
    check(tmp_path / "v")


def test_the_system_itself_refuses_a_file_that_is_too_large(tmp_path):
    resource = pytest.importorskip("resource", reason="a limit of Unix")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (620, before[1]))
    try:
        with pytest.raises(OSError, match="`out` must have room.*File too large"):
            encode(tmp_path / "v", shard_size=23)  # 128 + 23 · 6 · 4 bytes
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path.name for path in (tmp_path / "v").iterdir()] == ["vectors.json"]
    encode(tmp_path / "v", shard_size=23)
    check(tmp_path / "v")


def test_a_disk_without_room_is_refused_before_anything_is_encoded(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shard_module.shutil, "disk_usage", lambda _: usage._replace(free=551))
    encoder = letters.encoder(encode_tokens=lambda _: pytest.fail("encoded"))
    with pytest.raises(OSError, match="552 bytes more are needed, and 551 are free"):
        encode(tmp_path / "v", encoder=encoder)  # 23 · 6 · 4


def test_other_errors_of_the_disk_are_left_alone(tmp_path, monkeypatch):
    def fail(*_):
        raise PermissionError(errno.EACCES, "not yours")

    monkeypatch.setattr(shard_module.os, "replace", fail)
    with pytest.raises(PermissionError, match="not yours"):
        encode(tmp_path / "v")


def test_a_second_process_is_refused_unless_both_have_ranges(tmp_path):
    out = tmp_path / "v"
    out.mkdir()
    with module._lock(out, exclusive=False):
        with pytest.raises(OSError, match="one process at a time.*another process writes to"):
            encode(out)
        encode(out, shards=(0, 1))
    with module._lock(out, exclusive=True), pytest.raises(OSError, match="one process"):
        encode(out, shards=(1, 2))
    encode(out)
    check(out)


def test_an_interruption_says_how_to_go_on(tmp_path):
    def interrupted(tokens):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="the same command goes on"):
        encode(tmp_path / "v", encoder=letters.encoder(encode_tokens=interrupted))
    encode(tmp_path / "v")
    check(tmp_path / "v")


def test_only_windows_of_texts_are_held(tmp_path, monkeypatch):
    """Texts that were read and not yet given back: never more than three windows."""
    monkeypatch.setattr(module, "WINDOW", 10)
    alive, most = set(), [0]

    class Text(str):
        def __new__(cls, text, row):
            made = super().__new__(cls, text)
            made.row = row
            alive.add(row)
            most[0] = max(most[0], len(alive))
            return made

        def __del__(self):
            alive.discard(self.row)

    class Texts(dict):
        def items(self):
            return ((f"d{row}", Text(f"text {row}", row)) for row in range(2000))

    encode(tmp_path / "v", data=Texts(), shard_size=1000)
    assert most[0] <= 31
    assert Vectors(tmp_path / "v").ids == [f"d{row}" for row in range(2000)]
