"""A database that has no room, only reads, or holds a row locked: doors say which of it, and lose nothing."""

import http.client
from collections.abc import Iterator
from urllib.parse import urlsplit

import psycopg
import pytest
from django.contrib.sessions.backends.base import UpdateError
from django.contrib.sessions.backends.db import SessionStore
from django.db import DatabaseError, OperationalError, connections
from django.test import Client
from psycopg import errors

from access import sessions
from access.grants import Role
from access.rest.problems import CANNOT_WRITE, SILENT_DATABASE, TOOK_TOO_LONG, why_unanswered
from access.service import create_token, create_user
from standalone.postgres import Postgres
from tests.integration.web.served import END_ALL, WebProcess
from tests.integration.web.test_the_door_is_bounded import ask, post


@pytest.fixture
def database(web: WebProcess) -> str:
    """The name of the web process's database."""
    return str(connections["default"].settings_dict["NAME"])


@pytest.fixture
def signed_in(web: WebProcess) -> dict[str, str]:
    """The headers of an operator's browser, whose session was not used yet."""
    client, secret = Client(), "a" * 32
    client.force_login(create_user("mira", Role.OPERATOR, None))
    cookie = f"muster_session={client.cookies['muster_session'].value}"
    return {"Cookie": f"{cookie}; csrftoken={secret}; muster_csrf={secret}"}


@pytest.fixture
def token(web: WebProcess) -> dict[str, str]:
    """The headers of a program that may operate."""
    return {"Authorization": f"Bearer {create_token('operator', Role.OPERATOR)}"}


@pytest.fixture
def only_reads(database: str, signed_in: dict[str, str], token: dict[str, str]) -> Iterator[None]:
    """Whoever connects from now on can only read, and the web process connects anew; mended afterwards."""
    with connections["default"].cursor() as cursor:
        cursor.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
        cursor.execute(END_ALL, [database])
        try:
            yield
        finally:
            cursor.execute(f"ALTER DATABASE {database} RESET default_transaction_read_only")
            cursor.execute(END_ALL, [database])


def test_pages_are_shown_and_a_form_is_offered_again(
    web: WebProcess, signed_in: dict[str, str], only_reads: None
) -> None:
    for path in ("/", "/groups/", "/cluster/", "/topics/"):
        assert ask(web, path, **signed_in)[0] == 200, path
    form = f"csrfmiddlewaretoken={'a' * 32}&topic=gates&key=k1&go=yes&reason=x&shown=&version="
    code, said = post(web, "/cluster/ask/create-topic/", form, **signed_in)
    assert code == 503 and "The database writes nothing now" in said
    assert 'name="topic" value="gates"' in said and "done once" in said


def test_a_program_is_told_to_ask_again(web: WebProcess, token: dict[str, str], only_reads: None) -> None:
    assert ask(web, "/api/v1/topics", **token)[0] == 200
    connection = http.client.HTTPConnection(urlsplit(web.url).netloc, timeout=30)
    headers = token | {"Idempotency-Key": "k1", "Content-Type": "application/json"}
    connection.request("POST", "/api/v1/topics", '{"topic": "gates", "reason": "x"}', headers)
    answer = connection.getresponse()
    said = answer.read().decode()
    connection.close()
    assert (answer.status, answer.headers["Retry-After"]) == (503, "2")
    assert "The database writes nothing now" in said


def test_who_waits_for_a_lock_is_told_that_it_took_too_long(
    web: WebProcess, token: dict[str, str], database: str, postgres_server: Postgres
) -> None:
    with psycopg.connect(postgres_server.url(database)) as connection:
        connection.execute("LOCK TABLE consumer_group IN ACCESS EXCLUSIVE MODE")
        code, headers, body = ask(web, "/api/v1/groups", **token)
        assert (code, headers["Retry-After"]) == (503, "2")
        assert "took too long" in body and "no offset is committed" not in body
    assert ask(web, "/api/v1/groups", **token)[0] == 200


def of(error: Exception, cause: Exception | None) -> Exception:
    """As Django raises what psycopg has said."""
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (of(DatabaseError(), errors.ReadOnlySqlTransaction()), CANNOT_WRITE),
        (of(OperationalError(), errors.DiskFull()), CANNOT_WRITE),
        (of(OperationalError(), errors.QueryCanceled()), TOOK_TOO_LONG),
        (of(OperationalError(), psycopg.OperationalError()), SILENT_DATABASE),
        (of(DatabaseError(), errors.UniqueViolation()), ""),
        (ValueError(), ""),
    ],
)
def test_each_kind_of_trouble_has_its_words(error: Exception, words: str) -> None:
    assert why_unanswered(error) == words


class Spoilt(SessionStore):
    """A session whose saving fails as Django lets it fail."""

    cause: Exception | None = None

    def save(self, must_create: bool = False) -> None:
        try:
            raise of(DatabaseError(), self.cause)
        except DatabaseError:
            raise UpdateError  # noqa: B904  (as Django's backend does)


def test_a_session_ends_only_if_it_is_gone() -> None:
    session = Spoilt()
    assert not sessions.keep_use(session), "it was deleted meanwhile"
    session.cause = errors.DiskFull()
    assert sessions.keep_use(session)
    session.cause = psycopg.OperationalError()
    with pytest.raises(DatabaseError):
        sessions.keep_use(session)
