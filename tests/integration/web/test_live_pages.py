"""This room tests the live websocket of the real web process: who connects, what is said and resumed."""

import json
import urllib.error
import urllib.request
from typing import Any

import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.test import Client
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from access.grants import Role
from access.models import Principal
from access.service import create_token, create_user, may_enter
from access.sessions import LONGEST_MS
from groups.models import ConsumerGroup
from kafkaserver.version import own_version
from runtime.models import NodeSession
from tests.integration.web import cast
from tests.integration.web.served import WebProcess
from web.live import REREAD_MS

SOON_S = 60


@pytest.fixture
def session(web: WebProcess) -> str:
    """The cookie of a viewer's session."""
    client = Client()
    client.force_login(create_user("mira", Role.VIEWER, None))
    return f"muster_session={client.cookies['muster_session'].value}"


def live(web: WebProcess, cookie: str = "", origin: str | None = "") -> ClientConnection:
    """Connect as a page would; `origin` empty: the page's own."""
    own = Origin(web.url if origin == "" else origin) if origin is not None else None
    headers = {"Cookie": cookie} if cookie else {}
    return connect(f"{web.url.replace('http', 'ws')}/ws/live/", origin=own, additional_headers=headers)


def watch(socket: ClientConnection, key: str, **more: Any) -> dict[str, Any]:
    """Say what the page shows; the server's first answer to it."""
    socket.send(json.dumps({"watch": key, "rendered": "", "boot": "", "since": 0, **more}))
    return until(socket, lambda word: "boot" in word)


def until(socket: ClientConnection, fits: Any, words: int = 4 * SOON_S) -> dict[str, Any]:
    """The first word that fits, of so many; one comes each second, and at once when there is news."""
    for _ in range(words):
        word: dict[str, Any] = json.loads(socket.recv(timeout=SOON_S))
        if fits(word):
            return word
    raise AssertionError("the word never came")


def told_of_a_change(socket: ClientConnection) -> dict[str, Any]:
    """The word that tells of one, before the page would read itself anew without any."""
    return until(socket, lambda word: word.get("changed"), words=REREAD_MS // 1_000 // 2)


def refused(web: WebProcess, **more: Any) -> int:
    """The HTTP status with which the handshake is refused."""
    with pytest.raises(InvalidStatus) as caught:
        live(web, **more).close()
    return caught.value.response.status_code


def test_who_takes_it_for_a_node_is_told_that_nothing_is_there(web: WebProcess) -> None:
    """A consumer takes 403 for a word about its token."""
    for path in ("/ws/consumer/", "/ws/broker/", "/"):
        with pytest.raises(InvalidStatus) as caught:
            connect(f"{web.url.replace('http', 'ws')}{path}")
        assert caught.value.response.status_code == 404


def test_only_a_signed_in_page_of_this_origin_connects(web: WebProcess, session: str) -> None:
    assert refused(web) == 403
    assert refused(web, cookie="muster_session=forged") == 403
    assert refused(web, cookie='muster_session="a-session\\000of-nobody"') == 403, (
        "no session has a zero byte"
    )
    assert refused(web, cookie=session, origin="http://evil.example") == 403
    assert refused(web, cookie=session, origin=None) == 403
    assert refused(web, cookie=session, origin=web.url.replace("http", "https")) == 403
    assert refused(web, cookie=session, origin=web.url + ".evil.example") == 403
    with live(web, session) as socket:
        assert watch(socket, "overview")["boot"]
    Principal.objects.update(role="consumer")
    assert refused(web, cookie=session) == 403


def test_a_change_is_told_without_and_with_a_notification(web: WebProcess, session: str) -> None:
    group = cast.add_group("departures")
    with live(web, session) as socket:
        before = watch(socket, "group departures")
        until(socket, lambda word: not word.get("changed"))
        ConsumerGroup.objects.filter(name=group.name).update(version=418, generation=44)
        told = told_of_a_change(socket)
        assert told["sequence"] > before["sequence"]


def test_another_groups_change_is_not_told(web: WebProcess, session: str) -> None:
    cast.add_group("alone")
    cast.add_group("aside")
    with live(web, session) as here, live(web, session) as there:
        watch(here, "group alone")
        watch(there, "group aside")
        until(here, lambda word: "boot" not in word)
        until(there, lambda word: "boot" not in word)
        ConsumerGroup.objects.filter(name="aside").update(version=418)
        told = told_of_a_change(there)
        words = [until(here, lambda word: word["sequence"] >= told["sequence"]) for _ in range(2)]
        assert not any(word.get("changed") for word in words)


def test_what_changed_while_the_page_was_on_its_way_is_told(web: WebProcess, session: str) -> None:
    cast.add_group("departures")
    with live(web, session) as socket:
        watch(socket, "group departures", rendered="417/of/an/older/state")
        assert told_of_a_change(socket)


def test_a_page_that_comes_back_is_told_what_it_missed(web: WebProcess, session: str) -> None:
    cast.add_group("returning")
    with live(web, session) as socket:
        first = watch(socket, "group returning")
        last = until(socket, lambda word: "boot" not in word)
    resume = {"boot": first["boot"], "since": last["sequence"]}
    with live(web, session) as socket:
        assert watch(socket, "group returning", **resume)["missed"] == "nothing"
        ConsumerGroup.objects.update(version=420)
        told_of_a_change(socket)
    with live(web, session) as socket:
        assert watch(socket, "group returning", **resume)["missed"] == "something"
        assert told_of_a_change(socket)
    with live(web, session) as socket:
        assert watch(socket, "group returning", boot="another", since=3)["missed"] == "unknown"
        assert told_of_a_change(socket)


def test_a_malformed_word_ends_the_connection(web: WebProcess, session: str) -> None:
    frames: list[str | bytes] = ["{", "[]", '{"watch": 7}', '{"watch": ""}', "x" * 5_000, b"\0"]
    # What PostgreSQL cannot be asked would make the look of every page fail.
    frames += [r'{"watch": "group \u0000"}', r'{"watch": "group \ud800"}']
    for frame in frames:
        with live(web, session) as socket:
            socket.send(frame)
            with pytest.raises(ConnectionClosed) as caught:
                until(socket, lambda word: False)
            assert caught.value.rcvd is not None and caught.value.rcvd.code == 4400, frame


def test_a_page_that_talks_too_fast_is_cut_off(web: WebProcess, session: str) -> None:
    with live(web, session) as socket, pytest.raises(ConnectionClosed) as caught:
        for _ in range(100):
            socket.send(json.dumps({"watch": "overview"}))
        until(socket, lambda word: False)
    assert caught.value.rcvd is not None and caught.value.rcvd.code == 4429


def test_a_page_watches_one_thing(web: WebProcess, session: str) -> None:
    with live(web, session) as socket:
        watch(socket, "overview")
        socket.send(json.dumps({"watch": "cluster"}))
        with pytest.raises(ConnectionClosed) as caught:
            until(socket, lambda word: False)
    assert caught.value.rcvd is not None and caught.value.rcvd.code == 4400


def test_a_session_that_is_over_is_refused_and_an_open_page_keeps_it(web: WebProcess, session: str) -> None:
    stored = SessionStore(session.partition("=")[2])
    with live(web, session) as socket:
        watch(socket, "overview")
    seen = SessionStore(stored.session_key)["seen_ms"]
    stored.update({"seen_ms": seen - 120_000, "begun_ms": seen - 120_000})
    stored.save()
    with live(web, session) as socket:
        watch(socket, "overview")
    assert SessionStore(stored.session_key)["seen_ms"] >= seen
    stored.update({"seen_ms": seen, "begun_ms": seen - LONGEST_MS - 1})
    stored.save()
    assert refused(web, cookie=session) == 403


def test_a_takeover_is_told(web: WebProcess, session: str) -> None:
    """What has no owner does not move: the page must say so without another change."""
    cast.add_cluster()
    cast.add_group("departures")
    with live(web, session) as here, live(web, session) as there:
        for socket, key in ((here, "overview"), (there, "group departures")):
            watch(socket, key)
            until(socket, lambda word: "boot" not in word and not word["changed"])
        NodeSession.objects.update(ended=True)
        for socket in (here, there):
            assert told_of_a_change(socket)


def test_signing_out_ends_the_connection(web: WebProcess, session: str) -> None:
    with live(web, session) as socket:
        watch(socket, "overview")
        elsewhere = Client()
        elsewhere.cookies["muster_session"] = session.partition("=")[2]
        assert elsewhere.post("/logout/").status_code == 302
        with pytest.raises(ConnectionClosed) as caught:
            until(socket, lambda word: False)
        assert caught.value.rcvd is not None and caught.value.rcvd.code == 4401


@pytest.mark.parametrize("how", ["locked out", "of a role that may not view", "signed out everywhere"])
def test_whoever_may_view_no_more_loses_the_open_page(web: WebProcess, session: str, how: str) -> None:
    """By the wake-up at once; what nobody tells of, such as rows of sessions that go, within ten seconds."""
    with live(web, session) as socket:
        watch(socket, "overview")
        if how == "locked out":
            may_enter("mira", allowed=False)
        elif how == "signed out everywhere":
            SessionStore(session.partition("=")[2]).flush()
        else:
            create_user("mira", Role.CONSUMER, None)
        with pytest.raises(ConnectionClosed) as caught:
            until(socket, lambda word: False)
        assert caught.value.rcvd is not None and caught.value.rcvd.code == 4401


def status(url: str, **headers: str) -> tuple[int, str]:
    """The status and body of a GET."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=SOON_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_health_is_open_and_metrics_are_not(web: WebProcess) -> None:
    assert status(f"{web.url}/livez") == (200, "live\n")
    assert status(f"{web.url}/readyz") == (200, "ready\n")
    assert status(f"{web.url}/metrics")[0] == 401
    viewer, consumer = create_token("viewer", Role.VIEWER), create_token("cleo", Role.CONSUMER)
    assert status(f"{web.url}/metrics", Authorization=f"Bearer {consumer}")[0] == 403
    code, text = status(f"{web.url}/metrics", Authorization=f"Bearer {viewer}")
    assert code == 200 and "muster_web_live_pages 0.0" in text
    assert f'muster_build_info{{version="{own_version()}"}} 1.0' in text


def test_the_process_ends_cleanly_with_a_page_open(web: WebProcess, session: str) -> None:
    with live(web, session) as socket:
        watch(socket, "overview")
        assert web.stop() == 0
