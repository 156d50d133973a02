"""A throttle that is not above what producers write is told before a plan is approved and while it holds."""

from collections.abc import Iterator
from datetime import timedelta
from uuid import uuid4

import pytest
from django.contrib.postgres.functions import TransactionNow
from django.test import Client

from access.grants import Role
from access.service import create_user
from controller import catching_up, copying, findings, move_queries, standing
from controller.models import BrokerConfig, Partition, PartitionProgress, Plan, PlanStep, Topic
from tests.integration.web import cast
from tests.integration.web.test_pages_say_what_is import text

MB = 1_000_000

pytestmark = pytest.mark.django_db


@pytest.fixture
def orders(db: None) -> Iterator[Topic]:
    """Four partitions at 1 and 2; producers write 10 MB/s to each of the first two, nothing to the others."""
    cast.add_cluster()
    for broker in (1, 2, 3):
        cast.add_broker(broker)
    topic = cast.add_topic("orders", 4, [(1, 2)])
    PartitionProgress.objects.update(size_bytes=1_000 * MB, earlier_size_bytes=1_000 * MB)
    # By the clock that it is judged by: however long the test takes, it is 10 MB/s.
    a_minute_ago = TransactionNow() - timedelta(seconds=60)
    PartitionProgress.objects.update(earlier_at=a_minute_ago, earlier_high_watermark=0)
    written = PartitionProgress.objects.filter(partition__partition__in=(0, 1))
    written.update(earlier_size_bytes=400 * MB)
    yield topic


def plan(topic: Topic, throttle: int, *, at_a_time: int = 100, phase: str = "Draft") -> Plan:
    """All partitions go from broker 2 to broker 3."""
    made = Plan.objects.create(
        kind="drain",
        options={"kind": "drain", "brokers": [2]},
        phase=phase,
        throttle=throttle,
        at_a_time=at_a_time,
        step_count=4,
        version=7,
        proposed_version=5,
    )
    for number in range(4):
        PlanStep.objects.create(
            plan=made,
            number=number,
            topic_id=topic.topic_id,
            topic_name="orders",
            partition=number,
            reviewed_version=4,
            origin=[1, 2],
            target=[1, 3],
            state="Waiting",
        )
    return made


def row_of(made: Plan) -> move_queries.PlanRow:
    found = move_queries.plan(made.id)
    assert found is not None
    return found


def brief(found: list[catching_up.Behind]) -> list[tuple[str, int, int, int, bool]]:
    """Side, broker, megabytes that are written, partitions, and whether one alone is too much."""
    return [(one.side, one.broker_id, round(one.produced / MB), one.partitions, one.never) for one in found]


@pytest.mark.parametrize(
    ("throttle", "at_a_time", "told"),
    [
        (0, 100, []),
        (25 * MB, 100, []),
        (15 * MB, 100, [("takes", 3, 20, 2, False), ("sends", 1, 20, 2, False)]),
        (15 * MB, 1, []),
        (5 * MB, 1, [("takes", 3, 10, 1, True), ("sends", 1, 10, 1, True)]),
    ],
)
def test_it_is_told_of_what_is_copied_at_a_time(
    orders: Topic, throttle: int, at_a_time: int, told: list[tuple[str, int, int, int, bool]]
) -> None:
    row = row_of(plan(orders, throttle, at_a_time=at_a_time))
    assert sorted(brief(catching_up.of_row(row))) == sorted(told)


def test_of_a_plan_that_is_over_and_of_steps_that_are_done_nothing_is_told(orders: Topic) -> None:
    assert catching_up.of_row(row_of(plan(orders, MB, phase="Cancelled"))) == []
    made = plan(orders, MB)
    PlanStep.objects.filter(plan=made, partition__in=(0, 1)).update(state="Done")
    assert catching_up.of_row(row_of(made)) == []


def test_what_producers_write_is_known_after_a_while_and_retention_adds_nothing(orders: Topic) -> None:
    ids = list(Partition.objects.order_by("partition").values_list("id", flat=True))
    assert copying.produced(ids[0]) == pytest.approx(10 * MB)
    assert copying.produced(ids[2]) == 0
    PartitionProgress.objects.update(earlier_size_bytes=2_000 * MB)
    assert copying.produced(ids[0]) == 0
    PartitionProgress.objects.update(earlier_size_bytes=0, at=cast.ago(seconds=20))
    assert copying.produced(ids[0]) == 0, "its leader would speak if records came"
    PartitionProgress.objects.update(earlier_at=None, earlier_size_bytes=None, recent_at=None, at=cast.ago())
    assert copying.produced(ids[0]) is None


def test_it_is_a_finding_while_it_holds_and_ends_when_the_copy_is_in_sync(orders: Topic) -> None:
    move = cast.move(orders, 0, (1, 3), throttle=5 * MB)
    Partition.objects.filter(partition=0).update(throttle=5 * MB)
    (finding,) = findings.of_moves(move_queries.counts())
    assert (finding.kind, finding.since) == ("throttle_too_low", move.started_at)
    assert finding.facts["never"] and finding.facts["brokers"] == [1, 3]
    Partition.objects.filter(partition=0).update(isr=[1, 2, 3])
    assert findings.of_moves(move_queries.counts()) == []


@pytest.mark.parametrize(
    ("listed", "rates", "side"),
    [
        ({"follower.replication.throttled.replicas": "0:3"}, {3: "follower"}, ["takes"]),
        ({"follower.replication.throttled.replicas": "*"}, {0: "follower"}, ["takes"]),
        ({"leader.replication.throttled.replicas": "2:1, 0:1"}, {1: "leader"}, ["sends"]),
        ({"leader.replication.throttled.replicas": "0:3"}, {1: "leader", 3: "leader"}, []),
        ({}, {0: "follower"}, []),
    ],
)
def test_kafkas_own_rates_count_where_its_lists_name_the_replica(
    orders: Topic, listed: dict[str, str], rates: dict[int, str], side: list[str]
) -> None:
    cast.move(orders, 0, (1, 3))
    Topic.objects.update(configs=listed)
    for broker_id, of in rates.items():
        configs = {f"{of}.replication.throttled.rate": str(MB)}
        BrokerConfig.objects.create(broker_id=broker_id, configs=configs, metadata_version=1)
    assert [one.side for one in catching_up.under_way()] == side


def test_the_pages_say_it_at_review_and_while_it_runs(orders: Topic, client: Client) -> None:
    client.force_login(create_user("olga", Role.OPERATOR, None))
    made = plan(orders, 5 * MB)
    page = text(client, f"/plans/{made.id}/")
    assert "Too slow: producers write" in page and "It will never catch up." in page
    asked = client.post(f"/cluster/ask/plan-approve/plan/{made.id}/", {"version": "7"}).content.decode()
    assert "It will never catch up." in asked
    faster = {"version": "7", "throttle": "40"}
    asked = client.post(f"/cluster/ask/plan-throttle/plan/{made.id}/", faster).content.decode()
    assert "never catch up" not in asked
    cast.move(orders, 0, (1, 3), throttle=5 * MB, plan_id=uuid4())
    Partition.objects.filter(partition=0).update(throttle=5 * MB)
    # Rows that no turn wrote: what was read before counts as true for two seconds.
    standing.forget()
    page = text(client, "/reassignments/")
    assert "Copies to new replicas never catch up" in page and "Raise the rate of the plan" in page
