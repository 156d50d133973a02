"""Whoever writes to an address that is none is told so, and not of a form that was refused."""

import pytest
from django.test import Client

from access.grants import Role
from access.service import create_token

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("path", ["brokers/x", "brokers/-1", "reassignments/0", "plans/nope", "topics/a/b/c"])
def test_nothing_is_there_by_any_method(path: str) -> None:
    client = Client(enforce_csrf_checks=True)
    headers = {"Authorization": f"Bearer {create_token('olga', Role.OPERATOR)}"}
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        answer = client.generic(method, f"/api/v1/{path}", headers=headers)
        assert answer.status_code == 404, method
        told = answer.json()["detail"]
        assert told.startswith("There is nothing at this address: /api/v1/schema/ says what is."), method
        assert "a UUID, written whole" in told, "what was cut off may have been an id"


@pytest.mark.parametrize(
    ("path", "body", "wrong"),
    [
        ("topics", {"name": "orders"}, {"name", "topic", "reason"}),
        ("topics", {"topic": "orders", "reason": "why", "partition_count": 3}, {"partition_count"}),
        ("plans", {"type": "spread", "reason": "why"}, {"type", "kind"}),
    ],
)
def test_a_field_that_is_none_is_told_beside_those_that_are_missing(
    path: str, body: dict[str, object], wrong: set[str]
) -> None:
    """Whoever wrote `name` was told that `topic` is missing, and nothing of the name."""
    token = create_token("olga", Role.OPERATOR)
    headers = {"Authorization": f"Bearer {token}"}
    answer = Client().post(f"/api/v1/{path}", body, content_type="application/json", headers=headers)
    assert (answer.status_code, set(answer.json()["errors"])) == (400, wrong)
