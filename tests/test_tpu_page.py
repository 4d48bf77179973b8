"""Pins of docs/tpu.md: its commands parse, its packages are ours, its sums add up."""

import configparser
import re
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest

from samtone_tf.dual_encoder import DualEncoder
from samtone_tf.encoder_config import EncoderConfig
from samtone_tf.training import train as training
from tests.cli.runner import succeed

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "tpu.md").read_text(encoding="utf-8")
SIZES = {name: EncoderConfig.make(f"t5.1.1-{name}") for name in ("base", "large")}
QUERY, DOCUMENT = 64, 256


def commands(program):
    lines = re.findall(rf"^    !({program} .*)$", PAGE, re.MULTILINE)
    assert lines
    return [shlex.split(line)[1:] for line in lines]


def test_the_commands_parse(monkeypatch):
    configs = []

    def train(config, out, resume):
        configs.append(config)
        return SimpleNamespace(distribute_strategy=None)

    monkeypatch.setattr(training, "train", train)
    for command in commands("samtone"):
        succeed(*command)
    first = configs[0].train
    assert len(configs) == 2
    assert (first.batch_size, first.gradient_cache_chunk) == (512, 32)
    assert (first.steps_per_execution, first.deterministic, first.jit_compile) == (50, False, False)
    assert (first.strategy, configs[0].model.dtype) == ("tpu", "mixed_bfloat16")


def test_the_flags_that_it_names_exist():
    from samtone_tf.config import RunConfig

    sections = RunConfig().to_dict()
    for section, name in re.findall(r"--(data|model|loss|train)\.(\w+)", PAGE):
        assert name in sections[section], name


def test_its_packages_are_those_of_the_setup():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    lines = setup["options"]["install_requires"].splitlines()
    required = {line.split(";")[0].strip() for line in lines if line and not line.startswith("#")}
    asked = [word for command in commands("pip") for word in command if re.search("[=<>~]", word)]
    others = [word for word in asked if not word.startswith(("tensorflow-tpu", "libtpu"))]
    assert len(others) == 6
    assert set(others) <= required
    (tensorflow,) = [line for line in required if line.startswith("tensorflow~=")]
    (tpu,) = [word for word in asked if word.startswith("tensorflow-tpu")]
    assert tpu.split("==")[1].startswith(tensorflow.split("~=")[1].rsplit(".", 1)[0])


def num_parameters(config):
    inner = config.num_heads * config.head_dim
    block = 4 * config.hidden_dim * inner + 3 * config.hidden_dim * config.feedforward_dim
    table = config.vocabulary_size * config.hidden_dim
    norms = (2 * config.num_layers + 1) * config.hidden_dim
    bias = config.num_buckets * config.num_heads
    return table + config.num_layers * block + norms + bias + config.hidden_dim * 768


def of_block(config, length):
    weights = config.num_heads * length
    return length * (20 * config.hidden_dim + 8 * config.feedforward_dim + 8 * weights)


def of_pair(config, remat):
    if remat:
        kept = config.num_layers * 2 * config.hidden_dim * (QUERY + DOCUMENT)
        return kept + of_block(config, DOCUMENT)
    return config.num_layers * (of_block(config, QUERY) + of_block(config, DOCUMENT))


def test_parameters_are_counted_as_the_model_has_them():
    config = EncoderConfig.make("mini")
    assert num_parameters(config) == DualEncoder(config, embedding_dim=768).count_params()


@pytest.mark.parametrize("size", SIZES)
def test_the_sums_of_the_page(size):
    config = SIZES[size]
    num = num_parameters(config)
    for words in (
        f"{num / 1e6:.1f} million",
        f"{12 * num / 1e9:.2f} GB; {16 * num / 1e9:.2f} GB",
        f"| {of_pair(config, remat=False) / 1e6:.0f} MB",
        f"| {of_pair(config, remat=True) / 1e6:.1f} MB",
    ):
        assert words in PAGE, words


def test_the_pairs_that_a_core_holds():
    rows = re.findall(r"^\| v\S+.*?(\d+) GB \| (\w+) \| (.*) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 6
    for gigabytes, size, cells in rows:
        config = SIZES[size]
        room = int(gigabytes) * 1e9 * 2 / 3
        want = []
        for remat in (False, True):
            for copies in (12, 16):
                pairs = int((room - copies * num_parameters(config)) / of_pair(config, remat))
                want.append(str(2 ** (pairs.bit_length() - 1)) if pairs > 0 else "–")
        assert cells.split(" | ") == want, (gigabytes, size)


def test_the_measured_slope_is_near_the_formula():
    """In float32, states count double."""
    base = SIZES["base"]

    def block(length):
        weights = base.num_heads * length
        return length * (40 * base.hidden_dim + 16 * base.feedforward_dim + 8 * weights)

    said = 3 * (block(QUERY) + block(DOCUMENT)) / 1e6
    assert f"where it says {said:.1f}" in PAGE
    assert said == pytest.approx(76.9, rel=0.1)
