"""The site in Chromium: it asks no other host, is no wider than the window, and can be searched."""

import functools
import http.server
import threading
import time

import pytest

from blocks import ROOT

pytestmark = pytest.mark.browser

SITE = ROOT / "build" / "site"
PAGES = [
    "docs/index",
    "docs/gallery",
    "docs/proofs",
    "docs/baselines",
    "docs/results",
    "docs/equations",
    "docs/reference/pilu",
    "docs/reference/commands",
    "docs/reference/http",
    "README",
]
SIZES = [(1280, 900), (360, 780)]


@pytest.fixture(scope="module", autouse=True)
def built():
    if not (SITE / "index.html").exists():
        pytest.fail("build/site must have been built. Run: make docs")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=["desk", "telephone"])
@pytest.mark.parametrize("page", PAGES)
def test_it_fits_and_asks_nobody(browser, page, size, scheme):
    browser.prefer(scheme)
    browser.open(SITE / f"{page}.html", *size)
    sent, refused = browser.requests()
    assert sent
    assert refused == []
    assert [url for url in sent if not url.startswith(("file://", "data:"))] == []
    # The theme says in the console which theme it takes.
    assert [said for said in browser.messages() if "pydata-sphinx-theme.js" not in said] == []
    assert browser.run("document.documentElement.scrollWidth") <= size[0]
    wide = browser.run(
        "[...document.querySelectorAll('article img')].filter(image =>"
        " image.getBoundingClientRect().right > innerWidth).length"
    )
    assert wide == 0
    # What is wider than the article is inside of a box that scrolls.
    lost = browser.run(
        "[...document.querySelectorAll('article table, article pre')].filter(one => {"
        " for (let box = one; box.tagName != 'ARTICLE'; box = box.parentElement)"
        "   if (getComputedStyle(box).overflowX == 'auto') return false;"
        " return one.getBoundingClientRect().right > innerWidth }).length"
    )
    assert lost == 0
    assert browser.run("matchMedia('(prefers-color-scheme: dark)').matches") == (scheme == "dark")
    assert browser.run("document.documentElement.dataset.theme") == scheme


def found(browser):
    """Addresses that the search has found, once it has ended."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if browser.run("document.querySelector('#search-results li') != null"):
            time.sleep(0.5)
            break
        time.sleep(0.1)
    return browser.run("[...document.querySelectorAll('#search-results li a')].map(a => a.href)")


def test_search_works_from_files(browser):
    browser.driver.get((SITE / "search.html").as_uri() + "?q=shifted+interpolation")
    addresses = found(browser)
    assert any("docs/guarantee.html" in address for address in addresses)
    assert all(address.startswith("file://") for address in addresses)
    sent, _ = browser.requests()
    assert [url for url in sent if not url.startswith(("file://", "data:"))] == []


def test_search_works_from_a_plain_server(browser):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Quiet, directory=SITE)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        here = f"http://127.0.0.1:{server.server_port}/"
        try:
            browser.driver.get(f"{here}index.html")
            assert browser.run("location.pathname") == "/docs/index.html"
            browser.requests()
            browser.driver.get(f"{here}search.html?q=epsilon_from_mu")
            assert any("docs/reference/accounting.html" in address for address in found(browser))
            sent, _ = browser.requests()
            assert [url for url in sent if not url.startswith((here, "data:"))] == []
        finally:
            server.shutdown()
            thread.join()
