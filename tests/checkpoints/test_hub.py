"""Pins of checkpoints.hub: folders, and repositories that a stand-in for the library downloads."""

from fnmatch import fnmatch

import huggingface_hub
import pytest

from samtone_tf.checkpoints.hub import find_folder
from samtone_tf.checkpoints.open import open_source
from tests.checkpoints import files


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Stands for a repository: patterns decide what of its files arrives."""

    class Hub:
        names = ("config.json", "model.safetensors", "pytorch_model.bin", "spiece.model", "a.py")
        asked = ()

        def download(self, repository, *, allow_patterns, ignore_patterns):
            self.asked += (repository,)
            for name in self.names:
                wanted = any(fnmatch(name, pattern) for pattern in allow_patterns)
                if wanted and not any(fnmatch(name, pattern) for pattern in ignore_patterns):
                    path = tmp_path / "snapshot" / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(b"")
            return str(tmp_path / "snapshot")

        def arrived(self):
            folder = tmp_path / "snapshot"
            return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}

    hub = Hub()
    monkeypatch.setattr(huggingface_hub, "snapshot_download", hub.download)
    monkeypatch.chdir(tmp_path)
    return hub


def test_a_folder_is_itself_even_if_called_like_a_repository(hub, tmp_path):
    (tmp_path / "google" / "t5").mkdir(parents=True)
    assert find_folder("google/t5").resolve() == tmp_path / "google" / "t5"
    assert not hub.asked


def test_of_a_repository_weights_vocabulary_and_settings_arrive(hub):
    hub.names += ("onnx/model.onnx", "2_Dense/model.safetensors")
    find_folder("google/t5-v1_1-base")
    assert hub.asked == ("google/t5-v1_1-base",)
    assert hub.arrived() == {"config.json", "model.safetensors", "spiece.model"}


def test_pytorch_files_arrive_where_there_are_no_safetensors(hub):
    hub.names = ("config.json", "pytorch_model.bin", "optimizer.bin", "flax_model.msgpack")
    find_folder("google/mt5-base")
    assert hub.arrived() == {"config.json", "pytorch_model.bin"}


def test_subfolders_arrive_when_asked_for(hub):
    hub.names = ("modules.json", "1_Pooling/config.json", "2_Dense/pytorch_model.bin", "a/b.py")
    find_folder("sentence-transformers/gtr-t5-base", subfolders=True)
    assert hub.arrived() == set(hub.names) - {"a/b.py"}


@pytest.mark.parametrize("place", ["t5-small", "./no/such", "/no/such", "a/b/c", "../a", "a/..b"])
def test_what_is_no_folder_and_no_repository_is_refused(hub, place):
    with pytest.raises(FileNotFoundError, match="repository of the Hugging Face hub such as goog"):
        find_folder(place)
    assert not hub.asked


def test_a_file_is_refused(hub, tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match="'model.safetensors', which is a file"):
        find_folder("model.safetensors")


def test_without_network_one_line_says_that_a_folder_works(hub, monkeypatch):
    def fail(*_, **__):
        raise huggingface_hub.errors.LocalEntryNotFoundError("Got: ConnectError\nno network")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    with pytest.raises(FileNotFoundError, match="LocalEntryNotFoundError: Got: ConnectError no ne"):
        find_folder("google/t5-v1_1-base")
    with pytest.raises(FileNotFoundError, match="Without network, give the path of a local folder"):
        open_source("hf:google/t5-v1_1-base")


def test_open_source_opens_a_repository(hub, monkeypatch, tmp_path):
    folder = files.as_snapshot(files.write_huggingface(tmp_path / "model"), tmp_path / "hub")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(folder))
    source = open_source("hf:owner/name")
    assert source.name == "hf:owner/name"
    files.assert_equal(source)
