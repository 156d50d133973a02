"""Whatever goes wrong: one exit code, words on stderr, no traceback, no secret."""

import re
import socket
from typing import Any

import pytest

from access.grants import Role
from access.service import create_token
from muster.cli.failures import ExitCode
from tests.integration.cli.conftest import Muster, Said
from tests.integration.cli.odd_server import http, stranger
from tests.integration.web import cast
from tests.integration.web.served import WebProcess


def told(said: Said, code: ExitCode, *words: str) -> None:
    """It ended with the code and said these words, and nothing that it must not."""
    assert said.code == code, said.err
    assert all(word in said.err for word in words), said.err
    assert "Traceback" not in said.err and not re.search(r"mst_\w", said.out + said.err)
    assert said.err.startswith("muster: ") or "asking again" in said.err


def test_nobody_listens(nobody: Muster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    said = nobody("groups", "list", "--url", f"http://127.0.0.1:{port}")
    told(said, ExitCode.UNREACHABLE, "cannot be reached", "muster doctor")


def test_nothing_is_said_about_where(nobody: Muster) -> None:
    told(nobody("status"), ExitCode.USAGE, "No cluster is named", "muster context add")


@pytest.mark.parametrize("token", [(), ("--token", "mst_wrong")], ids=["missing", "wrong"])
def test_a_token_that_is_missing_or_wrong(web: WebProcess, nobody: Muster, token: tuple[str, ...]) -> None:
    said = nobody("groups", "list", "--url", web.url, *token)
    told(said, ExitCode.NOT_ALLOWED, "token", "manage.py create_token")


def test_a_token_that_is_bounded(web: WebProcess, nobody: Muster) -> None:
    cast.one_night(groups=1)
    token = create_token("bounded", Role.VIEWER, groups=["clicks*"])
    said = nobody("groups", "show", "departures", "--url", web.url, "--token", token)
    told(said, ExitCode.NOT_ALLOWED, "not good for this group", "GROUP_AUTHORIZATION_FAILED")


def test_what_is_not_there(viewer: Muster) -> None:
    told(viewer("groups", "show", "nobody"), ExitCode.NOT_FOUND, "no such group")
    told(viewer("topics", "show", "a/../b?c#d%2F"), ExitCode.NOT_FOUND)
    told(viewer("topics", "show", ".."), ExitCode.NOT_FOUND, "no such topic")


def test_a_filter_that_does_not_fit(viewer: Muster) -> None:
    told(viewer("groups", "list", "--phase", "Asleep"), ExitCode.REFUSED, "phase")
    assert viewer("groups", "list", "--nonsense").code == ExitCode.USAGE
    assert viewer("grops").code == ExitCode.USAGE


def test_a_database_that_is_silent_is_said_after_some_tries(nobody: Muster) -> None:
    body = b'{"title": "Service Unavailable", "status": 503, "detail": "The database did not answer."}'
    with stranger(http("503 Service Unavailable", body, "Retry-After: 0")) as url:
        said = nobody("groups", "list", "--url", url)
    told(said, ExitCode.UNREACHABLE, "The database did not answer.", "Ask again in a moment")
    assert said.err.count("asking again") == 3


ANSWERS: dict[str, tuple[Any, ExitCode, str]] = {
    "a page": (
        http("200 OK", b"<html>Sign in", "Content-Type: text/html"),
        ExitCode.UNREACHABLE,
        "text/html",
    ),
    "a gateway's page": (http("500 No", b"<html>", "Content-Type: text/html"), ExitCode.UNREACHABLE, "500"),
    "a list": (http("200 OK", b"[1]"), ExitCode.UNREACHABLE, "another shape"),
    "a list of lists": (http("200 OK", b"[" * 100_000), ExitCode.UNREACHABLE, "no JSON"),
    "another object": (http("200 OK", b'{"items": [{"x": 1}]}'), ExitCode.REFUSED, "not understood"),
    "no items": (http("200 OK", b'{"error": "x"}'), ExitCode.UNREACHABLE, "without items"),
    "elsewhere": (http("302 Found", b"", "Location: https://evil.example"), ExitCode.USAGE, "sends to"),
    "half": (
        lambda connection: connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"items'),
        ExitCode.UNREACHABLE,
        "before the answer was whole",
    ),
    "nothing": (lambda connection: None, ExitCode.UNREACHABLE, "before the answer was whole"),
    "another language": (
        lambda connection: connection.sendall(b"220 smtp.example ESMTP\r\n"),
        ExitCode.UNREACHABLE,
        "ended",
    ),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_whoever_answers_is_not_muster(nobody: Muster, kind: str) -> None:
    answer, code, words = ANSWERS[kind]
    with stranger(answer) as url:
        told(nobody("groups", "list", "--url", url), code, words)


def test_an_answer_that_does_not_come(nobody: Muster) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        said = nobody("groups", "list", "--url", url, "--timeout", "0.2")
    told(said, ExitCode.UNREACHABLE, "within 0.2 s", "--timeout 60")


def test_a_problem_that_would_steer_the_terminal(nobody: Muster) -> None:
    body = b'{"title": "No", "status": 409, "detail": "\\u001b[2Jgone"}'
    with stranger(http("409 Conflict", body)) as url:
        told(nobody("groups", "list", "--url", url), ExitCode.CONFLICT, "\\x1b[2Jgone")
