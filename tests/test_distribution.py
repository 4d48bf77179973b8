"""Pins of distribution: which strategy a name means on this machine, and what it refuses."""

import json
import re
import socket
import time
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from samtone_tf import distribution
from samtone_tf.distribution import check_batch, distribute, make_strategy
from tests.test_tensorflow_step import free_ports

TWO = SimpleNamespace(num_replicas_in_sync=2)


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch):
    for name in ("TF_CONFIG", "TPU_NAME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def made(monkeypatch):
    """Strategies by name, instead of what this machine has none of."""
    for name in ("mirrored", "multiworker", "tpu"):
        monkeypatch.setattr(distribution, f"_{name}", lambda *tpu, name=name: (name, *tpu))


def test_this_machine_has_one_device():
    assert make_strategy() is make_strategy("one") is tf.distribute.get_strategy()
    assert make_strategy().num_replicas_in_sync == 1


def test_an_unknown_strategy_is_refused():
    with pytest.raises(ValueError, match="auto, one, mirrored.*Received: strategy='horovod'"):
        make_strategy("horovod")


def test_auto_takes_the_machines_of_tf_config_first(made, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{}")
    monkeypatch.setenv("TPU_NAME", "local")
    assert make_strategy() == ("multiworker",)


@pytest.mark.parametrize("found", ["name", "chips", "argument"])
def test_auto_takes_a_tpu_that_is_there(made, monkeypatch, found):
    if found == "name":
        monkeypatch.setenv("TPU_NAME", "local")
    if found == "chips":
        monkeypatch.setattr(distribution, "_tpu_chips", lambda: 4)
    name = "v5" if found == "argument" else ""
    assert make_strategy("auto", name) == ("tpu", name)


@pytest.mark.parametrize(("number", "want"), [(0, None), (1, None), (2, ("mirrored",))])
def test_auto_mirrors_where_there_are_several_gpus(made, monkeypatch, number, want):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [kind] * number)
    assert make_strategy() == (want or tf.distribute.get_strategy())


def test_auto_stays_in_the_scope_it_is_called_in(made, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{}")
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    with strategy.scope():
        assert make_strategy() is strategy


def test_mirrored_on_one_device_says_so():
    distribution._mirrored.cache_clear()
    with pytest.warns(UserWarning, match="there is one device, .*CPU:0: one replica"):
        strategy = make_strategy("mirrored")
    assert strategy.num_replicas_in_sync == 1
    assert make_strategy("mirrored") is strategy  # a second one would break the first


@pytest.mark.parametrize("name", ["", "local", "no-such-tpu", "unreachable"])
def test_c56_no_tpu_is_one_line_and_quick(name):
    given = f"grpc://localhost:{free_ports(1)[0]}" if name == "unreachable" else name
    start = time.perf_counter()
    with pytest.raises(ValueError, match="needs a TPU that TensorFlow can open") as caught:
        make_strategy("tpu", given)
    assert time.perf_counter() - start < 30
    message = str(caught.value)
    assert "\n" not in message
    assert f"Received: tpu={given!r}, taken as {given or 'local'!r}; 0 TPU chips" in message
    assert "install tensorflow-tpu" in message


def test_c56_auto_goes_on_without_a_tpu_that_does_not_open(monkeypatch):
    monkeypatch.setenv("TPU_NAME", "local")
    with pytest.warns(UserWarning, match="needs a TPU.*Training goes on without it"):
        assert make_strategy() is tf.distribute.get_strategy()


def test_tpu_chips_are_counted_by_their_pci_ids(tmp_path, monkeypatch):
    for place, ids in enumerate([("0x1ae0", "0x0063"), ("0x1ae0", "0x0042"), ("0x10de", "0x0063")]):
        device = tmp_path / str(place)
        device.mkdir()
        for name, value in zip(("vendor", "device"), ids, strict=True):
            (device / name).write_text(f"{value}\n")
    (tmp_path / "odd").mkdir()
    monkeypatch.setattr(distribution, "PCI_DEVICES", tmp_path)
    assert distribution._tpu_chips() == 1


def test_several_machines_are_joined_before_tensorflow_is_used(monkeypatch):
    tf.constant(1.0)
    (port,) = free_ports(1)
    config = {"cluster": {"worker": [f"localhost:{port}"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    with pytest.raises(RuntimeError, match="must be made before TensorFlow computes anything"):
        make_strategy("multiworker")
    with socket.create_server(("", int(port))):
        pass  # the port is free again


def test_multiworker_without_tf_config_is_refused():
    with pytest.raises(ValueError, match="`TF_CONFIG` must be JSON.*it is not set"):
        make_strategy("multiworker")


def test_rows_of_one_replica():
    assert check_batch(TWO, 8) == 4
    assert check_batch(TWO, 8, gradient_cache_chunk=2) == 4


@pytest.mark.parametrize(("batch", "advice"), [(9, 8), (1, 2)])
def test_a_batch_that_the_replicas_do_not_divide_is_refused(batch, advice):
    message = f"Received: train.batch_size={batch}, 2 replicas. Use {advice}."
    with pytest.raises(ValueError, match=re.escape(message)):
        check_batch(TWO, batch)


def test_a_chunk_that_does_not_divide_the_rows_of_a_replica_is_refused():
    with pytest.raises(ValueError, match="gradient_cache_chunk=8, 4 rows, .* 8 on 2 replicas"):
        check_batch(TWO, 8, gradient_cache_chunk=8)


def test_one_replica_gets_the_batches_as_they_are():
    batches = tf.data.Dataset.from_tensors({"x": np.zeros(4)})
    assert distribute(tf.distribute.get_strategy(), batches, 4) is batches


def test_devices_are_described():
    assert distribution.describe_devices() == {
        "strategy": "one",
        "replicas": 1,
        "intra_op_threads": 0,
        "inter_op_threads": 0,
    }
