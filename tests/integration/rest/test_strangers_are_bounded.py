"""This room tests that wrong tokens and too many requests are refused before they cost anything."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from access.buckets import Buckets
from access.grants import Role
from access.rest import throttling
from access.rest.throttling import wrong_tokens
from access.service import create_token
from tests.integration.rest.conftest import Caller

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each second an address may try again: however long two questions take, none of it passes here."""
    monkeypatch.setattr(wrong_tokens, "_clock", lambda: 0.0)


def ask(token: str, address: str = "203.0.113.9", **headers: str) -> Any:
    """GET /api/v1/groups from an address."""
    client = Client(REMOTE_ADDR=address)
    return client.get("/api/v1/groups", headers={"Authorization": f"Bearer {token}", **headers})


def empty(buckets: Buckets, key: str) -> None:
    """Take whatever there is."""
    while buckets.take(key) == 0.0:
        pass


def test_an_address_with_many_wrong_tokens_is_refused_without_a_look() -> None:
    right = create_token("ann", Role.VIEWER)
    wrong = f"mst_00000000_{right.split('_', 2)[2]}"
    # Another forwarded address each time is only what the stranger says.
    for number in range(2):
        assert ask(wrong, **{"X-Forwarded-For": f"198.51.100.{number}"}).status_code == 401
    assert wrong_tokens.wait_s("203.0.113.9") == 0.0
    empty(wrong_tokens, "203.0.113.9")
    ask(wrong)
    with CaptureQueriesContext(connection) as asked:
        answer = ask(wrong)
    assert (answer.status_code, len(asked)) == (429, 0)
    assert int(answer["Retry-After"]) >= 1
    assert answer["Content-Type"].startswith("application/problem+json")
    assert "wrong tokens" in answer.json()["detail"]
    assert ask(right, address="203.0.113.10").status_code == 200


def test_a_right_token_is_never_refused_for_the_wrong_ones_of_its_address() -> None:
    right = create_token("ann", Role.VIEWER)
    empty(wrong_tokens, "203.0.113.9")
    wrong = f"mst_00000000_{right.split('_', 2)[2]}"
    assert [ask(token).status_code for token in (wrong, right, wrong, right)] == [429, 200, 429, 200]


def test_metrics_count_wrong_tokens_and_say_who_may_not_view() -> None:
    client = Client(REMOTE_ADDR="203.0.113.9")

    def metrics(token: str) -> Any:
        return client.get("/metrics", headers={"Authorization": f"Bearer {token}"})

    consumer, viewer = create_token("cleo", Role.CONSUMER), create_token("ann", Role.VIEWER)
    refused = metrics(consumer)
    assert refused.status_code == 403
    assert refused.json()["kafka_error"]["name"] == "CLUSTER_AUTHORIZATION_FAILED"
    assert (metrics("mst_x").status_code, metrics(viewer).status_code) == (401, 200)
    empty(wrong_tokens, "203.0.113.9")
    assert (metrics("mst_x").status_code, metrics(viewer).status_code) == (429, 200)


def test_a_token_has_a_rate_of_its_own(viewer: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttling, "requests_of_tokens", Buckets(1, 0.01))
    assert viewer.get("brokers").status_code == 200
    answer = viewer.get("brokers")
    assert answer.status_code == 429
    assert int(answer["Retry-After"]) >= 1
    assert Caller(create_token("ann", Role.VIEWER)).get("brokers").status_code == 200
