"""Where a model trains: one device, several of one machine, several machines, a TPU.

A strategy of TensorFlow holds the copies of the weights and adds up their gradients; which
one a run gets is decided here, and which rows of a batch each copy (replica) gets.
"""

import functools
import os
import signal
import socket
import threading
import warnings
from pathlib import Path

import tensorflow as tf

from samtone_tf.checks import check_choice
from samtone_tf.cluster import Cluster
from samtone_tf.config import STRATEGIES
from samtone_tf.data.length_batches import ACCELERATOR_TOKENS, CPU_TOKENS
from samtone_tf.data.pipeline import check_local

PCI_DEVICES = Path("/sys/bus/pci/devices")
# Google's TPU chips there, v2 to v7.
_GOOGLE = "0x1ae0"
_TPU_CHIPS = ("0x0027", "0x0056", "0x005e", "0x0062", "0x0063", "0x006f", "0x0076")


def make_strategy(name: str = "auto", tpu: str = "") -> tf.distribute.Strategy:
    """The strategy to build, compile and fit a model in.

    Call it before TensorFlow computes anything: several processes can only be joined then.

    Args:
        name: `"one"` device; `"mirrored"`, all GPUs of this machine; `"multiworker"`, the
            machines that TF_CONFIG names, with all their GPUs; `"tpu"`; or `"auto"`: several
            machines if TF_CONFIG is set, else a TPU if there is one, else all GPUs if there
            are several, else one device.
        tpu: name or address of the TPU; `""` and `"local"` mean that of this machine.

    Raises:
        ValueError: unknown name, TF_CONFIG that names no cluster, or no TPU.
        ConnectionError: a worker that TF_CONFIG names did not start.
        RuntimeError: TensorFlow was used before workers could be joined.

    Example:

    >>> strategy = make_strategy("one")
    >>> with strategy.scope():
    ...     model = DualEncoder("mini")
    """
    check_choice("strategy", name, STRATEGIES)
    if name == "auto":
        return _find(tpu)
    if name == "tpu":
        return _tpu(tpu)
    if name == "mirrored":
        return _mirrored()
    if name == "multiworker":
        return _multiworker()
    return tf.distribute.get_strategy()


def default_batch_tokens() -> int:
    """Tokens that a replica should encode at a time on what TensorFlow finds here."""
    found = any(tf.config.list_logical_devices(kind) for kind in ("GPU", "TPU"))
    return ACCELERATOR_TOKENS if found else CPU_TOKENS


def check_batch(
    strategy: tf.distribute.Strategy, batch_size: int, gradient_cache_chunk: int | None = None
) -> int:
    """Rows of one replica.

    Raises:
        ValueError: the replicas do not divide the batch, or the chunk not the rows.
    """
    replicas = strategy.num_replicas_in_sync
    if batch_size % replicas:
        raise ValueError(
            "`train.batch_size` must be a multiple of the number of replicas, since it counts "
            f"the pairs of all. Received: train.batch_size={batch_size}, {replicas} replicas. "
            f"Use {batch_size - batch_size % replicas or replicas}."
        )
    rows = batch_size // replicas
    if gradient_cache_chunk is not None and rows % gradient_cache_chunk:
        raise ValueError(
            "`train.gradient_cache_chunk` must divide the rows of one replica. Received: "
            f"train.gradient_cache_chunk={gradient_cache_chunk}, {rows} rows, which are a batch "
            f"of {batch_size} on {replicas} replicas."
        )
    return rows


def distribute(
    strategy: tf.distribute.Strategy, batches: tf.data.Dataset, batch_size: int
) -> tf.data.Dataset:
    """Global batches as `fit` takes them under a strategy: for each replica, its own rows.

    `fit` would split them, too, but would lose their static shapes, which XLA, the tiled
    loss and gradient caching use. With several workers the dataset must never end, or
    TensorFlow asks them all at every step whether somebody's has: use `steps_per_epoch`.
    """
    if strategy.num_replicas_in_sync == 1:
        return batches
    rows = check_batch(strategy, batch_size)

    def of_worker(context: tf.distribute.InputContext) -> tf.data.Dataset:
        num = batch_size // context.num_input_pipelines
        first = context.input_pipeline_id * num

        def pieces(x):  # (G, …) → (replicas of this worker, B, …)
            return tf.reshape(x[first : first + num], (num // rows, rows, *x.shape[1:]))

        return batches.map(lambda batch: tf.nest.map_structure(pieces, batch)).unbatch()

    return strategy.distribute_datasets_from_function(of_worker)


def describe_devices() -> dict[str, str | int]:
    """What decides the last bits of a result, besides versions: replicas and threads.

    The strategy is the one in scope.
    """
    strategy = tf.distribute.get_strategy()
    kinds = {
        "mirrored": tf.distribute.MirroredStrategy,
        "multiworker": tf.distribute.MultiWorkerMirroredStrategy,
        "tpu": tf.distribute.TPUStrategy,
    }
    return {
        "strategy": next(
            (name for name, kind in kinds.items() if isinstance(strategy, kind)), "one"
        ),
        "replicas": strategy.num_replicas_in_sync,
        # 0 is TensorFlow's choice: one for each processor.
        "intra_op_threads": tf.config.threading.get_intra_op_parallelism_threads(),
        "inter_op_threads": tf.config.threading.get_inter_op_parallelism_threads(),
    }


def _find(tpu: str) -> tf.distribute.Strategy:
    """What `"auto"` means here."""
    if tf.distribute.has_strategy():
        return tf.distribute.get_strategy()  # the caller's own scope
    if os.environ.get("TF_CONFIG"):
        return _multiworker()
    if tpu:
        return _tpu(tpu)
    if os.environ.get("TPU_NAME") or _tpu_chips():
        try:
            return _tpu("")
        except ValueError as error:
            warnings.warn(f"{error} Training goes on without it.", stacklevel=3)
    if len(tf.config.list_physical_devices("GPU")) > 1:
        return _mirrored()
    return tf.distribute.get_strategy()


# TensorFlow's collectives do not survive a second strategy in one process, so there is one.
@functools.cache
def _mirrored() -> tf.distribute.MirroredStrategy:
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    if len(devices) == 1:
        warnings.warn(
            f"`strategy` is 'mirrored', and there is one device, {devices[0].name}: one replica.",
            stacklevel=3,
        )
    return tf.distribute.MirroredStrategy([device.name for device in devices])


@functools.cache
def _multiworker() -> tf.distribute.MultiWorkerMirroredStrategy:
    Cluster.from_environment().wait_for_all()
    try:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    except RuntimeError as error:
        if "program startup" not in str(error):
            raise
        raise RuntimeError(
            "`strategy` 'multiworker' must be made before TensorFlow computes anything in this "
            "process. Received: a TensorFlow that is in use. Make it first, in a new process."
        ) from error
    if threading.current_thread() is threading.main_thread():
        # TensorFlow has taken SIGTERM and ignores it; back to whoever had it.
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM) or signal.SIG_DFL)
    return strategy


def _tpu(name: str) -> tf.distribute.TPUStrategy:
    where = name or os.environ.get("TPU_NAME") or "local"
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=where)
        _check_reachable(resolver.master())
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (tf.errors.OpError, OSError, ValueError, RuntimeError, ImportError) as error:
        chips = f"{_tpu_chips()} TPU chips on this machine's PCI bus"
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(
            f"`strategy` 'tpu' needs a TPU that TensorFlow can open. Received: tpu={name!r}, taken "
            f"as {where!r}; {chips}; TensorFlow {tf.__version__} says: {reason[:200]}. On a TPU VM "
            "or in Colab's TPU runtime, install tensorflow-tpu in place of tensorflow and use "
            "tpu='local'; elsewhere, use strategy 'auto'."
        ) from error
    strategy = tf.distribute.TPUStrategy(resolver)
    check_local(strategy.extended.worker_devices)
    return strategy


def _check_reachable(master: str) -> None:
    """Raises OSError when nobody answers at `grpc://host:port`; TensorFlow would try for long."""
    if master.startswith("grpc://"):
        host, _, port = master.removeprefix("grpc://").rpartition(":")
        socket.create_connection((host, int(port)), timeout=10.0).close()


def _tpu_chips() -> int:
    """TPU chips that this machine has, seen without waking any."""

    def read(path: Path) -> str:
        try:
            return path.read_text(encoding="ascii").strip()
        except OSError:
            return ""

    return sum(
        read(device / "vendor") == _GOOGLE and read(device / "device") in _TPU_CHIPS
        for device in PCI_DEVICES.glob("*")
    )
