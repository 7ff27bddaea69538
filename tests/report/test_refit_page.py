"""The page of a store of refits, from contents made by hand."""

import re

import mpmath
import pytest

from pilu.report.data import TableNow
from pilu.report.history import Scores
from pilu.report.page import render
from pilu.store.subjects import Waiting
from report.samples import (
    asked,
    at,
    changed,
    hex_of,
    refit,
    refit_certificate,
    refit_crowded,
    refit_fit,
    refit_lively,
    score,
)
from report.test_page import EVIL, Page, page_of


@pytest.fixture(scope="module")
def page():
    return page_of(refit_lively())


def todo(found):
    """The list of what to do next: the words of each, and its command."""
    listed = re.search(r'<ul class="actions".*?</ul>', render(found), re.DOTALL)[0]
    found = []
    for item in re.findall(r"<li[^>]*>(.*?)</li>", listed, re.DOTALL):
        words, _, command = item.partition("<code>")
        found.append((" ".join(words.split()), command.removesuffix("</code>").strip()))
    return found


def test_every_change_stands_in_its_row(page):
    head, *lines = page.tables["changes"]
    assert [cell["text"] for cell in head] == [
        "Entry", "Time (UTC)", "What", "People forgotten", "Rows left",
        "ROC AUC, before \u2192 after", "Epsilon", "Delta", "Certificate",
    ]  # fmt: skip
    texts = [[cell["text"] for cell in line] for line in lines]
    assert [line[0] for line in texts] == ["2", "4", "5", "7"]
    assert [line[2] for line in texts] == ["forgot", "learned rows", "followed the table", "forgot"]
    assert [line[3] for line in texts] == ["2", "", "", "1"]
    assert [line[4] for line in texts] == ["490", "520", "523", "519"]
    assert [line[5] for line in texts] == [
        "0.86 \u2192 0.85", "0.84 \u2192 0.86", "not measured", "0.86 \u2192 0.86",
    ]  # fmt: skip
    assert {(line[6], line[7]) for line in texts} == {("0.1", "1e-09")}
    entries = [e for e in refit_lively().entries if "certificate" in e]
    assert [line[8]["exact"] for line in lines] == [[e["certificate_sha256"]] for e in entries]


def test_the_log_in_words(page):
    _, *lines = page.tables["log"]
    said = [line[3]["text"] for line in lines]
    assert "500 rows of 180 people with 12 features. ROC AUC 0.83" in said[0]
    assert "a constant gets 0.5" in said[0]
    assert said[1].startswith("2 people asked to be forgotten (due 2026-11-20).")
    assert said[2].startswith("Forgot 2 people with 10 rows. The model has 490 rows now.")
    assert said[3].startswith("Released the model as skops.")
    assert said[4].startswith("30 rows learned.")
    assert "Followed the table: 4 rows learned, 2 rows corrected, 1 row dropped." in said[5]
    assert said[8].startswith("A person came back")


def test_what_to_do_comes_with_commands_and_the_urgent_first():
    assert todo(refit_lively()) == [
        ("1 request is overdue, the oldest since 2026-12-06.", "pilu run churn"),
        (
            "Receipts were not handed over (entry 7 of the log). Until then, what they say about "
            "earlier releases is kept in the store.",
            "pilu receipts churn",
        ),
        (
            "1 release is older than the last deletion (entry 3 of the log). No certificate covers "
            "such a file: withdraw it, and release again.",
            "pilu release churn --out FILE",
        ),
        (
            "The table still contains 3 rows of forgotten people. Write it without them, and "
            "delete the old one.",
            "pilu table churn --rewrite FILE",
        ),
        (
            "The table is not as the model knows it: 8 rows appeared, 1 row changed.",
            "pilu sync churn --without-forgotten",
        ),
    ]


def test_rows_that_came_make_no_release_outdated():
    release = {"kind": "release", "sha256": hex_of("file"), "format": "skops", "time": at(5)}
    forgot = changed("unlearn", 4, 490, None, ["anna"], n_forgotten=10)
    came = changed("add", 6, 520, None, n_added=30)
    assert refit(entries=[refit_fit(), forgot, release, came]).outdated_releases == []
    assert refit(entries=[refit_fit(), release, forgot, came]).outdated_releases == [1]
    # Whom a sync forgets is gone as by a request.
    gone = changed("sync", 7, 489, None, ["ben"], n_dropped=1)
    assert refit(entries=[refit_fit(), forgot, release, gone]).outdated_releases == [2]


def test_nothing_to_do_is_said():
    ((words, command),) = todo(refit())
    assert words.startswith("Nothing. Nobody is overdue")
    assert command == ""


def test_what_else_there_may_be_to_do():
    due = [Waiting(hex_of("a"), "2027-01-31", at(3)), Waiting(hex_of("b"), None, at(3))]
    ((words, command),) = todo(refit(pending=due))
    assert words == "2 people wait to be forgotten. The first is due on 2027-01-31."
    assert command == "pilu run churn"
    ((words, command),) = todo(refit(table=TableNow(0, n_missing=1)))
    assert words == "The table is not as the model knows it: 1 row disappeared."
    assert command == "pilu sync churn"
    for found in (refit(table=None), refit(table=None, pending=due)):
        assert "was not found or could not be read" in todo(found)[-1][0]
    # Somebody released again since: the old file must still be withdrawn.
    entries = [*refit_lively().entries, {"kind": "release", "sha256": "0", "time": at(35)}]
    (action,) = [one for one in todo(refit_lively(entries=entries)) if "older than" in one[0]]
    assert action[0].endswith("withdraw it.")
    assert action[1] == ""
    quoted = todo(refit(store="my store; rm", pending=due))
    assert quoted[0][1] == "pilu run &#39;my store; rm&#39;"


@pytest.mark.parametrize(
    ("measured", "fitted", "warned"),
    [
        (score(0.55, 0.10), 0.83, True),  # 2 x 0.1/sqrt(5) = 0.089 is more than 0.05
        (score(0.60, 0.10), 0.5, False),
        (None, 0.5, True),
        (None, 0.51, False),
        (score(0.6, 0.01, folds=1), 0.5, True),  # not measured: the fit counts
    ],
)
def test_a_model_no_better_than_a_constant_is_named(measured, fitted, warned):
    found = refit(score=measured, entries=[refit_fit(value=fitted)])
    said = any("not clearly better than a constant" in words for words, _ in todo(found))
    assert said == warned


def test_the_guess_is_that_of_two_normals():
    mu = refit_certificate("x")["mu"]
    with mpmath.workdps(30):
        right = 100 * float(mpmath.ncdf(mpmath.mpf(mu) / 2))
    text = page_of(refit_lively()).text
    said = float(re.search(r"right at most ([\d.]+) %", text)[1])
    assert right <= said <= right + 0.1
    assert said < 51
    assert "This does not cover models or predictions that were handed out" in text
    large = changed("unlearn", 3, 490, None, ["anna"], n_forgotten=2)
    large["certificate"]["mu"] = 1.0  # Phi(1/2) = 0.69146
    assert "right at most 69.2 % of the time" in page_of(refit(entries=[refit_fit(), large])).text


def test_the_top_says_who_was_forgotten_who_waits_and_how_good_the_model_is(page):
    html = render(refit_lively())
    top = html[html.index('class="answer"') : html.index("What to do next")]
    assert "2 people were forgotten. 3 people wait, 1 of them overdue." in top
    assert "no outcome is more than 1.11 times as likely, plus 1e-09" in top  # e^0.1, rounded up
    assert "ROC AUC is 0.81 now; a constant gets 0.50. The model is clearly better." in top
    assert "1 person waits, and is overdue." in page_of(
        refit(pending=[Waiting("0", "2020-01-01", at(1))])
    ).text  # fmt: skip


def test_scores_of_both_kinds_are_kept_apart():
    scores = Scores.of(refit_lively().entries)
    assert (scores.fitted.value, scores.constant) == (0.83, 0.5)
    assert [(one.place, one.before, one.value) for one in scores.changed] == [
        (2, 0.86, 0.85), (4, 0.84, 0.86), (7, 0.86, 0.86),
    ]  # fmt: skip
    # Of another metric, they cannot stand in the same picture.
    other = changed("add", 3, 510, (0.5, 0.6), n_added=10)
    other["score"]["metric"] = "accuracy"
    assert Scores.of([refit_fit(), other]).changed == []
    assert Scores.of([{k: v for k, v in refit_fit().items() if k != "score"}]) is None
    unknown = page_of(refit(score=None, entries=[refit_fit(value=None)])).text
    assert "ROC AUC could not be measured at the fit; a constant gets 0.50." in unknown


def test_the_picture_shows_each_score_at_its_height():
    svg = re.search(r'<div class="picture".*?</svg>', render(refit_lively()), re.DOTALL)[0]
    label = re.search(r'aria-label="([^"]*)"', svg)[1]
    assert "At the fit, on rows it had not seen: 0.83" in label
    assert "After 3 changes, on rows it has learned: 0.86" in label
    assert "a constant gets 0.5" in label
    # The line through the three changes: equal steps to the right, 0.85 below 0.86 twice.
    lines = re.findall(r'<path d="M ([\d. L\n]+)" clip-path', svg)
    (points,) = [
        [tuple(map(float, point.split())) for point in line.split("L")]
        for line in lines
        if line.count("L") == 2
    ]
    (x1, y1), (x2, y2), (x3, y3) = points
    assert x2 - x1 == pytest.approx(x3 - x2)
    assert x1 < x2
    assert y1 > y2 == y3  # SVG counts downwards


def test_all_text_is_escaped_here_too():
    entries = [
        {**refit_fit(), "store": EVIL, "model": EVIL},
        {"kind": "release", "format": EVIL, "sha256": EVIL, "time": at(1)},
        {**asked("anna", 2), "due": EVIL},
        changed("unlearn", 3, 490, (0.5, 0.5), ["anna"], n_forgotten=2),
    ]
    entries[-1]["kind"] = EVIL
    entries[-1]["certificate_sha256"] = EVIL
    entries[0]["score"]["metric"] = entries[-1]["score"]["metric"] = EVIL
    measured = score()
    found = refit(
        store=EVIL,
        entries=entries,
        pending=[Waiting(EVIL, None, at(1))],
        score=type(measured)(EVIL, 0.6, 0.5, 0.1, True, EVIL, 5),
        model={**refit().model, "kind": EVIL, "facts": [EVIL]},
    )
    page = Page(render(found))
    assert "script" not in page.tags
    assert page.text.count("alert(1)") > 8
    assert "49" not in re.findall(r"\b49\b", page.text)


def test_five_hundred_changes_are_all_there():
    page = page_of(refit_crowded(500))
    assert len(page.tables["changes"]) == 501
    assert "500 people were forgotten." in page.text


def test_of_very_many_changes_the_last_are_shown_and_the_page_says_so():
    page = page_of(refit_crowded(1_200))
    assert len(page.tables["changes"]) == len(page.tables["log"]) == 1_001
    assert page.tables["log"][-1][0]["text"] == "1200"
    assert "The last 1,000 (`pilu ledger` shows all) of 1,200 changes" in page.text


def test_nothing_of_the_other_method_is_shown(page):
    assert "budget" not in page.text.lower()
    assert "redraw" not in page.text.lower()
    assert "certificates" not in page.tables
