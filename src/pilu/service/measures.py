"""Measures for Prometheus. Counts of requests come from the database, so every process agrees."""

import os
import time
from collections.abc import Iterator
from datetime import date
from typing import Any

from pilu._extras import need
from pilu.service import due, outbox, queue
from pilu.service.database import Database
from pilu.service.stores import Stores

_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Measures:
    """Counters of this process, or of all processes of the service if there are several."""

    def __init__(self) -> None:
        self._client = need("prometheus_client", for_="pilu serve", extra="serve")
        self._registry = self._client.CollectorRegistry()
        self._seconds = self._client.Histogram(
            "pilu_http_seconds", "Time to answer a call.", ["method", "route", "status"],
            buckets=_BUCKETS, registry=self._registry,
        )  # fmt: skip
        self._series: dict[tuple[str, str, int], Any] = {}

    def note(self, method: str, route: str, status: int, seconds: float) -> None:
        """Note an answered call."""
        key = (method if method.isalpha() and len(method) < 10 else "other", route, status)
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = self._seconds.labels(key[0], route, str(status))
        series.observe(seconds)

    def text(self, database: Database, stores: Stores) -> bytes:
        """All measures in Prometheus' text format."""
        registry = self._registry
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            registry = self._client.CollectorRegistry()
            need("prometheus_client.multiprocess", for_="pilu serve", extra="serve")
            self._client.multiprocess.MultiProcessCollector(registry)
        counted = self._client.CollectorRegistry()
        counted.register(_Counted(database, stores))
        text: bytes = self._client.generate_latest(registry) + self._client.generate_latest(counted)
        return text


class _Counted:
    """What the database says now."""

    def __init__(self, database: Database, stores: Stores) -> None:
        self.database, self.stores = database, stores

    def describe(self) -> list[Any]:
        return []

    def collect(self) -> Iterator[Any]:
        core = need("prometheus_client.core", for_="pilu serve", extra="serve")
        gauges = {
            name: core.GaugeMetricFamily(f"pilu_{name}", words, labels=["store"])
            for name, words in (
                ("requests_waiting", "Requests that have not ended."),
                ("requests_overdue", "Requests whose last day has passed."),
                ("requests_failing", "Waiting requests that could not be carried out so far."),
                ("oldest_request_seconds", "How long the oldest request has been waiting."),
            )
        }
        now = time.time()
        with self.database.reading() as tx:
            for name in self.stores.names():
                n, late = queue.count_open(tx, name, date.today())
                failing, oldest = due.trouble_in(tx, name)
                age = 0.0 if oldest is None else now - oldest
                for gauge, value in zip(gauges.values(), (n, late, failing, age), strict=True):
                    gauge.add_metric([name], value)
            pending, given_up = outbox.callbacks_open(tx)
        yield from gauges.values()
        yield core.GaugeMetricFamily("pilu_callbacks_waiting", "Callbacks to be sent.", pending)
        yield core.GaugeMetricFamily(
            "pilu_callbacks_given_up", "Callbacks that nobody accepted.", given_up
        )
