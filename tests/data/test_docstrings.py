"""Pins of data.docstrings: what makes a pair, one split by hash, nothing imported."""

import subprocess
import sys

import pytest

from samtone_tf.data.docstrings import read_docstrings
from samtone_tf.data.fingerprints import normalise

REST = "It takes every part in turn and then returns what was left over."
MODULE = f'''"""Short one.

{REST}
"""

class Shelf:
    """Holds books in rows.

    Each book {REST}
    """

    def sort(self):
        """Sort the books
        by their title.

        Slow shelves {REST}

            >>> 1
        """

    def few(self):
        """Sort some of the books.

        Too few words.
        """

    def old(self):
        """Deprecated way to sort all books.

        Old {REST}
        """

    def same(self):
        """HOLDS  books in rows.

        Same {REST}
        """

    def quoted(self):
        """Quotes its own summary line.

        Here: quotes its own summary line. {REST}
        """

raise RuntimeError("this module was imported")
'''


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of one real module, 200 functions, tests, and a file that cannot be parsed."""
    root = tmp_path / "tiny_package"
    (root / "tests").mkdir(parents=True)
    (root / "__init__.py").write_text("")
    (root / "shelf.py").write_text(MODULE)
    (root / "broken.py").write_text('"""Not Python at all."""\ndef (:\n')
    (root / "tests" / "more.py").write_text(f'"""A summary inside tests.\n\nTests {REST}\n"""\n')
    many = [
        f'def f{i}():\n    """Compute number {i} of many.\n\n    Number {i}: {REST}\n    """\n'
        for i in range(200)
    ]
    (root / "zoo.py").write_text("\n".join(many))
    monkeypatch.syspath_prepend(tmp_path)
    return (root.name,)


def test_pairs_are_summary_and_rest(package):
    data = read_docstrings("train", package)
    other = read_docstrings("test", package)
    found = {name: text for name, text in data.documents.items() if ".shelf" in name}
    assert found == {
        "tiny_package.shelf.Shelf": f"Each book {REST}",
        "tiny_package.shelf.Shelf.sort": f"Slow shelves {REST} >>> 1",
    }
    assert data.queries["tiny_package.shelf.Shelf.sort:summary"] == "Sort the books by their title."
    assert data.documents == other.documents
    assert not any("tests" in name for name in data.documents)
    assert "tiny_package" not in sys.modules


def test_split_is_a_partition_by_hash_of_the_query(package):
    train, test = read_docstrings("train", package), read_docstrings("test", package)
    assert 0 < len(test.qrels) < 40  # 8 in 100 of 202
    assert not train.qrels.keys() & test.qrels.keys()
    assert train.qrels.keys() | test.qrels.keys() == train.queries.keys()
    texts = [{normalise(data.queries[q]) for q in data.qrels} for data in (train, test)]
    assert not texts[0] & texts[1]


def test_a_name_defined_twice_gets_two_ids(tmp_path, monkeypatch):
    (tmp_path / "twice_package").mkdir()
    text = "\n".join(
        f'def f():\n    """Version {word} of the function.\n\n    {word} {REST}\n    """'
        for word in ("one", "two")
    )
    (tmp_path / "twice_package" / "__init__.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    data = read_docstrings("train", ("twice_package",))
    assert list(data.documents) == ["twice_package.f", "twice_package.f#2"]


def test_missing_packages_are_noted(package):
    data = read_docstrings("train", (*package, "no_such_package_here"))
    assert data.notes == (
        "package no_such_package_here is not installed; its docstrings are absent",
    )
    with pytest.raises(ValueError, match="Received: no_such_package_here"):
        read_docstrings("train", ("no_such_package_here",))


def test_unknown_split_lists_both():
    with pytest.raises(ValueError, match=r"one of: train, test\. Received: dev"):
        read_docstrings("dev")


@pytest.mark.slow
def test_installed_packages_hold_about_ten_thousand_pairs_and_are_not_imported():
    program = (
        "import sys\n"
        "from samtone_tf.data.docstrings import read_docstrings\n"
        "train, test = read_docstrings('train'), read_docstrings('test')\n"
        "print(len(train.qrels), len(test.qrels), 'tensorflow' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    train, test, imported = done.stdout.split()
    assert 8000 < int(train) < 16000
    assert 0.07 < int(test) / int(train) < 0.1
    assert imported == "False"
