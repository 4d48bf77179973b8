"""Pins of docs/search.md: the flags, fields and numbers that it names are those of the code."""

import re
from dataclasses import fields
from pathlib import Path

from samtone_tf.cli import index
from samtone_tf.index import scann_settings, tuning, vectors
from samtone_tf.index.scann import FEW
from tests.cli.runner import succeed

PAGE = (Path(__file__).parent.parent / "docs" / "search.md").read_text(encoding="utf-8")


def test_every_flag_is_one_of_the_commands():
    helps = "".join(succeed(name, "--help").out for name in ("index", "tune-index", "search"))
    flags = set(re.findall(r"--[a-z_]+", PAGE))
    assert len(flags) > 8
    for flag in flags:
        assert flag in helps, flag


def test_every_setting_has_its_row_and_its_flag():
    names = {field.name for field in fields(scann_settings.ScannSettings)}
    assert names == set(index.SETTINGS)
    for name in names:
        assert f"| `--{name}` |" in PAGE


def test_the_numbers_are_those_of_the_code():
    for number in (scann_settings.BRUTE_FORCE_BELOW, scann_settings.TREE_FROM):
        assert f"{number:,}" in PAGE
    assert f"from {min(tuning.REORDERS)} to {max(tuning.REORDERS):,}" in PAGE
    assert FEW == 1 / 20
    assert "a twentieth of the corpus" in PAGE
    first, *rest = vectors.STORAGES
    assert f"`--storage {first}`, `{rest[0]}` or `{rest[1]}`" in PAGE
