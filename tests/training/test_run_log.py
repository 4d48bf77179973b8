"""Pins of training.run_log: lines of JSON, and what TensorBoard reads."""

import json

import numpy as np
import tensorflow as tf

from samtone_tf.training.run_log import RunLog, shorten


def events(run):
    """(tag, step) → value of every event file."""
    found = {}
    for path in sorted((run / "tensorboard").iterdir()):
        for record in tf.data.TFRecordDataset(str(path)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                found[value.tag, event.step] = float(tf.make_ndarray(value.tensor))
    return found


def test_a_line_goes_to_both(tmp_path):
    log = RunLog(tmp_path)
    assert log.read() == []
    assert log.last_report() == {}
    lines = [
        {"step": 5, "loss": 1.5, "mrr": 0.25},
        {"step": 5, "val_nDCG@10": 0.5, "val_seconds": 2.0},
    ]
    for line in lines:
        log.write(line)
    assert [json.loads(x) for x in (tmp_path / "metrics.jsonl").read_text().splitlines()] == lines
    assert log.read() == lines
    assert log.last_report() == lines[0]
    assert events(tmp_path) == {
        ("train/loss", 5): 1.5,
        ("train/mrr", 5): 0.25,
        ("validation/nDCG@10", 5): 0.5,
        ("validation/seconds", 5): 2.0,
    }


def test_a_log_goes_on_where_another_one_stopped(tmp_path):
    for step in (1, 2):
        RunLog(tmp_path).write({"step": step, "loss": float(step)})
    assert [line["step"] for line in RunLog(tmp_path).read()] == [1, 2]
    assert events(tmp_path) == {("train/loss", 1): 1.0, ("train/loss", 2): 2.0}


def test_numbers_are_shortened_to_seven_digits():
    assert shorten(np.float32(1 / 3)) == 0.3333333
    assert shorten(np.float32(1e-9)) == 1e-9
    assert shorten(12345678.9) == 12345680
