"""Pins of write_report: a page of every kind of result, well formed, safe, and of its own alone."""

import json
import re
import shutil

import numpy as np
import pytest

from samtone_tf.analysis.report import write_report
from samtone_tf.evaluation.per_query import read_per_query
from tests.analysis import results as made


def page_of(tmp_path, *paths, **options):
    html = write_report(paths, tmp_path / "out.html", **options).read_text(encoding="utf-8")
    return html, made.Page(html)


def headings(page):
    return page.texts("h2")


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """One page of all kinds, as text and parsed."""
    top = tmp_path_factory.mktemp("all")
    paths = [
        made.evaluation(top / "one.json", per_query=top / "one.tsv"),
        made.suite(top / "suite" / "results.json").parent,
        made.comparison(top / "comparison.json"),
        made.tuned(top / "index"),
        made.inspection(top / "lengths.json"),
    ]
    out = write_report(paths, top / "new" / "out.html", title="All & sundry", command="samtone x")
    html = out.read_text(encoding="utf-8")
    return html, made.Page(html)


def test_every_kind_has_its_section_and_the_contents_lead_there(everything):
    _, page = everything
    assert headings(page) == [
        *("two sets", "tiny", "Comparisons", "Single queries", "Indexes", "Lengths of texts")
    ]
    places = {attrs["id"] for attrs, _ in page.all("section")}
    links = [attrs["href"] for attrs, _ in page.all("a")]
    assert {link.removeprefix("#") for link in links} == places
    assert page.texts("title")[0] == page.texts("h1")[0] == "All & sundry"


def test_the_page_fetches_and_runs_nothing(everything):
    html, page = everything
    names = {name for name, _, _ in page.elements}
    assert not names & {"script", "link", "img", "iframe", "object", "image", "use", "base"}
    outside = re.sub(r'xmlns="[^"]*"', "", html)
    assert not re.search(r"https?://|url\(|@import|javascript:", outside)
    assert not [key for _, attrs, _ in page.elements for key in attrs if key.startswith("on")]
    policy = page.all("meta", **{"http-equiv": "Content-Security-Policy"})[0][0]["content"]
    assert policy.startswith("default-src 'none'")


def test_texts_are_escaped(everything):
    html, page = everything
    assert "<script" not in html
    assert "&lt;script&gt;alert(&quot;x&quot;)" in html
    assert any(text.endswith(made.SCRIPT) for text in page.texts("td"))


def test_ids_are_unique_and_every_drawing_has_a_text_alternative_and_titled_axes(everything):
    _, page = everything
    ids = [attrs["id"] for _, attrs, _ in page.elements if "id" in attrs]
    assert len(set(ids)) == len(ids)
    drawings = page.all("svg")
    # Two of boards, a comparison, single queries, a frontier, two of lengths.
    assert len(drawings) == 7
    for attrs, _ in drawings:
        assert attrs["role"] == "img"
        assert re.search(r"\d", attrs["aria-label"])
    titles = [attrs for attrs, _ in page.all("text") if "title" in attrs["class"].split()]
    assert len(titles) == 2 * len(drawings)


def test_a_data_set_with_intervals_and_the_best_of_each_column(tmp_path):
    html, page = page_of(tmp_path, made.evaluation(tmp_path / "one.json"))
    assert headings(page) == ["tiny"]
    said = json.loads((tmp_path / "one.json").read_text())
    rows = {row[0]: row[1:] for row in page.rows() if row[0] in ("exact", "right", "half")}
    for row in said["rows"]:
        for cell, measure in zip(rows[row["system"]], ("P@1", "nDCG@10"), strict=True):
            score = row["scores"][measure]
            low, high = (f"{score[end]:.4f}" for end in ("low", "high"))
            low, high = (re.sub(r"^0\.", ".", end) for end in (low, high))
            assert cell == f"{score['value']:.4f} [{low}, {high}]"
    # Half of the six are right at once in "half".
    assert rows["half"][0].startswith("0.5000 ")
    best = page.texts("td", **{"class": "best"})
    assert len(best) == 4  # exact and right are as good
    assert all(cell.startswith("1.0000") for cell in best)
    assert "95 % bootstrap intervals" in html


def test_a_suite_marks_the_best_of_each_set_and_shows_what_was_published(tmp_path):
    _, page = page_of(tmp_path, made.suite(tmp_path / "results.json"))
    rows = page.rows()
    assert ["first", "10", "0.5000 [.4500, .5500]", "0.7500 [.7000, .8000]", "0.600"] in rows
    assert ["second", "10", "0.2500 [.2000, .3000]", "0.1250 [.0750, .1750]", "0.400"] in rows
    assert ["exact", "0.3750 [.3650, .3850]"] in rows
    assert ["GTR (published)", "0.500"] in rows
    best = [text.split()[0] for text in page.texts("td", **{"class": "best"})]
    assert best == ["0.4375", "0.7500", "0.2500", "0.4375"]
    assert any("A paper & its table" in text for text in page.texts("li"))


def test_bars_and_whiskers_are_as_long_as_the_numbers(tmp_path):
    _, page = page_of(tmp_path, made.suite(tmp_path / "results.json"))
    bars = [attrs for attrs, _ in page.all("rect")]
    widths = np.array([float(bar["width"]) for bar in bars])
    # The axis ends at the highest whisker, 0.8.
    np.testing.assert_allclose(
        widths / widths.max(), np.array([0.5, 0.75, 0.25, 0.125]) / 0.75, atol=1e-3
    )
    whiskers = [
        abs(float(attrs["x2"]) - float(attrs["x1"]))
        for attrs, _ in page.all("line", **{"class": "whisker"})
        if attrs["y1"] == attrs["y2"]
    ]
    np.testing.assert_allclose(whiskers, widths.max() / 0.75 * 0.1, atol=0.05)


def test_a_system_that_is_absent_and_a_set_of_one_query(tmp_path):
    path = made.suite(tmp_path / "results.json")
    content = json.loads(path.read_text())
    del content["sets"][0]["rows"][1]
    content["sets"][1]["rows"][0]["scores"]["nDCG@10"] = made.score(0.25, n=1)
    _, page = page_of(tmp_path, made.write(path, content))
    rows = {row[0]: row[2:4] for row in page.rows()}
    assert rows["first"] == ["0.5000 [.4500, .5500]", "–"]
    assert rows["second"] == ["0.2500", "0.1250 [.0750, .1750]"]
    assert len(page.all("rect")) == 3
    whiskers = page.all("line", **{"class": "whisker"})
    assert len(whiskers) == 2 * 3  # a line and two ends each


def test_two_models_stand_side_by_side_and_share_bm25(tmp_path):
    one = made.suite(tmp_path / "one.json", model="saved/one/1")
    two = made.suite(tmp_path / "two.json", model="saved/two/1", values=((0.6, 0.75), (0.3, 0.125)))
    _, page = page_of(tmp_path, one, two)
    assert headings(page) == ["two sets"]
    head = next(row for row in page.rows() if row[:2] == ["set", "queries"])
    assert head[2:] == ["exact · one/1", "bm25", "exact · two/1", "GTR (published)"]
    row = next(row for row in page.rows() if row[0] == "first")
    assert [cell.split()[0] for cell in row[2:]] == ["0.5000", "0.7500", "0.6000", "0.600"]


def test_files_that_disagree_on_one_system_are_told_apart(tmp_path):
    one = made.suite(tmp_path / "one.json")
    two = made.suite(tmp_path / "two.json", values=((0.5, 0.7), (0.25, 0.125)))
    _, page = page_of(tmp_path, one, two)
    head = next(row for row in page.rows() if row[:2] == ["set", "queries"])
    assert head[2:] == ["exact", "bm25", "bm25 (two.json)", "GTR (published)"]


def test_single_sets_become_rows(tmp_path):
    paths = [made.evaluation(tmp_path / f"{n}.json", source=f"beir:data/{n}") for n in ("a", "b")]
    _, page = page_of(tmp_path, *paths)
    assert headings(page) == ["Data sets"]
    assert [row[0] for row in page.rows() if row[1] == "6"] == ["a", "b"] * 2  # of two measures


def test_what_an_index_lost_is_shown(tmp_path):
    path = made.evaluation(tmp_path / "one.json")
    content = json.loads(path.read_text())
    content["rows"][1] |= {
        "index": "scann (brute force)",
        "index_recall": {"recall@10": 0.97},
        "index_loss": {"P@1": made.score(0.0125, -0.01, 0.03), "nDCG@10": made.score(0.0)},
    }
    _, page = page_of(tmp_path, made.write(path, content))
    row = ["tiny", "scann (brute force)", "0.9700", "+0.0125 [-.0100, .0300]", "+0.0000"]
    assert row in page.rows()


def test_a_comparison_names_what_is_significant_and_what_moved(tmp_path):
    path = made.comparison(tmp_path / "c.json")
    content = json.loads(path.read_text())
    content["differences"][0]["holm_randomisation"] = 0.004
    content["differences"][1]["holm_randomisation"] = 0.25
    _, page = page_of(tmp_path, made.write(path, content))
    assert any(
        text.startswith("1 of 2 differences are significant at 0.05") for text in page.texts("p")
    )
    ndcg, p_at_1 = (row for row in page.rows() if row[0] in ("nDCG@10", "P@1"))
    first = content["differences"][0]
    assert first["first"] == "half"
    assert ndcg[1].startswith(f"+{first['difference']['value']:.4f} [")
    assert ndcg[2:5] == ["3", "3", "0"]
    assert (ndcg[6], p_at_1[6]) == ("0.0040", "0.2500")
    assert page.texts("td", **{"class": "best"}) == ["0.0040"]
    # The odd ones were second: nDCG of 1/log2(3) = 0.6309 before.
    moved = [row for row in page.rows() if row[0] in ("q1", "q3", "q5")]
    assert [row[2:] for row in moved] == [["0.6309", "1.0000", "+0.3691"]] * 3
    points = [attrs["class"] for attrs, _ in page.all("circle")]
    assert points == ["point c0", "point hollow c0"]


def test_comparisons_of_a_suite_have_a_chart_per_measure(tmp_path):
    one, two = (
        json.loads(made.comparison(tmp_path / "c.json", f"beir:data/{n}").read_text())
        for n in ("a", "b")
    )
    _, page = page_of(tmp_path, made.write(tmp_path / "both.json", [one, two]))
    labels = [attrs["aria-label"] for attrs, _ in page.all("svg")]
    assert [label.split(":")[0] for label in labels] == [
        "Chart of difference in nDCG@10",
        "Chart of difference in P@1",
    ]
    assert [row[:2] for row in page.rows() if row[0] in "ab"] == [
        *(["a", "nDCG@10"], ["a", "P@1"], ["b", "nDCG@10"], ["b", "P@1"])
    ]


def test_the_frontier_marks_the_chosen_point(tmp_path):
    _, page = page_of(tmp_path, made.tuned(tmp_path / "index"))
    assert headings(page) == ["Indexes"]
    lines = page.all("polyline")
    corners = [tuple(map(float, c.split(","))) for c in lines[0][0]["points"].split()]
    assert len(corners) == 3  # the slower point of the same recall is not on the frontier
    assert corners == sorted(corners)  # recall rises to the right
    assert [y for _, y in corners] == sorted(y for _, y in corners)  # and speed falls
    diamond = [tuple(map(float, c.split(","))) for c in page.all("polygon")[0][0]["points"].split()]
    np.testing.assert_allclose(np.mean(diamond, axis=0), corners[1], atol=0.02)
    # Speed is logarithmic: 9000/5000 and 5000/1500 apart.
    drops = np.diff([y for _, y in corners])
    np.testing.assert_allclose(drops[1] / drops[0], np.log(5000 / 1500) / np.log(9000 / 5000), 0.01)
    chosen = next(row for row in page.rows() if row[0].endswith("(chosen)"))
    assert chosen[1:6] == ["53/100", "60", "0.9920", "–", "5,000"]
    assert any("Chosen: 53 of 100 leaves, reorder 60" in text for text in page.texts("p"))
    assert ["index", "60,000", "256", "0.9920", "0.9800", "0.250", "–", "–", "–"] in page.rows()


def test_lengths_mark_the_cut(tmp_path):
    _, page = page_of(tmp_path, made.inspection(tmp_path / "lengths.json"))
    assert headings(page) == ["Lengths of texts"]
    queries, documents = (attrs["aria-label"] for attrs, _ in page.all("svg"))
    assert "1–8: 1, 9–16: 2, 17–32: 1" in queries
    assert queries.endswith("cut at 64 tokens.")
    assert documents.endswith("cut at 200 tokens.")
    said = page.texts("figcaption")[1]
    # 300 and 600 of 30, 100, 300, 600 are longer than 200: 100 + 400 of 1,030 tokens.
    assert "50.0 % of them are cut and 48.5 % of all tokens lost" in said
    assert len(page.all("line", **{"class": "cut"})) == 2


def test_values_of_single_queries_are_binned(tmp_path):
    side = tmp_path / "one.tsv"
    made.evaluation(tmp_path / "one.json", per_query=side)
    columns, values = read_per_query(side)["half"]
    assert sorted(values[:, columns.index("nDCG@10")].round(4)) == [0.6309] * 3 + [1.0] * 3
    _, page = page_of(tmp_path, tmp_path / "one.json")
    label = next(a["aria-label"] for a, _ in page.all("svg") if "Histogram" in a["aria-label"])
    assert "half: 0.6 to 0.7: 50 %, 0.9 to 1: 50 %" in label
    assert "right: 0.9 to 1: 100 %" in label
    _, alone = page_of(tmp_path, side, overwrite=True)
    assert headings(alone) == ["Single queries"]
    assert label in [attrs["aria-label"] for attrs, _ in alone.all("svg")]


def test_a_moved_side_file_is_found_and_a_lost_one_is_said(tmp_path):
    made.evaluation(tmp_path / "old" / "one.json", per_query=tmp_path / "old" / "one.tsv")
    shutil.move(tmp_path / "old", tmp_path / "new")
    _, page = page_of(tmp_path, tmp_path / "new" / "one.json")
    assert headings(page) == ["tiny", "Single queries"]
    (tmp_path / "new" / "one.tsv").unlink()
    html, page = page_of(tmp_path, tmp_path / "new" / "one.json", overwrite=True)
    assert headings(page) == ["tiny"]
    assert "one.tsv, the values of beir:data/tiny, is not there." in html


def test_an_unfinished_suite_is_shown_by_its_sets(tmp_path):
    for name in ("a", "b"):
        made.evaluation(tmp_path / "out" / "sets" / f"{name}.json", source=f"beir:{name}")
    _, page = page_of(tmp_path, tmp_path / "out")
    assert headings(page) == ["Data sets"]


def test_the_same_files_give_the_same_page_and_count_once(tmp_path):
    path = made.evaluation(tmp_path / "one.json")
    first, _ = page_of(tmp_path, path)
    again, page = page_of(tmp_path, path, path, overwrite=True)
    assert again == first
    assert "From 1 file of " in page.texts("p")[0]


def test_odd_characters_do_no_harm(tmp_path):
    path = made.evaluation(tmp_path / "one.json", model="a\x00b\ud800</title>\x85🙂")
    html, _ = page_of(tmp_path, path, title="</title><b>")
    assert "a\ufffdb\ufffd&lt;/title&gt;\ufffd🙂" in html
    assert "<title>&lt;/title&gt;&lt;b&gt;</title>" in html


def refuse(tmp_path, *paths, error=ValueError, match, **options):
    with pytest.raises(error, match=match):
        write_report(paths, tmp_path / "out.html", **options)
    assert not (tmp_path / "out.html").exists()


def test_what_is_not_there_is_named(tmp_path):
    refuse(tmp_path, match="`results` must name a file or folder at least. Received: none")
    refuse(tmp_path, tmp_path / "no.json", error=FileNotFoundError, match=r"no\.json, which does")
    (tmp_path / "empty").mkdir()
    refuse(
        tmp_path,
        tmp_path / "empty",
        error=FileNotFoundError,
        match=r"empty, which holds none of results\.json, tuning\.json, report\.json and sets",
    )


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("{", "must be JSON, or end in .tsv. Received: .*one.json, which cannot be read: Exp"),
        ('{"a": NaN}', "which cannot be read: NaN is no number of JSON"),
        ("[" * 100_000, "which cannot be read"),
        ('{"kind": "poem"}', "known kind: evaluation, suite and comparison .* of kind 'poem'"),
        ("[]", "which is of no known kind"),
        ("3", "which is of no known kind"),
        ('{"kind": "suite", "format": 1}', 'must have "format": 2. Received: .*one.json with 1'),
    ],
)
def test_other_files_are_refused(tmp_path, text, match):
    path = tmp_path / "one.json"
    path.write_text(text)
    refuse(tmp_path, path, match=match)


def test_a_picture_is_no_result(tmp_path):
    (tmp_path / "x.png").write_bytes(b"\x89PNG\xff")
    refuse(tmp_path, tmp_path / "x.png", match=r"x\.png, which cannot be read")


CASES = [
    (made.evaluation, ["rows"], None, "kind evaluation that cannot be used: no 'rows'"),
    (made.evaluation, ["rows"], [], "`rows` must hold one at least"),
    (made.suite, ["sets"], [], "kind suite that cannot be used: `sets` must hold one"),
    (made.suite, ["averages", "rows", 0, "scores", "nDCG@10", "value"], "x", "'x' is no finite"),
    (made.comparison, ["differences"], [], "`differences` must hold one at least"),
    (made.comparison, ["tests"], None, "no 'tests'"),
    (made.inspection, ["query_lengths", "histogram"], [], "a histogram must have bins"),
]


@pytest.mark.parametrize(("make", "place", "value", "match"), CASES)
def test_incomplete_files_are_refused(tmp_path, make, place, value, match):
    path = make(tmp_path / "one.json")
    content = json.loads(path.read_text())
    inside = content
    for key in place[:-1]:
        inside = inside[key]
    if value is None:
        del inside[place[-1]]
    else:
        inside[place[-1]] = value
    refuse(tmp_path, made.write(path, content), match=match)


def test_a_frontier_needs_its_chosen_point_and_speeds(tmp_path):
    path = made.tuned(tmp_path / "index") / "tuning.json"
    content = json.loads(path.read_text())
    content["points"][1]["chosen"] = False
    refuse(tmp_path, made.write(path, content), match="one of `points` must be chosen")
    content["points"][1] |= {"chosen": True, "batched_qps": 0}
    refuse(tmp_path, made.write(path, content), match="a speed above 0 and a recall from 0 to 1")


def test_a_table_of_single_queries_needs_values(tmp_path):
    path = tmp_path / "one.tsv"
    path.write_text("system\tquery_id\tP@1\n")
    refuse(tmp_path, path, match="must be finite values of single queries")
    path.write_text("system\tquery_id\tP@1\nexact\tq\tnan\n")
    refuse(tmp_path, path, match="must be finite values of single queries")


def test_nothing_is_overwritten_unasked(tmp_path):
    path = made.inspection(tmp_path / "lengths.json")
    out = tmp_path / "out.html"
    out.write_text("mine")
    with pytest.raises(FileExistsError, match=r"`out` must be a new file\. Received: .*out\.html"):
        write_report(path, out)
    assert out.read_text() == "mine"
    write_report(path, out, overwrite=True)
    assert out.read_text().startswith("<!DOCTYPE html>")
    with pytest.raises(FileExistsError, match=r"`out` must be an HTML file\. Received: .*a folder"):
        write_report(path, tmp_path, overwrite=True)
