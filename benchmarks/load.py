"""A load on a server of this machine: a number of connections, each with one call at a time.

It goes to loopback alone, and ends by itself after a number of calls or seconds. It runs in a
process of its own: `python -m benchmarks.load PORT CONNECTIONS SECONDS CALLS`, with the calls, as
raw HTTP, in JSON on stdin. Prints the seconds of each call, its status, and how long all took.
"""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

HOST = "127.0.0.1"


class _Connection(asyncio.Protocol):
    """Sends a call, waits for the whole answer, sends the next."""

    def __init__(self, load: "_Load") -> None:
        self.load, self.received, self.started = load, bytearray(), 0.0
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._send()

    def _send(self) -> None:
        call = self.load.next_call()
        if call is None:
            self.transport.close()
            return
        self.started = time.perf_counter()
        self.transport.write(call)

    def data_received(self, data: bytes) -> None:
        self.received += data
        head = self.received.find(b"\r\n\r\n")
        if head < 0:
            return
        lowered = bytes(self.received[:head]).lower()
        at = lowered.find(b"content-length: ")
        length = int(lowered[at + 16 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(self.received) < head + 4 + length:
            return
        self.load.note(time.perf_counter() - self.started, int(self.received[9:12]))
        del self.received[: head + 4 + length]
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        self.load.lost(bytes(self.received))


class _Load:
    def __init__(self, calls: Sequence[bytes], n_calls: int, seconds: float) -> None:
        self.calls, self.n_calls, self.sent = calls, n_calls, 0
        self.until = time.perf_counter() + seconds
        self.took: list[float] = []
        self.statuses: dict[int, int] = {}
        self.open, self.done = 0, asyncio.Event()

    def next_call(self) -> bytes | None:
        if self.sent >= self.n_calls or time.perf_counter() > self.until:
            return None
        self.sent += 1
        return self.calls[(self.sent - 1) % len(self.calls)]

    def note(self, seconds: float, status: int) -> None:
        self.took.append(seconds)
        self.statuses[status] = self.statuses.get(status, 0) + 1

    def lost(self, rest: bytes) -> None:
        if rest:
            self.statuses[0] = self.statuses.get(0, 0) + 1
        self.open -= 1
        if self.open == 0:
            self.done.set()


async def run(
    port: int, calls: Sequence[bytes], *, connections: int, seconds: float, n_calls: int
) -> dict[str, Any]:
    """Make the calls, and report."""
    load, loop = _Load(calls, n_calls, seconds), asyncio.get_running_loop()
    load.open = connections
    started = time.perf_counter()
    for _ in range(connections):
        await loop.create_connection(lambda: _Connection(load), HOST, port)
    await asyncio.wait_for(load.done.wait(), seconds + 60)
    whole = time.perf_counter() - started
    return {"took": load.took, "statuses": load.statuses, "whole": whole}


def main() -> None:
    port, connections, seconds, n_calls = (float(word) for word in sys.argv[1:5])
    calls = [text.encode() for text in json.load(sys.stdin)]
    found = asyncio.run(
        run(
            int(port),
            calls,
            connections=int(connections),
            seconds=seconds,
            n_calls=int(n_calls),
        )
    )
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
