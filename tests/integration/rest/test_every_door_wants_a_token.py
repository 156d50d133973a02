"""This room tests that no REST door opens without a token whose role may view."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone

from access.grants import Role
from access.models import ApiToken
from access.service import create_token, create_user, revoke_token
from tests.integration.rest.conftest import Caller

pytestmark = pytest.mark.django_db
VALUES = {
    "group": "orders",
    "topic": "orders",
    "partition": "0",
    "broker_id": "1",
    "move_id": "00000000-0000-4000-8000-000000000002",
    "plan_id": "00000000-0000-4000-8000-000000000001",
    "request_id": "00000000-0000-4000-8000-000000000001",
}


def doors() -> Iterator[tuple[str, bool]]:
    """Every address of REST, and whether it can be read: a new one is tested without being named here."""

    def walk(patterns: list[URLPattern | URLResolver], prefix: str) -> Iterator[tuple[str, bool]]:
        for pattern in patterns:
            route = prefix + str(pattern.pattern)
            if isinstance(pattern, URLResolver):
                yield from walk(pattern.url_patterns, route)
            elif route.startswith("api/v1/") and "^" not in route:
                for name, value in VALUES.items():
                    for kind in ("name", "str", "int", "uuid"):
                        route = route.replace(f"<{kind}:{name}>", value)
                view = getattr(pattern.callback, "cls", None) or getattr(pattern.callback, "view_class", None)
                yield route.removeprefix("api/v1/"), hasattr(view, "get")

    return walk(get_resolver().url_patterns, "")


ALL_DOORS = sorted(path for path, _ in doors())
READABLE = sorted(path for path, is_readable in doors() if is_readable)


def test_the_doors_are_found() -> None:
    assert {"groups", "groups/", "topics", "brokers", "partitions", "offsets", "schema/"} <= set(ALL_DOORS)


@pytest.mark.parametrize("path", ALL_DOORS)
def test_without_a_token_there_is_401(path: str, stranger: Caller) -> None:
    answer = stranger.get(path)
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"].startswith("Bearer")
    assert answer["Content-Type"].startswith("application/problem+json")
    assert answer.json()["kafka_error"]["name"] == "SASL_AUTHENTICATION_FAILED"


@pytest.mark.parametrize("path", ALL_DOORS)
def test_a_consumer_may_not_view(path: str) -> None:
    answer = Caller(create_token("cleo", Role.CONSUMER)).get(path)
    assert answer.status_code == 403
    assert answer.json()["kafka_error"]["name"] == "CLUSTER_AUTHORIZATION_FAILED"


@pytest.mark.parametrize("path", READABLE)
def test_a_viewer_is_let_in(path: str, viewer: Caller) -> None:
    assert viewer.get(path).status_code in (200, 404)


@pytest.mark.parametrize("path", sorted({*ALL_DOORS} - {*READABLE}))
def test_a_viewer_may_not_ask_where_only_operators_do(path: str, viewer: Caller) -> None:
    assert viewer.get(path).status_code == 403


@pytest.mark.parametrize("end", ["revoked", "expired", "wrong", "basic"])
def test_a_token_that_ended_is_401(end: str) -> None:
    text = create_token("ann", Role.ADMIN)
    if end == "revoked":
        revoke_token("ann")
    elif end == "expired":
        ApiToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    header = {"wrong": f"Bearer {text[:-2]}AA", "basic": "Basic YW5uOmFubg=="}.get(end, f"Bearer {text}")
    answer = Client().get("/api/v1/groups", headers={"Authorization": header})
    assert answer.status_code == 401
    assert "unknown, expired or taken back" in answer.json()["detail"]


def test_a_session_does_not_open_rest(client: Client) -> None:
    client.force_login(create_user("ann", Role.ADMIN, None))
    assert client.get("/api/v1/groups").status_code == 401


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_nothing_can_be_written_here(method: str, viewer: Caller) -> None:
    answer = viewer.send(method, "groups")
    assert answer.status_code == 405
    assert answer["Content-Type"].startswith("application/problem+json")
