"""Pins of checkpoints.folder_files: what lies in a folder, and nothing else, is read."""

import json

import pytest

from samtone_tf.checkpoints.folder_files import (
    find_file,
    inside,
    need_file,
    read_json,
    read_settings,
)
from tests.checkpoints import files


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "secret.json").write_text("{}")
    folder = tmp_path / "model"
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "config.json").write_text('{"a": 1}')
    (folder / "1_Pooling" / "config.json").write_text("[2]")
    return folder


def test_files_of_the_folder_and_of_folders_in_it_are_found(folder):
    assert find_file(folder, "config.json") == folder / "config.json"
    assert read_settings(str(folder), "config.json") == {"a": 1}
    assert read_json(folder, "1_Pooling/config.json") == [2]
    assert inside(folder, "1_Pooling") == folder / "1_Pooling"
    assert find_file(folder, "1_Pooling") is None
    assert find_file(folder, "absent.json") is None
    assert inside(folder, "absent.json") == folder / "absent.json"
    with pytest.raises(
        FileNotFoundError, match=r"must hold the file absent\.json\. Received: .*mo"
    ):
        need_file(folder, "absent.json")


@pytest.mark.parametrize(
    "name",
    [
        *["../secret.json", "1_Pooling/../../secret.json", "/etc/hostname", "", ".."],
        *["..\\secret.json", "C:\\secret.json", "C:secret.json", "\\secret.json", "\\\\host\\x"],
    ],
)
def test_a_path_out_of_the_folder_is_refused(folder, name):
    for function in (inside, find_file, need_file, read_json):
        with pytest.raises(ValueError, match="may only name files inside its folder. Received: "):
            function(folder, name)


def test_a_link_out_of_the_folder_is_refused(folder, tmp_path):
    (folder / "vocab.json").symlink_to(tmp_path / "secret.json")
    (folder / "relative.json").symlink_to("../secret.json")
    (folder / "2_Dense").symlink_to(tmp_path)
    for name in ("vocab.json", "relative.json", "2_Dense", "2_Dense/secret.json"):
        with pytest.raises(ValueError, match=f"'{name}, a link to .*{tmp_path.name}"):
            find_file(folder, name)


def test_links_inside_are_followed_and_the_folder_itself_may_be_one(folder, tmp_path):
    (folder / "again.json").symlink_to("config.json")
    (tmp_path / "link").symlink_to(folder)
    assert read_json(tmp_path / "link", "again.json") == {"a": 1}


@pytest.mark.parametrize("shared", [False, True])
def test_the_hubs_own_links_are_followed(folder, tmp_path, shared):
    (folder / "1_Pooling" / "config.json").unlink()
    (folder / "1_Pooling").rmdir()
    snapshot = files.as_snapshot(folder, tmp_path / "hub", shared)
    assert (snapshot / "config.json").is_symlink()
    assert read_json(snapshot, "config.json") == {"a": 1}
    (snapshot / "1_Pooling").mkdir()
    (snapshot / "1_Pooling" / "a.json").symlink_to("../../../blobs/etag-config.json")
    assert read_json(snapshot / "1_Pooling", "a.json") == {"a": 1}
    assert read_json(snapshot, "1_Pooling/a.json") == {"a": 1}
    (snapshot / "b.json").symlink_to(tmp_path / "secret.json")
    with pytest.raises(ValueError, match="a link to"):
        read_json(snapshot, "b.json")


def test_blobs_beside_a_repository_are_not_taken_for_the_hubs(folder, tmp_path):
    (folder / "1_Pooling" / "config.json").unlink()
    (folder / "1_Pooling").rmdir()
    snapshot = files.as_snapshot(folder, tmp_path / "hub", shared=True)
    (tmp_path / "hub" / "blobs" / ".huggingface-shared-blobs").unlink()
    with pytest.raises(ValueError, match="a link to"):
        read_json(snapshot, "config.json")


def test_what_is_no_json_says_so(folder):
    (folder / "bad.json").write_text("{")
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "list.json").write_text(json.dumps([1]))
    for name in ("bad.json", "deep.json"):
        with pytest.raises(ValueError, match=rf"{name} must be JSON\. Received: "):
            read_json(folder, name)
    with pytest.raises(ValueError, match=r"list\.json must be a JSON object\. Received: a list"):
        read_settings(folder, "list.json")
