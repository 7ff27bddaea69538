"""The page of `pilu serve` in Chromium: whole tasks, by mouse, by keyboard, and without scripts."""

import re
import sqlite3
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from browser.conftest import CHROMIUM, DRIVER, FLAGS, needed
from browser.serving import Window, axe_of, events_of, service, wait_for

pytestmark = pytest.mark.browser

SIZES = [(1280, 900), (360, 740)]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    needed("axe_playwright_python")
    with service(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture(scope="module")
def open_window(served, tmp_path_factory):
    webdriver = needed("selenium.webdriver")
    opened = []

    def open_(*, scripts=True):
        folder = tmp_path_factory.mktemp("profile")
        downloads = folder / "downloads"
        downloads.mkdir()
        options = webdriver.ChromeOptions()
        options.binary_location = str(CHROMIUM)
        for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
            options.add_argument(flag)
        allowed = {"profile.managed_default_content_settings.javascript": 1 if scripts else 2}
        prefs = {
            "download.default_directory": str(downloads),
            "download.prompt_for_download": False,
        }
        options.add_experimental_option("prefs", {**prefs, **allowed})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))
        opened.append(driver)
        return Window(driver, served, downloads)

    yield open_
    for driver in opened:
        driver.quit()


@pytest.fixture(scope="module")
def window(open_window):
    return open_window()


@pytest.fixture(scope="module")
def people(served):
    """Names of people in the model; each is used once."""
    return iter(served.people)


def run_pilu(served, *words):
    return subprocess.run(
        [sys.executable, "-m", "pilu", *map(str, words)],
        cwd=served.folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


def wait_until_forgotten(window):
    wait_for(lambda: window.says("The person was forgotten."), "the person is forgotten")


# The whole task, and what the browser saw of it


def test_somebody_is_forgotten_and_the_receipt_holds(window, served, people):
    person = next(people)
    window.log_in()
    for method in ("browser", "performance"):
        window.driver.get_log(method)
    window.follow("customers")
    window.find(person)
    window.follow("Quote")
    assert window.says("What forgetting would change")
    assert window.says("nothing was changed")
    window.follow("Forget")
    assert window.says(f"of {person}?")
    assert window.says("This cannot be undone.")
    window.all("//input[@value='now']")[0].click()
    window.follow("Yes, forget")
    address = window.path
    assert re.fullmatch(r"/requests/[0-9a-f-]{36}", address)
    wait_until_forgotten(window)  # the page looks again by itself
    wait_for(lambda: window.all("//*[@id='receipt']"), "the downloads appear")
    window.click("Download the receipt")
    receipt = window.downloaded("receipt-*.json")
    window.field("Name of the person").send_keys("Erika <Mustermann>")
    window.click("Download the letter")
    letter = window.downloaded("letter-*.html")
    assert "Erika &lt;Mustermann&gt;" in letter.read_text("utf-8")

    command = window.all("//*[@id='command']")[0].text.split()
    assert command[:3] == ["pilu", "verify", receipt.name]
    done = run_pilu(served, "verify", receipt, *command[3:])
    assert done.returncode == 0, done.stderr
    tampered = receipt.with_name("tampered.json")
    tampered.write_text(receipt.read_text("utf-8").replace('"n_forgotten":', '"n_forgotten":1', 1))
    assert run_pilu(served, "verify", tampered, *command[3:]).returncode != 0

    window.go("/stores/customers")
    assert window.all(f"//a[@href='{address}/receipt']")
    assert len(window.all("//*[@role='img']")) == 2, "pictures"
    assert window.driver.get_log("browser") == []
    addresses = [
        event["request"]["url"] for event in events_of(window.driver, "Network.requestWillBeSent")
    ]
    assert len(addresses) > 10
    assert {urlsplit(url).netloc for url in addresses if not url.startswith("data:")} == {
        urlsplit(served.url).netloc
    }
    assert not [url for url in addresses if person in url]


def test_the_report_opens_in_silence(window):
    window.log_in()
    window.driver.get_log("browser")
    window.go("/stores/customers/report")
    assert window.driver.title.startswith("Deletion report")
    assert window.driver.execute_script("return getComputedStyle(document.body).margin") == "0px"
    assert window.driver.get_log("browser") == []


def test_a_noted_head_is_checked(window, people, served):
    window.log_in("auditor")
    window.go("/stores/customers")
    head = window.driver.find_element(window.by.ID, "head").text
    for noted, answer in ((head, "Yes. The log has only grown"), (f"1:{64 * '0'}", "No. This log")):
        window.go("/stores/customers")
        window.field("A head that you noted earlier").send_keys(noted)
        window.follow("Check")
        assert window.says(answer)
    assert window.all("//button[@data-copy='head'][not(@hidden)]")
    window.go(f"/stores/customers?since={head}")
    window.click("Download the proof")
    proof = window.downloaded("customers-proof.json")
    assert run_pilu(served, "verify", proof).returncode == 0


def test_only_the_keyboard(window, served, people):
    person = next(people)
    window.driver.delete_all_cookies()
    window.go("/login")
    window.tab_to("Skip to the content")
    window.tab_to("Token")
    window.press(served.texts["officer"], window.keys.ENTER)
    wait_for(lambda: window.path == "/stores", "the stores")
    window.tab_to("Skip to the content")
    window.press(window.keys.ENTER)
    window.tab_to("customers")  # not the links of the bar
    window.press(window.keys.ENTER)
    wait_for(lambda: window.path == "/stores/customers", "the store")
    window.tab_to("Name, as the table has it")
    window.press(person, window.keys.ENTER)
    wait_for(lambda: window.says("In the model, with"), "the person")
    window.tab_to("Forget")
    window.press(window.keys.ENTER)
    wait_for(lambda: window.says("This cannot be undone."), "the question")
    window.tab_to("Tonight")
    window.press(window.keys.ARROW_DOWN)
    assert window.focus().startswith("Now")
    window.tab_to("Yes, forget")
    window.press(window.keys.ENTER)
    wait_for(lambda: window.path.startswith("/requests/"), "the request")
    wait_until_forgotten(window)


def test_without_scripts_everything_works(open_window, people):
    window, person = open_window(scripts=False), next(people)
    window.log_in()
    window.go("/stores/customers")
    assert window.says("Who waits")
    assert not window.all("//button[@data-copy][not(@hidden)]")
    window.find(person)
    window.follow("Quote")
    assert window.says("What forgetting would change")
    window.follow("Forget")
    window.all("//input[@value='now']")[0].click()
    window.follow("Yes, forget")

    def is_done():
        if window.all("//a[.='Look again']"):
            window.follow("Look again")
        return window.says("The person was forgotten.")

    wait_for(is_done, "the person is forgotten")
    window.click("Download the receipt")
    assert window.downloaded("receipt-*.json")
    window.click("Download the letter")
    assert window.downloaded("letter-*.html")
    window.all("//button[.='Log out']")[0].click()
    wait_for(lambda: window.path == "/login", "the login")
    window.go("/stores")
    assert window.path == "/login"


def test_a_store_refreshes_itself_while_something_runs(window, people):
    window.log_in()
    address = window.ask(next(people))
    window.go("/stores/customers")
    assert window.all(f"//*[@id='waiting']//a[@href='{address}']")
    window.follow("Carry out now what waits")
    window.follow("Yes, carry out now")
    assert window.path == "/stores/customers"
    wait_for(lambda: window.says("Nobody waits."), "the table is empty")
    assert window.all(f"//a[@href='{address}/receipt']")


# Axe, on every page in every look


@pytest.fixture(scope="module")
def visited(window, served, people):
    """Every page in every state, as a function that opens it."""
    window.log_in()
    done = window.ask(next(people))
    window.go("/stores/customers/run")
    window.follow("Yes, carry out now")
    wait_for(lambda: window.says("Nobody waits."), "the queue is empty")
    late, failing = (window.ask(next(people)) for _ in range(2))
    with sqlite3.connect(served.database) as database:
        sets = "UPDATE requests SET due = ?, problem = ?, run_at = run_at + 1e6 WHERE id = ?"
        database.execute(sets, ["2026-01-02", None, late.split("/")[-1]])
        database.execute(sets, ["2099-01-02", "3 rows differ.", failing.split("/")[-1]])
    window.go("/stores/customers")
    head = window.driver.find_element(window.by.ID, "head").text
    person = next(people)

    def quoted():
        window.find(person)
        window.follow("Quote")

    def asked():
        window.find(person)
        window.follow("Forget")

    def made():
        window.go("/tokens")
        window.field("Whose it is").send_keys("A system <b>")
        window.all("//input[@value='requester']")[0].click()
        window.follow("Make the token")

    def revoked():
        window.go("/tokens")
        window.go(urlsplit(window.all("//tbody//a")[0].get_attribute("href")).path)

    def failed_login():
        window.go("/login")
        window.field("Token").send_keys("pilu_wrong")
        window.follow("Log in")

    def paths(*given):
        return {path: lambda path=path: window.go(path) for path in given}

    return {
        **paths(
            "/stores", "/stores/customers", f"/stores/customers?since={head}&said=run",
            f"/stores/customers?since=1:{64 * '0'}", "/stores/customers/requests",
            "/stores/customers/run", "/tokens", "/stores/nowhere",
        ),
        "done": lambda: window.go(done),
        "late": lambda: window.go(late),
        "failing": lambda: window.go(failing),
        "cancel": lambda: window.go(f"{failing}/cancel"),
        "found": lambda: window.find(person),
        "quoted": quoted,
        "asked": asked,
        "made": made,
        "revoked": revoked,
        "login": failed_login,  # the last: it needs nobody to be logged in
    }  # fmt: skip


def test_axe_finds_nothing_and_no_page_is_too_wide(window, visited):
    window.log_in()
    found = {}
    try:
        for name, visit in visited.items():
            if name == "login":
                window.driver.delete_all_cookies()
            visit()
            for width, height in SIZES:
                for scheme in ("light", "dark"):
                    window.look_like(scheme, width, height)
                    where = f"{name} {width} {scheme}"
                    violations, _ = axe_of(window.driver)
                    if violations:
                        found[where] = violations
                    wide = window.driver.execute_script(
                        "return document.documentElement.scrollWidth"
                    )
                    if wide > width:
                        found[f"{where} width"] = wide
    finally:
        window.look_like("light", *SIZES[0])
    assert found == {}


def test_the_same_for_an_auditor(window, visited):
    window.log_in("auditor")
    for path in ("/stores", "/stores/customers", "/stores/customers/requests", "/tokens"):
        window.go(path)
        violations, _ = axe_of(window.driver)
        assert violations == []
    visited["done"]()
    assert window.all("//*[@id='receipt']")
    assert not window.all("//*[@id='letter']")
    assert axe_of(window.driver)[0] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_take_the_colours_of_the_page(window, visited, scheme):
    window.log_in()
    window.go("/stores/customers")
    window.look_like(scheme, *SIZES[0])
    inks = window.driver.execute_script(
        "return [...document.querySelectorAll('.picture svg text')]"
        ".map(text => getComputedStyle(text).fill)"
    )
    window.look_like("light", *SIZES[0])
    assert len(inks) > 8
    brightest = max(sum(map(int, re.findall(r"\d+", ink)[:3])) for ink in inks)
    assert (brightest > 500) == (scheme == "dark")
