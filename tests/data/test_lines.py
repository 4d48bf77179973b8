"""Pins of data.lines: gzip or not, and errors that name file and line."""

import gzip

import pytest

from samtone_tf.data.lines import first_few, join_title, read_json_lines, read_lines


def test_plain_and_gzipped_files_give_the_same_lines(tmp_path):
    raw = "\ufeffone\r\ntwo\u2028still two\n\nfour".encode()
    (tmp_path / "a.txt").write_bytes(raw)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(raw))
    want = [(1, "one"), (2, "two\u2028still two"), (3, ""), (4, "four")]
    assert list(read_lines(tmp_path / "a.txt")) == want
    assert list(read_lines(tmp_path / "a.txt.gz")) == want


def test_bytes_that_are_not_utf8_name_their_line(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"fine\ncaf\xe9\n")
    with pytest.raises(ValueError, match=r"a\.txt:2: expected UTF-8.*Received: byte 0xe9"):
        list(read_lines(path))


@pytest.mark.parametrize(
    "raw",
    [b"no gzip at all", gzip.compress(b"x\n" * 9999, mtime=0)[:-20]],
    ids=["no gzip at all", "cut short"],
)
def test_a_broken_gzip_file_is_named(tmp_path, raw):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(raw)
    with pytest.raises(ValueError, match=r"a\.txt\.gz: expected a whole gzip file"):
        list(read_lines(path))


@pytest.mark.parametrize("line", ['{"a": ', "[1]", "3"])
def test_a_line_that_is_no_object_is_named(tmp_path, line):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n\n' + line + "\n")
    with pytest.raises(ValueError, match=r"a\.jsonl:3: expected .*JSON object") as caught:
        list(read_json_lines(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("title", "text", "want"),
    [("A", "b", "A b"), ("", "b", "b"), ("A", "", "A"), ("", "", ""), (" A ", " b", "A b")],
)
def test_title_is_joined_without_stray_spaces(title, text, want):
    assert join_title(title, text) == want


def test_first_few_says_when_there_are_more():
    assert first_few(["a", "b", "c", "d"]) == "a, b, c, …"
    assert first_few(["a"]) == "a"
