"""Commands as a user types them."""

import json
import os
import shlex
import subprocess
import sys

from typer.testing import CliRunner

from pilu.cli.app import app


class Shell:
    """Runs `pilu LINE` in this process, and checks the exit code."""

    def __call__(self, line, code=0):
        """What was printed, on stdout and stderr."""
        return self._done(line, code).output

    def json(self, line):
        """The answer of a command with --json; warnings on stderr do not disturb it."""
        return json.loads(self._done(f"{line} --json", 0).stdout)

    def error(self, line, code=2):
        """The one line on stderr of a command that fails, without its prefix."""
        done = self._done(line, code)
        assert done.stdout == ""
        (text,) = done.stderr.splitlines()
        assert text.startswith("pilu: ")
        return text.removeprefix("pilu: ")

    def _done(self, line, code):
        done = CliRunner().invoke(app, shlex.split(line))
        assert done.exit_code == code, done.output
        return done


def process(*words, **options):
    """Run `pilu` in a process of its own, for what only a process shows."""
    command = [sys.executable, "-m", "pilu", *words]
    environment = {**os.environ, "COLUMNS": "80", "TERMINAL_WIDTH": "80"}
    return subprocess.run(
        command, text=True, check=False, env=environment, **{"capture_output": True, **options}
    )
