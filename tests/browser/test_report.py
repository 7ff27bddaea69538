"""The report in Chromium: seen, scrolled, printed, and with an intruder in it."""

import base64
import io

import pytest

from browser.conftest import CONTENTS
from pilu.report.page import render
from report.samples import contents, hex_of, people

pytestmark = pytest.mark.browser

SIZES = [(1280, 900), (390, 844)]
PICTURES = {
    "lively": [2, 1],
    "crowded": [2, 1],
    "refit-lively": [1],
    "refit-crowded": [1],
    "letter": [],
}


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("size", SIZES, ids=["desk", "telephone"])
def test_it_opens_in_silence_and_fits(browser, pages, name, size):
    path = pages / f"{name}.html"
    browser.open(path, *size)
    assert browser.messages() == []
    assert browser.requests() == ([path.as_uri()], [])
    assert browser.run("document.documentElement.scrollWidth") <= size[0]
    assert browser.run("document.body.scrollWidth") <= size[0]
    figures = browser.run(
        "[...document.querySelectorAll('figure')].map(figure =>"
        " [...figure.querySelectorAll('svg')].map(svg => {"
        "   const box = svg.getBoundingClientRect(); return [box.left, box.width, box.height] }))"
    )
    assert [len(pictures) for pictures in figures] == PICTURES[name]
    for left, width, height in [picture for pictures in figures for picture in pictures]:
        assert left >= 0
        assert left + width <= size[0]
        assert width > 300
        assert height > 150


@pytest.mark.parametrize("name", ["lively", "refit-lively", "refit-crowded"])
@pytest.mark.parametrize("size", SIZES, ids=["desk", "telephone"])
def test_letters_in_pictures_do_not_leave_them(browser, pages, name, size):
    browser.open(pages / f"{name}.html", *size)
    outside = browser.run(
        "[...document.querySelectorAll('figure svg')].flatMap(svg => {"
        " const frame = svg.getBoundingClientRect();"
        " return [...svg.querySelectorAll('text')].filter(text => {"
        "   const box = text.getBoundingClientRect();"
        "   return box.left < frame.left - 1 || box.right > frame.right + 1"
        "     || box.top < frame.top - 1 || box.bottom > frame.bottom + 1 })"
        " .map(text => text.textContent) })"
    )
    assert outside == []


@pytest.mark.parametrize(
    ("name", "table"), [("crowded", "#certificates"), ("refit-crowded", "#changes")]
)
def test_five_hundred_rows_scroll_under_their_head(browser, pages, name, table):
    browser.open(pages / f"{name}.html")
    table = f"document.querySelector('{table}')"
    assert browser.run(f"{table}.tBodies[0].rows.length") == 500
    assert browser.run("document.querySelector('#log').tBodies[0].rows.length") == 501
    box = f"{table}.parentElement"
    assert browser.run(f"{box}.clientHeight") < 700 < browser.run(f"{box}.scrollHeight")
    browser.run(f"{box}.scrollTop = 5000")
    top = browser.run(f"{box}.getBoundingClientRect().top")
    head = browser.run(f"{table}.tHead.rows[0].cells[0].getBoundingClientRect().top")
    assert head == pytest.approx(top, abs=2)


@pytest.mark.parametrize("name", ["lively", "refit-lively"])
@pytest.mark.parametrize("size", SIZES, ids=["desk", "telephone"])
def test_who_is_overdue_is_said_in_red_on_the_first_screens(browser, pages, name, size):
    browser.open(pages / f"{name}.html", *size)
    alarm = "document.querySelector('.alarm')"
    assert "overdue" in browser.run(f"{alarm}.innerText")
    assert browser.run(f"{alarm}.checkVisibility()")
    assert browser.run(f"{alarm}.getBoundingClientRect().bottom") < size[1]
    red, green, blue = map(
        int, browser.run(f"getComputedStyle({alarm}).color.match(/\\d+/g).slice(0, 3)")
    )
    assert red > 2 * max(green, blue)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["lively", "refit-lively", "letter"])
def test_every_letter_has_contrast(browser, pages, name, scheme):
    """WCAG AA: 4.5 to 1 against the nearest background that is not transparent."""
    browser.prefer(scheme)
    try:
        browser.open(pages / f"{name}.html")
        paper = browser.run("getComputedStyle(document.body).backgroundColor")
        assert (luminance(paper) < 0.05) == (scheme == "dark")
        check_contrast(browser, at_least=20 if name == "letter" else 100)
    finally:
        browser.prefer("")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["lively", "refit-lively"])
def test_pictures_take_the_colours_of_the_page(browser, pages, name, scheme):
    browser.prefer(scheme)
    try:
        browser.open(pages / f"{name}.html")
        paper = luminance(browser.run("getComputedStyle(document.body).backgroundColor"))
        inks = browser.run(
            "[...document.querySelectorAll('figure svg text')].map(t => getComputedStyle(t).fill)"
        )
        assert len(inks) > 8
        for ink in set(inks):
            light, dark = sorted((luminance(ink), paper), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, ink
    finally:
        browser.prefer("")


def check_contrast(browser, at_least):
    pairs = browser.run(
        "[...document.querySelectorAll('main *:not(svg, svg *)')]"
        ".filter(node => [...node.childNodes].some(c => c.nodeType == 3 && c.data.trim()))"
        ".map(node => { let under = node; const clear = 'rgba(0, 0, 0, 0)';"
        " while (under && getComputedStyle(under).backgroundColor == clear)"
        "   under = under.parentElement;"
        " return [getComputedStyle(node).color,"
        "   under ? getComputedStyle(under).backgroundColor : 'rgb(255, 255, 255)'] })"
    )
    assert len(pairs) > at_least
    for ink, paper in {tuple(pair) for pair in pairs}:
        light, dark = sorted(map(luminance, (ink, paper)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (ink, paper)


def luminance(colour):
    parts = [int(part) / 255 for part in colour.removeprefix("rgb(").rstrip(")").split(",")]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_an_intruder_stays_dumb(browser, tmp_path):
    """Even where escaping had failed, the page's policy lets nothing run and nothing load."""
    page = render(contents(store="<script>document.title = 'escaped'</script>"))
    intruder = (
        "<script>document.title = 'run'</script>"
        "<img src='https://example.org/spy.png' onerror=\"document.title = 'run'\">"
        "<link rel=stylesheet href='https://example.org/spy.css'>"
    )
    path = tmp_path / "intruder.html"
    path.write_text(page.replace("<main", f"{intruder}<main", 1), encoding="utf-8")
    browser.open(path)
    assert browser.run("document.title").startswith("Deletion report: <script>")
    assert browser.run("document.querySelector('h1').innerText").startswith("<script>")
    assert any("Content Security Policy" in message for message in browser.messages())
    fetched, refused = browser.requests()
    assert fetched == [path.as_uri()]
    assert sorted(refused) == ["https://example.org/spy.css", "https://example.org/spy.png"]


def printed(browser, pypdf, path):
    """A page as PDF: the document, and its text without spaces."""
    browser.open(path)
    options = {"printBackground": True, "preferCSSPageSize": True}
    data = browser.driver.execute_cdp_cmd("Page.printToPDF", options)["data"]
    document = pypdf.PdfReader(io.BytesIO(base64.b64decode(data)))
    width, height = map(float, document.pages[0].mediabox[2:])
    assert (width, height) == pytest.approx((595, 842), abs=2)  # A4
    return document, "".join("".join(page.extract_text() for page in document.pages).split())


@pytest.mark.parametrize("name", CONTENTS)
def test_the_print_has_every_certificate(browser, pypdf, pages, name):
    document, text = printed(browser, pypdf, pages / f"{name}.html")
    contents = CONTENTS[name]()
    assert contents.certified
    for one in contents.certified:
        assert one.sha256 in text  # the log has it in full
        if name in ("lively", "crowded"):
            assert one.sha256[:12] + one.certificate["parameters_sha256"][:12] in text
        if one.n_people:
            assert one.entry["people"] in text
    if "lively" in name:
        assert hex_of("fritz")[:32] in text
        assert people("emil") in text
    assert f"1/{len(document.pages)}" in text


def test_a_letter_fits_on_one_sheet(browser, pypdf, pages):
    document, text = printed(browser, pypdf, pages / "letter.html")
    assert len(document.pages) == 1
    for words in ("Acme<Telecom>&Sons", "piluverifyreceipt.json", "Yoursfaithfully,"):
        assert words in text


@pytest.mark.parametrize("name", PICTURES)
def test_the_print_is_not_wider_than_paper(browser, pages, name):
    """A table that is too wide would make Chromium print the whole page smaller."""
    margin = 20 if name == "letter" else 14  # of the style sheet
    inside = round((210 - 2 * margin) / 25.4 * 96)
    browser.open(pages / f"{name}.html", inside, 900)
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert browser.run("document.documentElement.scrollWidth") <= inside
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
