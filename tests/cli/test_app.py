"""What all commands share: help, errors, exit codes, and what they import."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.main import get_command

from cli.shell import process
from pilu.cli.app import COMMANDS as EXAMPLES
from pilu.cli.app import app
from pilu.cli.options import option_names
from pilu.exceptions import BeyondPrecision, WrongInput

COMMANDS = [command.name or command.callback.__name__ for command in app.registered_commands]


@pytest.fixture
def fitted(run, tmp_path):
    """A store of each method."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    table = {"x": x, "y": x + rng.normal(size=60), "person": [f"p{i // 3}" for i in range(60)]}
    pyarrow.parquet.write_table(pa.table(table), tmp_path / "people.parquet")
    for method in ("refit", "langevin"):
        run(f"fit people.parquet --target y --subject person --method {method} --out {method}")
    return run


def test_the_demo_walks_the_whole_path(run, tmp_path):
    shown = run("demo --out demo")
    commands = {line.split()[2] for line in shown.splitlines() if line.startswith("$ pilu ")}
    # One is for accidents, two are the service, which `make demo` does without.
    assert commands == set(COMMANDS) - {"demo", "receipts", "serve", "work"}
    assert (tmp_path / "demo" / "report.html").stat().st_size > 10_000
    assert "must be a new or empty folder" in run("demo --out demo", code=2)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_reads_well(command):
    """At 80 columns: nothing is cut, types are words, and the example fits on its line."""
    shown = process(command, "--help").stdout
    assert f"Usage: pilu {command} " in shown
    assert any(line.strip().startswith(f"Example: pilu {command} ") for line in shown.splitlines())
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    assert "list[" not in shown
    assert "--no-" not in shown
    assert ("--json" in shown) == (command not in ("demo", "serve"))  # these run on
    example = next(text for made, text in EXAMPLES.items() if made.__name__ == command)
    assert example in shown


@pytest.mark.parametrize("command", EXAMPLES, ids=COMMANDS)
def test_examples_can_be_parsed(command):
    parsed = get_command(app).commands[command.__name__]
    options = {p.opts[0] for p in parsed.params}
    given = {word for word in EXAMPLES[command].split() if word.startswith("--")}
    assert given <= options


@pytest.mark.parametrize("command", app.registered_commands, ids=COMMANDS)
def test_errors_name_the_options_that_typer_parses(command):
    parsed = get_command(app).commands[command.name].params
    options = {p.name: p.opts[0] for p in parsed if p.opts[0].startswith("--")}
    assert option_names(command.callback) == {n: o for n, o in options.items() if n != "help"}


def test_debug_shows_the_traceback_of_a_wrong_input(tmp_path):
    found = process("--debug", "ledger", str(tmp_path))
    assert found.stderr.startswith("Traceback")
    assert found.returncode == 2
    found = process("ledger", str(tmp_path))
    assert "Traceback" not in found.stderr
    assert found.returncode == 2


@pytest.mark.parametrize("method", ["LangevinDesk.quote", "RefitDesk.dry_run"])
@pytest.mark.parametrize("bug", [ValueError, ZeroDivisionError, KeyError, RuntimeError])
def test_a_bug_shows_its_traceback(fitted, monkeypatch, method, bug):
    def fails(*_, **__):
        raise bug("shapes (3,) and (4,)")

    store = method.partition("Desk")[0].lower()
    monkeypatch.setattr(f"pilu.desk.{store}_desk.{method}", fails)
    output = fitted(f"quote {store} --subject p3", code=70)
    assert "Traceback" in output
    assert f"{bug.__name__}: " in output
    assert output.endswith("pilu: This is a bug in pilu; please report it.\n")


@pytest.mark.parametrize("error", [WrongInput, BeyondPrecision, MemoryError])
def test_a_wrong_input_shows_no_traceback(fitted, monkeypatch, error):
    def fails(*_, **__):
        raise error("use more noise")

    monkeypatch.setattr("pilu.desk.langevin_desk.LangevinDesk.quote", fails)
    assert fitted("quote langevin --subject p3", code=2) == "pilu: use more noise\n"


def test_an_interrupt_has_a_code_of_its_own(fitted, monkeypatch, tmp_path):
    """Before the change: nothing is done. The message says how to find out."""

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("pilu.desk.refit_desk.refit", interrupted)
    message = fitted.error("unlearn refit --subject p3 --receipt r.json", code=130)
    assert message == "interrupted; `pilu ledger` shows what was done."
    monkeypatch.undo()
    os.chdir(tmp_path)
    assert len(fitted.json("ledger refit")["entries"]) == 1
    assert not (tmp_path / "r.json").exists()


def test_ctrl_c_in_a_real_process(fitted, tmp_path):
    """The user's own pipeline waits until it is interrupted."""
    lines = ["import pathlib, time", "pathlib.Path('waits').touch()", "time.sleep(60)"]
    (tmp_path / "slow.py").write_text("\n".join(lines))
    words = "fit people.parquet --target y --subject person --pipeline slow.py:make --out store"
    running = subprocess.Popen(
        [sys.executable, "-m", "pilu", *words.split()], stderr=subprocess.PIPE, text=True
    )
    while not (tmp_path / "waits").exists():
        assert running.poll() is None
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    assert errors == "pilu: interrupted; `pilu ledger` shows what was done.\n"
    assert not (tmp_path / "store").exists()


def test_an_answer_that_cannot_be_printed(fitted):
    """Stdout is full, the deletion is done, and the code says so."""
    with open("/dev/full", "w") as full:
        found = process(
            *["unlearn", "langevin", "--subject", "p3", "--receipt", "c.json"],
            capture_output=False,
            stdout=full,
            stderr=subprocess.PIPE,
        )
    assert found.returncode == 4
    assert "the change was made, but the answer could not be printed: No space left" in found.stderr
    assert "already been forgotten" in fitted("unlearn langevin --subject p3", code=2)
    assert "holds" in fitted("verify c.json --store langevin")


def _imported_by(*words, cwd=None):
    program = (
        f"import sys; sys.argv = ['pilu', *{list(words)!r}]\n"
        "from pilu.cli import main\n"
        "try:\n    main()\n"
        "finally:\n    print('\\n'.join(sys.modules), file=sys.stderr)"
    )
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, capture_output=True, text=True, check=True, cwd=cwd)
    return set(found.stderr.splitlines())


def test_help_and_ledger_import_nothing_heavy(fitted, tmp_path):
    heavy = {"numpy", "scipy", "sklearn", "pyarrow", "pandas", "tqdm"}
    for words in (("--help",), ("fit", "--help"), ("ledger", "refit"), ("ledger", "langevin")):
        assert not heavy & _imported_by(*words, cwd=tmp_path), words


def test_what_ledger_imports(fitted, tmp_path):
    """These and Python's own modules. Another one would cost every call its time."""
    names = """_digits _extras cli cli.answers cli.files cli.showing exceptions report
    report.entries store store.disk store.ledger store.log store.merkle"""
    allowed = {"pilu", *(f"pilu.{name}" for name in names.split())}
    # What the environment imports into every process, such as hooks of editable installs.
    bare = [sys.executable, "-c", "import sys; print(*sys.modules)"]
    always = subprocess.run(bare, capture_output=True, text=True, check=True).stdout.split()
    for store in ("refit", "langevin"):
        found = _imported_by("ledger", store, cwd=tmp_path) - set(always)
        assert {m for m in found if m.split(".")[0] not in sys.stdlib_module_names} == allowed


def test_ledger_says_the_same_with_options(fitted):
    """Without options it does not use typer."""
    assert process("ledger", "refit").stdout == process("ledger", "refit", "--last", "50").stdout
    bare, full = process("ledger", "none"), process("ledger", "none", "--last", "50")
    assert bare.stderr == full.stderr != ""
    assert bare.returncode == full.returncode == 2


def test_a_refit_imports_nothing_of_the_other_method(fitted, tmp_path):
    modules = _imported_by("unlearn", "refit", "--subject", "p3", cwd=tmp_path)
    rooms = {"losses", "minibatch", "ridge", "desk.langevin_desk", "desk.costs"}
    strange = {f"pilu.{room}" for room in rooms} & modules
    assert not strange


def test_the_end_of_a_long_log(fitted):
    for k in range(3):
        fitted(f"request refit --subject p{k}")
    shown = fitted("ledger refit --last 2")
    assert shown.startswith("2 earlier entries: --last NUMBER\n")
    assert shown.count("A person asked to be forgotten") == 2
    assert len(fitted.json("ledger refit --last 1")["entries"]) == 1
    assert fitted.error("ledger refit --last 0") == "--last must be an integer >= 1, got 0."
