"""Pins of evaluation.text_table: columns line up, short numbers keep their value."""

from samtone_tf.evaluation.text_table import align, first_names, short, span


def test_columns_line_up():
    assert align([["a", "x", "1"], ["long", "yy", "20"]]) == ["a      x   1", "long  yy  20"]
    assert align([["a", ""], ["b", "cc"]]) == ["a", "b  cc"]


def test_short_numbers():
    values = {0.25: ".2500", -0.25: "-.2500", 1.0: "1.0000", 0.99999: "1.0000", 12.5: "12.5000"}
    assert {value: short(value) for value in values} == values
    assert span(0.0, 0.5) == ".0000-.5000"
    assert span(None, None) == "-"


def test_the_first_names():
    assert first_names(["a", "b"], 2) == "a, b"
    assert first_names(["a", "b", "c"], 2) == "a, b, …"
