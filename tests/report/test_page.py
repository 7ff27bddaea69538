"""The report, read as a browser or a clerk would: by a parser of its own and by hand."""

import json
import math
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

import pilu
from pilu._digits import down, near, up
from pilu.accounting.curves import CurveTable, Spent
from pilu.certify.promises import limits_of, promises_of
from pilu.report.data import Costs
from pilu.report.page import render
from pilu.report.pictures import draw_costs, histogram
from pilu.store.subjects import Waiting
from report.samples import (
    answered,
    at,
    certificates,
    contents,
    costs,
    crowded,
    fit,
    hex_of,
    lively,
    spent,
)

VOID = {"meta", "br", "hr", "img", "input", "link"}
LOADS = {"src", "href", "action", "data", "poster", "srcset", "background", "ping", "xlink:href"}


class Page(HTMLParser):
    """Tags, attributes, tables and texts; tags must be closed in their order."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.texts = [], [], []
        self.tables, self.open = {}, []
        self._table = self._cell = None
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        held = dict(attrs)
        assert len(held) == len(attrs)
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self._table = self.tables.setdefault(held.get("id"), [])
        elif tag == "tr":
            self._table.append([])
        elif tag in ("td", "th"):
            self._cell = {"text": "", "exact": [], "tag": tag, "scope": held.get("scope")}
            self._table[-1].append(self._cell)
        elif self._cell is not None and ("value" in held or tag == "code"):
            self._cell["exact"].append(held.get("value") or held.get("title"))

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag in ("td", "th"):
            self._cell = None

    def handle_data(self, data):
        if "style" in self.open:
            return
        self.texts.append(data)
        if self._cell is not None:
            self._cell["text"] += data

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


def page_of(found):
    return Page(render(found))


@pytest.fixture(scope="module")
def html():
    return render(lively())


@pytest.fixture(scope="module")
def page(html):
    return Page(html)


def test_every_certificates_numbers_stand_in_its_row(page):
    entries, whole = lively().entries, certificates()
    known = [(place, e) for place, e in enumerate(entries) if "certificate" in e]
    head, *lines = page.tables["certificates"]
    assert [cell["text"] for cell in head] == [
        "Entry", "Time (UTC)", "People", "Rows", "Method", "Epsilon", "Delta", "Total epsilon",
        "Total delta", "Noise", "Certificate", "Parameters",
    ]  # fmt: skip
    assert {cell["scope"] for cell in head} == {"col"}
    assert len(lines) == len(known) == 4
    for line, (place, entry), held in zip(lines, known, whole, strict=True):
        texts = [cell["text"] for cell in line]
        assert texts[0] == str(place)
        assert line[0]["scope"] == "row"
        assert texts[1] == entry["time"][:16].replace("T", " ")
        assert texts[2:5] == [
            entry["people"].split(":")[0],
            str(len(held["rows"])),
            held["method"],
        ]
        numbers = [held[n] for n in ("epsilon", "delta", "total_epsilon", "total_delta", "noise")]
        for cell, number in zip(line[5:10], numbers, strict=True):
            assert float(cell["exact"][0]) == number  # to the last digit
            assert float(cell["text"]) == pytest.approx(number, rel=1e-3)
        for cell, number in zip(line[5:9], numbers[:4], strict=True):
            assert float(cell["text"]) >= number  # a promise is rounded up
        sha256 = pilu.Certificate.from_json(json.dumps(held)).sha256
        assert line[10]["exact"] == [sha256]
        assert texts[10] == sha256[:12]
        assert line[11]["exact"] == [held["parameters_sha256"]]
        assert texts[11] == held["parameters_sha256"][:12]


def test_the_whole_log_is_there_with_its_hashes(page):
    found = lively()
    _, *lines = page.tables["log"]
    assert len(lines) == len(found.entries)
    for place, (line, entry) in enumerate(zip(lines, found.entries, strict=True)):
        assert [line[0]["text"], line[2]["text"]] == [str(place), entry["kind"]]
        hashes = {entry.get(n) for n in ("store", "people", "sha256", "certificate_sha256")}
        for name in hashes - {None}:
            assert name in line[3]["text"]
    assert f"pilu ledger customers --since {found.head}" in page.text
    assert "pilu verify customers" in page.text


def test_nothing_is_loaded_or_run(html, page):
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert ("meta", "content", policy) in page.attributes
    assert not {"script", "link", "iframe", "object", "embed", "img", "form", "a"} & set(page.tags)
    for tag, name, value in page.attributes:
        assert not name.startswith("on"), (tag, name)
        if name in LOADS:
            assert value.startswith("#"), (tag, name, value)
    assert "@import" not in html
    assert all(url.startswith("url(#") for url in re.findall(r"url\([^)]*", html))
    # The namespace of SVG is a name that is never fetched.
    assert set(re.findall(r"https?://[^\s\"'<]*", html)) == {"http://www.w3.org/2000/svg"}


def test_it_is_fit_for_readers_of_all_kinds(page):
    assert ("html", "lang", "en") in page.attributes
    assert page.tags.count("caption") == page.tags.count("table") == 4
    assert page.tags.count("figcaption") == page.tags.count("figure") == 2
    labels = [value for _, name, value in page.attributes if name == "aria-label"]
    assert any(label.startswith("epsilon: 1 of 10 spent, 9 left.") for label in labels)
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    for _, name, value in page.attributes:
        if name == "href" or (value and "url(#" in value):
            assert re.search(r"#([\w-]+)", value)[1] in ids


EVIL = "<script>alert(1)</script>\"'&{{ 7 * 7 }}"


def test_all_text_is_escaped():
    entries = [
        {**fit(), "store": EVIL, "parameters_sha256": EVIL},
        {"kind": EVIL, "time": at(1), EVIL: EVIL},
        {"kind": "request", "subject": EVIL, "due": EVIL, "time": at(1)},
        answered([], {**certificates()[0], "method": EVIL, "parameters_sha256": EVIL}, 2),
    ]
    entries[-1]["subjects"] = [EVIL] * 4
    usual = contents()
    found = page_of(
        contents(
            store=EVIL,
            entries=entries,
            head=EVIL,
            pending=[Waiting(EVIL, None, at(1))],
            versions={EVIL: EVIL},
            model={**usual.model, "kind": EVIL, "table": EVIL, "facts": [EVIL]},
        )
    )
    assert "script" not in found.tags
    assert "alert(1)" in found.text
    assert "{{ 7 * 7 }}" in found.text
    assert not any("alert" in (name or "") for _, name, _ in found.attributes)


def test_equal_contents_give_equal_pages(html):
    import matplotlib

    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red"}):  # a reader's own taste
        assert render(lively()) == html
    assert "<metadata" not in html  # where a date would stand


def test_the_budget_by_hand():
    found = contents(of_chain={"budget": (10.0, 0.25), "spent": spent(2.5, 0.0625)})
    assert found.chain.left == (7.5, 0.1875)
    page = page_of(found)
    assert "epsilon = 2.5 and delta = 0.0625 are spent;" in page.text
    assert "epsilon = 7.5 and delta = 0.1875 are left." in page.text
    assert "epsilon: 2.5 spent 7.5 left of 10" in page.text
    assert "delta: 0.0625 spent 0.1875 left of 0.25" in page.text
    assert "contradicts its log" in page.text  # nothing was ever certified
    over = contents(of_chain={"budget": (10.0, 0.25), "spent": spent(11.0, 0.0)})
    assert over.chain.left == (0.0, 0.25)
    text = page_of(over).text
    assert "The budget is exceeded" in text
    assert "pilu redraw customers" in text
    full = page_of(contents(of_chain={"more_like_the_last": 0})).text
    assert "Another request like the last one may not fit into the budget." in full


def test_the_total_over_time_falls_to_nothing_at_a_redraw():
    first, second, redraw, third = certificates()
    totals = lively().totals
    expected = [(0.0, 0.0)] + [
        (held["total_epsilon"], held["total_delta"]) for held in (first, second, redraw, third)
    ]
    expected.append(expected[-1])  # until now
    assert [(t.epsilon, t.delta) for t in totals] == expected
    assert expected[3] == (0.0, 0.0)
    assert [t.redraw for t in totals] == [False, False, False, True, False, False]
    assert [f"{t.since:%m-%d}" for t in totals] == [
        "11-02", "11-07", "11-14", "11-22", "12-01", "12-12",
    ]  # fmt: skip


def test_the_headline_and_what_is_promised(page):
    assert "9 people with 9 rows were forgotten. 2 people wait, 1 of them overdue." in page.text
    third = certificates()[3]
    epsilon, delta = third["total_epsilon"], third["total_delta"]
    assert epsilon == pytest.approx(1.0, abs=1e-6)
    assert f"at most 2.72 times as likely, plus {up(delta)}, as" in page.text  # e, rounded up
    assert "without the 5 rows forgotten since the last redraw" in page.text
    assert "That redraw excluded the 4 rows forgotten before it." in page.text
    for word in (*promises_of(third), *limits_of(third)):
        assert page.text.count(word) == 1  # either certified or not
    assert third["scope"]["reverse_delta"] == delta  # one point, in both directions
    right = 100 * (1 - (1 - delta) / (1 + math.exp(epsilon)))
    said = float(re.search(r"right at most ([\d.]+) %", page.text)[1])
    assert right <= said <= right + 0.1


def test_the_guess_follows_from_the_whole_curve():
    held = {**certificates()[0], "total_epsilon": 1.3, "total_delta": 0.02}
    held["scope"]["conditional_on_earlier_requests"] = True  # the total is in one direction
    curve = CurveTable((0.1, 0.6, 1.3), (0.2, 0.08, 0.02))
    total = Spent(1.3, 0.02, None, curve)
    entries = [fit(), answered(["anna"], held, 1)]
    text = page_of(contents(entries=entries, of_chain={"spent": total})).text
    said = float(re.search(r"right at most ([\d.]+) %", text)[1])
    # All tests that the three points allow, on a grid of false alarms Q(S).
    q = np.linspace(0, 1, 100_001)
    lines = [np.exp(e) * q + d for e, d in zip(curve.epsilons, curve.deltas, strict=True)]
    best = 100 * np.max(1 + np.minimum(1, np.min(lines, axis=0)) - q) / 2
    assert best <= said <= best + 0.1
    assert said < 65
    assert "This does not cover models or predictions that were handed out" in text


def test_after_a_redraw_nothing_differs():
    entries = [fit(), answered(["dora"], certificates()[2], 1, kind="redraw")]
    text = page_of(contents(entries=entries)).text
    assert "were redrawn from the remaining rows" in text
    assert "(epsilon = 0, delta = 0)" in text
    assert "no better than toss a coin" in text
    empty = {**certificates()[2], "rows": []}
    text = page_of(contents(entries=[fit(), answered([], empty, 1, kind="redraw")])).text
    assert "Nobody was forgotten yet." in text


def test_before_any_request():
    page = page_of(contents(of_chain={"costs": None}, table=None))
    assert "Nobody was forgotten yet." in page.text
    assert "none overdue" in page.text
    assert "so there are no quotes." in page.text
    assert "It was not found or could not be read when this page was made." in page.text
    assert "certificates" not in page.tables
    assert len(page.tables["log"]) == 2
    assert ("li", "role", "alert") not in page.attributes


@pytest.mark.parametrize(("made", "late"), [(34, 0), (35, 1), (90, 1), (91, 2)])
def test_overdue_from_the_day_after(made, late):
    # 2026-12-06 is 34 days after the start, 2027-01-31 is 90.
    found = lively(made=at(made))
    assert len(found.overdue) == late
    page = page_of(found)
    assert ("overdue, the oldest since 2026-12-06" in page.text) == bool(late)
    assert (("li", "role", "alert") in page.attributes) == bool(late)
    _, *lines = page.tables["waiting"]
    assert [line[0]["text"] for line in lines] == [hex_of("emil")[:32], hex_of("fritz")[:32]]
    assert sum("overdue" in line[2]["text"] for line in lines) == late


def test_what_else_must_not_be_overlooked(page):
    assert "1 release is older than the last deletion (entry 6 of the log)" in page.text
    assert "The table still contains 3 rows" in page.text
    assert "NOT PRIVATE" not in page.text
    seeded = certificates()[:1]
    seeded[0]["scope"]["private"] = False
    entries = [fit(), answered(["anna"], seeded[0], 1)]
    assert "NOT PRIVATE: noise was drawn from a seed" in page_of(contents(entries=entries)).text
    entries.append(answered([], certificates()[2], 2, kind="redraw"))  # afresh, with true noise
    assert "NOT PRIVATE" not in page_of(contents(entries=entries)).text


def test_unknown_entries_are_shown_as_they_are():
    entries = [fit(), {"kind": "moved", "to": "Vienna", "time": at(1), "subjects": []}]
    _, _, line = page_of(contents(entries=entries)).tables["log"]
    assert line[2]["text"] == "moved"
    assert '"to": "Vienna"' in line[3]["text"]


def test_five_hundred_certificates_are_all_there():
    found = crowded(500)
    page = page_of(found)
    _, *lines = page.tables["certificates"]
    hashes = [line[11]["exact"][0] for line in lines]
    assert hashes == [hex_of(f"theta {k}") for k in range(500)]
    assert len(page.tables["log"]) == 502
    assert "500 people with 500 rows were forgotten." in page.text


@pytest.mark.parametrize("sigma", [0.3, 2.5])
def test_a_histogram_counts_each_person_once(sigma):
    noise = np.random.default_rng(3).lognormal(-4, sigma, 317)
    found = histogram(noise)
    assert found.logarithmic == (noise.max() > 30 * noise.min())
    assert found.counts.sum() == 317
    for k, (low, high) in enumerate(zip(found.edges[:-1], found.edges[1:], strict=True)):
        last = k == len(found.counts) - 1
        inside = (noise >= low) & ((noise <= high) if last else (noise < high))
        assert found.counts[k] == inside.sum()
    ratios = found.edges[1:] / found.edges[:-1] if found.logarithmic else np.diff(found.edges)
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-9)


def test_a_histogram_of_zeros_and_more():
    noise = np.concatenate([np.zeros(20), np.geomspace(1e-4, 1.0, 30)])
    found = histogram(noise)
    assert (found.zeros, found.counts.sum(), found.logarithmic) == (20, 30, True)
    close = histogram(np.concatenate([np.zeros(20), np.linspace(1.0, 2.0, 30)]))
    assert (close.zeros, close.counts.sum(), close.counts[0]) == (0, 50, 20)
    assert histogram(np.zeros(7)).counts.tolist() == [7]
    assert histogram(np.full(9, 0.5)).counts.tolist() == [0] * 7 + [9]


def test_the_costs_in_words():
    noise = np.array([0.01, 0.02, 0.03, 0.04, 0.5])
    text = page_of(contents(of_chain={"costs": costs(noise, n_subjects=80)})).text
    assert "5 of the 80 people still in the model were quoted, drawn at random" in text
    assert "The median is 0.03." in text
    assert re.search(r"expensive person has \d rows? and needs 0.5, 17 times the median", text)
    assert "median 0.03" in text
    assert "maximum 0.5" in text
    text = page_of(contents(of_chain={"costs": costs(np.zeros(12))})).text
    assert "All 12 people still in the model were quoted" in text
    assert "needs no noise at all" in text
    few = contents(of_chain={"costs": costs(np.full(3, 1e-11))})
    assert "next to no noise" in page_of(few).text
    nobody = contents(of_chain={"costs": costs(np.zeros(0))})
    assert "no rows of people who could be quoted" in page_of(nobody).text


@pytest.mark.parametrize("noise", [[0.0], [0.2], [1e-300, 1.0], [0.0, 1e-9, 5e9], [1.0, 31.0]])
def test_pictures_of_odd_costs_are_whole(noise):
    picture = draw_costs(costs(np.array(noise)))
    svg = ElementTree.fromstring(picture.svg)
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"
    assert float(svg.get("viewBox").split()[2]) > 300


def test_costs_must_be_numbers_for_each_person():
    with pytest.raises(ValueError, match="as long"):
        Costs(np.zeros(3), np.ones(2, int), 1.0, 0.1, 80, 3)
    with pytest.raises(ValueError, match="finite"):
        Costs(np.array([np.inf]), np.ones(1, int), 1.0, 0.1, 80, 1)


@pytest.mark.parametrize(
    ("value", "above", "below", "nearest"),
    [
        (0.0, "0", "0", "0"),
        (1.0, "1", "1", "1"),
        (1.00001, "1.001", "1", "1"),
        (0.99999, "1", "0.9999", "1"),
        (1 / 60, "0.01667", "0.01666", "0.01667"),
        (1.23456e-5, "1.235e-05", "1.234e-05", "1.235e-05"),
        (22026.47, "22,030", "22,020", "22,030"),
        (float("inf"), "inf", "inf", "inf"),
    ],
)
def test_numbers_err_on_the_safe_side(value, above, below, nearest):
    assert (up(value), down(value), near(value)) == (above, below, nearest)


def test_a_missing_extra_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"pilu report needs jinja2.*pilu\[desk\]"):
        render(contents())
