"""This room tests which partitions count as stalled: records waited a minute, and the commit did not move."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.postgres.functions import TransactionNow
from django.db import connection

from controller import store
from controller.models import PartitionProgress, Topic
from coordinator.statements import statement
from groups.findings import find
from groups.models import CommittedOffset, ConsumerGroup
from muster.messages.link.from_broker import HighWatermark
from tests.integration.web import cast

pytestmark = pytest.mark.django_db


@pytest.fixture
def orders() -> Topic:
    """Group `billing`: ann owns and commits orders-0, whose log stood at 100 two minutes ago."""
    topic = cast.add_topic("orders", 1, [(1,)])
    group = cast.add_group("billing", changed_at=cast.ago(minutes=9))
    cast.add_member(group, "ann")
    cast.own(group, topic, "ann", (0,))
    cast.commit(group, topic, 0, 99, cast.ago(minutes=5))
    cast.reach(topic, 0, 100, cast.ago(minutes=2))
    return topic


# However long the test takes, this is what statements compare with a minute before their own `now()`.
OVER_A_MINUTE_AGO = TransactionNow() - timedelta(seconds=61)


def commit_again(topic: Topic, offset: int) -> None:
    """What the coordinator writes for each ping of a member that commits by itself."""
    ((number,),) = CommittedOffset.objects.filter(group="billing", topic_id=topic.topic_id).values_list("id")
    with connection.cursor() as cursor:
        cursor.execute(statement("update_offsets"), {"ids": [number], "offsets": [offset]})


def stalled() -> list[tuple[Any, ...]]:
    """Group, partitions and lag of each finding."""
    return [(one.kind, one.facts["group"], [row.name for row in one.facts["rows"]]) for one in find()]


FOUND = [("group_stalled", "billing", ["orders-0"])]


def test_an_offset_that_is_committed_again_and_again_is_no_progress(orders: Topic) -> None:
    before = CommittedOffset.objects.get().moved_at
    commit_again(orders, 99)
    row = CommittedOffset.objects.get()
    assert row.moved_at == before < row.committed_at
    assert stalled() == FOUND
    (finding,) = find()
    assert (finding.since, finding.facts["lag"]) == (before, 1)
    commit_again(orders, 100)
    assert CommittedOffset.objects.get().moved_at > before
    assert stalled() == []


def test_a_record_that_came_just_now_is_no_stall(orders: Topic) -> None:
    cast.commit(ConsumerGroup.objects.get(), orders, 0, 100, cast.ago(minutes=5))
    said = PartitionProgress.objects
    # It slept at 100 for hours; the record came ten seconds ago.
    said.update(high_watermark=101, at=cast.ago(seconds=1))
    said.update(recent_high_watermark=100, recent_at=cast.ago(seconds=30))
    said.update(earlier_high_watermark=100, earlier_at=cast.ago(seconds=90))
    assert stalled() == []
    said.update(recent_high_watermark=101, recent_at=OVER_A_MINUTE_AGO)
    assert stalled() == FOUND


def test_a_database_whose_clock_was_set_back_finds_it_after_some_minutes(orders: Topic) -> None:
    CommittedOffset.objects.update(moved_at=TransactionNow() + timedelta(days=3))
    said = PartitionProgress.objects
    ahead = TransactionNow() + timedelta(days=3)
    said.update(at=ahead, recent_high_watermark=100, recent_at=ahead)
    said.update(earlier_high_watermark=100, earlier_at=ahead)
    for end in (101, 102, 103):
        told = HighWatermark(topic_id=orders.topic_id, partition=0, high_watermark=end)
        store.note_progress(connection.connection, [told])
        assert stalled() == []
    assert said.get().recent_high_watermark == 101, "what was said first since then"
    said.update(at=TransactionNow(), recent_at=OVER_A_MINUTE_AGO)
    assert stalled() == FOUND


def test_behind_a_clock_that_was_set_back_an_owner_that_never_committed_is_told_while_its_log_grows(
    orders: Topic,
) -> None:
    CommittedOffset.objects.all().delete()
    ConsumerGroup.objects.update(changed_at=TransactionNow() + timedelta(days=3))
    said = PartitionProgress.objects
    said.update(recent_high_watermark=120, recent_at=cast.ago(seconds=30), earlier_high_watermark=100)
    said.update(earlier_at=TransactionNow() + timedelta(days=3) - timedelta(minutes=1))
    assert stalled() == [], "what grew before the clock was set back may have done so before it was owned"
    said.update(earlier_at=cast.ago(minutes=11))
    assert stalled() == [], "or long ago"
    said.update(earlier_at=cast.ago(seconds=90))
    assert stalled() == FOUND
    (finding,) = find()
    assert finding.since is None, "nobody knows when it began"


def test_a_rebalance_that_is_stuck_is_found_behind_a_clock_that_was_set_back(orders: Topic) -> None:
    CommittedOffset.objects.all().delete()
    group = ConsumerGroup.objects
    group.update(phase="PreparingRebalance", phase_entered_at=TransactionNow())
    assert find() == []
    group.update(phase_entered_at=TransactionNow() + timedelta(days=3))
    assert [(one.kind, one.since) for one in find()] == [("group_stuck", None)]


def test_nobody_who_answers_nobody_who_is_stalled(orders: Topic) -> None:
    ConsumerGroup.objects.get().ownership.all().delete()
    assert stalled() == []


def test_an_owner_that_never_committed_is_stalled_when_its_log_grows(orders: Topic) -> None:
    CommittedOffset.objects.all().delete()
    said = PartitionProgress.objects
    said.update(high_watermark=120, at=cast.ago(seconds=1))
    said.update(recent_high_watermark=120, recent_at=cast.ago(seconds=30))
    said.update(earlier_high_watermark=120, earlier_at=cast.ago(seconds=90))
    assert stalled() == []
    said.update(earlier_high_watermark=100)
    assert stalled() == FOUND
    # What came before it owned the partition is not its to commit.
    ConsumerGroup.objects.update(changed_at=cast.ago(seconds=80))
    assert stalled() == []


def test_the_controller_keeps_ends_of_a_minute_ago(orders: Topic) -> None:
    said = PartitionProgress.objects

    def tell(end: int) -> tuple[Any, ...]:
        connection.ensure_connection()
        told = HighWatermark(topic_id=orders.topic_id, partition=0, high_watermark=end)
        store.note_progress(connection.connection, [told])
        row = said.get()
        return row.high_watermark, row.recent_high_watermark, row.earlier_high_watermark

    assert tell(110) == (110, 100, None)
    assert tell(120) == (120, 110, 100)
    assert tell(130) == (130, 110, 100)
    said.update(recent_at=OVER_A_MINUTE_AGO)
    assert tell(140) == (140, 130, 110)
