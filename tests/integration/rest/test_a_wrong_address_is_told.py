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


@pytest.mark.parametrize(
    ("path", "body", "wrong"),
    [
        ("partitions", {"election": "unclean", "topics": [{"topic": "orders", "partition": [0]}]}, "topics"),
        (
            "requests/orders",
            {"kind": "delete_offsets", "scope": [{"topic": "orders", "partition": 0}]},
            "scope",
        ),
        (
            "requests/orders",
            {"kind": "reset_offsets", "to": "earliest", "scope": [{"topic": "orders", "partiton": [0]}]},
            "scope",
        ),
        (
            "reassignments",
            {"partitions": [dict(topic="orders", partition=0, replicas=[1], version=None, epoch=3)]},
            "partitions",
        ),
        (
            "plans",
            {"kind": "explicit", "partitions": [dict(topic="orders", partition=0, replicas=[1], at=3)]},
            "partitions",
        ),
        (
            "losses",
            {"losses": [dict(topic="orders", partition=0, leader_epoch=3, version=None, state="open")]},
            "losses",
        ),
    ],
)
def test_a_field_that_is_none_is_told_wherever_it_stands(
    path: str, body: dict[str, object], wrong: str
) -> None:
    """`partition` in place of `partitions` stood for all partitions of the topic."""
    token = create_token("olga", Role.OPERATOR)
    headers = {"Authorization": f"Bearer {token}", "If-Match": "*"}
    body |= {"reason": "why"}
    answer = Client().post(f"/api/v1/{path}", body, content_type="application/json", headers=headers)
    assert (answer.status_code, list(answer.json()["errors"])) == (400, [wrong])
    assert "There is no such field." in str(answer.json()["errors"])


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("requests/orders", {"kind": "reset_offsets", "to": "latest", "scope": []}),
        ("requests/orders", {"kind": "delete_offsets", "scope": []}),
        ("requests/orders", {"kind": "delete_offsets", "scope": [{"topic": "orders", "partitions": []}]}),
        ("plans", {"kind": "spread", "topics": []}),
    ],
)
def test_a_list_of_none_does_not_mean_all(path: str, body: dict[str, object]) -> None:
    """A script that found nothing to do reset offsets of all topics, or deleted those of all partitions."""
    headers = {"Authorization": f"Bearer {create_token('olga', Role.OPERATOR)}", "If-Match": "*"}
    said = body | {"reason": "why"}
    answer = Client().post(f"/api/v1/{path}", said, content_type="application/json", headers=headers)
    assert answer.status_code == 400 and set(answer.json()["errors"]) <= {"scope", "topics"}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "topics?validate_only=true"),
        ("POST", "topics/orders/partitions?dry_run=true"),
        ("PATCH", "topics/orders/configs?validate_only=true"),
        ("POST", "requests/orders?dry_run=true"),
        ("PUT", "quotas?user=olga&dry_run=true"),
        ("DELETE", "topics/orders?reason=why&dry_run=true"),
        ("GET", "topics/orders?as_of=2026-11-21T03:04:27Z"),
        ("GET", "brokers/1/condition?state=offline"),
        ("GET", "topics?contains=orders"),
    ],
)
def test_a_parameter_that_nobody_reads_is_told(method: str, path: str) -> None:
    """What was to be only judged was done."""
    headers = {"Authorization": f"Bearer {create_token('olga', Role.OPERATOR)}", "If-Match": "*"}
    body = "{}" if method in ("POST", "PUT", "PATCH") else ""
    answer = Client().generic(method, f"/api/v1/{path}", body, "application/json", headers=headers)
    name = path.replace("&", "?").rpartition("?")[2].partition("=")[0]
    assert answer.status_code == 400 and f"arameter '{name}'" in answer.json()["detail"]


@pytest.mark.parametrize("path", ["topics/orders?reason=why", "topics/orders"])
def test_a_body_that_nobody_reads_is_told(path: str) -> None:
    """What a DELETE was only to judge was deleted; and whoever said there why was told to say why."""
    headers = {"Authorization": f"Bearer {create_token('olga', Role.OPERATOR)}", "If-Match": "*"}
    said = '{"reason": "why", "validate_only": true}'
    answer = Client().generic("DELETE", f"/api/v1/{path}", said, "application/json", headers=headers)
    assert answer.status_code == 400 and "it has no body" in answer.json()["detail"]


@pytest.mark.parametrize("path", ["topics", "topics/orders", "topics/orders/configs", "quotas", "schema/"])
def test_allow_names_what_is_answered(path: str) -> None:
    """It named OPTIONS beside the refusal of OPTIONS; and whoever may view may ask for the head alone."""
    headers = {"Authorization": f"Bearer {create_token('cleo', Role.VIEWER)}"}
    refused = Client().options(f"/api/v1/{path}", headers=headers)
    assert refused.status_code == 405
    allowed = refused["Allow"].split(", ")
    assert {"GET", "HEAD"} <= set(allowed) and "OPTIONS" not in allowed
    for method in ("GET", "HEAD", *(one for one in ("POST", "PUT", "PATCH", "DELETE") if one not in allowed)):
        answer = Client().generic(method, f"/api/v1/{path}", headers=headers)
        is_read = method in ("GET", "HEAD")
        assert answer.status_code in ((200, 404) if is_read else (405,)), method


def test_a_body_of_another_kind_is_told_what_is_read() -> None:
    """As `curl -d` sends it: it was told of an unsupported media type, by a status that no document named."""
    headers = {"Authorization": f"Bearer {create_token('olga', Role.OPERATOR)}"}
    answer = Client().post("/api/v1/topics", {"topic": "orders", "reason": "why"}, headers=headers)
    assert answer.status_code == 415 and "Content-Type: application/json" in answer.json()["detail"]
    document = Client().get("/api/v1/schema/", headers=headers).json()
    assert "415" in document["paths"]["/api/v1/topics"]["post"]["responses"]
