"""Pins of workers: what one process needs not ask, and what is said when another is lost.

What several processes tell each other is in tests/training/test_devices.py.
"""

import pytest
import tensorflow as tf

from samtone_tf.workers import Workers


@pytest.fixture
def alone():
    return Workers(tf.distribute.get_strategy())


@pytest.fixture
def chief(alone):
    """Rank 0 of three, as far as messages go."""
    alone.addresses = ["a:1", "b:2", "c:3"]
    return alone


def test_one_process_is_the_chief_and_agrees_with_itself(alone, capsys):
    assert alone.is_chief
    assert alone.from_chief(lambda: b"mine") == b"mine"
    alone.agree({"step": 1})
    alone.say("one", "two")
    assert capsys.readouterr().out == "one\ntwo\n"


def test_who_is_not_the_chief_prints_nothing(chief, capsys):
    chief.rank = 1
    assert not chief.is_chief
    chief.say("one")
    assert capsys.readouterr().out == ""


ABORTED = "Graph execution error:\n\nCollective ops is aborted by: "


@pytest.mark.parametrize(
    ("text", "who"),
    [
        (f"{ABORTED}Error reported from /job:worker/task:2: gone", r"Worker 2 \(c:3\) ended"),
        (f"{ABORTED}target /job:worker/replica:0/task:1 while", r"Worker 1 \(b:2\) ended"),
        (
            f"{ABORTED}/job:worker/replica:0/task:0 and task:1 of /job:worker/task:2",
            r"Worker 2 \(c:3\) ended",
        ),
        (
            f"{ABORTED}/job:worker/task:2 /job:worker/task:1",
            r"Worker 1 \(b:2\) or 2 \(c:3\) ended",
        ),
        (ABORTED, "Another worker ended"),
    ],
)
def test_a_lost_worker_is_named(chief, text, who):
    with (
        pytest.raises(ConnectionError, match=f"{who} or cannot .* again with --resume") as caught,
        chief.explain_failures(),
    ):
        raise tf.errors.UnavailableError(None, None, text)
    assert "\n" not in str(caught.value)


def test_a_chief_of_its_own_job_comes_first(chief):
    chief._chiefs = 1
    with pytest.raises(ConnectionError, match=r"Worker 2 \(c:3\)"), chief.explain_failures():
        raise tf.errors.UnavailableError(None, None, "/job:chief/task:0 /job:worker/task:1")


def test_c22_after_an_abort_the_process_must_be_restarted(alone):
    with pytest.raises(RuntimeError, match="Restart it"), alone.explain_failures():
        raise tf.errors.InternalError(None, None, f"{ABORTED}something")


@pytest.mark.parametrize("error", [tf.errors.InvalidArgumentError(None, None, "odd"), ValueError()])
def test_other_errors_are_left_alone(chief, error):
    with pytest.raises(type(error)), chief.explain_failures():
        raise error
