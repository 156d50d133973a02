"""This room keeps open pages fresh, one websocket a page: it says that rows changed, never how.

A wake-up (or, without one, each second) makes the hub read a fingerprint of every page that is being
looked at; a fingerprint that differs is a change with a number. The page then reads itself over HTTP. So
a lost word costs a second, never truth (law 2), and a wake-up without a change costs nobody anything.
"""

import asyncio
import contextlib
import json
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from runtime import database_clock
from web import silence

log = structlog.get_logger(__name__)

CHANGES_KEPT = 1_000
SWEEP_MS = 1_000
LINGER_MS = 60_000
LEAST_INTERVAL_MS = 250
"""At most four updates a second for a page."""

REREAD_MS = 30_000
"""A page reads itself so often although no row changed: some of what it says only time makes true."""

STALE_MS = 3_000
"""Older than this, what was read is no news any more: pages are told that nothing is being read."""

LOOKED_WITHIN_S = 2.0
"""So long a page that comes back waits for the look that says what it missed."""

MOST_WATCHED = 2_000
"""Beyond it, pages that left are forgotten at once."""

LARGEST_FRAME_BYTES = 4_096
LONGEST_KEY = 300
MOST_SOCKETS = 1_000
MOST_SOCKETS_OF_A_PERSON = 50
MESSAGES_A_SECOND = 10


class Unknown(Exception):
    """The database did not say whether this person may watch."""


Read = Callable[[frozenset[str]], Awaitable[Mapping[str, str]]]
"""Reads the fingerprints of the watched keys; a key without one does not exist."""


@dataclass(eq=False)
class Page:
    """One open page: what it watches, the fingerprint it was rendered with, what it has not been told yet."""

    person: str
    watch: str = ""
    rendered: str | None = None
    changed: bool = False
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    doubt: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self) -> None:
        """Let the page be told at its next turn to speak."""
        self.changed = True
        self.wake.set()


class Hub:
    """The changes of this process, numbered, and the pages that want them."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._seen: dict[str, str] = {}
        self._begun: dict[str, int] = {}
        self._wanted_at: dict[str, float] = {}
        self._kept: deque[tuple[int, str]] = deque(maxlen=CHANGES_KEPT)
        self._woken = asyncio.Event()
        self.pages: set[Page] = set()
        self.boot = secrets.token_hex(4)
        self.sequence = 0
        self._read_at = time.monotonic()
        self._failing = False
        self._looked = asyncio.Event()

    def woken(self) -> None:
        """A row may have changed; look before the second is over."""
        self._woken.set()

    def doubted(self, person: str) -> None:
        """This person may have signed out, or lost a role; empty: anybody may."""
        for page in self.pages:
            if person in ("", page.person):
                page.doubt.set()

    @property
    def reading(self) -> bool:
        """True while what is watched is being read: a look that hangs counts for nothing."""
        return not self._failing and time.monotonic() - self._read_at < STALE_MS / 1000

    @property
    def as_of_ms(self) -> int:
        """When, by the database's clock, the last look began that could read: what is shown was true then.

        A moment, not an age: a word may be long on its way.
        """
        age_ms = (time.monotonic() - self._read_at) * 1000
        return int(database_clock.now().timestamp() * 1000 - age_ms)

    def room_for(self, person: str) -> bool:
        """True if one more page of this person may connect."""
        theirs = sum(1 for page in self.pages if page.person == person)
        return len(self.pages) < MOST_SOCKETS and theirs < MOST_SOCKETS_OF_A_PERSON

    async def missed(self, boot: str, since: int, watch: str) -> str:
        """What a page that comes back missed: `nothing`, `something`, or `unknown` when nobody can tell.

        Rows are looked at first: what changed since the last look, or while the database was away, has no
        number yet.
        """
        return self.told(boot, since, watch) if await self._has_looked() else "unknown"

    def told(self, boot: str, since: int, watch: str) -> str:
        """The same of what was looked at last."""
        begun = self._begun.get(watch)
        if boot != self.boot or begun is None or not begun <= since <= self.sequence:
            return "unknown"
        if self._kept and since + 1 < self._kept[0][0]:
            return "unknown"
        return "something" if any(at > since and key == watch for at, key in self._kept) else "nothing"

    async def _has_looked(self) -> bool:
        """Wait for a look that begins from now on; False: none has ended well for a while."""
        came = time.monotonic()
        self.woken()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOKED_WITHIN_S):
                while self._read_at < came:
                    await self._looked.wait()
        return self._read_at >= came

    async def run(self) -> None:
        """Look at what is being watched until cancelled: when woken, else once a second."""
        while True:
            started = time.monotonic()
            try:
                await self.look()
                self._read_at, self._failing = started, False
            except Exception as error:  # the database may be away: pages say so, the next look tries again
                if not self._failing:
                    log.warning("live pages cannot read", error=type(error).__name__)
                self._failing = True
                silence.noticed_by(error)
            self._looked.set()
            self._looked = asyncio.Event()
            await asyncio.sleep(max(0.0, LEAST_INTERVAL_MS / 1000 - (time.monotonic() - started)))
            rest = SWEEP_MS / 1000 - (time.monotonic() - started)
            await _set_within(self._woken, max(0.0, rest))
            self._woken.clear()

    async def look(self) -> None:
        """Read the watched fingerprints once and number what differs."""
        watched = self._watched()
        if not watched:
            return
        found = await self._read(watched)
        for key in watched:
            value = found.get(key, "")
            if key not in self._seen:
                self._begun[key] = self.sequence
            elif self._seen[key] != value:
                self._number(key)
            self._seen[key] = value
        for page in self.pages:
            # What changed between the rendering of the page and its first word here.
            if page.rendered is not None and page.watch in self._seen:
                if page.rendered != self._seen[page.watch]:
                    page.tell()
                page.rendered = None

    def _watched(self) -> frozenset[str]:
        """The keys of open pages, and for a while those of pages that left: they may come back."""
        now = time.monotonic()
        for page in self.pages:
            if page.watch:
                self._wanted_at[page.watch] = now
        crowded = len(self._wanted_at) > MOST_WATCHED
        for key, at in list(self._wanted_at.items()):
            if now - at > (0 if crowded else LINGER_MS / 1000):
                del self._wanted_at[key]
                # Who heard an earlier number heard it before a time in which nobody looked at this.
                self.sequence += 1
                self._seen.pop(key, None)
                self._begun.pop(key, None)
        return frozenset(self._wanted_at)

    def _number(self, key: str) -> None:
        self.sequence += 1
        self._kept.append((self.sequence, key))
        for page in self.pages:
            if page.watch == key:
                page.tell()


Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Who = Callable[[Scope], Awaitable[str | None]]
"""The name of the person whose session the handshake carries, if they may view; None otherwise, and for a
page of another site.

Raises Unknown if the database does not answer.
"""

REFUSED, TOO_MANY, MALFORMED, SIGNED_OUT = 4403, 4429, 4400, 4401
TRY_LATER = 1013
RECHECK_MS = 10_000


class LiveSocket:
    """One websocket of one page, from the handshake to the end."""

    def __init__(self, hub: Hub, who: Who, scope: Scope, receive: Receive, send: Send) -> None:
        self._hub = hub
        self._who = who
        self._scope = scope
        self._receive = receive
        self._send = send
        self._heard_at: deque[float] = deque(maxlen=MESSAGES_A_SECOND)

    async def run(self) -> None:
        """Refuse before accepting whoever is a stranger; then speak each second and hear what is watched."""
        await self._receive()
        try:
            person = await self._who(self._scope)
        except Unknown:
            return await self._refuse_for_now()
        if person is None or not self._hub.room_for(person):
            # Closing before accepting answers the handshake with 403.
            await self._send({"type": "websocket.close", "code": REFUSED if person is None else TOO_MANY})
            return
        page = Page(person)
        # Before the handshake ends: of many that come together each counts the others.
        self._hub.pages.add(page)
        tasks: list[asyncio.Task[int | None]] = []
        try:
            await self._send({"type": "websocket.accept"})
            parts = (self._hear(page), self._speak(page), self._check(page))
            tasks += [asyncio.create_task(part) for part in parts]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            code = next((task.result() for task in done if not task.cancelled()), None)
        finally:
            self._hub.pages.discard(page)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if code is not None:
            await self._send({"type": "websocket.close", "code": code})

    async def _hear(self, page: Page) -> int | None:
        """Hear `{"watch", "rendered", "boot", "since"}`; the code to close with, None if the peer is gone."""
        while True:
            event = await self._receive()
            if event["type"] == "websocket.disconnect":
                return None
            if self._too_fast():
                return TOO_MANY
            said = _read_frame(event)
            if said is None or page.watch not in ("", said.watch):
                return MALFORMED
            page.watch, page.rendered = said.watch, said.rendered
            missed = await self._hub.missed(said.boot, said.since, said.watch) if said.boot else ""
            await self._say({"boot": self._hub.boot, "sequence": self._hub.sequence, "missed": missed})
            if missed in ("something", "unknown"):
                page.tell()
            self._hub.woken()

    async def _speak(self, page: Page) -> int | None:
        """Say what changed at most four times a second, and that the server lives once a second."""
        told_at = time.monotonic()
        while True:
            await _set_within(page.wake, SWEEP_MS / 1000)
            page.wake.clear()
            reading = self._hub.reading
            old = reading and time.monotonic() - told_at > REREAD_MS / 1000
            changed, page.changed = page.changed or old, False
            word = {"sequence": self._hub.sequence, "changed": changed, "reading": reading}
            await self._say({**word, "as_of_ms": self._hub.as_of_ms})
            if changed:
                told_at = time.monotonic()
                await asyncio.sleep(LEAST_INTERVAL_MS / 1000)

    async def _check(self, page: Page) -> int:
        """Ask in doubt, and now and then, whether the person may still watch; silence sends nobody away."""
        while True:
            await _set_within(page.doubt, RECHECK_MS / 1000)
            page.doubt.clear()
            with contextlib.suppress(Unknown):
                if await self._who(self._scope) is None:
                    return SIGNED_OUT

    async def _refuse_for_now(self) -> None:
        """Answer the handshake with 503: nobody can say now who asks, and the page tries again by itself."""
        if "websocket.http.response" not in self._scope.get("extensions", {}):
            return await self._send({"type": "websocket.close", "code": TRY_LATER})
        headers = [(b"retry-after", b"2"), (b"content-type", b"text/plain")]
        await self._send({"type": "websocket.http.response.start", "status": 503, "headers": headers})
        await self._send({"type": "websocket.http.response.body", "body": b"the database does not answer\n"})

    async def _say(self, message: dict[str, Any]) -> None:
        await self._send({"type": "websocket.send", "text": json.dumps(message)})

    def _too_fast(self) -> bool:
        now = time.monotonic()
        full = len(self._heard_at) == MESSAGES_A_SECOND
        too_fast = full and now - self._heard_at[0] < 1.0
        self._heard_at.append(now)
        return too_fast


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    """Return when the event is set, or when so much time has passed."""
    with contextlib.suppress(TimeoutError):
        # Not `wait_for`, which in Python 3.11 forgets a cancellation that comes with what it awaits.
        async with asyncio.timeout(seconds):
            await event.wait()


@dataclass(frozen=True, slots=True)
class Said:
    """What a page says when it connects: what it shows, and the last it heard before."""

    watch: str
    rendered: str
    boot: str
    since: int


def _read_frame(event: Mapping[str, Any]) -> Said | None:
    text = event.get("text")
    if text is None or len(text) > LARGEST_FRAME_BYTES:
        return None
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    watch, rendered, boot = said.get("watch"), said.get("rendered", ""), said.get("boot", "")
    since = said.get("since", 0)
    if not (
        isinstance(watch, str) and isinstance(rendered, str) and isinstance(boot, str) and type(since) is int
    ):
        return None
    fits = 0 < len(watch) <= LONGEST_KEY and _can_be_asked(watch)
    return Said(watch, rendered, boot, since) if fits else None


def _can_be_asked(text: str) -> bool:
    """True if PostgreSQL takes the text: one page must not make the look of all pages fail."""
    try:
        return b"\x00" not in text.encode()
    except UnicodeEncodeError:
        return False
