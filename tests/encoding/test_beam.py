"""Pins of encoding.beam: the steps by themselves, and as a pipeline where Beam is installed."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from samtone_tf.encoding import beam as module
from samtone_tf.encoding.beam import Count, Job, add_counts, count_text, encode_with_beam
from samtone_tf.encoding.store import Store
from samtone_tf.encoding.vectors import Vectors
from tests.encoding import letters

TEXTS = {**letters.TEXTS, **letters.many(15)}  # 23


def job(out, **changes):
    fields = {
        "model": letters.encoder,
        "out": str(out),
        "side": "document",
        "dtype": "float32",
        "shard_size": 5,
        "batch_tokens": 100,
        "opening": (),
        "source": "texts",
    }
    return Job(**fields | changes)


def rows_of(texts=TEXTS):
    return list(module.read_rows(texts, "document"))


def check(out, texts=TEXTS, dtype="float32"):
    vectors = Vectors(out)
    assert sorted(vectors.ids) == sorted(texts)
    want = np.stack([letters.vector_of(texts[name]) for name in vectors.ids])
    np.testing.assert_allclose(vectors[:], want, atol={"float32": 1e-6, "int8": 0.01}[dtype])
    assert vectors.description.order == "hash"


def by_hand(work: Job, rows=None):
    """The pipeline in plain Python, the way a runner would call its steps."""
    rows = rows_of() if rows is None else rows
    begun = module.begin(add_counts(map(count_text, rows)), work)
    groups = {shard: [none] for shard, none in module.name_shards(begun)}
    for row in rows:
        shard, value = module.to_shard(row, begun)
        groups[shard].append(value)
    written = [module.encode_shard(group, work, begun) for group in groups.items()]
    module.finish(sum(written), work, begun)
    return written


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_the_steps_write_a_folder_of_all_texts(tmp_path, dtype):
    written = by_hand(job(tmp_path / "v", dtype=dtype))
    check(tmp_path / "v", dtype=dtype)
    assert len(written) == 5
    assert sum(written) == 23
    about = json.loads((tmp_path / "v" / "vectors.json").read_text())
    assert about["done"] == "0-4"
    assert ("loss" in about) == (dtype == "int8")


def test_rows_of_a_shard_are_sorted_whatever_order_they_come_in(tmp_path):
    by_hand(job(tmp_path / "a"))
    by_hand(job(tmp_path / "b"), rows_of(dict(reversed(TEXTS.items()))))
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_a_shard_without_texts_is_a_shard(tmp_path):
    by_hand(job(tmp_path / "v", shard_size=1))
    about = [json.loads(path.read_text())["num_rows"] for path in (tmp_path / "v").glob("shard-*")]
    assert 0 in about
    check(tmp_path / "v")


def test_a_step_that_runs_twice_changes_nothing(tmp_path):
    by_hand(job(tmp_path / "v"))
    before = {path: path.read_bytes() for path in (tmp_path / "v").iterdir()}
    by_hand(job(tmp_path / "v"))
    assert {path: path.read_bytes() for path in (tmp_path / "v").iterdir()} == before


def test_shards_that_are_done_are_not_encoded_again(tmp_path, monkeypatch):
    by_hand(job(tmp_path / "v"))
    (tmp_path / "v" / "shard-00002.json").unlink()
    calls = []
    encoder = letters.encoder(tokenize=lambda texts: calls.append(1) or letters.tokenize(texts))
    monkeypatch.setattr(module, "shared_encoder", lambda _: encoder)
    by_hand(job(tmp_path / "v"))
    assert len(calls) == 1
    check(tmp_path / "v")


def test_counts_do_not_depend_on_order_and_see_every_change():
    counts = [count_text(row) for row in rows_of()]
    total = add_counts(counts)
    assert total.num_texts == 23
    assert total.num_empty == sum(not text.strip() for text in TEXTS.values())
    parts = [add_counts(counts[10:]), add_counts(counts[:10]), add_counts([])]
    assert add_counts(parts) == total
    for change in ({"a": "The old harbour"}, {"new": "text"}):
        assert add_counts(map(count_text, rows_of(TEXTS | change))).hashes != total.hashes
    # What belongs to the id cannot move into the text.
    assert count_text((b"a", b"bc")) != count_text((b"ab", b"c"))


def test_another_model_other_data_and_other_settings_are_refused(tmp_path):
    by_hand(job(tmp_path / "v"))
    with pytest.raises(ValueError, match="same model, data.*dtype 'float32' and not 'int8'"):
        by_hand(job(tmp_path / "v", dtype="int8"))
    with pytest.raises(ValueError, match="same model, data.*data"):
        by_hand(job(tmp_path / "v"), rows_of(TEXTS | {"a": "b"}))
    with pytest.raises(ValueError, match="model 'letters' and not 'other'"):
        by_hand(job(tmp_path / "v", model=other))


def other():
    return letters.encoder(fingerprint="other")


def test_bad_texts_are_refused(tmp_path):
    for texts, found in (({}, "no text"), ({"a": " "}, "1 empty texts")):
        with pytest.raises(ValueError, match=f"not empty. Received: texts with {found}"):
            by_hand(job(tmp_path / "v"), rows_of(texts))
    with pytest.raises(ValueError, match="id 'a' twice in texts"):
        by_hand(job(tmp_path / "v"), [*rows_of(), (b"a", b"again")])
    with pytest.raises(ValueError, match="23 texts were counted and 22 written"):
        module.finish(22, job(tmp_path), module.begin(Count(23, 0, 1), job(tmp_path / "w")))
    with pytest.raises(ValueError, match="ids that fill one line"):
        rows_of({"a\n": "b"})


@pytest.mark.parametrize(
    ("raw", "want"),
    [
        (b'{"_id": "a", "title": "T", "text": " b "}', [(b"a", b"T b")]),
        (b'\xef\xbb\xbf{"_id": 7, "text": "half \\ud800"}', [(b"7", b"half \xed\xa0\x80")]),
        (b"", []),
        (b"  ", []),
    ],
)
def test_lines_of_files(raw, want):
    assert list(module.parse_line(("c.jsonl", raw), "document")) == want


@pytest.mark.parametrize(
    ("raw", "match"),
    [
        (b"\xff", r"c.jsonl: expected UTF-8 text. Received: b'\\xff'"),
        (b"{", "c.jsonl: expected one JSON object"),
        (b'{"_id": "a"}', "c.jsonl: `text` is missing"),
        (b'{"_id": "a\\n", "text": "b"}', "ids that fill one line"),
    ],
)
def test_bad_lines_name_the_file(raw, match):
    with pytest.raises(ValueError, match=match):
        list(module.parse_line(("c.jsonl", raw), "document"))


def test_a_process_opens_one_model():
    opened = []

    def make():
        opened.append(1)
        return letters.encoder()

    encoders = [module.shared_encoder(job(out, model=make)) for out in ("a", "b")]
    assert len(opened) == 1
    assert encoders[0] is encoders[1]


def test_bad_settings_are_refused_before_beam_is_looked_for(tmp_path):
    for setting in ({"dtype": "bfloat16"}, {"shard_size": 0}, {"side": "x"}, {"batch_tokens": 0}):
        with pytest.raises(ValueError, match=f"`{next(iter(setting))}` must be"):
            encode_with_beam(letters.encoder, TEXTS, tmp_path / "v", **setting)


def test_without_beam_it_says_where_to_look(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    with pytest.raises(ImportError, match=r"needs Apache Beam.*docs/encoding.md"):
        encode_with_beam(letters.encoder, TEXTS, tmp_path / "v")


def run(*arguments, **keywords):
    pytest.importorskip("apache_beam", reason="Apache Beam is not installed")
    encode_with_beam(*arguments, **{"shard_size": 5, "batch_tokens": 100} | keywords)


def test_a_pipeline_of_texts_in_memory(tmp_path):
    run(letters.encoder, TEXTS, tmp_path / "v", dtype="int8")
    check(tmp_path / "v", dtype="int8")
    by_hand(job(tmp_path / "w", dtype="int8"))
    for path in (tmp_path / "w").iterdir():
        assert path.read_bytes() == (tmp_path / "v" / path.name).read_bytes()


def write_files(folder):
    texts = {name: text for name, text in TEXTS.items() if isinstance(text, str)}
    folder.mkdir()
    lines = [json.dumps({"_id": name, "text": text.strip()}) for name, text in texts.items()]
    (folder / "a.jsonl").write_text("\n".join(lines[:10]) + "\n")
    (folder / "b.jsonl").write_text("\n".join(lines[10:]))
    return {name: text.strip() for name, text in texts.items()}


def test_a_pipeline_of_files_goes_on_where_it_was_stopped(tmp_path):
    texts = write_files(tmp_path / "corpus")
    data = f"corpus:{tmp_path / 'corpus'}/*.jsonl"
    run(letters.encoder, data, tmp_path / "v")
    check(tmp_path / "v", texts)
    content = {path.name: path.read_bytes() for path in (tmp_path / "v").iterdir()}
    for shard in (1, 3):
        for path in (tmp_path / "v").glob(f"*-0000{shard}.*"):
            path.unlink()
    run(letters.encoder, data, tmp_path / "v")
    assert {path.name: path.read_bytes() for path in (tmp_path / "v").iterdir()} == content
    with pytest.raises(Exception, match="shard_size 5 and not 6"):
        run(letters.encoder, data, tmp_path / "v", shard_size=6)


def test_a_pipeline_reaches_other_file_systems(tmp_path, monkeypatch):
    """A made-up scheme, whose paths are those of this disk."""
    pytest.importorskip("apache_beam", reason="Apache Beam is not installed")
    from apache_beam.io.filesystems import FileSystems

    from tests.encoding.made_up_file_system import SCHEME, MadeUpFileSystem

    assert MadeUpFileSystem.scheme() == SCHEME
    texts = write_files(tmp_path / "corpus")
    place = f"{SCHEME}:/{tmp_path}"
    assert FileSystems.exists(f"{place}/corpus/a.jsonl")
    (tmp_path / "v").mkdir()
    for _ in range(2):
        run(letters.encoder, f"corpus:{place}/corpus/*.jsonl", f"{place}/v")
        check(tmp_path / "v", texts)
        shutil.rmtree(tmp_path / "v" / "gone", ignore_errors=True)
    run(letters.encoder, f"corpus:{tmp_path}/corpus/*.jsonl", tmp_path / "w")
    for path in (tmp_path / "w").glob("*-*"):
        assert path.read_bytes() == (tmp_path / "v" / path.name).read_bytes()
    with pytest.raises(Exception, match="shard_size 5 and not 6"):
        run(letters.encoder, f"corpus:{place}/corpus/*.jsonl", f"{place}/v", shard_size=6)


def test_a_folder_elsewhere_is_copied_for_the_model(tmp_path):
    pytest.importorskip("apache_beam", reason="Apache Beam is not installed")
    from samtone_tf.encoding.store import local_copy
    from tests.encoding.made_up_file_system import SCHEME

    (tmp_path / "m" / "variables").mkdir(parents=True)
    (tmp_path / "m" / "saved_model.pb").write_bytes(b"graph")
    (tmp_path / "m" / "variables" / "x.data").write_bytes(b"weights" * 300_000)
    with local_copy(f"{SCHEME}:/{tmp_path}/m/") as copy:
        files = [path for path in Path(copy).rglob("*") if path.is_file()]
        found = {path.relative_to(copy).as_posix(): path.read_bytes() for path in files}
    assert found == {"saved_model.pb": b"graph", "variables/x.data": b"weights" * 300_000}
    assert not Path(copy).exists()
    with local_copy(str(tmp_path)) as same:
        assert same == str(tmp_path)


def test_a_store_refuses_folders_of_something_else(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(FileExistsError, match="nothing is overwritten"):
        Store(str(tmp_path)).check_usable()


@pytest.mark.slow
def test_a_pipeline_in_two_processes_with_a_real_model(tmp_path):
    """Threads share a process's model; `pairs:` is read by one worker."""
    pytest.importorskip("apache_beam", reason="Apache Beam is not installed")
    from samtone_tf.export.saved_encoder import SavedEncoder
    from tests import tiny
    from tests.cli.runner import samtone, succeed

    texts = tiny.docstring_texts(120)
    lines = [
        json.dumps({"query": f"q{row}", "document": text, "document_id": f"d{row}"})
        for row, text in enumerate(texts)
        if text.strip()
    ]
    (tmp_path / "faq.jsonl").write_text("\n".join(lines))
    flags = ["--data", f"pairs:{tmp_path / 'faq.jsonl'}", "--out", tmp_path / "v"]
    flags += ["--shard_size", "20", "--beam", "--runner", "DirectRunner"]
    flags += ["--direct_num_workers", "2", "--direct_running_mode", "multi_processing"]
    model = tiny.saved_model("sde")
    succeed("encode", "--model", model, *flags, show_warnings=True)
    done = samtone("encode", "--model", model, "--dtype", "int8", *flags, show_warnings=True)
    assert done.code == 2
    line = done.err.splitlines()[-1]
    assert line.startswith("samtone encode: error: `out` must hold vectors of the same model")
    assert "dtype 'float32' and not 'int8'" in line
    vectors = Vectors(tmp_path / "v")
    assert len(vectors) == len(lines)
    saved = SavedEncoder(model)
    want = saved.encode_document([texts[int(name[1:])].strip() for name in vectors.ids])
    np.testing.assert_allclose(vectors[:], want, atol=1e-5)
    assert (vectors.description.model, vectors.description.model_path) == (
        saved.fingerprint,
        str(model),
    )
