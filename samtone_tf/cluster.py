"""The processes that train together, as the environment variable TF_CONFIG names them.

TensorFlow reads the variable itself, but tells little of what is wrong with it, and its first
process gives up when the others start half a minute later. So it is checked here, and the
processes wait for each other here, before TensorFlow hears of them.
"""

import json
import os
import socket
import threading
import time
from dataclasses import dataclass

WAIT_SECONDS = 600.0  # for workers that a scheduler starts one after another

_EXAMPLE = (
    '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", "index": 0}}'
)


@dataclass(frozen=True)
class Cluster:
    """All workers of a run, and which of them this process is.

    Args:
        addresses: `host:port` of each worker, the chief first.
        rank: place of this process among them; the chief, which writes the run, is 0.
    """

    addresses: tuple[str, ...]
    rank: int

    @classmethod
    def from_environment(cls) -> "Cluster":
        """What TF_CONFIG says.

        Raises:
            ValueError: it is not set, is no JSON, or names no cluster or no task in it.
        """
        text = os.environ.get("TF_CONFIG", "")
        try:
            jobs, task = _parse(text)
            return cls((*jobs.get("chief", ()), *jobs.get("worker", ())), _rank(jobs, task))
        except ValueError as error:
            raise ValueError(
                f"`TF_CONFIG` must be JSON such as {_EXAMPLE}, with the same cluster and another "
                f"index on every worker. Received: TF_CONFIG={text!r}: {error}."
            ) from error

    def name(self, rank: int) -> str:
        """How messages call a worker."""
        return f"worker {rank} ({self.addresses[rank]})"

    def wait_for_all(self, seconds: float = WAIT_SECONDS) -> None:
        """Returns when every worker of the cluster has called this.

        Each listens on its own port, which is free again afterwards, and greets the others.

        Raises:
            OSError: the port of this worker cannot be opened.
            ConnectionError: somebody did not come.
        """
        others = set(range(len(self.addresses))) - {self.rank}
        heard: set[int] = set()
        told: set[int] = set()
        done = threading.Event()
        server = self._open_port()
        answering = threading.Thread(target=self._answer, args=(server, heard, done), daemon=True)
        answering.start()
        try:
            end, said = time.monotonic() + seconds, False
            while missing := others - (told & heard):
                told |= {other for other in others - told if self._greet(other)}
                names = ", ".join(map(self.name, sorted(missing)))
                if time.monotonic() > end:
                    raise ConnectionError(
                        f"`TF_CONFIG` names {names}, and {seconds:g} seconds have gone by without "
                        "it. Start every worker with the same command, and check the addresses."
                    )
                if not said:
                    print(f"{self.name(self.rank)} waits for {names} ...", flush=True)
                said = True
                done.wait(0.2)
        finally:
            done.set()
            answering.join()
            server.close()

    def _open_port(self) -> socket.socket:
        port = int(self.addresses[self.rank].rpartition(":")[2])
        try:
            if socket.has_dualstack_ipv6():
                family = socket.AF_INET6
                server = socket.create_server(("", port), family=family, dualstack_ipv6=True)
            else:
                server = socket.create_server(("", port))
        except OSError as error:
            raise OSError(
                f"`TF_CONFIG` gives this worker the port {port}, which cannot be opened: "
                f"{error.strerror}. End what uses it, or choose another."
            ) from error
        server.settimeout(0.1)
        return server

    def _answer(self, server: socket.socket, heard: set[int], done: threading.Event) -> None:
        """Listens until `done`, and adds to `heard` who called."""
        greetings = {self._greeting(rank): rank for rank in range(len(self.addresses))}
        while not done.is_set():
            try:
                caller, _ = server.accept()
                with caller:
                    caller.settimeout(1.0)
                    greeting = caller.recv(len(self._greeting(0)))
                    if greeting in greetings:
                        caller.sendall(self._greeting(self.rank))
                        heard.add(greetings[greeting])
            except OSError:  # nobody called, or hung up
                continue

    def _greet(self, other: int) -> bool:
        """Whether that worker is there, and now knows that this one is."""
        host, _, port = self.addresses[other].rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=1.0) as call:
                call.sendall(self._greeting(self.rank))
                return call.recv(len(self._greeting(0))) == self._greeting(other)
        except OSError:
            return False

    def _greeting(self, rank: int) -> bytes:
        # With the whole cluster, so that another run on these ports is no answer.
        return f"samtone-tf {rank:6d} {','.join(self.addresses)}".encode()


def _parse(text: str) -> tuple[dict, dict]:
    """Cluster and task, both checked by themselves."""
    if not text:
        raise ValueError("it is not set")
    try:
        config = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON, {error}") from error
    if not isinstance(config, dict):
        raise ValueError("it is no object with keys")
    for key in ("cluster", "task"):
        if not isinstance(config.get(key), dict) or not config[key]:
            raise ValueError(f"it has no {key}")
    jobs = config["cluster"]
    if unknown := set(jobs) - {"chief", "worker"}:
        raise ValueError(f"jobs are worker, and perhaps one chief, not {', '.join(unknown)}")
    if len(jobs.get("chief", ())) > 1:
        raise ValueError("there is more than one chief")
    addresses = [address for job in jobs.values() for address in _addresses(job)]
    if len(set(addresses)) < len(addresses):
        raise ValueError("an address comes twice")
    return jobs, config["task"]


def _addresses(job: object) -> list[str]:
    if not isinstance(job, list) or not job:
        raise ValueError("a job must be a list of addresses")
    for address in job:
        host, _, port = str(address).rpartition(":")
        if not (host and port.isdecimal() and 0 < int(port) < 2**16):
            raise ValueError(f"an address must be host:port, not {address!r}")
    return job


def _rank(jobs: dict, task: dict) -> int:
    kind, index = task.get("type"), task.get("index")
    if kind not in jobs:
        raise ValueError(f"the task's type must be a job of the cluster, not {kind!r}")
    if not str(index).isdecimal() or int(index) >= len(jobs[kind]):
        raise ValueError(f"the task's index must be 0 to {len(jobs[kind]) - 1}, not {index!r}")
    return int(index) + (len(jobs.get("chief", ())) if kind == "worker" else 0)
