"""What the processes of one run tell each other, and what they say when one is lost."""

import contextlib
import functools
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import tensorflow as tf


class Workers:
    """The processes that train one model under a strategy; there may be only this one.

    Rank 0 is the chief: it alone writes files and prints. It must do so outside the scope
    of the strategy: Keras makes variables while it saves, and in the scope each one is a
    collective that the other workers take no part in.

    Args:
        strategy: what `distribution.make_strategy` gave.
    """

    def __init__(self, strategy: tf.distribute.Strategy):
        self.strategy = strategy
        self.addresses: list[str] = []
        self.rank, self._chiefs = 0, 0
        if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
            resolver = strategy.cluster_resolver
            jobs = resolver.cluster_spec().as_dict()
            self.addresses = [*jobs.get("chief", ()), *jobs.get("worker", ())]
            self._chiefs = len(jobs.get("chief", ()))
            self.rank = self._rank(resolver.task_type, resolver.task_id)

    @property
    def is_chief(self) -> bool:
        """Whether this process is the one that writes."""
        return self.rank == 0

    def say(self, *lines: str) -> None:
        """Prints lines, once however many workers there are."""
        if self.is_chief:
            print(*lines, sep="\n", flush=True)

    def from_chief(self, make: Callable[[], bytes]) -> bytes:
        """What `make` gives on the chief, on every worker; the others wait and do not call it."""
        if not self.addresses:
            return make()
        own = np.frombuffer(make() if self.is_chief else b"", "uint8").astype("int64")
        return self._gather(own).astype("uint8").tobytes()

    def agree(self, facts: Mapping[str, int | str]) -> None:
        """Checks that every worker has the same facts; all must call it with the same names.

        Raises:
            ValueError: on all workers, if they differ; the message says in what.
        """
        if not self.addresses:
            return
        own = np.array([_as_number(value) for value in facts.values()], "int64")
        by_worker = self._gather(own).reshape(len(self.addresses), len(facts))
        for (name, value), found in zip(facts.items(), by_worker.T, strict=True):
            if len(set(found)) > 1:
                given = (
                    f"{number:x}" if isinstance(value, str) else str(number) for number in found
                )
                raise ValueError(
                    f"All workers must have the same {name}. Received, worker by worker: "
                    f"{', '.join(given)}. Start them with the same command, the same data and the "
                    "same run folder."
                )

    @contextlib.contextmanager
    def explain_failures(self) -> Iterator[None]:
        """Says in one line what TensorFlow says in thirty when collectives have stopped.

        Raises:
            ConnectionError: another worker ended, or cannot be reached.
            RuntimeError: a replica of this process failed, after which no other run in this
                process can use its collectives.
        """
        try:
            yield
        except tf.errors.OpError as error:
            text = str(error)
            aborted = "Collective ops is aborted" in text
            if self.addresses and (aborted or isinstance(error, tf.errors.UnavailableError)):
                raise ConnectionError(
                    f"{self._lost(text)} ended or cannot be reached, so this one stops, too: every "
                    "step needs all of them. What the run saved last is kept. See what the lost "
                    "worker printed, then start all of them again with --resume."
                ) from error
            if aborted:
                raise RuntimeError(
                    "A replica failed, and with it TensorFlow's collectives in this process. "
                    "Restart it (in a notebook: the kernel) before the next run. Received: " + text
                ) from error
            raise

    def _lost(self, text: str) -> str:
        """Whom TensorFlow's message names, this worker aside."""
        named = re.findall(r"/job:(chief|worker)/(?:replica:\d+/)?task:(\d+)", text)
        ranks = {self._rank(job, int(task)) for job, task in named} - {self.rank}
        names = [f"{rank} ({self.addresses[rank]})" for rank in sorted(ranks)]
        return f"Worker {' or '.join(names)}" if names else "Another worker"

    def _rank(self, job: str, task: int) -> int:
        return task if job == "chief" else task + self._chiefs

    def _gather(self, own: np.ndarray) -> np.ndarray:
        """The int64 arrays (n,) of all workers, one after another; their sizes may differ."""
        gathered = self._all_gather(tf.constant(own, "int64"))
        return self.strategy.experimental_local_results(gathered)[0].numpy()

    @functools.cached_property
    def _all_gather(self) -> Callable[[tf.Tensor], tf.Tensor]:
        strategy = self.strategy
        first_replica = self.rank * strategy.num_replicas_in_sync // len(self.addresses)

        def of_replica(own: tf.Tensor) -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            first = context.replica_id_in_sync_group == first_replica
            size = tf.where(first, tf.size(own), 0)  # once for each worker
            return context.all_gather(own[:size], axis=0)

        @tf.function(input_signature=[tf.TensorSpec((None,), "int64")])
        def gather(own: tf.Tensor) -> tf.Tensor:
            return strategy.run(of_replica, args=(own,))

        return gather


def _as_number(value: int | str) -> int:
    if isinstance(value, str):
        return int.from_bytes(hashlib.blake2b(value.encode(), digest_size=7).digest(), "big")
    return int(value)
