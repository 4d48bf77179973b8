"""Pins of cluster: what TF_CONFIG may say, and workers that wait for each other."""

import json
import re
import socket
import threading

import pytest

from samtone_tf.cluster import Cluster
from tests.test_tensorflow_step import free_ports

TWO = {"worker": ["a:1", "b:2"]}


def set_config(monkeypatch, cluster, kind, index):
    config = {"cluster": cluster, "task": {"type": kind, "index": index}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))


@pytest.mark.parametrize(
    ("cluster", "kind", "index", "addresses", "rank"),
    [
        (TWO, "worker", 0, ("a:1", "b:2"), 0),
        (TWO, "worker", 1, ("a:1", "b:2"), 1),
        (TWO, "worker", "1", ("a:1", "b:2"), 1),  # TensorFlow takes text, too
        ({"worker": ["b:2"], "chief": ["a:1"]}, "chief", 0, ("a:1", "b:2"), 0),
        ({"worker": ["b:2"], "chief": ["a:1"]}, "worker", 0, ("a:1", "b:2"), 1),
        ({"worker": ["[::1]:5"]}, "worker", 0, ("[::1]:5",), 0),
    ],
)
def test_tf_config_names_the_workers_and_this_one(
    monkeypatch, cluster, kind, index, addresses, rank
):
    set_config(monkeypatch, cluster, kind, index)
    assert Cluster.from_environment() == Cluster(addresses, rank)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is not set"),
        ("{'cluster': 1}", "it is no JSON, Expecting property name"),
        ("[]", "it is no object"),
        ("{}", "it has no cluster"),
        ('{"cluster": {}}', "it has no cluster"),
        ('{"cluster": {"worker": ["a:1"]}}', "it has no task"),
        ({"cluster": TWO, "task": {"type": "worker"}}, "index must be 0 to 1, not None"),
        ({"cluster": TWO, "task": {"type": "worker", "index": 2}}, "index must be 0 to 1, not 2"),
        ({"cluster": TWO, "task": {"type": "worker", "index": -1}}, "index must be 0 to 1, not -1"),
        ({"cluster": TWO, "task": {"type": "chief", "index": 0}}, "not 'chief'"),
        ({"cluster": {"ps": ["a:1"], **TWO}, "task": {"type": "ps", "index": 0}}, "not ps"),
        ({"cluster": {"worker": []}, "task": {"type": "worker", "index": 0}}, "list of addresses"),
        ({"cluster": {"worker": "a:1"}, "task": {"type": "worker", "index": 0}}, "list of addres"),
        ({"cluster": {"worker": ["a"]}, "task": {"type": "worker", "index": 0}}, "not 'a'"),
        ({"cluster": {"worker": ["a:0"]}, "task": {"type": "worker", "index": 0}}, "not 'a:0'"),
        ({"cluster": {"worker": ["a:1", "a:1"]}, "task": {"type": "worker", "index": 0}}, "twice"),
        (
            {"cluster": {"chief": ["a:1", "b:1"]}, "task": {"type": "chief", "index": 0}},
            "more than",
        ),
    ],
    ids=str,
)
def test_a_tf_config_that_names_nobody_is_refused(monkeypatch, text, why):
    text = text if isinstance(text, str) else json.dumps(text)
    monkeypatch.setenv("TF_CONFIG", text)
    message = f"`TF_CONFIG` must be JSON.*Received: TF_CONFIG={re.escape(repr(text))}: .*{why}"
    with pytest.raises(ValueError, match=message):
        Cluster.from_environment()


def clusters(number):
    addresses = tuple(f"localhost:{port}" for port in free_ports(number))
    return [Cluster(addresses, rank) for rank in range(number)]


def test_workers_go_on_together_and_give_their_ports_back():
    three, order = clusters(3), []

    def arrive(cluster):
        cluster.wait_for_all(seconds=30)
        order.append(cluster.rank)

    threads = [threading.Thread(target=arrive, args=(cluster,)) for cluster in three]
    for thread in threads[:2]:
        thread.start()
    threads[0].join(timeout=1.5)
    assert order == []  # two of three do not go on
    threads[2].start()
    for thread in threads:
        thread.join(timeout=30)
    assert sorted(order) == [0, 1, 2]
    for cluster in three:
        port = int(cluster.addresses[cluster.rank].rpartition(":")[2])
        socket.create_server(("", port)).close()


def test_a_worker_alone_has_nobody_to_wait_for(capsys):
    clusters(1)[0].wait_for_all(seconds=0)
    assert capsys.readouterr().out == ""


def test_who_does_not_come_is_named(capsys):
    here, absent = clusters(2)
    with pytest.raises(ConnectionError, match=rf"worker 1 \({absent.addresses[1]}\), and 0.5 sec"):
        here.wait_for_all(seconds=0.5)
    assert f"worker 0 ({here.addresses[0]}) waits for worker 1" in capsys.readouterr().out


def test_another_run_on_the_same_port_is_no_answer():
    here, there = clusters(2)
    stranger = Cluster((*there.addresses, "localhost:1"), 1)  # has one more worker
    waiting = threading.Thread(
        target=lambda: pytest.raises(ConnectionError, stranger.wait_for_all, 2)
    )
    waiting.start()
    with pytest.raises(ConnectionError, match="worker 1"):
        here.wait_for_all(seconds=1)
    waiting.join()


def test_a_port_in_use_is_named():
    here, _ = clusters(2)
    port = int(here.addresses[0].rpartition(":")[2])
    with (
        socket.create_server(("", port)),
        pytest.raises(OSError, match=f"the port {port}, which cannot be opened: Address already"),
    ):
        here.wait_for_all(seconds=1)
