"""This room tests what pages are told while the database is silent: never that all is being read."""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from web import live
from web.live import Hub, LiveSocket, Scope, Unknown

SCOPE: Scope = {
    "headers": [(b"origin", b"http://pages"), (b"host", b"pages")],
    "extensions": {"websocket.http.response": {}},
}


class Browser:
    """The other end of one websocket."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.sent.put_nowait({"type": "websocket.connect"})

    def watch(self, key: str, boot: str = "", since: int = 0) -> None:
        """Say what the page shows, and what it heard last before it was cut off."""
        text = json.dumps({"watch": key, "rendered": "", "boot": boot, "since": since})
        self.sent.put_nowait({"type": "websocket.receive", "text": text})

    async def word(self, **fits: Any) -> dict[str, Any]:
        """The next word that has these values."""
        while True:
            event = await self.heard.get()
            said = json.loads(event.get("text", "{}"))
            if event["type"] == "websocket.send" and fits.items() <= said.items():
                return dict(said)


async def ann(scope: Scope) -> str | None:
    return "ann"


async def nobody_says(scope: Scope) -> str | None:
    raise Unknown


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that is waited for comes ten times as soon."""
    for name in ("SWEEP_MS", "STALE_MS", "RECHECK_MS"):
        monkeypatch.setattr(live, name, getattr(live, name) // 10)


def run(hub: Hub, browser: Browser, story: Any, who: live.Who = ann) -> None:
    """Let the hub and one socket live as long as the story takes."""

    async def all_of_it() -> None:
        socket = LiveSocket(hub, who, SCOPE, browser.sent.get, browser.heard.put)
        tasks = [asyncio.create_task(hub.run()), asyncio.create_task(socket.run())]
        async with asyncio.timeout(20):
            await story(tasks[1])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(all_of_it())


def test_a_look_that_hangs_is_no_news() -> None:
    hanging = asyncio.Event()

    async def read(watched: frozenset[str]) -> Mapping[str, str]:
        if hanging.is_set():
            await asyncio.Event().wait()
        return dict.fromkeys(watched, "1")

    browser = Browser()

    async def story(_: "asyncio.Task[None]") -> None:
        browser.watch("overview")
        await browser.word(reading=True)
        hanging.set()
        await browser.word(reading=False)

    run(Hub(read), browser, story)


def test_a_database_that_fails_is_said_and_nobody_is_sent_away() -> None:
    silent, asked = asyncio.Event(), asyncio.Semaphore(0)

    async def read(watched: frozenset[str]) -> Mapping[str, str]:
        if silent.is_set():
            raise OSError("the database is away")
        return dict.fromkeys(watched, "1")

    async def who(scope: Scope) -> str | None:
        if silent.is_set():
            asked.release()
            raise Unknown
        return "ann"

    browser = Browser()

    async def story(socket: "asyncio.Task[None]") -> None:
        browser.watch("overview")
        await browser.word(reading=True)
        silent.set()
        await browser.word(reading=False)
        for _ in range(2):
            await asked.acquire()
        assert not socket.done()
        silent.clear()
        await browser.word(reading=True)

    run(Hub(read), browser, story, who)


def test_a_handshake_without_an_answer_of_the_database_is_503_not_403() -> None:
    browser = Browser()

    async def story(socket: "asyncio.Task[None]") -> None:
        await socket
        assert (await browser.heard.get())["status"] == 503

    async def read(watched: frozenset[str]) -> Mapping[str, str]:
        return {}

    run(Hub(read), browser, story, nobody_says)


def test_a_page_reads_itself_now_and_then_without_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that grows old is in no row: a stalled partition would never be said on a quiet page."""
    monkeypatch.setattr(live, "REREAD_MS", 400)

    async def read(watched: frozenset[str]) -> Mapping[str, str]:
        return dict.fromkeys(watched, "1")

    browser = Browser()

    async def story(_: "asyncio.Task[None]") -> None:
        browser.watch("overview")
        # Whatever was rendered before differs from the first look.
        await browser.word(changed=True)
        sequence = (await browser.word(changed=False))["sequence"]
        again = await browser.word(changed=True)
        assert again["sequence"] == sequence

    run(Hub(read), browser, story)


def test_what_is_kept_no_more_is_not_said_to_be_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "CHANGES_KEPT", 2)
    looks: list[int] = []

    async def read(watched: frozenset[str]) -> Mapping[str, str]:
        """Of `group departures` one change, then `overview` changes each time."""
        looks.append(len(looks))
        return {"group departures": str(min(looks[-1], 1)), "overview": str(max(looks[-1], 1))}

    async def look() -> list[str]:
        hub = Hub(read)
        hub.pages |= {live.Page("ann", watch="group departures"), live.Page("ben", watch="overview")}
        answers = []
        for _ in range(4):
            await hub.look()
            answers.append(hub.told(hub.boot, 0, "group departures"))
        return answers

    assert asyncio.run(look()) == ["nothing", "something", "something", "unknown"]


def comes_back(read: live.Read, before: Callable[[], None]) -> str:
    """What a page hears that was there once, was cut off, and comes back behind `before`."""
    hub, first, again = Hub(read), Browser(), Browser()
    heard: list[str] = []

    async def story(_: "asyncio.Task[None]") -> None:
        first.watch("overview")
        word = await first.word(changed=True)
        before()
        socket = asyncio.create_task(LiveSocket(hub, ann, SCOPE, again.sent.get, again.heard.put).run())
        again.watch("overview", hub.boot, word["sequence"])
        heard.append((await again.word(boot=hub.boot))["missed"])
        socket.cancel()
        await asyncio.gather(socket, return_exceptions=True)

    run(hub, first, story)
    return heard[0]


def test_what_changed_since_the_last_look_was_missed() -> None:
    """A second before, the rows were as they had been: nothing was said to be missed, and all had changed."""
    value = ["1"]

    async def read(watched: frozenset[str]) -> Mapping[str, str]:
        return dict.fromkeys(watched, value[0])

    assert comes_back(read, lambda: value.append(value.pop() + "1")) == "something"
    assert comes_back(read, lambda: None) == "nothing"


def test_what_nobody_looked_at_meanwhile_is_not_said_to_be_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its key was forgotten, and looked at anew before the page was told: no number had come since."""
    monkeypatch.setattr(live, "LINGER_MS", 0)
    values = iter("12")

    async def read(watched: frozenset[str]) -> Mapping[str, str]:
        return dict.fromkeys(watched, next(values))

    async def look() -> str:
        hub, page = Hub(read), live.Page("ann", watch="overview")
        hub.pages.add(page)
        await hub.look()
        heard = hub.sequence
        hub.pages.remove(page)
        await hub.look()
        hub.pages.add(page)
        await hub.look()
        return hub.told(hub.boot, heard, "overview")

    assert asyncio.run(look()) == "unknown"


def test_while_the_database_is_away_nobody_knows_what_was_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LOOKED_WITHIN_S", 0.2)
    silent = asyncio.Event()

    async def read(watched: frozenset[str]) -> Mapping[str, str]:
        if silent.is_set():
            raise OSError("the database is away")
        return dict.fromkeys(watched, "1")

    assert comes_back(read, silent.set) == "unknown"


def test_pages_that_left_are_forgotten_when_too_many_were_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_WATCHED", 3)
    asked: list[int] = []

    async def read(watched: frozenset[str]) -> Mapping[str, str]:
        asked.append(len(watched))
        return {}

    async def look() -> None:
        hub = Hub(read)
        for number in range(10):
            page = live.Page("ann", watch=f"group {number}")
            hub.pages.add(page)
            await hub.look()
            hub.pages.discard(page)

    asyncio.run(look())
    assert max(asked) <= 4
