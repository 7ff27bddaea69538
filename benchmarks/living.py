"""The desk of refits: one person, ten thousand people, and commands on a log that grows."""

import shutil
import subprocess
import sys
import tempfile
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet

from benchmarks.data import Size
from benchmarks.stopwatch import Stopwatch
from benchmarks.work import Outcome, Plan
from pilu import Forgetful
from pilu.cli.files import ReceiptFiles
from pilu.datasets.customers import make_customers
from pilu.desk import Desk
from pilu.desk.issued import kept_in_log

COMMANDS = ("unlearn", "request", "verify", "report", "ledger")


def many_people(size: Size) -> int:
    """Ten thousand; fewer in a smaller table."""
    return min(10_000, size.n // 4)


def lengths(size: Size) -> list[int]:
    """Entries of the logs that are compared, the shortest first."""
    return [length for length in (10, 100, 1_000, 10_000) if length == 10 or length <= size.n // 4]


def measure(size: Size, plan: Plan, watch: Stopwatch, outcome: Outcome) -> None:
    """Time the desk on a customer table of twenty columns in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="pilu-bench-") as name:
        folder = Path(name)
        people = write_table(folder / "people.parquet", size.n)
        with Desk.fit(
            folder / "store",
            folder / "people.parquet",
            target="churned",
            subject="customer",
            id="row",
        ) as desk:
            model = _in_memory(desk)
        for k in range(plan.repeats):
            watch.time("reading", _read, folder / "people.parquet")
            watch.time("refit", model.unlearn, subject=_hashed(folder, people[2 * k]))
            _on_a_copy(watch, "one person", folder, [people[0]])
            _on_a_copy(watch, "many people", folder, people[: many_people(size)])
            _start_up(watch)
        few = _grow(folder, lengths(size))
        for _ in range(plan.repeats):
            _commands(watch, folder, lengths(size), few)


def write_table(path: Path, n: int) -> list[str]:
    """A customer table with numbers, texts, dates and booleans; the names of its people."""
    X, y, subjects, *_ = make_customers(n)
    rng = np.random.default_rng(1)
    days = [date(2021, 1, 1) + timedelta(days=int(k)) for k in rng.integers(0, 1_000, n)]
    more: dict[str, Any] = {f"extra_{k}": rng.normal(size=n) for k in range(3)}
    table = X.assign(signup=days, last_seen=days[::-1], **more)
    table = table.assign(churned=y, customer=subjects, row=[f"r{k}" for k in range(n)])
    table.to_parquet(path, index=False)
    return list(dict.fromkeys(subjects.tolist()))


def _read(path: Path) -> Any:
    return pyarrow.parquet.read_table(path).to_pandas()


def _in_memory(desk: Any) -> Forgetful:
    """A `Forgetful` with the same program and rows, which needs no desk."""
    held = desk.read()
    rows, _ = held.read_rows()
    names = [row.tobytes() for row in rows.names.hashes["subject"]]
    model = Forgetful(held.program, **held.state["options"])
    return model.fit(rows.table.X, rows.table.y, subjects=names)


def _hashed(folder: Path, name: str) -> bytes:
    from pilu.data.names import hash_of

    return hash_of(name, (folder / "store" / "key").read_bytes())


def _on_a_copy(watch: Stopwatch, name: str, folder: Path, people: list[str]) -> None:
    """Forget people in a fresh copy of the store, receipts on the disk included."""
    copy, out = folder / "copy", folder / "receipts.zip"
    shutil.rmtree(copy, ignore_errors=True)
    out.unlink(missing_ok=True)
    shutil.copytree(folder / "store", copy)
    with Desk.open(copy) as desk:
        files = ReceiptFiles(out, copy, n_people=len(people))
        watch.time(name, desk.unlearn, people, deliver=files.write)


def _start_up(watch: Stopwatch) -> None:
    for name, command in (
        ("import numpy", ["-c", "import numpy"]),
        ("pilu --help", ["-m", "pilu", "--help"]),
    ):
        watch.time(
            name, subprocess.run, [sys.executable, *command], check=True, capture_output=True
        )


def _grow(folder: Path, entries: list[int]) -> list[str]:
    """Small stores that differ in the length of their logs; the people who are in them."""
    people = write_table(folder / "few.parquet", 2_000)
    with Desk.fit(
        folder / "10", folder / "few.parquet", target="churned", subject="customer", id="row"
    ) as desk:
        certificate = desk.unlearn(people[:1]).certificate
        _repeat_last(desk, 8, certificate)
    for length in entries[1:]:
        shutil.copytree(folder / "10", folder / str(length))
        with Desk.open(folder / str(length)) as desk:
            _repeat_last(desk, length - 10, certificate)
    return people[1:]


def _repeat_last(desk: Desk, times: int, certificate: Any) -> None:
    """Entries as corrections of no row leave them: each with a whole certificate of its own."""
    with desk.store.changing() as change:
        state = dict(change.snapshot.state)
        record = {
            "kind": "correct",
            "n_corrected": 0,
            "n_rows": state["n_rows"],
            "score": None,
            **kept_in_log(certificate),
        }
        for _ in range(times - 1):
            change.note(record)
        change.note(record, {**state, "n_fits": state["n_fits"] + times})


def _commands(watch: Stopwatch, folder: Path, entries: list[int], people: list[str]) -> None:
    """Whole processes on logs of all lengths, in turns."""
    for k, name in enumerate(COMMANDS):
        for length in entries:
            number = len(watch.times.get(f"{name}, {length} entries", ())) + 100 * k
            words = _words(name, folder, str(length), number, people[number])
            call = [sys.executable, "-m", "pilu", *words]
            watch.time(
                f"{name}, {length} entries", subprocess.run, call, check=True, capture_output=True
            )


def _words(name: str, folder: Path, length: str, number: int, person: str) -> list[str]:
    store, out = str(folder / length), str(folder / f"{length}-{name}-{number}")
    return {
        "unlearn": ["unlearn", store, "--subject", person, "--receipt", f"{out}.json"],
        "request": ["request", store, "--subject", person],
        "verify": ["verify", store],
        "report": ["report", store, "--out", f"{out}.html"],
        "ledger": ["ledger", store],
    }[name]
