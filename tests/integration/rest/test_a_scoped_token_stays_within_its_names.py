"""A token that is good for some groups and topics asks REST for nothing about others."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from django.test import Client
from django.utils import timezone

from access.grants import Role
from access.service import create_token
from controller.core.requests import KIND as OF_THE_CONTROLLER
from controller.core.requests import Asked as AskedOfTheController
from controller.models import ClientQuota, Partition, Topic
from groups.core.requests import KIND, Answer, Asked, DeleteGroup, Verdict
from groups.models import CommittedOffset, ConsumerGroup
from muster.messages.link.brokers import CordonBroker
from muster.messages.link.configs import AlterConfigs, AlteredConfigs, ResourceType
from muster.messages.link.from_broker import (
    AlterReassignments,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    GrownTopic,
    NamedTopic,
    NewTopic,
    RemovePartitions,
    WantedReplicas,
    Wish,
)
from muster.messages.link.losses import AcknowledgeLosses, NamedLoss
from muster.messages.link.plans import PausePlan
from muster.messages.link.quotas import AlterClientQuotas, QuotaAlteration
from runtime import asking
from runtime.models import JournalEntry, WorkItem

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


@pytest.mark.parametrize(
    "path",
    [
        "groups/payments", "requests/payments", "topics/cards", "offsets?group=payments",
        "offsets?topic=cards", "groups?topic=cards", "partitions?topic=cards",
        "topics/cards/history", "partitions/cards/0/history",
    ],
)  # fmt: skip
def test_of_other_names_it_reads_nothing(olga: Olga, path: str) -> None:
    assert olga.get(path).status_code == 403


@pytest.fixture
def rows(olga: Olga) -> None:
    """Topics `orders` and `cards` with a partition each; both groups committed both, and took a turn."""
    for name in ("orders", "cards"):
        topic = Topic.objects.create(
            topic_id=uuid4(),
            name=name,
            partition_count=1,
            replication_factor=1,
            configs={},
            metadata_version=1,
        )
        Partition.objects.create(
            topic=topic, partition=0, assigned=[1], adding=[], removing=[], leader=1, leader_epoch=1, isr=[1],
            version=1,
        )  # fmt: skip
        for group in ("team-a", "payments"):
            CommittedOffset.objects.create(
                group_id=group, topic_name=name, topic_id=topic.topic_id, partition=0, offset=1,
                version=1,
            )  # fmt: skip
    for number, (lane, key) in enumerate(
        [("coordinator/0", "team-a"), ("coordinator/0", "payments"), ("controller", "cluster")]
    ):
        JournalEntry.objects.create(lane=lane, seq=number, turn_id=uuid4(), node="n", key=key, records=[])


def told(answer: Any, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in answer.json()["items"]]


@pytest.mark.usefixtures("rows")
def test_lists_tell_of_its_own_names_only(olga: Olga) -> None:
    assert told(olga.get("groups"), "group") == [("team-a",)]
    assert told(olga.get("groups?q=cards"), "group") == []
    assert told(olga.get("groups?q=orders"), "group") == [("team-a",)]
    assert told(olga.get("groups?lag_over=0"), "group") == []
    assert told(olga.get("offsets"), "group", "topic") == [("team-a", "orders")]
    assert told(olga.get("topics"), "topic") == [("orders",)]
    assert told(olga.get("partitions"), "topic") == [("orders",)]
    assert told(olga.get("journal"), "key") == [("team-a",)]
    assert told(olga.get("journal?key=payments"), "key") == []


@pytest.mark.usefixtures("rows")
def test_a_page_of_a_list_goes_on_within_its_names(olga: Olga) -> None:
    ConsumerGroup.objects.create(
        name="team-zz", shard=0, protocol="native", phase="Empty", generation=1, version=1,
        rebalance_mode="incremental", assignor="sticky",
    )  # fmt: skip
    first = olga.get("groups?limit=1").json()
    assert [row["group"] for row in first["items"]] == ["team-a"]
    assert told(olga.get(f"groups?limit=1&cursor={first['next']}"), "group") == [("team-zz",)]


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize(
    ("topics", "groups", "keys"),
    [
        ([], ["team-a"], {"team-a"}),
        (["or*"], [], {"team-a", "payments"}),
        ([], [], {"team-a", "payments", "cluster"}),
    ],
)
def test_each_kind_of_names_bounds_its_own(topics: list[str], groups: list[str], keys: set[str]) -> None:
    token = create_token("vera", Role.VIEWER, topics=topics, groups=groups)
    headers = {"Authorization": f"Bearer {token}"}

    def seen(path: str, name: str) -> set[Any]:
        return {row[name] for row in Client().get(f"/api/v1/{path}", headers=headers).json()["items"]}

    assert seen("topics", "topic") == ({"orders"} if topics else {"orders", "cards"})
    assert seen("groups", "group") == ({"team-a"} if groups else {"team-a", "payments"})
    assert seen("journal", "key") == keys


@pytest.mark.parametrize("address", ["journal", "journal?lane=controller", "journal?key=cluster"])
@pytest.mark.parametrize(("topics", "groups"), [(["orders"], []), ([], ["team-*"]), (["*"], ["team-*"])])
def test_what_others_asked_of_the_controller_no_bounded_token_reads_in_its_turns(
    db: None, address: str, topics: list[str], groups: list[str]
) -> None:
    quota = {"type": "ClientQuotaChanged", "row": {"user": "ben"}}
    answer = {"type": "RequestAnswered", "principal": "ben", "answer": {"text": "group payments has 7"}}
    JournalEntry.objects.create(
        lane="controller", seq=1, turn_id=uuid4(), node="n", key="cluster", records=[quota, answer]
    )
    token = create_token("vera", Role.VIEWER, topics=topics, groups=groups)
    told = Client().get(f"/api/v1/{address}", headers={"Authorization": f"Bearer {token}"})
    assert (told.status_code, told.json()["items"]) == (200, [])


def test_a_request_about_another_group_is_as_one_that_is_not_there(olga: Olga) -> None:
    asked = WorkItem.objects.create(
        kind=KIND, lane="coordinator/0", key="payments", payload=msgspec.to_builtins(Asked(DeleteGroup()))
    )
    assert olga.get(f"request/{asked.id}").status_code == 404


def asked_as_olga(wish: Wish) -> str:
    """What the same principal asked the controller by another token, or on a page."""
    asked = WorkItem.objects.create(
        kind=OF_THE_CONTROLLER, lane="controller", key="cluster", principal="olga", reason="at night",
        payload=msgspec.to_builtins(AskedOfTheController(wish)),
    )  # fmt: skip
    return f"controller/requests/{asked.id}"


ITS_OWN: list[Wish] = [
    DeleteTopics(topics=(NamedTopic(name="orders"),)),
    RemovePartitions(topic="orders", partition_count=1),
    AlterReassignments(partitions=(WantedReplicas(topic="orders", partition=0, replicas=(1,)),)),
    ElectLeaders(correlation_id=0, partitions=(("orders", 0),)),
    AlterConfigs(resources=(AlteredConfigs(type=ResourceType.TOPIC, name="orders", changes=()),)),
    AcknowledgeLosses(losses=(NamedLoss(topic="orders", partition=0, leader_epoch=1),)),
]
BEYOND: list[Wish] = [
    CreateTopics(topics=(NewTopic(name="cards"),), timeout_ms=0),
    DeleteTopics(topics=(NamedTopic(name="orders"), NamedTopic(name="cards"))),
    DeleteTopics(topics=(NamedTopic(topic_id=uuid4()),)),
    CreatePartitions(topics=(GrownTopic(name="cards", partition_count=9),), timeout_ms=0),
    RemovePartitions(topic="cards", partition_count=1),
    AlterReassignments(partitions=(WantedReplicas(topic="cards", partition=0, replicas=(1,)),)),
    ElectLeaders(correlation_id=0, partitions=(("orders", 0), ("cards", 0))),
    ElectLeaders(correlation_id=0),
    AlterConfigs(resources=(AlteredConfigs(type=ResourceType.TOPIC, name="cards", changes=()),)),
    AlterConfigs(resources=(AlteredConfigs(type=ResourceType.BROKER, name="", changes=()),)),
    AcknowledgeLosses(losses=(NamedLoss(topic="cards", partition=0, leader_epoch=1),)),
    AlterClientQuotas(alterations=(QuotaAlteration((("user", "ben"),), ()),)),
    CordonBroker(broker_id=1, cordoned=True),
    PausePlan(plan_id=uuid4()),
]


@pytest.mark.parametrize("wish", ITS_OWN, ids=lambda wish: type(wish).__name__)
def test_what_its_principal_asked_about_its_topics_it_reads(olga: Olga, wish: Wish) -> None:
    assert olga.get(asked_as_olga(wish)).status_code == 200


@pytest.mark.parametrize("wish", BEYOND, ids=lambda wish: type(wish).__name__)
def test_what_its_principal_asked_beyond_its_names_by_another_token_it_does_not_read(
    olga: Olga, wish: Wish
) -> None:
    refused = olga.get(asked_as_olga(wish))
    assert refused.status_code == 403
    assert "cards" not in refused.content.decode() and "ben" not in refused.content.decode()


@pytest.mark.parametrize("wish", BEYOND, ids=lambda wish: type(wish).__name__)
def test_the_list_of_what_its_principal_asked_names_nothing_beyond(olga: Olga, wish: Wish) -> None:
    asked_as_olga(wish)
    told = olga.get("controller/requests")
    assert len(told.json()["items"]) == 1
    assert {one["name"] for one in told.json()["items"][0]["about"]} <= {"orders", ""}


def test_the_list_names_those_of_its_own_and_says_how_many_there_were(olga: Olga) -> None:
    for *named, count in (("orders", 1), ("orders", "cards", 2)):
        WorkItem.objects.all().delete()
        asked_as_olga(CreateTopics(topics=tuple(NewTopic(name=str(name)) for name in named), timeout_ms=0))
        (row,) = olga.get("controller/requests").json()["items"]
        assert row["about"] == [{"kind": "topic", "name": "orders", "partition": None}]
        assert row["about_count"] == count


def test_a_token_of_some_groups_that_may_plan_reads_what_became_of_it(olga: Olga) -> None:
    token = create_token("olga", Role.OPERATOR, groups=["team-*"], replace=True)
    address = f"/api/v1/{asked_as_olga(PausePlan(plan_id=uuid4()))}"
    assert Client().get(address, headers={"Authorization": f"Bearer {token}"}).status_code == 200


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


def test_it_is_told_of_the_quotas_that_may_hold_for_it_and_of_no_other_name(olga: Olga) -> None:
    there = [("olga", None), ("olga", "app"), ("", None), (None, ""), ("ben", None), (None, "app"), ("", "x")]
    for user, client in there:
        ClientQuota.objects.create(user_name=user, client_id=client, producer_byte_rate=1, version=1)
    told = olga.get("quotas").json()["items"]
    assert [(row["user"], row["client_id"]) for row in told] == [
        ("olga", None),
        ("olga", "app"),
        ("<default>", None),
        (None, "<default>"),
    ]
