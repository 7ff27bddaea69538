"""Code on pages: each block, what comments that no reader sees say about it, and how to run it.

A comment directly above a block changes what is done with it:

    <!-- not run: REASON -->        it is not run; commands of pilu and make in it must exist.
                                    Blocks of nothing but make need no mark: they are never run.
    <!-- slow: REASON -->           it is run by `make test-slow` only
    <!-- needs MODULE: REASON -->   it is run where the module is installed
    <!-- output varies: REASON -->  what it prints is not compared with the block of text below it
    <!-- run first                  this code is run before it, in the same language
    CODE
    -->

and anywhere on a page

    <!-- slow page: REASON -->      every block of the page is slow. Blocks of the shell always are.

Blocks of a page are run in order, Python in one namespace, all in one new folder. A block of `text`
directly below a block is what that block prints, up to white space.
"""

import contextlib
import io
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from typer.main import get_command

from pilu.cli.app import app

ROOT = Path(__file__).parents[1]
PYTHON, SHELL = {"python"}, {"sh", "console"}
CODE = PYTHON | SHELL
KNOWN = CODE | {"", "text", "jinja", "yaml", "json", "ini"}  # the others are read, not run

_COMMENTS = re.compile(r"(?:<!--(?:(?!-->).)*-->\s*)*\Z", re.S)
_SLOW_PAGE = re.compile(r"<!-- slow page: (.+?) -->", re.S)
_BLOCK = re.compile(r"^( *)```([^\n]*)\n(.*?)^\1```[ ]*$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """A block between fences, with the comments directly above it."""

    page: str
    line: int
    language: str
    text: str
    marks: dict[str, str]
    printed: str | None  # the block of text below

    @property
    def where(self):
        return f"{self.page}:{self.line}"

    @property
    def is_run(self):
        return self.language in CODE and "not run" not in self.marks and not self.is_make

    @property
    def is_make(self):
        """Only calls of make, which need the Makefile; the targets must exist."""
        lines = lines_of_shell(self.text) if self.language in SHELL else []
        return bool(lines) and all(line.startswith("make ") for line in lines)

    @property
    def is_slow(self):
        return self.language in SHELL or "slow" in self.marks


def pages():
    """Every page that is written by hand or by a program, by its path from the root."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "experiments" / "README.md"]
    return [str(path.relative_to(ROOT)) for path in [*found, *sorted(ROOT.glob("docs/**/*.md"))]]


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def blocks_of(page, text=None):
    """The blocks of a page, in order."""
    text = text_of(page) if text is None else text
    is_slow = {"slow": found[1]} if (found := _SLOW_PAGE.search(text)) else {}
    blocks: list[Block] = []
    matches = list(_BLOCK.finditer(text))
    for i, match in enumerate(matches):
        following = matches[i + 1] if i + 1 < len(matches) else None
        below = following is not None and following[2].strip() == "text"
        between = text[match.end() : following.start()] if below else "something"
        blocks.append(
            Block(
                page,
                text.count("\n", 0, match.start()) + 1,
                match[2].strip(),
                re.sub(rf"^{match[1]}", "", match[3], flags=re.M),
                is_slow | _marks_above(text[: match.start()]),
                None if between.strip() else following[3],
            )
        )
    return blocks


def _marks_above(text):
    """Each mark with its reason, module or code; other comments are those of generators."""
    marks: dict[str, str] = {}
    for comment in re.findall(r"<!--\s*(.*?)\s*-->", _COMMENTS.search(text)[0], re.S):
        if found := re.match(r"run first\n(.*)", comment, re.S):
            marks["run first"] = found[1] + "\n"
        elif found := re.match(r"needs (\S+): (.+)", comment, re.S):
            marks["needs"] = found[1]
        elif found := re.match(r"(not run|slow|output varies): (.+)", comment, re.S):
            marks[found[1]] = " ".join(found[2].split())
    return marks


@dataclass
class Ran:
    """What a page leaves behind."""

    names: dict[str, object]
    printed: str
    folder: Path


def run(page, folder, slow=True):
    """Run the blocks of a page in a folder, with the slow ones or without them."""
    names: dict[str, object] = {"__name__": Path(page).stem}
    everything = ""
    for block in blocks_of(page):
        if not block.is_run or (block.is_slow and not slow):
            continue
        if "needs" in block.marks and find_spec(block.marks["needs"]) is None:
            continue
        runner = _run_python if block.language in PYTHON else _run_shell
        if first := block.marks.get("run first"):
            runner(first, block, names, folder)
        printed = runner(block.text, block, names, folder)
        everything += printed
        if block.printed is not None and "output varies" not in block.marks:
            assert printed.split() == block.printed.split(), f"{block.where} prints\n{printed}"
    return Ran(names, everything, Path(folder))


def _run_python(code, block, names, folder):
    """Errors name the line of the page."""
    printed = io.StringIO()
    compiled = compile("\n" * block.line + code, block.page, "exec")
    with contextlib.redirect_stdout(printed), contextlib.chdir(folder):
        exec(compiled, names)
    return printed.getvalue()


def _run_shell(code, block, names, folder):
    if block.language == "console":  # what follows a prompt
        code = "\n".join(re.findall(r"^[$>] (.*)$", code, re.M)) or code
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", code],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{block.where}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def lines_of_shell(text):
    """Commands of a block of the shell, with continued lines put together."""
    return [line.removeprefix("$ ") for line in text.replace("\\\n", " ").splitlines()]


def call_of_pilu(words):
    """What follows `pilu` in a command: as its program, or as that of a container."""
    start = 0
    if words[1:2] == ["compose"] and "pilu" in words:
        start = len(words) - 1 - words[::-1].index("pilu")
    return words[start + 1 :] if words and Path(words[start]).name == "pilu" else []


def check_call(words):
    """The command and its options exist."""
    command, rest = get_command(app), list(words)
    while hasattr(command, "commands") and rest:
        name = rest.pop(0)
        assert name in command.commands, words
        command = command.commands[name]
    options = {option: one for one in command.params for option in one.opts}
    for word in rest:
        name, has_value, _ = word.partition("=")
        if name.startswith("-"):
            assert name in options, (words, name)
            assert not (has_value and options[name].is_flag), words
