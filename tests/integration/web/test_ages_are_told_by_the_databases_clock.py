"""A host whose clock is an hour off tells the same ages as any other: those of the database's clock."""

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from runtime import database_clock
from web.templatetags import written

pytestmark = pytest.mark.django_db


@pytest.fixture(params=[-1, 1])
def moment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> datetime:
    """By the database, while this host is an hour behind or ahead of it."""
    connection.ensure_connection()
    with connection.cursor() as cursor:
        at: datetime = cursor.execute("SELECT clock_timestamp()").fetchone()[0]
    off = timezone.now() + timedelta(hours=request.param)
    monkeypatch.setattr(timezone, "now", lambda: off)
    return at


def test_an_age_is_that_of_the_database(moment: datetime) -> None:
    database_clock.hear(connection=connection)
    assert ">1h 0m<" in written.age(moment - timedelta(minutes=60, seconds=1))
    assert abs(written.now_ms() - moment.timestamp() * 1000) < 60_000


def test_whoever_connects_hears_the_time(
    client: Client, monkeypatch: pytest.MonkeyPatch, moment: datetime
) -> None:
    monkeypatch.setattr(database_clock, "_heard", None)
    assert abs(database_clock.now() - moment) > timedelta(minutes=30), "nobody has told it the time"
    other = connection.copy("other")
    other.ensure_connection()
    other.close()
    assert abs(database_clock.now() - moment) < timedelta(minutes=1)
