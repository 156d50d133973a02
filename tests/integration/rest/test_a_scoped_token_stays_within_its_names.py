"""A token that is good for some groups and topics asks REST for nothing about others."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from django.test import Client
from django.utils import timezone

from access.grants import Role
from access.service import create_token
from groups import asking
from groups.core.requests import KIND, Answer, Asked, DeleteGroup, Verdict
from groups.models import ConsumerGroup
from runtime.models import WorkItem

pytestmark = pytest.mark.django_db


class Olga:
    """An operator whose token is good for groups `team-*` and the topic `orders`."""

    def __init__(self) -> None:
        token = create_token("olga", Role.OPERATOR, topics=["orders"], groups=["team-*"])
        self._client = Client(raise_request_exception=False)
        self._headers = {"Authorization": f"Bearer {token}"}

    def get(self, path: str) -> Any:
        return self._client.get(f"/api/v1/{path}", headers=self._headers)

    def ask(self, group: str, kind: str, *, key: str | None = None, **more: object) -> Any:
        headers = self._headers | {"If-Match": "*"} | ({"Idempotency-Key": key} if key else {})
        body = {"kind": kind, "reason": "we test", **more}
        path = f"/api/v1/requests/{group}"
        return self._client.post(path, body, content_type="application/json", headers=headers)


@pytest.fixture
def olga(db: None, monkeypatch: pytest.MonkeyPatch) -> Olga:
    """Nobody owns the groups, so nobody waits for an answer."""
    monkeypatch.setattr(asking, "WAIT_S", 0.0)
    for name in ("team-a", "payments"):
        ConsumerGroup.objects.create(
            name=name, shard=0, protocol="native", phase="Empty", generation=1, version=1,
            rebalance_mode="incremental", assignor="sticky",
        )  # fmt: skip
    return Olga()


ALL_TOPICS = {"to": "earliest"}
ORDERS: dict[str, Any] = {"to": "earliest", "scope": [{"topic": "orders"}]}


@pytest.mark.parametrize("group", ["payments", "nobody-s"])
@pytest.mark.parametrize(
    ("kind", "more"), [("reset_offsets", ORDERS), ("delete_group", {}), ("rebalance", {})]
)
def test_another_group_is_refused_whether_it_is_there_or_not(
    olga: Olga, group: str, kind: str, more: dict[str, Any]
) -> None:
    refused = olga.ask(group, kind, **more)
    assert refused.status_code == 403
    assert refused.json()["kafka_error"]["name"] == "GROUP_AUTHORIZATION_FAILED"
    assert not WorkItem.objects.exists()


@pytest.mark.parametrize(
    ("kind", "more", "error"),
    [
        ("reset_offsets", ALL_TOPICS, "TOPIC_AUTHORIZATION_FAILED"),
        ("reset_offsets", {**ORDERS, "scope": [{"topic": "cards"}]}, "TOPIC_AUTHORIZATION_FAILED"),
        ("delete_offsets", {"scope": [{"topic": "orders"}, {"topic": "x"}]}, "TOPIC_AUTHORIZATION_FAILED"),
        ("reset_offsets", {**ORDERS, "to": "group", "from_group": "payments"}, "GROUP_AUTHORIZATION_FAILED"),
    ],
)
def test_what_a_request_names_beside_its_group_is_looked_at_too(
    olga: Olga, kind: str, more: dict[str, Any], error: str
) -> None:
    refused = olga.ask("team-a", kind, **more)
    assert (refused.status_code, refused.json()["kafka_error"]["name"]) == (403, error)
    assert not WorkItem.objects.exists()


def test_within_its_names_it_asks(olga: Olga) -> None:
    assert olga.ask("team-a", "reset_offsets", **ORDERS).status_code == 202
    assert olga.ask("team-a", "rebalance").status_code == 202


@pytest.mark.parametrize("path", ["groups/payments", "requests/payments", "topics/cards"])
def test_of_other_names_it_reads_nothing(olga: Olga, path: str) -> None:
    assert olga.get(path).status_code == 403


def test_a_request_about_another_group_is_as_one_that_is_not_there(olga: Olga) -> None:
    asked = WorkItem.objects.create(
        kind=KIND, lane="coordinator/0", key="payments", payload=msgspec.to_builtins(Asked(DeleteGroup()))
    )
    assert olga.get(f"request/{asked.id}").status_code == 404


def test_who_did_not_hear_that_a_group_was_deleted_hears_it_again(olga: Olga) -> None:
    now = timezone.now()
    done = WorkItem.objects.create(
        kind=KIND, lane="coordinator/0", key="team-gone", principal="olga", reason="we test",
        idempotency_key="k1", payload=msgspec.to_builtins(Asked(DeleteGroup())), state="adopted",
        result=msgspec.to_builtins(Answer(Verdict.DONE)), adopted_at=now,
        offered_at=now - timedelta(seconds=1),
    )  # fmt: skip
    again = olga.ask("team-gone", "delete_group", key="k1")
    assert (again.status_code, again.json()["request"]) == (200, str(done.id))
    assert olga.ask("team-gone", "delete_group", key="k2").status_code == 404
    assert olga.ask("team-gone", "rebalance", key="k1").status_code == 404


def test_no_time_before_1970_means_an_end_of_the_log(olga: Olga) -> None:
    to: dict[str, Any] = {**ORDERS, "to": "time", "time": "1969-12-31T23:59:59.998Z"}
    assert olga.ask("team-a", "reset_offsets", **to).status_code == 400
