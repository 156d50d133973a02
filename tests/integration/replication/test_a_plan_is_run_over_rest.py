"""An operator drains a broker by a plan over REST: a worker computes it, a controller runs and undoes it."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from pytest_django import DjangoDbBlocker

from tests.conftest import pointed_at
from tests.integration.replication.cluster import Cluster, Producing, nothing_lost_nothing_twice

PARTITIONS = 6
Answer = Any


class Operator:
    """Somebody with a token, at the REST door of this process."""

    def __init__(self, token: str) -> None:
        self._client = Client(raise_request_exception=False)
        self._headers = {"Authorization": f"Bearer {token}"}

    def get(self, path: str) -> Answer:
        return self._client.get(f"/api/v1/{path}", headers=self._headers)

    def post(self, path: str, *, match: str | None = None, key: str | None = None, **body: Any) -> Answer:
        given = {"If-Match": match, "Idempotency-Key": key}
        headers = self._headers | {name: value for name, value in given.items() if value is not None}
        said = {"reason": "we test", **body}
        return self._client.post(f"/api/v1/{path}", said, content_type="application/json", headers=headers)

    def propose(self, cluster: Cluster, **body: Any) -> str:
        """The address of a plan, once it was computed."""
        proposed = self.post("plans", **body)
        assert proposed.status_code == 201, proposed.content
        address = str(proposed["Location"]).removeprefix("/api/v1/")
        cluster.await_true(lambda: self.get(address).json()["phase"] != "Computing", "it is computed")
        return address

    def change(self, address: str, kind: str, **more: Any) -> dict[str, Any]:
        """Change a plan as it is now; the plan afterwards."""
        answer = self.post(address, match=self.get(address)["ETag"], kind=kind, **more)
        assert answer.status_code == 200, answer.content
        found: dict[str, Any] = self.get(address).json()
        assert answer["ETag"] == f'"{found["version"]}"' or found["phase"] == "Done"
        return found


@pytest.fixture
def olga(cluster: Cluster, django_db_blocker: DjangoDbBlocker) -> Iterator[Operator]:
    """An operator; Django's rows are those of the cluster."""
    with django_db_blocker.unblock(), pointed_at(cluster.database_url):
        yield Operator(cluster.token("olga", "operator"))


def replicas(cluster: Cluster) -> list[tuple[int, ...]]:
    return [tuple(row["assigned"]) for _, row in sorted(cluster.partitions("orders").items())]


def test_a_broker_is_drained_by_a_reviewed_plan_under_a_producer_and_the_plan_is_undone(
    cluster: Cluster, olga: Operator
) -> None:
    cluster.start((1, 2, 3, 4))
    cluster.create_topic("orders", PARTITIONS, configs={"min.insync.replicas": "2"})
    before = replicas(cluster)
    producing = Producing(cluster, "orders", PARTITIONS)
    cluster.await_true(lambda: producing.acknowledged_count >= 100, "producing goes on")

    address = olga.propose(cluster, kind="drain", brokers=[3], throttle=50_000_000)
    plan = olga.get(address).json()
    held = [number for number, one in enumerate(before) if 3 in one]
    assert (plan["phase"], plan["step_count"], plan["steps"]["waiting"]) == ("Draft", len(held), len(held))
    assert plan["cost"]["replicas_added"] == len(held) and plan["cost"]["hours"] is not None
    steps = olga.get(f"{address}/steps?limit=500").json()["items"]
    assert sorted(step["partition"] for step in steps) == held
    assert all(
        step["removed"] == [3] and tuple(step["origin"]) == before[step["partition"]] for step in steps
    )
    assert replicas(cluster) == before, "nothing moves before it was approved and run"

    seen = olga.get(address)["ETag"]
    early = olga.post(address, match=seen, kind="run")
    assert (early.status_code, early.json()["kafka_error"]["name"]) == (409, "OPERATION_NOT_ATTEMPTED")
    assert olga.change(address, "approve")["phase"] == "Approved"
    late = olga.post(address, match=seen, kind="run")
    assert late.status_code == 412 and late.json()["current"]["phase"] == "Approved"
    olga.change(address, "run")
    cluster.await_true(lambda: olga.get(address).json()["phase"] == "Done", "the plan is done")
    assert not any(3 in one for one in replicas(cluster))
    done = olga.get(address).json()
    assert (done["steps"]["done"], done["changed_by"]) == (len(held), "olga")

    back = olga.propose(cluster, kind="undo", undoes=done["plan"])
    for kind in ("approve", "run"):
        olga.change(back, kind)
    cluster.await_true(lambda: olga.get(back).json()["phase"] == "Done", "it is undone")
    assert replicas(cluster) == before
    cluster.await_true(lambda: cluster.everybody_in_sync("orders"), "all are in sync")
    producing.finish()
    assert producing.refused == []
    nothing_lost_nothing_twice(producing, cluster.read_everything("orders", PARTITIONS))
    listed = olga.get("plans?phase=Done").json()["items"]
    assert [one["kind"] for one in listed] == ["undo", "drain"]


def test_a_plan_pauses_is_throttled_and_cancelled_and_bad_ones_are_refused(
    cluster: Cluster, olga: Operator
) -> None:
    cluster.start((1, 2, 3))
    cluster.create_topic("orders", PARTITIONS, 2)
    for body in (
        {"kind": "drain"},
        {"kind": "spread", "brokers": [1]},
        {"kind": "dance"},
        {"kind": "drain", "brokers": [9]},
        {"kind": "undo", "undoes": str(uuid4())},
        {"kind": "spread", "reason": ""},
        {"kind": "spread", "wipe": True},
    ):
        assert olga.post("plans", **body).status_code in (400, 404), body
    nothing = olga.propose(cluster, kind="racks")
    assert (olga.get(nothing).json()["phase"], olga.get(nothing).json()["why"]) == (
        "Failed",
        "The brokers stand on one rack, or do not say on which.",
    )
    key = uuid4().hex
    first = olga.post("plans", kind="drain", brokers=[3], at_a_time=1, key=key)
    assert (
        olga.post("plans", kind="drain", brokers=[3], at_a_time=1, key=key)["Location"] == first["Location"]
    )
    address = first["Location"].removeprefix("/api/v1/")
    cluster.await_true(lambda: olga.get(address).json()["phase"] == "Draft", "it is computed")
    assert olga.post(address, kind="approve").status_code == 428
    assert olga.post(address, match='"x"', kind="approve").status_code == 400
    assert olga.change(address, "throttle", throttle=1_000)["throttle"] == 1_000
    assert olga.change(address, "cancel", moves=True)["phase"] == "Cancelled"
    over = olga.post(address, match="*", kind="approve")
    assert (over.status_code, olga.get(f"plans/{uuid4()}").status_code) == (409, 404)
    vera = Operator(cluster.token("vera", "viewer"))
    assert vera.get(address).status_code == 200
    assert vera.post(address, match="*", kind="approve").status_code == 403
