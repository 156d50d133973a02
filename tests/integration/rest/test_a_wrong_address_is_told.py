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
        assert answer.json()["detail"] == "There is nothing at this address.", method
