"""One pytest that has imported and collected everything, and forks a process for each mutant."""

import hashlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import pytest
from tools.mutants.installing import PACKAGE, clear_caches, install
from tools.mutants.mutate import Mutant

ROOT = PACKAGE.parent.parent
SURVIVED, KILLED, LATE, UNCHANGED = 0, 1, 2, 3  # exit codes
_SLOWER = 6  # a test may take so many times its own time, and _SPARE seconds
_SPARE = 10.0

# id, file, seconds and CPU seconds, lines: {module: line numbers}
Test = dict[str, Any]


class Forks:
    """Runs functions in processes of their own, a few at a time."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._running: dict[int, tuple[Any, float]] = {}

    def start(self, name: Any, work: Callable[[], int], output: Path) -> Iterator[tuple]:
        """Start `work`; yields (name, exit code, seconds) of one that ended to make room."""
        if len(self._running) == self._jobs:
            yield self._wait()
        if pid := os.fork():
            self._running[pid] = name, time.monotonic()
        else:
            _work_and_exit(work, output)

    def rest(self) -> Iterator[tuple]:
        """Wait for all that still run."""
        while self._running:
            yield self._wait()

    def _wait(self) -> tuple[Any, int, float]:
        pid, status = os.wait()
        name, start = self._running.pop(pid)
        return name, os.waitstatus_to_exitcode(status), time.monotonic() - start


def _work_and_exit(work: Callable[[], int], output: Path) -> NoReturn:
    code = KILLED
    try:
        log = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def run_items(items: list[pytest.Item], plugin: object) -> None:
    """Run collected tests one after the other, watched by a plugin."""
    items[0].config.pluginmanager.register(plugin)
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)


class Tracer:
    """Notes which lines of the mutated modules a passing test executes, and how long it takes."""

    def __init__(self, modules: Iterable[str]) -> None:
        self.tests: dict[str, Test] = {}
        self._lines: set[tuple[str, int]] = set()
        self._names = {str(PACKAGE / m): m for m in modules}

    def _global(self, frame: FrameType, event: str, arg: object) -> Any:
        return self._local if frame.f_code.co_filename in self._names else None

    def _local(self, frame: FrameType, event: str, arg: object) -> Any:
        self._lines.add((self._names[frame.f_code.co_filename], frame.f_lineno))
        return self._local

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        """Trace one test."""
        # Else only the first caller of a cached function would be seen in it.
        clear_caches(getattr(item, "module", None))
        self._lines.clear()
        start, cpu = time.perf_counter(), time.process_time()
        sys.settrace(self._global)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            lines: dict[str, list[int]] = {}
            for module, line in sorted(self._lines):
                lines.setdefault(module, []).append(line)
            test = self.tests.setdefault(item.nodeid, {"passed": False})
            test |= {"seconds": time.perf_counter() - start, "lines": lines}
            test["cpu"] = time.process_time() - cpu

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note whether the test passed."""
        if report.when == "call":
            self.tests.setdefault(report.nodeid, {})["passed"] = report.passed


def traced(items: list[pytest.Item], modules: list[str], folder: Path, forks: Forks) -> list[Test]:
    """The tests that pass, with what they execute. Kept until a file changes."""
    package = hashlib.sha256()
    for path in sorted((*PACKAGE.rglob("*.py"), ROOT / "tests" / "conftest.py")):
        package.update(path.read_bytes())
    by_file: dict[str, list[pytest.Item]] = {}
    for item in items:
        by_file.setdefault(str(item.path.relative_to(ROOT)), []).append(item)
    kept = {}
    for file in by_file:
        digest = package.copy()
        digest.update((ROOT / file).read_bytes())
        name = file.replace("/", "-").removesuffix(".py")
        kept[file] = folder / f"trace-{name}-{digest.hexdigest()[:16]}.json"

    def trace(file: str) -> int:
        tracer = Tracer(modules)
        run_items(by_file[file], tracer)
        kept[file].write_text(json.dumps(tracer.tests))
        return 0

    for file, path in kept.items():
        if not path.exists():
            print(f"tracing {file}", flush=True)
            list(forks.start(file, lambda f=file: trace(f), path.with_suffix(".log")))
    list(forks.rest())

    tests = []
    for file, path in kept.items():
        if not path.exists():
            print(f"not used, because its trace failed: {file}")
            continue
        found = json.loads(path.read_text())
        bad = [name for name, test in found.items() if not test.get("passed")]
        if bad:
            print(f"not used, because they do not pass: {', '.join(bad)}")
        tests += [t | {"id": name, "file": file} for name, t in found.items() if t.get("passed")]
    return tests


def chosen_tests(mutant: Mutant, tests: list[Test], budget: float) -> list[Test]:
    """The tests that execute what the mutant changes: nearest and fastest first.

    What runs at import has no tests of its own: first come those that execute a line that uses
    the name, then all others of the module. Tests past `budget` CPU seconds are left out.
    """
    near = set(range(mutant.lines[0], mutant.lines[1] + 1))
    if mutant.at_import:
        source = (PACKAGE / mutant.module).read_text().splitlines()
        near = {
            number
            for number, line in enumerate(source, 1)
            if number != mutant.lines[0] and any(name in line for name in mutant.names)
        }
    reaching = [t for t in tests if near & set(t["lines"].get(mutant.module, ()))]
    rest = []
    if mutant.at_import:
        rest = [t for t in tests if t["lines"].get(mutant.module) and t not in reaching]
    chosen: list[Test] = []
    total = 0.0
    for tier in (reaching, rest):
        first: dict[str, float] = {}
        for t in tier:
            first[t["file"]] = min(first.get(t["file"], t["cpu"]), t["cpu"])
        for t in sorted(tier, key=lambda t: (first[t["file"]], t["file"], t["cpu"])):
            if total + t["cpu"] <= budget:
                total += t["cpu"]
                chosen.append(t)
    return chosen


class Watch:
    """Ends the process at the first failure, or if a test takes far longer than without mutant."""

    def __init__(self, tests: list[Test]) -> None:
        slowest: dict[str, float] = {}
        for t in tests:
            slowest[t["file"]] = max(slowest.get(t["file"], 0.0), t["seconds"])
        # A fixture may now be set up by another test than the one that was timed with it.
        self._limits = {
            t["id"]: _SPARE + _SLOWER * (t["seconds"] + slowest[t["file"]]) for t in tests
        }
        signal.signal(signal.SIGALRM, lambda *_: os._exit(LATE))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        """Start the clock of one test."""
        signal.setitimer(signal.ITIMER_REAL, self._limits[item.nodeid])
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """End at a failure."""
        if report.failed:
            print(f"\n{report.longreprtext[-2000:]}\nkilled by {report.nodeid}", flush=True)
            os._exit(KILLED)


def try_mutant(mutant: Mutant, items: list[pytest.Item], tests: list[Test]) -> int:
    """The exit code for one mutant; meant for a process of its own."""
    if not install(mutant):
        return UNCHANGED
    if items:
        run_items(items, Watch(tests))
    return SURVIVED
