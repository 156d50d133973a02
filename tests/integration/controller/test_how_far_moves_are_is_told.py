"""How far moves are is what brokers said: bytes and their pace, and nothing of what nobody said."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest
from django.utils import timezone

from controller import copying, store_moves
from controller import statements_moves as statements
from controller.models import Arrival, Partition, PartitionProgress, Reassignment, Topic
from muster.messages.link.from_broker import Arriving
from runtime.postgres import LaneConnection, open_connection
from tests.integration.web import cast

SIZE = 1_000_000


@pytest.fixture
def lane(fresh_database: str) -> Iterator[LaneConnection]:
    """A connection of its own, and `orders-0` of a million bytes on its way from 1 and 2 to 3 and 4."""
    cast.add_cluster()
    for broker in (1, 2, 3, 4):
        cast.add_broker(broker)
    topic = cast.add_topic("orders", 2, [(1, 2)])
    PartitionProgress.objects.update(size_bytes=SIZE)
    cast.move(topic, 0, (3, 4))
    cast.move(topic, 1, (3, 1), phase="Init")
    with closing(open_connection(fresh_database, "test")) as opened:
        yield opened


def say(lane: LaneConnection, broker_id: int, held_bytes: int, partition: int = 0) -> None:
    topic_id = Topic.objects.get().topic_id
    with lane.transaction():
        store_moves.note_arrivals(lane, [(broker_id, Arriving(topic_id, partition, held_bytes))])


def seconds_pass(lane: LaneConnection, seconds: int) -> None:
    """All that was said is so much older; within one transaction no other time passes."""
    by = timedelta(seconds=seconds)
    with lane.cursor() as cursor:
        cursor.execute(
            "UPDATE arrival SET at = at - %(by)s, grew_at = grew_at - %(by)s, recent_at = recent_at - %(by)s,"
            " earlier_at = earlier_at - %(by)s",
            {"by": by},
        )


def far() -> copying.Copying:
    (found,) = copying.of_moves([one.id for one in Reassignment.objects.all()]).values()
    assert found == copying.of_all(), "nothing else is under way"
    return found


def test_what_nobody_said_is_not_zero(lane: LaneConnection) -> None:
    told = far()
    assert (told.replicas, told.silent, told.to_copy) == (2, 2, 2 * SIZE)
    assert (told.copied, told.rate, told.percent, told.stalled_since) == (None, None, None, None)
    say(lane, 3, 500_000)
    told = far()
    assert (told.silent, told.copied, told.rate, told.percent) == (1, 500_000, None, 25)
    assert told.ends_at(timezone.now()) is None


def test_the_rate_is_that_of_the_last_seconds_and_says_when_it_ends(lane: LaneConnection) -> None:
    with lane.transaction():
        for broker in (3, 4):
            say(lane, broker, 0)
        # A row is as old as the statement that added it, all else as the transaction.
        lane.execute("UPDATE arrival SET at = now(), grew_at = now(), recent_at = now()")
        seconds_pass(lane, 5)
        for broker in (3, 4):
            say(lane, broker, 250_000)
    told = far()
    assert told.rate == pytest.approx(100_000)
    now = timezone.now()
    ends_at = told.ends_at(now, behind=1_000_000)
    assert ends_at is not None
    assert (ends_at - now).total_seconds() == pytest.approx(25)


def test_a_standstill_is_told_with_its_beginning_and_ends_with_the_next_byte(lane: LaneConnection) -> None:
    for broker in (3, 4):
        say(lane, broker, 250_000)
    began = Arrival.objects.latest("grew_at").grew_at
    for _ in range(2):
        seconds_pass(lane, 6)
        for broker in (3, 4):
            say(lane, broker, 250_000)
    told = far()
    assert told.rate == 0 and told.stalled_since is not None
    assert (began - told.stalled_since).total_seconds() == 12
    say(lane, 3, 250_001)
    assert far().stalled_since is None


def test_a_copy_that_waits_for_its_turn_below_a_throttle_does_not_stand_still(lane: LaneConnection) -> None:
    """Six partitions at 60 kB/s were called stalled, each until its next batch of 250 kB came."""
    Partition.objects.update(throttle=60_000)
    for broker in (3, 4):
        say(lane, broker, 250_000)
    for told_of in (False, False, False, True):
        seconds_pass(lane, 6)
        for broker in (3, 4):
            say(lane, broker, 250_000)
        assert far().rate == 0
        assert (far().stalled_since is not None) == told_of


def test_a_database_whose_clock_was_set_back_tells_pace_and_standstill_again(lane: LaneConnection) -> None:
    def all_say(held_bytes: int) -> None:
        for broker in (3, 4):
            say(lane, broker, held_bytes)
        seconds_pass(lane, 6)

    all_say(100_000)
    seconds_pass(lane, -3 * 86_400)
    all_say(100_000)
    all_say(100_000)
    told = far()
    assert told.rate == 0
    assert told.stalled_since is not None and told.stalled_since < timezone.now()
    all_say(200_000)
    assert far().rate


def test_a_broker_that_says_nothing_any_more_has_no_rate(lane: LaneConnection) -> None:
    for held in (0, 250_000):
        for broker in (3, 4):
            say(lane, broker, held)
        seconds_pass(lane, 6)
    seconds_pass(lane, copying.SILENT_AFTER_S)
    told = far()
    assert (told.rate, told.stalled_since, told.copied) == (None, None, 500_000)


def test_what_is_not_under_way_is_not_kept_and_what_ended_is_forgotten(lane: LaneConnection) -> None:
    say(lane, 3, 5, partition=1)
    say(lane, 2, 5)
    assert not Arrival.objects.exists(), "one has not begun, and broker 2 gets nothing"
    say(lane, 3, 5)
    Reassignment.objects.filter(partition=0).update(phase="Done")
    say(lane, 3, 6)
    assert not Arrival.objects.exists()
    assert (copying.of_all(), copying.waiting_bytes()) == (copying.NOTHING, SIZE)


@pytest.mark.parametrize(("phase", "copied"), [("Done", 2 * SIZE), ("Cancelled", 700), ("InProgress", None)])
def test_the_turn_that_ends_a_move_keeps_what_was_copied(
    lane: LaneConnection, phase: str, copied: int | None
) -> None:
    say(lane, 3, 700)
    move = Reassignment.objects.get(partition=0)
    values = {
        "id": "{" + str(move.id) + "}",
        "phase": [phase],
        "origin": '{"{1,2}"}',
        "target": '{"{3,4}"}',
        "reason": [""],
        "throttle": "{0}",
        "version": 99_000,
    }
    with lane.transaction(), lane.cursor() as cursor:
        cursor.execute(statements.CHANGE_REASSIGNMENTS, values)
    assert Reassignment.objects.get(partition=0).copied_bytes == copied
