"""What the site adds to Sphinx: whole pages of reference, and a check that notices mistakes.

`make docs` builds the site and runs the check on it.
"""

import importlib
import json
import pkgutil
import re
from pathlib import Path

import pytest
from docs._site import commands, docstrings, http, outside
from typer.main import get_command

import pilu
from pilu.cli.app import app

DOCS = Path(__file__).parents[1] / "docs"


def test_every_public_module_has_a_page():
    """Each subpackage with `__all__`, and plotting; `cli` has the page of commands."""
    names = {f"pilu.{one.name}" for one in pkgutil.iter_modules(pilu.__path__) if one.ispkg}
    public = {name for name in names if hasattr(importlib.import_module(name), "__all__")}
    public = public - {"pilu.cli"} | {"pilu", "pilu.plotting", "pilu.exceptions"}
    pages = "".join(path.read_text() for path in (DOCS / "reference").glob("*.md"))
    assert set(re.findall(r"automodule:: ([\w.]+)", pages)) == public == set(docstrings.MODULES)


def test_what_is_left_out_of_the_page_of_pilu_has_its_own():
    text = (DOCS / "reference" / "pilu.md").read_text()
    (left_out,) = re.findall(r":exclude-members: (.*)", text)
    for name in left_out.split(", "):
        assert name in pilu.__all__
        assert any(
            f"pilu.{name}" in docstrings.MODULES or name in getattr(module, "__all__", vars(module))
            for module in map(importlib.import_module, set(docstrings.MODULES) - {"pilu"})
        ), name


def test_every_command_and_option_is_listed():
    text = commands.markdown()
    for name, command in get_command(app).commands.items():
        section = text.split(f"# `pilu {name}`")[1].split("\n## ")[0]
        for call, one in getattr(command, "commands", {"": command}).items():
            part = section.split(f"# `pilu {name} {call}`")[1] if call else section
            for parameter in one.params:
                if parameter.param_type_name == "option" and not parameter.hidden:
                    assert f"`{parameter.opts[0]}`" in part, (name, call, parameter.name)


def test_every_call_and_message_is_listed():
    document, text = json.loads((DOCS / "openapi.json").read_text()), http.markdown()
    for path, calls in document["paths"].items():
        for method in calls:
            assert f"### `{method.upper()} {path}`\n" in text
    for name in document["components"]["schemas"]:
        assert f"### `{name}`\n" in text
    for name in re.findall(r"\(#([\w-]+)\)", text):
        assert re.search(rf"(?im)^### `{name}`$", text), name


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (["The size |x| of `x_`, a*b."], ["The size \\|x\\| of ``x_``, a\\*b."]),
        (["Use `Forgetful`."], [":py:obj:`Forgetful <pilu.Forgetful>`"]),
        (["So", "", "    a = |b|", "", "and on"], ["So", "", "::", "", "    a = |b|"]),
        (["Tree", "", "A", "|-- B"], ["::", "", "    A", "    |-- B"]),
    ],
)
def test_docstrings_keep_their_formulas(written, read):
    lines = list(written)
    docstrings.to_rst(None, "function", "f", None, None, lines)
    assert "\n".join(read) in "\n".join(lines)


GOOD = """<html><head><link rel="stylesheet" href="a.css"></head><body id="top">
<a href="b.html#there">b</a> <a href="https://example.org">outside</a></body></html>"""


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        (GOOD, None),
        (GOOD.replace("b.html#there", "c.html"), "links to c.html, which is not there"),
        (GOOD.replace("#there", "#here"), "b.html#here, a place that the page does not have"),
        (GOOD.replace('href="a.css"', 'href="//cdn.example.org/a.css"'), "from another host"),
        (GOOD.replace("<body", '<script src="https://x.example.org/j.js"></script><body'), "host"),
        (GOOD.replace("<body", '<img src="https://x.example.org/i.png"><body'), "another host"),
    ],
)
def test_wrong_pages_are_noticed(page, complaint, tmp_path):
    (tmp_path / "a.html").write_text(page)
    (tmp_path / "b.html").write_text('<h1 id="there">b</h1>')
    (tmp_path / "a.css").write_text("h1 { color: red }")
    found = list(outside.complaints(tmp_path))
    assert len(found) == (complaint is not None)
    assert all(complaint in one for one in found)


def test_wrong_styles_are_noticed(tmp_path):
    (tmp_path / "a.css").write_text("h1 { background: url(https://x.example.org/i.png) }")
    assert len(list(outside.complaints(tmp_path))) == 1
