"""Who gets no connection to PostgreSQL because there are too many is told that."""

from urllib.parse import urlsplit

import psycopg
import pytest
from django.db import OperationalError
from django.db.utils import DatabaseErrorWrapper
from django.test import RequestFactory
from rest_framework.test import APIRequestFactory
from structlog.testing import capture_logs

from access.rest import problems
from standalone.postgres import Postgres
from tests.integration.poolers import refusing_pooler
from web import health
from web.pulse import Pulse


def refused_by_postgresql(url: str, superuser: str, role: str) -> OperationalError:
    """What Django raises when somebody else holds the last connection that this role may have."""
    place = urlsplit(url)
    mine = place._replace(netloc=f"{role}:s3@{place.hostname}:{place.port}").geturl()
    with psycopg.connect(superuser, autocommit=True) as operator:
        operator.execute(f"CREATE ROLE {role} LOGIN PASSWORD 's3' CONNECTION LIMIT 0")
        try:
            with pytest.raises(OperationalError) as raised, DatabaseErrorWrapper(_Backend()):
                psycopg.connect(mine)
        finally:
            operator.execute(f"DROP ROLE {role}")
    return raised.value


class _Backend:
    """As much of Django's connection as its wrapper of errors asks for."""

    Database = psycopg
    errors_occurred = False


def test_it_is_told_and_logged(fresh_database: str, postgres_server: Postgres) -> None:
    refused = refused_by_postgresql(fresh_database, postgres_server.superuser_url(), "crowded")
    request = APIRequestFactory().get("/api/v1/groups")
    request.id = "r1"  # type: ignore[attr-defined]
    with capture_logs() as logs:
        answer = problems.answer(refused, {"request": request})
    assert answer is not None and (answer.status_code, answer["Retry-After"]) == (503, "2")
    assert "max_connections" in answer.data["detail"] and "did not answer" not in answer.data["detail"]
    [told] = logs
    assert (told["path"], told["log_level"]) == ("/api/v1/groups", "warning")
    assert "too many connections" in told["error"] and "s3" not in told["error"]


@pytest.mark.parametrize("limit", ["max_client_conn", "max_db_client_connections", "query_wait_timeout"])
def test_a_pgbouncer_that_lets_in_nobody_more_is_not_silent(limit: str) -> None:
    """Its older versions have one limit, later ones three, of which two are worded alike."""
    words = "no more connections allowed" if limit == "max_client_conn" else "client connections exceeded"
    said = limit if limit == "query_wait_timeout" else f"{words} ({limit})"
    with (
        refusing_pooler(said) as url,
        pytest.raises(OperationalError) as raised,
        DatabaseErrorWrapper(_Backend()),
    ):
        psycopg.connect(url)
    assert problems.why_unanswered(raised.value) == problems.NO_CONNECTION_LEFT


async def test_it_answers_and_probes_say_what_it_lacks(
    fresh_database: str, postgres_server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = refused_by_postgresql(fresh_database, postgres_server.superuser_url(), "probed")

    def refuse(*_: object) -> None:
        raise refused

    monkeypatch.setattr(Pulse, "_ask", refuse)
    pulse = Pulse()
    assert await pulse.beats()
    await pulse.close()
    monkeypatch.setattr(health, "_looked_at", refuse)
    answer = health.readyz(RequestFactory().get("/readyz"))
    assert (answer.status_code, answer.content) == (503, b"the database has no connection left\n")
