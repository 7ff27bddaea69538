"""Letters: what one person is told, by templates of pilu's own and of a company."""

import html as escaping
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from pilu.data.table import Columns
from pilu.datasets import make_customers
from pilu.desk import Desk, LangevinDesk
from pilu.desk.checking import check_receipt
from pilu.desk.exposed import exposure_record
from pilu.desk.letters import letter_of, variables_of
from pilu.desk.receipt import Receipt
from pilu.exceptions import CertificateMismatch, LedgerMismatch, WrongInput

DETAILS = {"company": "Acme & Sons", "contact": "1 Main Street\nSpringfield", "name": "Anna Meier"}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Three people were forgotten in one entry, with different numbers of rows."""
    folder = tmp_path_factory.mktemp("letters")
    X, y, people, *_ = make_customers(300)
    frame = X.assign(churned=y, customer=people, row=range(300))
    frame.to_parquet(folder / "customers.parquet")
    names = {"target": "churned", "subject": "customer", "id": "row"}
    with Desk.fit(folder / "store", folder / "customers.parquet", **names) as desk:
        counts = frame.customer.value_counts()
        chosen = [counts.index[0], *counts.index[counts == 1][:2]]
        outcome = desk.unlearn(chosen)
        yield desk, outcome, frame, chosen


@pytest.fixture(scope="module")
def receipts(store):
    return store[1].receipts


@pytest.fixture(scope="module")
def receipt(receipts):
    """Of the person with the most rows."""
    return max(receipts, key=lambda one: one.person.record["rows"])


class Words(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.words, self.tags = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        assert not {name for name, _ in attrs} & {"src", "href", "onload", "onclick"}

    def handle_data(self, data):
        if self.lasttag != "style":
            self.words.append(data)


def words_of(text, format):
    text = " ".join(Words(text).words) if format == "html" else text
    return " ".join(text.split())


@pytest.mark.parametrize("format", ["html", "txt"])
def test_it_says_what_was_done_and_what_is_promised(store, receipt, format):
    _, outcome, frame, chosen = store
    text = words_of(letter_of(receipt, format=format, **DETAILS), format)
    assert "Dear Anna Meier," in text
    assert "Acme & Sons" in text
    assert "You asked us to forget you" in text
    n = (frame.customer == chosen[0]).sum()
    assert n > 1
    assert f"your {n} records left the model" in text
    right = 100 * norm.cdf(outcome.certificate.mu / 2)
    said = float(re.search(r"right at most ([\d.]+) %", text)[1])
    assert right <= said <= right + 0.1
    assert "epsilon = 0.1 and delta = 1e-09" in text
    assert "Copies of your data in backups" in text
    assert "Our log has none that had your data." in text
    for reference in (
        receipt.person.name,
        str(outcome.head),
        outcome.certificate.sha256,
        receipt.entry["store"],
        receipt.entry["time"][:10],
        "pilu verify receipt.json",
        f"--since {outcome.head}",
    ):
        assert reference in text


@pytest.mark.parametrize("format", ["html", "txt"])
def test_it_says_nothing_about_anybody_else(store, receipts, receipt, format):
    letter = letter_of(receipt, format=format)
    for other in receipts:
        if other.person.name != receipt.person.name:
            assert other.person.name not in letter
            assert other.person.record["nonce"] not in letter
    _, _, frame, _ = store
    assert not any(name in letter for name in frame.customer.unique())
    assert receipt.entry["people"] not in letter
    total = sum(one.person.record["rows"] for one in receipts)
    assert f"{total} records" not in letter


def test_all_that_a_reader_needs_is_on_the_page_itself(receipt):
    letter = letter_of(receipt, **DETAILS)
    assert "default-src 'none'" in letter
    assert not {"script", "img", "link", "a"} & set(Words(letter).tags)
    text = letter_of(receipt, format="txt", **DETAILS)
    long = [line for line in text.splitlines() if len(line) > 80]
    assert all(str(receipt.head) in line or receipt.certificate.sha256 in line for line in long)
    assert "\n\n\n" not in text


def test_details_are_escaped_and_stay_on_their_line(receipt):
    evil = "<script>alert('x')</script>{{ 7 * 7 }}\nPS: we owe you"
    letter = letter_of(receipt, name=evil, company=evil, contact=evil)
    assert "<script" not in letter
    assert escaping.escape("<script>", quote=False) in letter
    assert "{{ 7 * 7 }}" in letter
    text = letter_of(receipt, format="txt", name=evil)
    assert "\nPS" not in text
    assert "<script>" in text  # plain text is not escaped


def test_without_details_it_is_still_a_letter(receipt):
    text = letter_of(receipt, format="txt")
    assert "Dear Sir or Madam," in text
    assert not text.startswith("\n")


def test_an_altered_receipt_is_refused(receipt):
    record = json.loads(receipt.to_json())
    record["certificate"]["delta"] = 1e-12
    with pytest.raises(CertificateMismatch):
        letter_of(Receipt.from_json(json.dumps(record)))
    with pytest.raises(LedgerMismatch):
        letter_of(replace(receipt, entry={**receipt.entry, "time": "2020-01-01T00:00:00+00:00"}))
    other = {**receipt.person.record, "rows": 99}
    with pytest.raises(LedgerMismatch):
        letter_of(replace(receipt, person=replace(receipt.person, record=other)))
    with pytest.raises(CertificateMismatch):
        letter_of(replace(receipt, exposure=exposure_record(0.0, None, (0, 0))))


def test_a_receipt_about_nobody_gets_no_letter(store):
    _, outcome, *_ = store
    nobody = replace(outcome.receipts[0], person=None, exposure=None)
    with pytest.raises(WrongInput, match="receipt of one person"):
        letter_of(nobody)


def test_what_was_checked_is_mentioned(store, receipt):
    found = "We found this entry in our log"
    assert found not in letter_of(receipt, format="txt")
    checks = check_receipt(receipt, store[0])
    assert found in letter_of(receipt, format="txt", verified=checks)
    assert found not in letter_of(receipt, format="txt", verified={**checks} | {
        "in_the_log_of_the_store": False
    })  # fmt: skip


def told(receipt, *exposure):
    """The letter if these had been the releases; the receipt's own proofs are passed over."""
    record = exposure_record(*exposure)
    return Unchecked(**{**vars(receipt), "exposure": record})


class Unchecked(Receipt):
    def verify(self):
        return {}


@pytest.mark.parametrize(
    ("exposure", "said", "unsaid"),
    [
        ((0.0, None, (0, 0)), "none that had your data", "handed out before. This"),
        ((1.23456, 1e-5, (1, 0)), "(epsilon = 1.235, delta = 1e-05)", "Nothing"),
        # e/(1 + e) = 0.7311, as in docs/exposure.md
        ((1.0, 0.0, (1, 0)), "had your data is right at most 73.2 % of the time", "Nothing"),
        ((1.0, 1e-5, (2, 3)), "5 models that had your data were handed out", "Nothing limits"),
        ((1.0, 1e-5, (2, 3)), "Nothing is known about the ones before it.", "Nothing limits"),
        ((float("inf"), None, (1, 0)), "1 model that had your data was handed out", "is limited"),
        ((float("inf"), None, (1, 0)), "Nothing limits what can be learned", "is limited"),
        # The bound is of parameters that were never handed out.
        ((1.0, 1e-5, (0, 2)), "Nothing limits what can be learned", "is limited"),
    ],
)
def test_earlier_releases_are_owned_up_to(receipt, exposure, said, unsaid):
    text = words_of(letter_of(told(receipt, *exposure), format="txt"), "txt")
    assert said in text
    assert unsaid not in text


@pytest.fixture(scope="module")
def langevin(tmp_path_factory):
    """Receipts of two requests and of a redraw."""
    folder = tmp_path_factory.mktemp("langevin")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=X @ rng.normal(size=4))
    frame["who"], frame["row"] = [f"p{k // 2:02d}" for k in range(80)], range(80)
    frame.to_parquet(folder / "people.parquet")
    columns = Columns(("y",), id="row", subject="who")
    options = {"alpha": 0.1, "n_steps": 50, "noise": 0.01}
    with LangevinDesk.create(
        folder / "store", folder / "people.parquet", columns, **options
    ) as desk:
        first = desk.unlearn("p03", epsilon=1.0, n_unlearn_steps=3)
        second = desk.unlearn("p05", epsilon=1.0, n_unlearn_steps=3)
        spent = desk.store.read_state()["model"]["spent"]
        redrawn = desk.unlearn("p07", method="redraw")
        nobody = desk.redraw()
    return first, second, redrawn, nobody, spent


def test_letters_of_a_langevin_store(langevin):
    _, second, redrawn, nobody, spent = langevin
    text = words_of(letter_of(second.receipts[0], format="txt"), "txt")
    assert "your 2 records left the model: it was changed so that it forgets them." in text
    assert "epsilon = 2 and" in text  # the total, not the request's own
    said = float(re.search(r"right at most ([\d.]+) %", text)[1])
    q = np.linspace(0, 1, 200_001)
    points = zip(spent["epsilons"], spent["deltas"], strict=True)
    most = np.min([np.ones_like(q), *(np.exp(e) * q + d for e, d in points)], axis=0)
    best = 100 * np.max(1 + most - q) / 2
    if spent["gaussian"] is not None:
        best = min(best, 100 * (norm.cdf(spent["gaussian"][0] / 2) + spent["gaussian"][1] / 2))
    assert best - 1e-3 <= said <= best + 0.1
    text = words_of(letter_of(redrawn.receipts[0], format="txt"), "txt")
    assert "exactly as if your data had never been there" in text
    assert "no better than toss a coin" in text
    with pytest.raises(WrongInput, match="receipt of one person"):
        letter_of(nobody.receipts[0])


def test_a_template_of_a_company(receipt, tmp_path):
    mine = tmp_path / "mine.html"
    mine.write_text("<p>{{ name }} / {{ entry }} / {{ tracking }} / {{ n_rows + 1 }}</p>")
    letter = letter_of(receipt, template=mine, name="A & B", tracking="<7>")
    rows = receipt.person.record["rows"]
    assert letter == f"<p>A &amp; B / {receipt.place} / &lt;7&gt; / {rows + 1}</p>"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a\n{{ nmae }}", 2, "there is no variable 'nmae'"),
        ("a\n\n{% if n_releases %}{{ zzz }}{% endif %}", 3, "there is no variable 'zzz'"),
        ("{{ name", 1, "unexpected end of template"),
        ("\n{% if name %}", 2, "Unexpected end of template"),
        ("\n\n{{ name|shout }}", 3, "No filter named 'shout'"),
        ("\n{{ exposure.telephone }}", 2, "no attribute 'telephone'"),
        ("\n\n\n{{ 1 / 0 }}", 4, "division by zero"),
        ("{% include 'other.html' %}", 1, "cannot include other files"),
        ("\n{{ name.__class__.__mro__ }}", 2, "unsafe"),
        ("{{ limits.append(1) }}", 1, "unsafe"),
        ("{% for k in range(10 ** 9) %}x{% endfor %}", 1, "Range too big"),
    ],
)
def test_errors_in_a_template_name_it_and_the_line(receipt, tmp_path, text, line, said):
    mine = tmp_path / "mine.txt"
    mine.write_text(text)
    with pytest.raises(WrongInput) as caught:
        letter_of(receipt, format="txt", template=mine)
    message = str(caught.value)
    assert message.startswith(f"{mine}, line {line}: ")
    assert said in message
    assert "\n" not in message


def test_a_template_that_cannot_be_read(receipt, tmp_path):
    with pytest.raises(WrongInput, match="No such file"):
        letter_of(receipt, template=tmp_path / "none.html")
    latin = tmp_path / "latin.html"
    latin.write_bytes("Grüße".encode("latin-1"))
    with pytest.raises(WrongInput, match="UTF-8"):
        letter_of(receipt, template=latin)


def test_details_may_not_replace_what_the_receipt_says(receipt):
    with pytest.raises(WrongInput, match="other names than entry, guess"):
        letter_of(receipt, guess="0 %", entry=1)
    with pytest.raises(WrongInput, match="format must be one of 'html', 'txt'"):
        letter_of(receipt, format="pdf")


@pytest.mark.parametrize("format", ["html", "txt"])
def test_a_letter_says_how_the_signature_is_checked(receipt, format):
    plain = words_of(letter_of(receipt, format=format), format)
    assert "pilu verify receipt.json" in plain
    assert "--public-key" not in plain
    signed = replace(receipt, signature={"payload": ""})
    text = words_of(letter_of(signed, format=format, key_at="acme.example/desk.pub"), format)
    assert "pilu verify receipt.json --public-key desk.pub" in text
    assert "The receipt is signed." in text
    assert "get it from acme.example/desk.pub." in text
    assert "ask us where we publish it." in words_of(letter_of(signed, format=format), format)


def test_every_variable_is_documented(receipt, request, tmp_path):
    page = (request.config.rootpath / "docs" / "letters.md").read_text()
    documented = set(re.findall(r"^\| `(\w+)`", page, flags=re.MULTILINE))
    assert documented == {*variables_of(receipt, {}), "company", "contact", "key_at", "name"}
    (example,) = re.findall(r"```jinja\n(.*?)```", page, flags=re.DOTALL)
    (tmp_path / "mine.txt").write_text(example)
    letter = letter_of(
        receipt, format="txt", template=tmp_path / "mine.txt", name="Anna", case_number="2027-31"
    )
    assert letter.startswith("Dear Anna,\non ")
    assert f"2027-31, {receipt.place}, {receipt.certificate.sha256}" in letter
