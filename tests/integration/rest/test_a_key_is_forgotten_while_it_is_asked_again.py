"""What was answered a week ago is forgotten with its key, also while somebody asks the same again."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from access.grants import Role
from access.service import create_token
from runtime.journal import forget_adopted_work
from runtime.models import WorkItem

pytestmark = pytest.mark.django_db

WISH = {"topic": "orders", "partitions": 1, "replication_factor": 1, "reason": "we test"}


class Olga:
    """She asks the same under the same key; nobody is there to answer."""

    def __init__(self) -> None:
        self._client = Client(raise_request_exception=False)
        self._headers = {
            "Authorization": f"Bearer {create_token('olga', Role.OPERATOR)}",
            "Idempotency-Key": "one",
        }

    def asks(self) -> Any:
        return self._client.post(
            "/api/v1/topics", WISH, content_type="application/json", headers=self._headers
        )


@pytest.fixture
def olga(monkeypatch: pytest.MonkeyPatch) -> Olga:
    monkeypatch.setattr("runtime.asking.WAIT_S", 0.1)
    return Olga()


def answered_long_ago() -> None:
    WorkItem.objects.update(
        state=WorkItem.State.ADOPTED, adopted_at=timezone.now() - timedelta(days=8), result={"error": 0}
    )


def forgotten() -> None:
    with connection.cursor() as cursor:
        forget_adopted_work(cursor.connection)


Execute = Callable[[str, Any, bool, Any], Any]


def test_between_what_is_stored_and_the_look_at_it(olga: Olga) -> None:
    first = olga.asks()
    assert first.status_code == 202
    answered_long_ago()

    def forgets(execute: Execute, sql: str, params: Any, many: bool, context: Any) -> Any:
        if "pg_notify" in sql:
            forgotten()
        return execute(sql, params, many, context)

    with connection.execute_wrapper(forgets):
        again = olga.asks()
    assert again.status_code == 202
    [row] = WorkItem.objects.all()
    assert again["Location"] != first["Location"]
    assert again["Location"].endswith(f"/{row.id}")


def test_between_the_refused_row_and_the_look_for_the_one_that_it_met(olga: Olga) -> None:
    """Somebody else stored it in the same moment, was answered, and all that long ago: a machine slept."""
    stored: list[str] = []

    def meets(execute: Execute, sql: str, params: Any, many: bool, context: Any) -> Any:
        if stored or "INSERT INTO work_item" not in sql:
            return execute(sql, params, many, context)
        stored.append(sql)
        execute(sql, params, many, context)
        answered_long_ago()
        done = execute(sql, params, many, context)
        forgotten()
        return done

    with connection.execute_wrapper(meets):
        asked = olga.asks()
    assert asked.status_code == 202
    [row] = WorkItem.objects.all()
    assert asked["Location"].endswith(f"/{row.id}")
