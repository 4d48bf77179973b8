"""Pins of `train` on two replicas and in two processes: one device's numbers, one writer, one end.

The runs are made by tests/training/devices.py, in processes of their own.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from samtone_tf.training.run_folder import load_model
from tests import checks, tiny
from tests.test_tensorflow_step import free_ports
from tests.training import devices

ROOT = Path(__file__).parent.parent.parent
pytestmark = [pytest.mark.slow, pytest.mark.multi_device]


def start(strategy, folder, rank, *parts, ports=()):
    folder.mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
    if ports:
        cluster = {"worker": [f"localhost:{port}" for port in ports]}
        config = {"cluster": cluster, "task": {"type": "worker", "index": rank}}
        environment["TF_CONFIG"] = json.dumps(config)
    return subprocess.Popen(
        [sys.executable, "-m", "tests.training.devices", strategy, str(folder), str(rank), *parts],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run_workers(folder, *parts):
    """Exit codes and outputs of two processes, and the seconds between their ends."""
    ports, ends = free_ports(2), {}
    processes = [start("multiworker", folder, rank, *parts, ports=ports) for rank in range(2)]
    deadline = time.monotonic() + 400
    try:
        while len(ends) < 2 and time.monotonic() < deadline:
            for rank, process in enumerate(processes):
                if process.poll() is not None:
                    ends.setdefault(rank, time.monotonic())
            time.sleep(0.2)
    finally:
        for process in processes:
            process.kill()
    outputs = [process.communicate()[0] for process in processes]
    assert len(ends) == 2, outputs
    return [process.returncode for process in processes], outputs, abs(ends[0] - ends[1])


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Strategy → where its process wrote."""
    return {name: tmp_path_factory.mktemp("devices") / name for name in ("one", "mirrored")}


@pytest.fixture(scope="module")
def one(folders):
    process = start("one", folders["one"], 0, "parity", "rows")
    output = process.communicate(timeout=400)[0]
    assert process.returncode == 0, output
    return folders["one"]


@pytest.fixture(scope="module")
def mirrored(folders):
    process = start("mirrored", folders["mirrored"], 0, "jit", "parity", "rows")
    output = process.communicate(timeout=400)[0]
    assert process.returncode == 0, output
    (folders["mirrored"] / "output").write_text(output)
    return folders["mirrored"]


@pytest.fixture(scope="module")
def multiworker(tmp_path_factory):
    folder = tmp_path_factory.mktemp("devices") / "multiworker"
    parts = ("talk", "rows", "parity", "vocabulary", "elsewhere", "lost,undisturbed,0,0,0")
    codes, outputs, _ = run_workers(folder, *parts)
    assert codes == [0, 0], outputs
    for rank, output in enumerate(outputs):
        (folder / f"output.{rank}").write_text(output)
    return folder


def found(folder, part, rank=0):
    return json.loads((folder / f"{part}.{rank}.json").read_text())


def metrics(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def weights(run):
    return [variable.numpy() for variable in load_model(run).trainable_variables]


def state(run):
    model = load_model(run)
    return [
        variable.numpy() for variable in (*model.trainable_variables, *model.optimizer.variables)
    ]


@pytest.mark.parametrize("run", ["whole", "chunks"])
@pytest.mark.parametrize("several", ["mirrored", "multiworker"])
def test_two_replicas_train_as_one_device(one, several, run, request):
    got, want = request.getfixturevalue(several) / run, one / run
    for now, before in zip(metrics(got), metrics(want), strict=True):
        for name in ("step", "loss", "accuracy", "masked_fraction", "learning_rate"):
            assert now[name] == pytest.approx(before[name], rel=1e-5, abs=1e-6), name
    assert len({line["loss"] for line in metrics(want)}) == tiny.STEPS
    first = training_start(want)
    for now, before, untrained in zip(weights(got), weights(want), first, strict=True):
        checks.assert_near(now, before, 1e-5)
        checks.assert_nonzero(before - untrained)


def training_start(run):
    """The weights that a run began with."""
    from samtone_tf.training import train as training
    from samtone_tf.training.run_folder import load_config

    made = training.make_model(load_config(run), tiny.tokenizer())
    return [variable.numpy() for variable in made.trainable_variables]


def test_c20_every_replica_has_its_own_rows_and_together_they_have_all(one, mirrored, multiworker):
    alone = found(one, "rows")
    two = found(mirrored, "rows")
    workers = [found(multiworker, "rows", rank) for rank in range(2)]
    assert [step[0] for step in alone["seen"]] == alone["whole"]
    for step, whole in enumerate(alone["whole"]):
        assert len(set(whole)) == devices.BATCH
        assert two["seen"][step] == [whole[:4], whole[4:]]
        assert [worker["seen"][step] for worker in workers] == [[whole[:4]], [whole[4:]]]
    # Static, though TensorFlow's own way to split a dataset forgets them.
    assert [two["shapes"], *(worker["shapes"] for worker in workers)] == [[[4], [4]], [[4]], [[4]]]


def test_c22_xla_is_switched_off_with_a_message(mirrored):
    messages = [text for text in found(mirrored, "jit")["warnings"] if "`jit_compile`" in text]
    assert messages == [
        "`jit_compile` is switched off: XLA does not work with MirroredStrategy and 2 replicas."
    ]
    assert len(metrics(mirrored / "jit")) == 1


def test_the_start_table_counts_replicas(mirrored):
    output = (mirrored / "output").read_text()
    assert re.search(r"^replicas +2$", output, re.MULTILINE)
    assert re.search(r"^global batch +8 pairs, 4 on each replica$", output, re.MULTILINE)


@pytest.mark.parametrize("several", ["mirrored", "multiworker"])
def test_the_environment_remembers_the_devices(several, request):
    folder = request.getfixturevalue(several)
    about = json.loads((folder / "whole" / "environment.json").read_text())
    assert (about["strategy"], about["replicas"]) == (several, 2)
    assert (about["intra_op_threads"], about["inter_op_threads"]) == (0, 0)


def test_c21_only_the_chief_writes_and_prints(multiworker):
    for name in ("whole", "chunks", "undisturbed"):
        run = multiworker / name
        assert {path.name for path in run.iterdir()} == tiny.RUN_FILES
        checkpoints = {path.name for path in (run / "checkpoints").iterdir()}
        assert {"model.keras"} <= checkpoints <= {"model.keras", "previous.keras"}
        assert len(list((run / "tensorboard").rglob("events.out.*"))) == 1
        steps = [line["step"] for line in metrics(run)]
        assert steps == sorted(set(steps))
    shown = [(multiworker / f"output.{rank}").read_text() for rank in range(2)]
    assert "training pairs" in shown[0]
    assert "training pairs" not in shown[1]
    assert "step 3" not in shown[1]


def test_the_chief_tells_and_all_agree(multiworker):
    for rank in range(2):
        talk = found(multiworker, "talk", rank)
        assert talk["told"] == list(range(256))
        assert talk["chief"] == (rank == 0)
        text, step = talk["messages"]
        assert text.startswith("All workers must have the same text. Received, worker by worker: ")
        assert "same step. Received, worker by worker: 10, 20. Start them" in step


def test_the_chief_trains_the_vocabulary_of_all(multiworker):
    both = [found(multiworker, "vocabulary", rank)["fingerprints"] for rank in range(2)]
    assert both == [[tiny.tokenizer().fingerprint]] * 2


def test_workers_that_see_other_checkpoints_do_not_begin(multiworker):
    for rank in range(2):
        message = found(multiworker, "elsewhere", rank)["message"]
        assert message.startswith("All workers must have the same checkpoint. Received, worker by")
        assert "the same run folder" in message


@pytest.fixture(scope="module")
def killed(multiworker):
    """A run whose worker 1 was killed after step 7, with its last save after step 4."""
    return run_workers(multiworker, f"lost,killed,1,7,{int(signal.SIGKILL)}")


def test_a_dead_worker_ends_the_others_within_a_minute(killed):
    codes, outputs, seconds = killed
    assert codes == [1, -signal.SIGKILL]
    assert seconds < 60
    last = outputs[0].strip().splitlines()[-1]
    assert last.startswith("ConnectionError: Worker 1 (localhost:")
    assert last.endswith("then start all of them again with --resume.")


def test_stopped_runs_end_with_the_weights_of_an_undisturbed_one(multiworker, killed):
    # Goes on after step 4, and the chief is asked to stop after step 10.
    part = f"lost,killed,0,10,{int(signal.SIGTERM)},resume"
    codes, outputs, seconds = run_workers(multiworker, part)
    assert codes == [128 + signal.SIGTERM, 1]
    assert seconds < 60
    assert "after step 4" in outputs[0]
    assert "ConnectionError: Worker 0 (localhost:" in outputs[1]
    codes, outputs, _ = run_workers(multiworker, "lost,killed,0,0,0,resume")
    assert codes == [0, 0], outputs
    assert "after step 10" in outputs[0]
    got, want = state(multiworker / "killed"), state(multiworker / "undisturbed")
    assert len(want) > 20
    for now, before in zip(got, want, strict=True):
        np.testing.assert_array_equal(now, before)
    assert [line["step"] for line in metrics(multiworker / "killed")] == [3, 6, 9, 12]
