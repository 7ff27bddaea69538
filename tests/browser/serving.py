"""A real service in a process of its own, with a worker, and a window of Chromium to visit it."""

import json
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from importlib.resources import files
from urllib.parse import urlsplit
from urllib.request import urlopen

from browser.conftest import needed
from pilu.datasets import make_customers
from pilu.desk import Desk
from pilu.service import tokens
from pilu.service.configuration import Configuration
from pilu.service.database import open_database

_PATIENCE = 60.0  # seconds

# What axe checks: WCAG 2.2 to AA, and what its authors advise besides.
_AXE = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ["violations", "incomplete"]}).then(found => done(
  ["violations", "incomplete"].map(kind => found[kind].map(one => ({
    id: one.id, help: one.help,
    nodes: one.nodes.map(node => [node.html, node.failureSummary])})))));
"""


class Served:
    """A running service, and what a test needs of it."""

    def __init__(self, url, folder, texts, people):
        self.url, self.folder, self.texts, self.people = url, folder, texts, people

    @property
    def database(self):
        return Configuration(self.folder).own / "service.sqlite"


@contextmanager
def service(folder, n_rows=400):
    """Fit a store of made-up customers, and serve it until the block ends."""
    stores, tables = folder / "stores", folder / "tables"
    tables.mkdir()
    X, y, people, *_ = make_customers(n_rows)
    table = tables / "customers.parquet"
    X.assign(churned=y, customer=people).to_parquet(table)
    with Desk.fit(stores / "customers", table, target="churned", subject="customer"):
        pass
    configuration = Configuration(stores)
    configuration.own.mkdir()
    database = open_database(configuration.where)
    with database.writing() as tx:
        texts = {
            "officer": tokens.add_token(tx, "Ada Example", "officer")[1],
            "auditor": tokens.add_token(tx, "Audit & Sons", "auditor")[1],
        }
    database.close()
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    words = ["serve", "--stores", str(stores), "--listen", f"127.0.0.1:{port}"]
    with (folder / "service.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "pilu", *words], stdout=log, stderr=log, cwd=folder
        )
        try:
            wait_for(lambda: answers(url), "the service answers")
            yield Served(url, stores, texts, list(dict.fromkeys(people)))
        finally:
            process.terminate()
            process.wait(timeout=_PATIENCE)


class Window:
    """A window of Chromium at the service, and what a person does in it."""

    def __init__(self, driver, served, downloads):
        self.driver, self.served, self.downloads = driver, served, downloads
        self.by = needed("selenium.webdriver.common.by").By
        self.keys = needed("selenium.webdriver.common.keys").Keys

    def go(self, path):
        self.driver.get(self.served.url + path)

    @property
    def path(self):
        return urlsplit(self.driver.current_url).path

    def all(self, xpath):
        return self.driver.find_elements(self.by.XPATH, xpath)

    def click(self, words):
        """A button or a link of the page, by what it says at its beginning."""
        found = self.all("//main//a | //main//button")
        exact = [one for one in found if one.text == words]
        (one,) = exact or [one for one in found if one.text.startswith(words)]
        one.click()

    def follow(self, words):
        """The same, and wait for the page that it leads to."""
        self._leave(lambda: self.click(words))

    def _leave(self, act):
        self.driver.execute_script("document.documentElement.dataset.old = 'yes'")
        act()
        fresh = "return document.readyState == 'complete' && !document.documentElement.dataset.old"
        wait_for(lambda: self.driver.execute_script(fresh), "the next page")

    def field(self, label):
        (found,) = self.all(f"//*[@id=//label[.='{label}']/@for]")
        return found

    def says(self, words):
        return words in self.driver.execute_script(
            "return document.querySelector('main')?.innerText ?? ''"
        )

    def log_in(self, role="officer"):
        self.driver.delete_all_cookies()
        self.go("/login")
        self.field("Token").send_keys(self.served.texts[role])
        self.follow("Log in")
        assert self.path == "/stores"

    def find(self, person):
        self.go("/stores/customers")
        self.field("Name, as the table has it").send_keys(person)
        self.follow("Find")
        assert self.says("In the model, with")

    def ask(self, person):
        """A request for tonight; returns the path of its page."""
        self.find(person)
        self.follow("Forget")
        self.follow("Yes, forget")
        return self.path

    def downloaded(self, pattern):
        """A file that has arrived as a whole."""

        def whole():
            files = list(self.downloads.glob("*"))
            if any(one.suffix == ".crdownload" or not one.stat().st_size for one in files):
                return None
            return next((one for one in files if one.match(pattern)), None)

        return wait_for(whole, pattern)

    def focus(self):
        """What has the focus, as somebody with a screen reader would hear it."""
        return self.driver.execute_script(
            "const e = document.activeElement;"
            "return e.labels?.length ? e.labels[0].innerText.trim() : e.innerText.trim()"
        )

    def tab_to(self, words):
        """Tab until something is focused; it must be visible that it is."""
        for _ in range(60):
            self.press(self.keys.TAB)
            if self.focus().startswith(words):
                outline = self.driver.execute_script(
                    "const s = getComputedStyle(document.activeElement);"
                    "return s.outlineStyle != 'none' && parseFloat(s.outlineWidth) >= 2"
                )
                assert outline, words
                return
        raise AssertionError(f"no tab leads to {words}")

    def press(self, *keys):
        needed("selenium.webdriver.common.action_chains").ActionChains(self.driver).send_keys(
            *keys
        ).perform()

    def look_like(self, scheme, width, height):
        """A light or a dark screen of some size."""
        wanted = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def answers(url):
    try:
        with urlopen(f"{url}/health", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(check, what):
    """Wait until something is true, and return it."""
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        if found := check():
            return found
        time.sleep(0.1)
    raise AssertionError(f"waited in vain: {what}")


def axe_of(driver):
    """What axe finds on the page that is open: violations, and what it could not decide."""
    script = (files("axe_playwright_python") / "axe.min.js").read_text("utf-8")
    driver.execute_script(script)  # not bound by the page's policy
    return driver.execute_async_script(_AXE)


def events_of(driver, method):
    """Events of the browser since the last time."""
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [event["params"] for event in events if event["method"] == method]
