"""What a run's figures depend on: cores, BLAS, versions, load."""

import os
import platform
import subprocess
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
