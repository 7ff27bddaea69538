"""Small tables of results, each beside a record of its provenance.

Full-size results are tracked in `experiments/results`, those of quick runs are not.
"""

import hashlib
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
PACKAGES = ("pilu", "numpy", "scipy", "scikit-learn", "torch")


def sha256_of_arrays(*arrays: np.ndarray) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Store:
    """A folder of tables (CSV) with their provenance (JSON)."""

    folder: Path

    def write(self, name: str, frame: pd.DataFrame, provenance: dict[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        record = {
            **provenance,
            "versions": {package: version(package) for package in PACKAGES}
            | {"python": platform.python_version()},
            "machine": {"processor": processor(), "cores": os.cpu_count()},
        }
        (self.folder / f"{name}.json").unlink(missing_ok=True)
        frame.to_csv(self.folder / f"{name}.csv", index=False, float_format="%.6g")
        (self.folder / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")

    def read(self, name: str) -> pd.DataFrame:
        try:
            return pd.read_csv(self.folder / f"{name}.csv")
        except FileNotFoundError:
            raise SystemExit(
                f"There is no {name}.csv in {self.folder}. `make reproduce-full` computes the "
                "tables that are drawn by `make figures`, `make reproduce` small ones."
            ) from None

    def provenance(self, name: str) -> dict[str, Any]:
        return json.loads((self.folder / f"{name}.json").read_text())

    def holds(self, name: str) -> bool:
        """Whether the table is there, by whatever settings."""
        return all((self.folder / f"{name}.{kind}").exists() for kind in ("csv", "json"))

    def has(self, name: str, config: dict[str, Any]) -> bool:
        """Whether the table is there, and was computed by the same settings."""
        path = self.folder / f"{name}.json"
        same = json.loads(json.dumps(config))
        there = path.exists() and path.with_suffix(".csv").exists()
        return there and json.loads(path.read_text()).get("config") == same

    def compute(
        self,
        marker: str,
        config: dict[str, Any],
        prepare: Callable[[], dict[str, Any]],
        compute: Callable[[], dict[str, pd.DataFrame]],
        again: bool = False,
    ) -> None:
        """Compute tables, unless the one named `marker` is there by the same settings.

        `prepare` loads data, features and fits, which are not part of the tables' time, and says
        what belongs to their provenance.
        """
        if self.has(marker, config) and not again:
            print(f"{marker}: is there already (--again computes it anew)", flush=True)
            return
        known = prepare()
        started = time.perf_counter()
        tables = compute()
        seconds = time.perf_counter() - started
        provenance = {"config": config, **known, "seconds": round(seconds, 2)}
        for table in sorted(tables, key=lambda table: table == marker):  # the marker last
            self.write(table, tables[table], provenance)
        print(f"{marker}: {seconds:.1f} s", flush=True)


STORES = {"full": Store(HERE / "results"), "quick": Store(HERE / "runs" / "quick")}
FIGURES = {"full": HERE / "figures", "quick": HERE / "figures" / "quick"}


def processor() -> str:
    """The processor's name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
