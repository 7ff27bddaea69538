"""What a run's figures depend on: cores, BLAS, versions, load."""

import os
import platform
import subprocess
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

PACKAGES = ("pilu", "numpy", "scipy", "scikit-learn", "threadpoolctl")


def describe() -> dict[str, Any]:
    """The machine; no path of it."""
    pools = [{k: v for k, v in pool.items() if k != "filepath"} for pool in threadpool_info()]
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES},
        "commit": _commit(),
        "thread_pools": pools,
    }


def sentence(machine: dict[str, Any]) -> str:
    """The machine in one paragraph, to stand above its figures."""
    versions = ", ".join(f"{name} {found}" for name, found in machine["versions"].items())
    now = load()
    busy = "" if now is None else f" Load {now[0]:.1f}."
    return (
        f"{machine['cores']} cores ({machine['processor'] or 'unnamed'}), {machine['system']}. "
        f"BLAS: {', '.join(blas(machine))}. Python {machine['python']}, {versions}. "
        f"Commit {machine['commit'] or 'unknown'}.{busy}"
    )


def blas(machine: dict[str, Any]) -> list[str]:
    """The libraries that compute, with their threads."""
    return sorted(
        f"{pool['internal_api']} {pool['version']} with {pool['num_threads']} threads"
        for pool in machine["thread_pools"]
        if pool["user_api"] == "blas"
    )


class Others:
    """How many cores other programs, and other guests of the host, kept busy since its making."""

    def __init__(self) -> None:
        self._start = self._now()

    def cores(self) -> float | None:
        """The mean; None where the system does not say."""
        (began, busy, own), (ended, busy_now, own_now) = self._start, self._now()
        if busy is None or busy_now is None or ended == began:
            return None
        return max(0.0, (busy_now - busy - (own_now - own)) / (ended - began))

    @staticmethod
    def _now() -> tuple[float, float | None, float]:
        try:
            line = Path("/proc/stat").read_text().split("\n", 1)[0]
        except OSError:
            return time.monotonic(), None, 0.0
        user, nice, system, _idle, _wait, *interrupts_and_steal = map(int, line.split()[1:9])
        busy, tick = user + nice + system + sum(interrupts_and_steal), os.sysconf("SC_CLK_TCK")
        return time.monotonic(), busy / tick, _ticks_of_family() / tick


def _ticks_of_family() -> int:
    """CPU time of this process and all that it started, with those that have ended."""
    parents, ticks = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()  # a name may have spaces
        except OSError:  # it has ended
            continue
        number = int(path.parent.name)
        parents[number], ticks[number] = int(fields[1]), sum(map(int, fields[11:15]))
    family, unseen = 0, [os.getpid()]
    while unseen:
        one = unseen.pop()
        family += ticks.get(one, 0)
        unseen += [child for child, parent in parents.items() if parent == one]
    return family


def is_quiet(others: float | None) -> bool:
    """Whether figures are fit to be kept: others used at most a tenth of the cores."""
    return others is not None and others <= 0.1 * (os.cpu_count() or 1)


def load() -> list[float] | None:
    """Load averages over 1, 5 and 15 minutes, where the system keeps them."""
    return list(os.getloadavg()) if hasattr(os, "getloadavg") else None


def complaint_of_load() -> str:
    """A line if others keep the machine busy; to be asked before the first timing."""
    now, cores = load(), os.cpu_count() or 1
    if now is None or now[0] <= cores / 2:
        return ""
    return f"The load was {now[0]:.1f} on {cores} cores before the run: do not trust its figures.\n"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((x.partition(":")[2].strip() for x in lines if x.startswith("model name")), "")


def _commit() -> str | None:
    try:
        asked = ["git", "describe", "--always", "--dirty"]
        here = Path(__file__).parent
        return subprocess.run(
            asked, cwd=here, capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def own_peak() -> int:
    """Bytes that this process had at most; not `ru_maxrss`, which begins with the parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
