"""The service: how fast it answers while people are forgotten, how it starts, what it takes.

All calls go to loopback, are bounded in number and time, and come from another process
(`benchmarks.load`). Two cores are shared by the service, its worker and the load.
"""

import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet

from benchmarks.data import Size
from benchmarks.living import write_table
from benchmarks.stopwatch import Stopwatch
from benchmarks.work import Outcome, Plan
from pilu.desk import Desk
from pilu.desk.receipt import Receipt
from pilu.service import tokens
from pilu.service.configuration import Configuration
from pilu.service.database import open_database

MADE = 1_000  # requests that are created at the same time
_SECONDS = 8.0  # of each load
_PATIENCE = 300.0


def measure(size: Size, plan: Plan, watch: Stopwatch, outcome: Outcome) -> None:
    """Time the service on a customer table of twenty columns in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="pilu-bench-") as name:
        folder = Path(name)
        people = write_table(folder / "people.parquet", size.n)
        stores = folder / "stores"
        with Desk.fit(
            stores / "customers", folder / "people.parquet", target="churned", subject="customer",
            id="row",
        ):  # fmt: skip
            pass
        service = _Service(stores, _make_token(stores))
        waiting = iter(people)
        outcome.counts |= {"lost": 0, "doubled": 0, "not_verified": 0, "deletions": 0}
        for _ in range(plan.repeats):
            _repeat(service, watch, outcome, waiting, min(MADE, size.n // 8), folder)


def _repeat(
    service: "_Service",
    watch: Stopwatch,
    outcome: Outcome,
    people: Iterator[str],
    made: int,
    folder: Path,
) -> None:
    started = time.perf_counter()
    with service.running():
        watch.keep("start-up", time.perf_counter() - started)
        service.wait_until_idle()
        watch.keep("memory, idle", service.megabytes())
        health = service.load("GET", "/health")
        watch.keep("health, each", health["whole"] / len(health["took"]))
        number = service.forget(next(people))
        with service.forgetting(people) as done:
            found = service.load("GET", f"/v1/requests/{number}")
        outcome.counts["deletions"] += len(done)
        watch.keep("status, each", found["whole"] / len(found["took"]))
        watch.keep("status, p99", _quantile(found["took"], 0.99))
        row = _row(folder / "people.parquet")
        path = "/v1/stores/customers/predict"
        service.call("POST", path, {"rows": [row]})  # starts the process that predicts
        service.wait_until_idle()
        watch.keep("memory, predicting", service.megabytes())
        found = service.load("POST", path, {"rows": [row]}, connections=32)
        watch.keep("prediction, each", found["whole"] / len(found["took"]))
        watch.keep("prediction, p99", _quantile(found["took"], 0.99))
        _make_many(service, watch, outcome, [next(people) for _ in range(made)])


def _make_many(service: "_Service", watch: Stopwatch, outcome: Outcome, people: list[str]) -> None:
    """Many requests at the same time; each has to end in one receipt that verifies."""
    path = "/v1/stores/customers/requests"
    bodies = [{"type": "erasure", "subject": name} for name in people]
    calls = [service.raw("POST", path, body) for body in bodies]
    found = service.load_raw(calls, connections=50, n_calls=len(calls), seconds=60)
    watch.keep("made, each", found["whole"] / len(people))
    started = time.perf_counter()
    service.call("POST", "/v1/stores/customers/run")
    service.wait_until_idle()
    watch.keep("carried out", time.perf_counter() - started)
    ended = service.requests()
    newest = [one for one in ended if one["outcome"] == "forgotten"][: len(people)]
    receipts: Counter[str] = Counter()
    for one in newest:
        receipt = Receipt.from_json(service.text(f"/v1/requests/{one['id']}/receipt"))
        assert receipt.person is not None
        outcome.counts["not_verified"] += not receipt.verify()["in_the_log_of_its_head"]
        receipts[receipt.person.name] += 1
    outcome.counts["lost"] += len(people) - len(receipts)
    outcome.counts["doubled"] += sum(times - 1 for times in receipts.values())


class _Service:
    """`pilu serve` in a process of its own."""

    def __init__(self, stores: Path, token: str) -> None:
        self.stores, self.token, self.port = stores, token, _free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Until the end of the block; the block begins when it answers."""
        command = [sys.executable, "-m", "pilu", "serve", "--stores", str(self.stores)]
        options = ["--listen", f"127.0.0.1:{self.port}", "--answers-every", "0"]
        self.process = subprocess.Popen(
            [*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            self._wait_for_answer()
            yield
        finally:
            self.process.terminate()
            self.process.wait(60)

    def _wait_for_answer(self) -> None:
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5).close()
                return
            time.sleep(0.01)
        raise TimeoutError("the service did not start")

    def text(self, path: str, method: str = "GET", body: Any = None) -> str:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
            return str(answer.read().decode())

    def call(self, method: str, path: str, body: Any = None) -> Any:
        return json.loads(self.text(path, method, body))

    def raw(self, method: str, path: str, body: Any = None) -> str:
        content = "" if body is None else json.dumps(body)
        return (
            f"{method} {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {self.token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n{content}"
        )

    def load(self, method: str, path: str, body: Any = None, *, connections: int = 8) -> Any:
        raw = [self.raw(method, path, body)]
        return self.load_raw(raw, connections=connections, n_calls=10**9, seconds=_SECONDS)

    def load_raw(self, calls: list[str], *, connections: int, n_calls: int, seconds: float) -> Any:
        command = [sys.executable, "-m", "benchmarks.load"]
        numbers = [str(n) for n in (self.port, connections, seconds, n_calls)]
        done = subprocess.run(
            [*command, *numbers],
            input=json.dumps(calls),
            capture_output=True,
            text=True,
            check=True,
        )
        found = json.loads(done.stdout)
        wrong = {code: n for code, n in found["statuses"].items() if code not in ("200", "201")}
        assert not wrong, wrong
        return found

    def forget(self, person: str) -> str:
        body = {"type": "erasure", "subject": person, "now": True}
        return str(self.call("POST", "/v1/stores/customers/requests", body)["id"])

    @contextlib.contextmanager
    def forgetting(self, people: Iterator[str]) -> Iterator[list[str]]:
        """One person after another is forgotten while the block runs."""
        over, done = threading.Event(), list[str]()

        def work() -> None:
            while not over.is_set():
                done.append(self.forget(next(people)))
                self._wait(lambda: self.call("GET", f"/v1/requests/{done[-1]}")["ended"])

        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(2.5)  # the scheduler looks every two seconds
        try:
            yield done
        finally:
            over.set()
            thread.join()

    def wait_until_idle(self) -> None:
        """Nothing waits, and no worker runs."""
        self._wait(lambda: not self.call("GET", "/v1/stores/customers")["n_waiting"])
        self._wait(lambda: not self._children("pilu.service.work"))

    def _wait(self, check: Any) -> None:
        until = time.monotonic() + _PATIENCE
        while not check():
            if time.monotonic() > until:
                raise TimeoutError("the service did not come to an end")
            time.sleep(0.1)

    def requests(self) -> list[Any]:
        """All requests, the newest first."""
        found: list[Any] = []
        following: str | None = ""
        while following is not None:
            more = f"&after={following}" if following else ""
            page = self.call("GET", f"/v1/stores/customers/requests?most=1000{more}")
            found, following = found + page["requests"], page["next"]
        return found

    def _children(self, what: str = "") -> list[int]:
        assert self.process is not None
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        own = [int(word) for word in listed.read_text().split()]
        return [pid for pid in own if what in _command(pid)]

    def megabytes(self) -> float:
        """Memory of the service and of its processes; pages that they share are split."""
        assert self.process is not None
        total = 0
        for pid in (self.process.pid, *self._children()):
            with contextlib.suppress(OSError):
                lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
                total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        return total / 1000


def _make_token(stores: Path) -> str:
    configuration = Configuration(stores)
    configuration.own.mkdir(mode=0o700)
    database = open_database(configuration.where)
    try:
        with database.writing() as tx:
            return tokens.add_token(tx, "bench", "officer", per_second=1e6)[1]
    finally:
        database.close()


def _row(table: Path) -> dict[str, Any]:
    (row,) = pyarrow.parquet.read_table(table).slice(0, 1).to_pylist()
    left_out = ("churned", "customer", "row")
    sent: dict[str, Any] = {k: v for k, v in row.items() if k not in left_out}
    sent = json.loads(json.dumps(sent, default=str))
    return sent


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:  # it has ended
        return ""


def _quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
