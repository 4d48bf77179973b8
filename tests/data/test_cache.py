"""Pins of data.cache: built once, whole or not at all, mended when damaged, safe for two."""

import errno
import multiprocessing
import os
import time
from pathlib import Path

import numpy as np
import pytest

from samtone_tf.data import cache as module
from samtone_tf.data.cache import Cache, default_folder


def write(number, calls=None):
    def build(folder):
        if calls is not None:
            calls.append(number)
        np.save(folder / "numbers.npy", np.full(1000, number))
        (folder / "more.txt").write_text("more")

    return build


def numbers(folder):
    return np.load(folder / "numbers.npy")[0]


def left_in(folder):
    return [path.name for path in folder.iterdir() if "building" in path.name]


def test_a_table_is_built_once_and_found_by_its_key(tmp_path):
    calls = []
    cache = Cache(tmp_path / "deep" / "cache")
    first = cache.get("tokens", "a", write(1, calls), 100)
    assert cache.report() == f"{tmp_path / 'deep' / 'cache'} (tokens built)"
    again = Cache(tmp_path / "deep" / "cache")
    assert again.get("tokens", "a", write(2, calls), 100) == first
    assert numbers(first) == 1
    assert again.report().endswith("(tokens reused)")
    assert numbers(again.get("tokens", "b", write(3, calls), 100)) == 3
    assert calls == [1, 3]
    assert left_in(again.folder) == []


def damage_nothing_but_the_size(path):
    with open(path, "r+b") as file:
        file.truncate(500)


def damage_one_bit(path):
    raw = bytearray(path.read_bytes())
    raw[700] ^= 1
    path.write_bytes(raw)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("numbers.npy", damage_nothing_but_the_size),
        ("numbers.npy", damage_one_bit),
        ("numbers.npy", Path.unlink),
        ("contents.json", Path.unlink),
        ("contents.json", lambda path: path.write_text('{"numbers')),
        ("contents.json", lambda path: path.write_text("[]")),
    ],
    ids=["cut", "one bit", "gone", "no contents", "half of the contents", "other contents"],
)
def test_what_was_damaged_is_built_again_with_a_message(tmp_path, name, damage):
    cache = Cache(tmp_path)
    folder = cache.get("tokens", "a", write(1), 100)
    damage(folder / name)
    with pytest.warns(UserWarning, match="tokens-a is damaged or incomplete and is built again"):
        assert cache.get("tokens", "a", write(2), 100) == folder
    assert numbers(folder) == 2
    assert cache.seen == {"tokens": "built"}
    assert cache.get("tokens", "a", write(3), 100) == folder
    assert numbers(folder) == 2
    assert left_in(tmp_path) == []


def test_a_build_that_fails_leaves_nothing_and_is_tried_again(tmp_path):
    cache = Cache(tmp_path)

    def fail(folder):
        write(1)(folder)
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        cache.get("tokens", "a", fail, 100)
    assert left_in(tmp_path) == []
    assert numbers(cache.get("tokens", "a", write(2), 100)) == 2


def _build_slowly(folder, calls):
    def build(target):
        calls.put(os.getpid())
        time.sleep(0.5)
        write(os.getpid())(target)

    print(numbers(Cache(folder).get("tokens", "a", build, 100)))


def test_two_processes_at_once_build_it_once(tmp_path):
    context = multiprocessing.get_context("fork")
    calls = context.Queue()
    workers = [context.Process(target=_build_slowly, args=(tmp_path, calls)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert [worker.exitcode for worker in workers] == [0, 0]
    builder = calls.get(timeout=5)
    assert calls.empty()
    assert numbers(tmp_path / "tokens-a") == builder


def test_without_locks_the_first_to_be_ready_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "fcntl", None)

    def build(folder):
        Cache(tmp_path).get("tokens", "a", write(1), 100)  # another process, while this one builds
        write(2)(folder)

    assert numbers(Cache(tmp_path).get("tokens", "a", build, 100)) == 1
    assert left_in(tmp_path) == []


def _build_and_die(folder):
    def build(target):
        write(1)(target)
        os._exit(9)

    Cache(folder).get("tokens", "a", build, 100)


def test_what_a_killed_process_left_is_never_taken(tmp_path):
    worker = multiprocessing.get_context("fork").Process(target=_build_and_die, args=(tmp_path,))
    worker.start()
    worker.join(30)
    assert worker.exitcode == 9
    assert len(left_in(tmp_path)) == 1
    assert numbers(Cache(tmp_path).get("tokens", "a", write(2), 100)) == 2
    assert left_in(tmp_path) == []


def test_a_full_disk_names_the_folder_and_the_room_needed(tmp_path):
    def fill(folder):
        write(1)(folder)
        raise OSError(errno.ENOSPC, "No space left on device")

    match = (
        r"`data.cache` must have room for tokens-a, about 2\.5 MB \(2,500,000 bytes\)\. "
        rf"Received: {tmp_path}, which has [\d,]+ bytes free\. .*--data\.cache or SAMTONE_CACHE"
    )
    with pytest.raises(OSError, match=match):
        Cache(tmp_path).get("tokens", "a", fill, 2_500_000)
    assert left_in(tmp_path) == []
    # A disk that is too small is told before the work.
    with pytest.raises(OSError, match="must have room for tokens-a"):
        Cache(tmp_path).get("tokens", "a", pytest.fail, 10**18)


def test_a_folder_that_cannot_be_written_is_named_before_the_work(tmp_path):
    (tmp_path / "file").write_text("mine")
    match = rf"a folder that can be written. Received: {tmp_path}/file.*10 bytes.*cache memory"
    with pytest.raises(OSError, match=match):
        Cache(tmp_path / "file").get("tokens", "a", pytest.fail, 10)
    with pytest.raises(OSError, match="Received: /proc/samtone"):
        Cache("/proc/samtone").get("tokens", "a", pytest.fail, 10)


def test_errors_of_other_files_are_theirs(tmp_path):
    with pytest.raises(FileNotFoundError, match="gone.jsonl"):
        Cache(tmp_path).get("tokens", "a", lambda _: open("gone.jsonl"), 10)  # noqa: SIM115


def test_the_folder_is_where_users_expect_it(monkeypatch):
    monkeypatch.setenv("SAMTONE_CACHE", "/some/where")
    assert default_folder() == Path("/some/where")
    monkeypatch.delenv("SAMTONE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert default_folder() == Path("/xdg/samtone-tf")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert default_folder() == Path("/home/me/.cache/samtone-tf")
