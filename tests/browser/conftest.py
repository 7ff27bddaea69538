"""A real Chromium; only `make test-browser` asks for it, so its absence is an error."""

import json
from importlib import import_module
from pathlib import Path

import pytest

from pilu.datasets import make_customers
from pilu.desk import Desk
from pilu.desk.letters import letter_of
from pilu.report.page import render
from report.samples import crowded, lively, refit_crowded, refit_lively

CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class Browser:
    """One window, and what its pages asked for."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, path, width=1280, height=900):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.messages()  # of the page before
        self.requests()
        self.driver.get(path.as_uri())

    def prefer(self, scheme):
        """A light or a dark screen."""
        wanted = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)

    def run(self, script):
        """JavaScript from outside; the page's own policy does not hold for it."""
        return self.driver.execute_script(f"return {script}")

    def messages(self):
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self):
        """Addresses asked for since the last time: those fetched, those the policy refused."""
        events = [json.loads(e["message"])["message"] for e in self.driver.get_log("performance")]
        refused = {
            event["params"]["requestId"]
            for event in events
            if event["params"].get("blockedReason") == "csp"
        }
        sent = [e["params"] for e in events if e["method"] == "Network.requestWillBeSent"]
        addresses = [(e["requestId"] in refused, e["request"]["url"]) for e in sent]
        return [url for no, url in addresses if not no], [url for no, url in addresses if no]


def needed(module):
    """A module of the tests' own; here its absence is an error."""
    try:
        return import_module(module)
    except ImportError:
        pytest.fail(f'the browser tests need {module}. Install it with: pip install -e ".[dev]"')


@pytest.fixture(scope="session")
def pypdf():
    return needed("pypdf")


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    missing = [str(path) for path in (CHROMIUM, DRIVER) if not path.exists()]
    if missing:
        pytest.fail(
            f"the browser tests need {' and '.join(missing)}. Install them with: "
            "apt install chromium chromium-driver"
        )
    webdriver = needed("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))
    yield Browser(driver)
    driver.quit()


CONTENTS = {
    "lively": lively,
    "crowded": crowded,
    "refit-lively": refit_lively,
    "refit-crowded": refit_crowded,
}


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """Pages by name, written once: reports, and a letter."""
    folder = tmp_path_factory.mktemp("pages")
    for name, contents in CONTENTS.items():
        (folder / f"{name}.html").write_text(render(contents()), encoding="utf-8")
    (folder / "letter.html").write_text(letter(folder), encoding="utf-8")
    return folder


def letter(folder):
    X, y, people, *_ = make_customers(300)
    table = folder / "customers.parquet"
    X.assign(churned=y, customer=people).to_parquet(table)
    with Desk.fit(folder / "store", table, target="churned", subject="customer") as desk:
        receipt = desk.unlearn(people[0]).receipts[0]
    contact = "Data protection desk\n1 Main Street, Springfield\nprivacy@acme.example"
    name = "Donaudampfschifffahrtselektrizitaetenhauptbetriebswerkbauunterbeamtengesellschaft"
    return letter_of(receipt, company="Acme <Telecom> & Sons", contact=contact, name=name)
