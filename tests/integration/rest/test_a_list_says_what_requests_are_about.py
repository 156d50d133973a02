"""The list of requests to the controller says what each is about, and reads no more of them than that."""

import json
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
from django.db.models.fields.json import KeyTransform

from controller.asked_about import ABOUT
from controller.core.requests import KIND, Asked
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.brokers import CordonBroker, UnregisterBroker
from muster.messages.link.configs import AlterConfigs, AlteredConfigs, Change, ConfigChange, ResourceType
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
from muster.messages.link.plans import (
    PausePlan,
    PlanAnswer,
    PlanKind,
    PlannedMove,
    PlanOptions,
    ProposePlan,
)
from muster.messages.link.quotas import AlterClientQuotas, QuotaAlteration
from muster.messages.link.to_broker import ElectionResult, ElectionResults, TopicResult, TopicResults
from runtime.models import WorkItem
from tests.integration.rest.conftest import Caller

pytestmark = pytest.mark.django_db

PLAN = UUID("5f0c1c57-58a0-4d1c-8b53-6b3a0f5b8f11")
CONFIG = (ConfigChange("retention.ms", Change.SET, "1"),)


def configs(kind: ResourceType, name: str) -> AlteredConfigs:
    return AlteredConfigs(type=kind, name=name, changes=CONFIG)


def moves(number: int) -> tuple[WantedReplicas, ...]:
    return tuple(WantedReplicas(topic="orders", partition=n, replicas=(1, 2)) for n in range(number))


def listed(viewer: Caller, wish: Wish, result: Any = None) -> tuple[list[tuple[str, str, Any]], int]:
    """What the list says of such a request: kinds, names and partitions, and how many there are."""
    WorkItem.objects.create(
        kind=KIND, lane="controller", key="cluster", principal="olga", reason="we test",
        payload=msgspec.json.decode(msgspec.json.encode(Asked(wish))),
        result=msgspec.json.decode(msgspec.json.encode(result)),
        state="adopted" if result else "done",
    )  # fmt: skip
    (row,) = viewer.get("controller/requests").json()["items"]
    return [(one["kind"], one["name"], one["partition"]) for one in row["about"]], row["about_count"]


WISHES: list[tuple[Wish, list[tuple[str, str, Any]], int]] = [
    (
        CreateTopics(topics=(NewTopic(name="a", assignments={0: (1, 2)}), NewTopic(name="b")), timeout_ms=0),
        [("topic", "a", None), ("topic", "b", None)],
        2,
    ),
    (DeleteTopics(topics=(NamedTopic(topic_id=PLAN),)), [("topic", str(PLAN), None)], 1),
    (
        CreatePartitions(topics=(GrownTopic(name="a", partition_count=9),), timeout_ms=0),
        [("topic", "a", None)],
        1,
    ),
    (RemovePartitions(topic="a", partition_count=1), [("topic", "a", None)], 1),
    (AlterReassignments(partitions=moves(7)), [("partition", "orders", n) for n in range(3)], 7),
    (ElectLeaders(correlation_id=0, partitions=(("orders", 4),)), [("partition", "orders", 4)], 1),
    (
        ElectLeaders(correlation_id=0, partitions=(("a", 0), ("a", 1)), whole_topics=("a",)),
        [("topic", "a", None)],
        1,
    ),
    (
        ElectLeaders(correlation_id=0, partitions=(("orders", 4),), whole_topics=()),
        [("partition", "orders", 4)],
        1,
    ),
    (
        ElectLeaders(
            correlation_id=0,
            partitions=(("c", 7), ("a", 0), ("b", 2), ("a", 1), ("c", 3)),
            whole_topics=("a",),
        ),
        [("topic", "a", None), ("partition", "c", 7), ("partition", "b", 2)],
        4,
    ),
    (ElectLeaders(correlation_id=0), [("cluster", "", None)], 1),
    (AlterConfigs(resources=(configs(ResourceType.TOPIC, "a"),)), [("topic", "a", None)], 1),
    (AlterConfigs(resources=(configs(ResourceType.BROKER, "3"),)), [("broker", "3", None)], 1),
    (AlterConfigs(resources=(configs(ResourceType.BROKER, ""),)), [("cluster", "", None)], 1),
    (
        AcknowledgeLosses(losses=(NamedLoss(topic="a", partition=2, leader_epoch=1),)),
        [("partition", "a", 2)],
        1,
    ),
    (
        AlterClientQuotas(alterations=(QuotaAlteration((("user", "ben"), ("client-id", None)), ()),)),
        [("quota", "user=ben client-id=<default>", None)],
        1,
    ),
    (CordonBroker(broker_id=3, cordoned=True), [("broker", "3", None)], 1),
    (UnregisterBroker(broker_id=3), [("broker", "3", None)], 1),
    (PausePlan(plan_id=PLAN), [("plan", str(PLAN), None)], 1),
    (
        ProposePlan(options=PlanOptions(kind=PlanKind.DRAIN, brokers=(3, 4))),
        [("broker", "3", None), ("broker", "4", None)],
        2,
    ),
    (
        ProposePlan(
            options=PlanOptions(
                kind=PlanKind.EXPLICIT, partitions=(PlannedMove(topic="a", partition=0, replicas=(1,)),)
            )
        ),
        [("cluster", "", None)],
        1,
    ),
]


@pytest.mark.parametrize(("wish", "about", "count"), WISHES, ids=lambda one: type(one).__name__)
def test_each_kind_of_request_names_what_it_is_about(
    viewer: Caller, wish: Wish, about: list[tuple[str, str, Any]], count: int
) -> None:
    assert listed(viewer, wish) == (about, count)


def test_one_that_proposed_a_plan_names_the_plan(viewer: Caller) -> None:
    wish = ProposePlan(options=PlanOptions(kind=PlanKind.DRAIN, brokers=(3,)))
    answer = PlanAnswer(plan_id=PLAN, phase="Computing", version=7)
    assert listed(viewer, wish, answer) == ([("plan", str(PLAN), None)], 1)
    refused = PlanAnswer(error=ErrorCode.INVALID_REQUEST, text="no such broker")
    WorkItem.objects.all().delete()
    assert listed(viewer, wish, refused) == ([("broker", "3", None)], 1)


def of_topics(*errors: ErrorCode) -> TopicResults:
    return TopicResults(correlation_id=0, topics=tuple(TopicResult(name="a", error=one) for one in errors))


def elections(*errors: ErrorCode) -> ElectionResults:
    results = tuple(ElectionResult(topic="a", partition=n, error=one) for n, one in enumerate(errors))
    return ElectionResults(correlation_id=0, results=results)


NONE, TAKEN, NEEDLESS = ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.ELECTION_NOT_NEEDED
TOPICS = DeleteTopics(topics=(NamedTopic(name="a"),))
TRIAL = CreatePartitions(topics=(GrownTopic(name="a", partition_count=2),), timeout_ms=0, validate_only=True)
OF_ALL = ElectLeaders(correlation_id=0)
OF_SOME = ElectLeaders(correlation_id=0, partitions=(("a", 0), ("a", 1)))


@pytest.mark.parametrize(
    ("wish", "answer", "verdict"),
    [
        (TOPICS, None, "waiting"),
        (TOPICS, of_topics(NONE, NONE), "done"),
        (TOPICS, of_topics(NONE, TAKEN), "partly done"),
        (TOPICS, of_topics(TAKEN), "refused"),
        (TRIAL, of_topics(NONE), "would be done"),
        (TRIAL, of_topics(TAKEN), "refused"),
        (OF_ALL, elections(NEEDLESS), "done"),
        (OF_ALL, elections(NEEDLESS, TAKEN), "refused"),
        (OF_ALL, elections(NONE, TAKEN), "partly done"),
        (OF_SOME, elections(NEEDLESS, TAKEN), "partly done"),
        (PausePlan(plan_id=PLAN), PlanAnswer(error=ErrorCode.OPERATION_NOT_ATTEMPTED), "refused"),
    ],
)
def test_it_says_of_each_what_the_request_itself_says(
    viewer: Caller, wish: Wish, answer: Any, verdict: str
) -> None:
    """What was refused was called answered, and so was what somebody had only looked at."""
    listed(viewer, wish, answer)
    (row,) = viewer.get("controller/requests").json()["items"]
    assert row["verdict"] == verdict
    assert viewer.get(f"controller/requests/{row['request']}").json()["verdict"] == verdict


def pages_read(name: str, of: Any) -> int:
    """Pages of the database that are looked at to read this of all requests."""
    rows = WorkItem.objects.annotate(**{name: of}).values_list(name)
    (told,) = json.loads(rows.explain(format="json", analyze=True, buffers=True))
    return int(told["Plan"]["Shared Hit Blocks"] + told["Plan"]["Shared Read Blocks"])


def test_each_request_is_unpacked_once_to_say_what_it_is_about(viewer: Caller) -> None:
    """A hundred of the largest took five seconds, each being unpacked for every word of it."""
    topics = tuple(NewTopic(name=f"{uuid4()}") for _ in range(2_000))
    listed(viewer, CreateTopics(topics=topics, timeout_ms=0))
    assert pages_read("said", ABOUT) < 2 * pages_read("whole", KeyTransform("wish", "payload"))


def test_no_page_of_the_list_grows_with_what_requests_say(viewer: Caller) -> None:
    listed(viewer, AlterReassignments(partitions=moves(10_000)))
    named = [f"{uuid4()}" for _ in range(2_000)]
    WorkItem.objects.all().delete()
    topics = tuple(NewTopic(name=name, assignments={n: (1, 2) for n in range(50)}) for name in named)
    assert listed(viewer, CreateTopics(topics=topics, timeout_ms=0))[1] == 2_000
    assert len(viewer.get("controller/requests").content) < 1_000
