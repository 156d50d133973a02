"""This room notices what no door may do: fail by its own mistake, hang up without a word."""

import asyncio
import gc
import logging
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import structlog

BEAT_S = 0.002
TOLD_FROM_S = 0.01
LAST = 6


@dataclass
class Finding:
    """Something that must not be, and what was sent just before."""

    number: int
    what: str
    sent: list[tuple[str, bytes]]

    def __str__(self) -> str:
        lines = [f"frame {self.number}: {self.what}"]
        lines += [f"    {door}: {data[:1_500].hex()} ({len(data)} bytes)" for door, data in self.sent]
        return "\n".join(lines)


@dataclass
class Watch:
    """What was seen while frames were thrown."""

    number: int = 0
    findings: list[Finding] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    held: list[tuple[float, int, str]] = field(default_factory=list)
    """Seconds of work, beats apart, that the loop did longest; each with what was sent last."""
    sent: deque[tuple[str, bytes]] = field(default_factory=lambda: deque(maxlen=LAST))
    _busy_until: float = 0.0

    def find(self, what: str) -> None:
        self.findings.append(Finding(self.number, what, list(self.sent)))

    def throws(self, door: str, data: bytes) -> None:
        """This leaves now; what the loop does from here on is the door's work, not the fuzzer's."""
        self.sent.append((door, data))
        self._busy_until = time.thread_time()

    async def beat(self) -> None:
        """Sleep shortly, again and again, and keep how much work lay between two beats."""
        while True:
            slept_at = time.thread_time()
            await asyncio.sleep(BEAT_S)
            # Of the loop's own thread: what other processes take of the machine is no work of a door.
            held_s = time.thread_time() - max(slept_at, self._busy_until)
            if held_s > TOLD_FROM_S:
                door, data = self.sent[-1] if self.sent else ("", b"")
                self.held.append((held_s, self.number, f"{door} {len(data)} bytes {data[:12].hex()}"))
                self.held = sorted(self.held, reverse=True)[:20]


class _Listening(logging.Handler):
    def __init__(self, watch: Watch) -> None:
        super().__init__(logging.WARNING)
        self.watch = watch

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR or record.exc_info:
            told = logging.Formatter().format(record)
            self.watch.find(f"logged {record.levelname}: {told}")


@contextmanager
def watched(watch: Watch) -> Iterator[None]:
    """Errors in logs, tracebacks, and exceptions that nobody took become findings inside the block."""

    def hear(_logger: Any, method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
        if event["event"] == "kafka_connection_closed":
            reason = str(event.get("reason", ""))
            watch.reasons[_kind(reason)] += 1
            if not reason:
                watch.find("a Kafka connection was closed without a reason")
        if method in ("error", "exception", "critical") or event.get("exc_info"):
            told = structlog.processors.format_exc_info(None, method, dict(event))
            watch.find(f"logged {method}: {told}")
        raise structlog.DropEvent

    loop = asyncio.get_running_loop()
    before = structlog.get_config()
    structlog.configure(processors=[hear], wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG))
    listening = _Listening(watch)
    root = logging.getLogger()
    others, root.handlers = root.handlers, [listening]
    loop.set_exception_handler(lambda _, context: watch.find(f"nobody took: {_told(context)}"))
    try:
        yield
        gc.collect()
    finally:
        loop.set_exception_handler(None)
        root.handlers = others
        structlog.configure(**before)


def _told(context: Mapping[str, Any]) -> str:
    error = context.get("exception")
    return f"{context.get('message')} {error!r} {context.get('future') or context.get('task') or ''}"


def _kind(reason: str) -> str:
    """Reasons that differ in a number, a name or an address are one kind."""
    words = reason.split(":")[0].split("(")[0]
    return " ".join(word for word in words.split() if not any(sign.isdigit() for sign in word))[:60]
