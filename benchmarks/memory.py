"""Peak memory of fit and quotes: a fresh process tree, sampled from outside.

What is summed is the proportional set size (Pss) of every process of the child's session: a page
that k processes share counts 1/k in each of them, so once in the sum.
"""

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.data import Size
from benchmarks.stopwatch import say

ROOT = Path(__file__).resolve().parent.parent
PROC = Path("/proc")
EVERY = 0.02  # seconds between samples
RESCAN = 10  # samples between two looks for new processes
LIMIT_SLACK = 200e6  # bytes


def limit(size: Size) -> float:
    """X + 6 p^2 doubles + 200 MB, in bytes."""
    return size.data_bytes + 6 * 8 * size.p**2 + LIMIT_SLACK


def is_measurable() -> bool:
    return (PROC / "self" / "smaps_rollup").exists()


def peaks(name: str, exact_seconds: float | None) -> dict[str, Any]:
    """Peak bytes above the baseline in each phase.

    The exact quote is watched to its end, or for `exact_seconds`: its blocks of rows are all
    alike, so that it has shown its peak long before it ends.
    """
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.memory_child", name],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # the tree is the session, and can be ended as one group
    ) as child:
        try:
            return _watch(child, exact_seconds)
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)


def _watch(child: "subprocess.Popen[str]", exact_seconds: float | None) -> dict[str, Any]:
    assert child.stdin is not None
    marks = _marks(child)
    if marks.get() != "imports":
        raise RuntimeError("the measured process failed before it began; see its error above.")
    baseline = sum(_pss(pid) for pid in _session(child.pid))
    say(f"memory: {baseline / 1e6:.0f} MB with imports")
    print(file=child.stdin, flush=True)
    above: dict[str, int] = {}
    phase, samples, most_processes, began = "data", 0, 1, time.monotonic()
    pids: list[int] = []
    while True:
        next_sample = time.monotonic() + EVERY
        if samples % RESCAN == 0:
            pids = _session(child.pid)
            most_processes = max(most_processes, len(pids))
        total = sum(_pss(pid) for pid in pids) - baseline
        above[phase] = max(above.get(phase, 0), total)
        samples += 1
        while phase != "done" and not marks.empty():
            say(f"memory: {phase} {above.get(phase, 0) / 1e6:.0f} MB above that")
            phase, began = marks.get(), time.monotonic()
        cut = exact_seconds is not None and phase == "exact"
        if phase in ("done", "") or (cut and time.monotonic() - began > (exact_seconds or 0.0)):
            break
        time.sleep(max(0.0, next_sample - time.monotonic()))
    if phase == "":
        raise RuntimeError("the measured process failed; see its error above.")
    return {
        "baseline": baseline,
        "peak_above": above,
        "exact_finished": phase == "done",
        "samples": samples,
        "most_processes": most_processes,
    }


def _marks(child: "subprocess.Popen[str]") -> "queue.Queue[str]":
    """The phases that the child names, and an empty string when it ends."""
    marks: queue.Queue[str] = queue.Queue()

    def read() -> None:
        assert child.stdout is not None
        for line in child.stdout:
            marks.put(line.strip())
        marks.put("")

    threading.Thread(target=read, daemon=True).start()
    return marks


def _session(leader: int) -> list[int]:
    """Processes of a session; those that end while we look are left out."""
    found = []
    for entry in PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # pid (name) state ppid pgrp session ...; the name may hold spaces and brackets
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader:
            found.append(int(entry.name))
    return found


def _pss(pid: int) -> int:
    try:
        with (PROC / str(pid) / "smaps_rollup").open() as lines:
            return next((1024 * int(x.split()[1]) for x in lines if x.startswith("Pss:")), 0)
    except OSError:  # it has ended
        return 0
