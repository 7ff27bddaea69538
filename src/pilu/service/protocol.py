"""uvicorn's protocol, with a limit on how long the head of a call may take to arrive."""

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_SECONDS = 10.0


class Guarded(HttpToolsProtocol):
    """Closes a connection when the head of a call takes too long to arrive."""

    _deadline: Any = None

    def connection_made(self, transport: Any) -> None:
        """A client has connected."""
        super().connection_made(transport)
        self._wait()

    def on_message_begin(self) -> None:
        """A call begins."""
        self._wait()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head of a call is there."""
        self._stop_waiting()
        super().on_headers_complete()

    def connection_lost(self, exc: Any) -> None:
        """The connection is over."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._stop_waiting()
        self._deadline = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
