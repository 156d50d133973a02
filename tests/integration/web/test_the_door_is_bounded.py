"""This room tests the web process's bounds: heads, bodies, desks, and a database that stopped itself."""

import asyncio
import http.client
import os
import signal
import socket
from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
import uvicorn
from asgiref.sync import sync_to_async
from django.db import close_old_connections, connections
from django.test import Client
from uvicorn.server import ServerState

from access import bounded_http
from access.bounded_http import LARGEST_HEAD_BYTES
from access.grants import Role
from access.service import create_token, create_user
from standalone.postgres import Postgres
from tests.integration.web.served import END_ALL, WebProcess, closed
from web.desks import Busy, Desks, Message, Silent
from web.doors import HttpDoor, refusal, unanswered

SCOPE: dict[str, Any] = {"type": "http", "path": "/", "headers": []}


def send(web: WebProcess, text: bytes) -> socket.socket:
    """A connection on which these bytes were sent."""
    parts = urlsplit(web.url)
    assert parts.hostname and parts.port
    opened = socket.create_connection((parts.hostname, parts.port), timeout=20)
    opened.sendall(text)
    return opened


def status(web: WebProcess, text: bytes) -> int:
    """The status of the answer to these bytes."""
    with send(web, text) as opened:
        answer = http.client.HTTPResponse(opened)
        answer.begin()
        answer.read()
        return answer.status


def is_closed(opened: socket.socket) -> bool:
    """True as soon as the other side has hung up; a reset counts, too."""
    try:
        return opened.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_body_that_no_form_has_is_refused_before_it_is_kept(web: WebProcess) -> None:
    head = b"POST /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    assert status(web, head + b"Content-Length: 99999999999\r\n\r\n") == 413
    chunk = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
    assert status(web, head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 20) == 413
    assert status(web, b"POST /api/v1/groups HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n\r\n") == 413


def test_a_head_that_never_ends_is_hung_up_on(web: WebProcess) -> None:
    endless = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * (LARGEST_HEAD_BYTES + 1)
    with send(web, endless) as opened:
        assert is_closed(opened)
    with send(web, b"GET /" + b"x" * (LARGEST_HEAD_BYTES + 1)) as opened:
        assert is_closed(opened)


def test_who_says_nothing_or_too_slowly_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_http, "HEAD_WITHIN_MS", 200)

    async def story() -> list[bytes]:
        settings = uvicorn.Config(nobody, http=bounded_http.BoundedHttp, lifespan="off", log_config=None)
        settings.load()
        state, loop = ServerState(), asyncio.get_running_loop()
        made = partial(bounded_http.BoundedHttp, settings, state, {})
        server = await loop.create_server(made, "127.0.0.1", 0)
        heard = []
        for said in (b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: a\r\n"):
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(said)
            heard.append(await reader.read())
            writer.close()
        server.close()
        return heard

    assert asyncio.run(story()) == [b"", b"", b""]


async def nobody(scope: Any, receive: Any, send_answer: Any) -> None:
    raise AssertionError("no request was whole")


def test_one_connection_carries_many_requests(web: WebProcess) -> None:
    parts = urlsplit(web.url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=20)
    for _ in range(3):
        connection.request("GET", "/login/")
        answer = connection.getresponse()
        assert (answer.status, b"Sign in" in answer.read()) == (200, True)
    connection.close()


def backends(server: Postgres, database: str) -> list[int]:
    """The process ids of PostgreSQL that serve the web process."""
    with psycopg.connect(server.superuser_url(), autocommit=True) as connection:
        rows = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = %s AND application_name LIKE 'muster-web%%'",
            [database],
        ).fetchall()
    return [pid for (pid,) in rows]


@pytest.fixture
def database(web: WebProcess) -> str:
    """The name of the web process's database."""
    return str(connections["default"].settings_dict["NAME"])


@pytest.fixture
def closed_database(web: WebProcess, database: str, postgres_server: Postgres) -> Iterator[None]:
    """Nobody gets into the database, as while it restarts; open again after the test."""
    with closed(postgres_server, database):
        yield


@pytest.fixture
def cookie(web: WebProcess) -> str:
    """The session of an operator."""
    client = Client()
    client.force_login(create_user("mira", Role.OPERATOR, None))
    return f"muster_session={client.cookies['muster_session'].value}"


@pytest.fixture
def token(web: WebProcess) -> str:
    """The token of a viewer."""
    return create_token("viewer", Role.VIEWER)


def ask(web: WebProcess, path: str, **headers: str) -> tuple[int, http.client.HTTPMessage, str]:
    """Status, headers and body of a GET."""
    connection = http.client.HTTPConnection(urlsplit(web.url).netloc, timeout=30)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, answer.headers, body


def test_without_a_database_doors_say_503_and_when_to_ask_again(
    web: WebProcess, cookie: str, token: str, closed_database: None
) -> None:
    for path in ("/", "/groups/", "/groups/orders/", "/cluster/", "/admin/", "/login/once/x/"):
        code, headers, body = ask(web, path, Cookie=cookie)
        assert (code, headers["Retry-After"]) == (503, "2"), path
        assert "The database did not answer" in body and "request " in body, path
    code, headers, body = ask(web, "/api/v1/groups", Authorization=f"Bearer {token}")
    assert (code, headers["Retry-After"]) == (503, "2")
    assert headers["Content-Type"].startswith("application/problem+json")
    assert ask(web, "/readyz")[0] == 503
    assert ask(web, "/livez")[0] == 200
    assert ask(web, "/login/")[0] == 200


@pytest.fixture
def other_schema(web: WebProcess) -> Iterator[None]:
    """Tables have other names, as before or behind a migration; their own again after the test."""
    names = ("lease", "consumer_group", "topic")
    with connections["default"].cursor() as cursor:
        for name in names:
            cursor.execute(f"ALTER TABLE {name} RENAME TO {name}_of_later")
        try:
            yield
        finally:
            for name in names:
                cursor.execute(f"ALTER TABLE {name}_of_later RENAME TO {name}")


def test_on_the_schema_of_another_version_doors_say_503_and_what_to_run(
    web: WebProcess, cookie: str, token: str, other_schema: None
) -> None:
    for path in ("/", "/groups/", "/topics/", "/topics/orders/"):
        code, _, body = ask(web, path, Cookie=cookie)
        assert code == 503 and "run manage.py migrate" in body, (path, code)
    for path in ("/api/v1/groups", "/api/v1/topics", "/api/v1/findings"):
        code, headers, body = ask(web, path, Authorization=f"Bearer {token}")
        assert code == 503 and "run manage.py migrate" in body, (path, code)
        assert headers["Content-Type"].startswith("application/problem+json")
    assert ask(web, "/livez")[0] == 200


def post(web: WebProcess, path: str, body: str, **headers: str) -> tuple[int, str]:
    """Status and body of the answer to a form."""
    connection = http.client.HTTPConnection(urlsplit(web.url).netloc, timeout=30)
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    connection.request("POST", path, body, headers | kind)
    answer = connection.getresponse()
    said = answer.read().decode()
    connection.close()
    return answer.status, said


def test_a_form_without_an_answer_is_shown_to_be_sent_again_as_it_is(
    web: WebProcess, cookie: str, closed_database: None
) -> None:
    secret = "a" * 32
    headers = {"Cookie": f"{cookie}; csrftoken={secret}; muster_csrf={secret}"}
    form = f"csrfmiddlewaretoken={secret}&topic=a%22%3Cb&key=k1&go=yes"
    code, said = post(web, "/cluster/ask/create-topic/", form, **headers)
    assert code == 503 and "done once" in said
    for name, value in (("topic", "a&quot;&lt;b"), ("key", "k1"), ("go", "yes")):
        assert f'name="{name}" value="{value}"' in said
    assert 'method="post"' in said and "Send it again" in said
    # What has no key might be done twice: it is not offered.
    code, said = post(web, "/cluster/ask/create-topic/", f"csrfmiddlewaretoken={secret}&go=yes", **headers)
    assert code == 503 and "Whether it was done is not known" in said and 'method="post"' not in said


@pytest.mark.parametrize("why", ["busy", "silent"])
def test_a_form_that_no_desk_answered_is_shown_too(why: str) -> None:
    form = [(b"content-type", b"application/x-www-form-urlencoded")]
    scope = {"type": "http", "method": "POST", "path": "/ask/rebalance/shipping/", "headers": form}
    start, body = unanswered(scope, b"key=k1&reason=x", why)
    assert start["status"] == 503 and b'name="reason" value="x"' in body["body"]
    _, body = unanswered(scope | {"path": "/login/"}, b"username=mira&password=secret", why)
    assert b"Go back and sign in again" in body["body"] and b"secret" not in body["body"]
    _, body = unanswered(scope | {"method": "GET"}, b"", why)
    assert b'method="post"' not in body["body"] and b"could not be read" in body["body"]
    _, body = unanswered(scope | {"path": "/api/v1/topics"}, b"key=k1", why)
    assert b"k1" not in body["body"]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(("chosen", "shown"), [("dark", True), ('dark"', False), ("", False)])
def test_an_answer_without_django_has_the_theme_that_was_chosen(
    method: str, chosen: str, shown: bool
) -> None:
    """Whoever chose the dark was shown a white page while the database was away, and at no other time."""
    headers = [(b"cookie", f"muster_session=x; muster_theme={chosen}".encode())]
    scope = {"type": "http", "method": method, "path": "/", "headers": headers}
    _, body = unanswered(scope, b"", "silent")
    assert (b'<html lang="en" data-theme="dark">' in body["body"]) is shown
    assert (b"data-theme" in body["body"]) is shown


def test_a_page_comes_back_with_the_database(web: WebProcess, cookie: str, database: str) -> None:
    assert ask(web, "/groups/", Cookie=cookie)[0] == 200
    # Every connection that the process keeps is dead, as after a restart of PostgreSQL.
    with connections["default"].cursor() as cursor:
        cursor.execute(END_ALL, [database])
    assert ask(web, "/groups/", Cookie=cookie)[0] == 200


def test_few_connections_serve_many_requests(
    web: WebProcess, cookie: str, database: str, postgres_server: Postgres
) -> None:
    async def many() -> list[int]:
        asked = (asyncio.to_thread(ask, web, "/cluster/", Cookie=cookie) for _ in range(40))
        return [code for code, _, _ in await asyncio.gather(*asked)]

    assert set(asyncio.run(many())) == {200}
    # Eight desks, the look, two handshakes, the one that listens, and one that feels in doubt.
    assert len(backends(postgres_server, database)) <= 13


def test_a_frozen_backend_costs_one_desk_for_a_while(fresh_database: str) -> None:
    """SIGSTOP, not a dead server: nothing is ever answered, and no timeout of PostgreSQL runs."""
    frozen: list[int] = []

    async def handle(scope: Any, receive: Any, send_answer: Any) -> None:
        def work() -> None:
            close_old_connections()  # as Django does when a request begins
            with connections["default"].cursor() as cursor:
                cursor.execute("SELECT pg_backend_pid()")
                if scope["path"] == "/freeze":
                    frozen.append(cursor.fetchone()[0])
                    os.kill(frozen[0], signal.SIGSTOP)
                    cursor.execute("SELECT 1")

        await sync_to_async(work)()
        await send_answer({"type": "http.response.start", "status": 200, "headers": []})

    async def story() -> list[Message]:
        desks = Desks(handle, number=1, work_ms=500)
        with pytest.raises(Busy):
            await desks.answer({**SCOPE, "path": "/freeze"}, b"")
        # The desk's socket was cut: its thread is free again although the backend still stands still.
        said = await desks.answer(SCOPE, b"")
        await desks.close()
        return said

    try:
        (said,) = asyncio.run(story())
        assert said["status"] == 200
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)


def test_a_queue_that_is_full_or_too_slow_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.desks.MOST_WAITING", 1)

    async def story() -> None:
        begun = asyncio.Event()

        async def handle(scope: Any, receive: Any, send_answer: Any) -> None:
            assert (await receive())["type"] == "http.request"
            begun.set()
            assert (await receive())["type"] == "http.disconnect"

        desks = Desks(handle, number=1, wait_ms=100, work_ms=1_000)
        first = asyncio.create_task(desks.answer(SCOPE, b""))
        await begun.wait()
        second = asyncio.create_task(desks.answer(SCOPE, b""))
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await desks.answer(SCOPE, b"")
        assert not second.done(), "who finds no room does not wait"
        for one in (second, first):
            with pytest.raises(Busy):
                await one
        await desks.close()

    asyncio.run(story())


def test_a_head_that_comes_in_one_piece_is_bounded_too(web: WebProcess) -> None:
    with send(web, b"GET /livez HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 40_000 + b"\r\n\r\n") as opened:
        assert is_closed(opened)
    assert status(web, b"GET /livez HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 30_000 + b"\r\n\r\n") == 200


def test_a_database_that_answers_nobody_is_told_at_once_and_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both who has a desk and who waits for one; the work itself may take a minute."""
    monkeypatch.setattr("web.desks.DOUBT_MS", 20)

    async def handle(scope: Any, receive: Any, send_answer: Any) -> None:
        await receive()
        await receive()

    async def no_beat() -> bool:
        return False

    async def story() -> list[object]:
        desks = Desks(handle, number=1, wait_ms=60_000, work_ms=60_000, beats=no_beat)
        async with asyncio.timeout(20):
            asked = (desks.answer(SCOPE, b"") for _ in range(3))
            found = await asyncio.gather(*asked, return_exceptions=True)
        await desks.close()
        return list(found)

    assert all(isinstance(one, Silent) for one in asyncio.run(story()))


def test_slow_work_on_a_database_that_answers_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.desks.DOUBT_MS", 20)
    asked = []

    async def story() -> list[Message]:
        felt = asyncio.Event()

        async def handle(scope: Any, receive: Any, send_answer: Any) -> None:
            await felt.wait()
            await send_answer({"type": "http.response.start", "status": 200, "headers": []})

        async def beats() -> bool:
            asked.append(1)
            felt.set()
            return True

        desks = Desks(handle, number=1, beats=beats)
        said = await desks.answer(SCOPE, b"")
        await desks.close()
        return said

    assert asyncio.run(story())[0]["status"] == 200 and asked == [1]


@pytest.mark.parametrize(
    ("path", "kind", "words"),
    [
        ("/readyz", "text/plain", "The database did not answer"),
        ("/metrics", "text/plain", "The database did not answer"),
        ("/api", "application/problem+json", "no offset is committed"),
        ("/api/v1/groups", "application/problem+json", "no offset is committed"),
        ("/groups/", "text/html", ">Try again</a>"),
    ],
)
def test_a_silent_database_is_told_truly_in_the_shape_that_was_asked_for(
    path: str, kind: str, words: str
) -> None:
    start, body = refusal(path, "silent")
    headers = dict(start["headers"])
    assert (start["status"], headers[b"retry-after"]) == (503, b"2")
    assert headers[b"content-type"].startswith(kind.encode())
    assert words in body["body"].decode() and "keep working" not in body["body"].decode()


def test_who_asks_whether_it_is_ready_is_answered_by_the_pulse() -> None:
    """Also while every desk is held by a request that waits for the database."""

    async def story() -> list[Message]:
        door = HttpDoor(nobody)

        async def no_beat() -> bool:
            return False

        door._pulse.beats = no_beat  # type: ignore[method-assign]
        said: list[Message] = []

        async def keep(message: Message) -> None:
            said.append(message)

        await door({**SCOPE, "path": "/readyz", "method": "GET"}, keep, keep)  # type: ignore[arg-type]
        return said

    start, body = asyncio.run(story())
    assert (start["status"], body["body"]) == (503, b"the database does not answer\n")


def test_addresses_that_are_none_and_methods_that_are_none_are_refused_in_our_words(
    web: WebProcess, token: str, cookie: str
) -> None:
    def said(method: str, path: str, **headers: str) -> tuple[int, str, str]:
        connection = http.client.HTTPConnection(urlsplit(web.url).netloc, timeout=30)
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer.status, answer.headers["Content-Type"].partition(";")[0], body

    key = f"Bearer {token}"
    problem = "application/problem+json"
    for path in ("/api", "/api/", "/api/v1", "/api/v1/", "/api/v1/nothing", "/api/v1/a%0d%0ab"):
        assert said("GET", path, Authorization=key)[:2] == (404, problem), path
    for method in ("OPTIONS", "POST", "DELETE"):
        code, kind, body = said(method, "/api/v1/groups", Authorization=key)
        assert (code, kind) == (405, problem)
        assert "Allow says what is" in body
    assert said("POST", "/livez")[0] == 405
    code, kind, body = said("OPTIONS", "/readyz")
    assert (code, kind) == (405, "text/html") and "This cannot be done here" in body


def test_answers_are_compressed_for_who_takes_that(web: WebProcess, cookie: str, token: str) -> None:
    keys = {"/groups/": {"Cookie": cookie}, "/api/v1/schema": {"Authorization": f"Bearer {token}"}}
    for path, key in keys.items():
        connection = http.client.HTTPConnection(urlsplit(web.url).netloc, timeout=30)
        sizes = []
        for kind in ("gzip", "identity"):
            connection.request("GET", path, headers={**key, "Accept-Encoding": kind})
            answer = connection.getresponse()
            sizes.append(len(answer.read()))
            assert answer.headers.get("Content-Encoding", "identity") == kind
            assert "Accept-Encoding" in answer.headers["Vary"]
        connection.close()
        assert sizes[0] * 2 < sizes[1]
