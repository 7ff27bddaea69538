"""README.md, CONTRIBUTING.md and docs/**/*.md: their code runs, and does what they say.

`blocks.py` says how a block is marked that is not run, or not in `make test`.
"""

import importlib.util
import re
import shlex
import tomllib
from contextlib import chdir

import matplotlib as mpl
import pytest

import blocks
from blocks import blocks_of, text_of
from pilu import CertificateMismatch

BLOCKS = {page: blocks_of(page) for page in blocks.pages()}
RUN = {page: [b for b in found if b.is_run] for page, found in BLOCKS.items()}
QUICK = [page for page, found in RUN.items() if any(not b.is_slow for b in found)]
SLOW = [page for page, found in RUN.items() if any(b.is_slow for b in found)]


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    mpl.use("Agg")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")


# MLflow warns about the types of its own classes while it is imported.
mlflow = pytest.mark.filterwarnings("ignore:.*Any type hint is inferred:UserWarning")


@mlflow
@pytest.mark.parametrize("page", QUICK)
def test_quick_blocks_run(page, tmp_path):
    ran = blocks.run(page, tmp_path, slow=False)
    CHECKS.get(page, lambda ran: None)(ran)


@mlflow
@pytest.mark.slow
@pytest.mark.parametrize("page", SLOW)
def test_all_blocks_run(page, tmp_path):
    blocks.run(page, tmp_path)


# What the code of some pages must have done. Each has read the page's promise, and none its output.


def readme(ran):
    assert ran.names["certificate"].rows == (42, 43)
    assert ran.names["certificate"].epsilon == 0.1
    assert "'parameters_checked': True" in ran.printed


def tour(ran):
    assert ran.names["certificate"].epsilon <= 1.0
    assert "'parameters_checked': True" in ran.printed


def auditing(ran):
    assert 1.5 < ran.names["found"].mu_lower <= 5**0.5  # a shift of 1 in each of five outputs
    assert len(ran.printed.splitlines()) == 3


def baselines(ran):
    assert (ran.folder / "compare.png").exists()
    assert ran.names["answer"].certified


def deploy(ran):
    """Other noise has another hash."""
    model, check = ran.names["model"], ran.names["check"]
    with chdir(ran.folder), pytest.raises(CertificateMismatch, match="not the one that was"):
        check(model.fit(ran.names["X"], ran.names["y"]).released_)


def desk(ran):
    assert ran.names["outcome"].certificate.method == "refit"
    assert (ran.names["folder"] / "model.skops").stat().st_size > 1_000
    assert "<html" in (ran.names["folder"] / "report.html").read_text()


def letters(ran):
    assert "Anna Meier" in ran.names["letter"]
    assert "Acme Ltd" in ran.names["letter"]


def losses(ran):
    """A loss of one's own is short."""
    text = BLOCKS["docs/losses.md"][0].text
    assert text[text.index("@dataclass") : text.index("rng =")].count("\n") < 40
    assert ran.names["certificate"].epsilon <= 1.0
    assert ran.names["certificate"].accountant["loss"]["name"] == "squared hinge"


def minibatches(ran):
    """The table of costs is that of the code, and of another count."""
    assert ran.names["certificate"].batch_size == 64
    assert ran.names["certificate"].checks["batches_revisited"]
    page = text_of("docs/minibatches.md")
    lines = page[page.index("| b |") :].split("\n\n")[0].splitlines()[2:]
    cells = [line.strip("| ").replace(",", "").split("|") for line in lines]
    table = [tuple(float(cell) for cell in row) for row in cells]
    assert ran.names["table"] == table
    for b, M, T, *_, learning, unlearning, _ in table:
        assert learning == T // M * 38_400  # whole passes, as every T is a multiple of M
        passes, rest = divmod(80, M)
        assert unlearning == passes * 38_400 + rest * b


def refit(ran):
    assert ran.names["certificate"].method == "refit"


def sizes(ran):
    assert len(ran.names["costs"]) == 400
    assert ran.names["certificate"].rows == (42,)


def tables(ran):
    assert ran.names["certificate"].epsilon == 0.1
    assert "target: left (a class, text)" in ran.printed
    assert "clearly better than a constant (0.5)" in ran.printed


def truth(ran):
    """Output noise is no certificate where epsilon is above 1."""
    assert ran.names["table"]["verdict"].str.contains("REFUTED").any()


CHECKS = {
    "README.md": readme,
    "docs/auditing.md": auditing,
    "docs/baselines.md": baselines,
    "docs/deploy.md": deploy,
    "docs/desk.md": desk,
    "docs/letters.md": letters,
    "docs/losses.md": losses,
    "docs/minibatches.md": minibatches,
    "docs/refit.md": refit,
    "docs/sizes.md": sizes,
    "docs/tables.md": tables,
    "docs/tour.md": tour,
    "docs/truth.md": truth,
}


def test_checks_are_of_pages_that_run():
    assert set(CHECKS) <= set(QUICK)


# Blocks that are not run.

MARKED = [b for found in BLOCKS.values() for b in found if b.language in blocks.CODE]


def test_every_language_is_known():
    """A fence that says py, bash or shell would be left out in silence."""
    for block in (b for found in BLOCKS.values() for b in found):
        assert block.language in blocks.KNOWN or block.language.startswith("{"), block.where


@pytest.mark.parametrize("block", [b for b in MARKED if not b.is_run], ids=lambda b: b.where)
def test_what_is_not_run_has_a_reason_and_exists(block):
    assert block.is_make or len(block.marks["not run"].split()) >= 2
    if block.language == "python":
        compile(block.text, block.where, "exec")
        return
    for line in blocks.lines_of_shell(block.text):
        words = shlex.split(line, comments=True)
        if words[:1] == ["make"]:
            assert re.search(rf"^{words[1]}:", text_of("Makefile"), re.M), line
        elif words[:2] == ["python", "-m"]:
            assert importlib.util.find_spec(words[2]), line
        elif words:
            blocks.check_call(blocks.call_of_pilu(words))


# The mechanism itself.

PAGE = """
<!-- of a generator -->
<!-- not run: no cluster -->

```sh
rm -rf /
```
<!-- run first
a = 2
-->
```python
print(a,
      3)
```

```text
2
3
```
A sentence.
<!-- slow: an hour -->
```python
1 / 0
```
```text
not of the block above, which prints nothing
```
"""


def test_marks_are_read():
    shell, quick, shown, slow, _ = blocks_of("page", PAGE)
    assert (shell.is_run, shell.marks["not run"]) == (False, "no cluster")
    assert (quick.is_run, quick.is_slow, quick.printed.split()) == (True, False, ["2", "3"])
    assert not shown.is_run
    assert (slow.is_run, slow.is_slow, slow.line) == (True, True, 22)
    everything = blocks_of("page", "<!-- slow page: an hour -->\n" + PAGE)
    assert all(b.is_slow for b in everything)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("```sh\nmake demo\nfalse\n```", "page:1"),
        (PAGE.replace("a = 2", "a = 4"), "page:11 prints\n4"),
        (PAGE.replace("print", "prin"), "prin"),
        (PAGE.replace("<!-- slow: an hour -->", ""), "division"),
        ("```console\n$ false\n$ true\n```", "page:1"),
    ],
)
def test_wrong_pages_are_noticed(text, error, tmp_path, monkeypatch):
    found = blocks_of("page", text)
    monkeypatch.setattr(blocks, "blocks_of", lambda page: found)
    with pytest.raises((AssertionError, NameError, ZeroDivisionError), match=error):
        blocks.run("page", tmp_path, slow=text.startswith("```"))


def test_a_good_page_runs(tmp_path, monkeypatch):
    found = blocks_of("page", PAGE)
    monkeypatch.setattr(blocks, "blocks_of", lambda page: found)
    ran = blocks.run("page", tmp_path, slow=False)
    assert (ran.names["a"], ran.printed.split()) == (2, ["2", "3"])


def test_targets_and_extras_of_the_tour_exist():
    tour, makefile = text_of("docs/tour.md"), text_of("Makefile")
    targets = set(re.findall(r"`make ([\w-]+)`", tour + text_of("README.md")))
    assert {"demo", "test", "bench"} <= targets
    assert targets <= set(re.findall(r"^([\w-]+):", makefile, re.M))
    project = tomllib.loads(text_of("pyproject.toml"))["project"]
    table = tour.split("| extra |", 1)[1].split("\n\n", 1)[0]
    named = re.findall(r"`([\w-]+)`", " ".join(re.findall(r"^\| (`[^|]*) \|", table, re.M)))
    assert len(named) > 10
    assert set(named) <= set(project["optional-dependencies"])
