"""This room ends one try at REST in time, however slowly its answer comes."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx


class Patience:
    """What one try may take as a whole: httpx bounds each of its steps, and one that trickles has no last."""

    def __init__(self) -> None:
        self._stream: Any = None
        self._is_over = threading.Event()

    def note(self, event: str, told: dict[str, Any]) -> None:
        """Keep the newest connection; what httpx calls with all that it does (its extension `trace`)."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._stream = told["return_value"]
            if self._is_over.is_set():
                # Nobody else ends one that was made behind the end.
                self._hang_up()

    @contextmanager
    def within(self, timeout_s: float) -> Iterator[None]:
        """Raise httpx.ReadTimeout when it took longer."""
        is_over = self._is_over = threading.Event()

        def end() -> None:
            is_over.set()
            self._hang_up()

        timer = threading.Timer(timeout_s, end)
        timer.daemon = True
        timer.start()
        try:
            yield
        except httpx.TransportError as error:
            if not is_over.is_set():
                raise
            raise httpx.ReadTimeout("the answer came too slowly") from error
        else:
            if is_over.is_set():
                # What says not how long it is ends where its connection does: in the middle, by this hand.
                raise httpx.ReadTimeout("the answer came too slowly")
        finally:
            timer.cancel()

    def _hang_up(self) -> None:
        taken = None if self._stream is None else self._stream.get_extra_info("socket")
        if isinstance(taken, socket.socket):
            with suppress(OSError):
                # Of the socket below TLS, which another thread reads.
                socket.socket.shutdown(taken, socket.SHUT_RDWR)
