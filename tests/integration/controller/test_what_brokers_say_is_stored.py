"""What brokers say of themselves is stored as the latest word of each, and goes with who is unregistered."""

from collections.abc import Iterator
from contextlib import closing
from uuid import UUID, uuid4

import msgspec
import pytest

from controller import catalog, conditions, placing, store_conditions
from controller.core.proposals import StoredBroker
from controller.models import Broker, BrokerCondition, LagNote, LogNote, Partition, Topic
from controller.pace import Said
from controller.statements_moves import READ_BROKERS_TO_PLAN
from muster.messages.link.condition import (
    DAMAGED,
    OFFLINE,
    SOUND,
    Condition,
    Disk,
    ThrottledClient,
)
from muster.messages.link.condition import LagNote as Lag
from muster.messages.link.condition import LogNote as Note
from runtime.postgres import LaneConnection, open_connection
from tests.integration.web import cast

WAITING = ThrottledClient(None, "till", "producer_byte_rate", 10, 812, 3, 5_000)


@pytest.fixture
def lane(fresh_database: str) -> Iterator[LaneConnection]:
    """A connection of its own to the database of this test, with two live brokers and a topic."""
    cast.add_cluster()
    for broker in (1, 2):
        cast.add_broker(broker)
    cast.add_topic("orders", 3, [(1, 2)])
    with closing(open_connection(fresh_database, "test")) as opened:
        yield opened


def note(lane: LaneConnection, said: Said) -> None:
    with lane.transaction():
        store_conditions.note(lane, said)


def logs() -> list[tuple[int, int, str, str]]:
    return [(one.broker_id, one.partition, one.state, one.why) for one in conditions.logs(limit=100)]


def test_the_latest_word_holds_and_what_is_sound_is_forgotten(lane: LaneConnection) -> None:
    topic_id: UUID = Topic.objects.get().topic_id
    bad = (2, Note(topic_id, 0, OFFLINE, "EIO")), (2, Note(topic_id, 1, DAMAGED, "cut \x00at 5", 5, 9_000))
    note(lane, Said((2,), ((2, Condition(disk=Disk(100, 50, 10), throttled=(WAITING,))),), bad))
    assert logs() == [(2, 0, "offline", "EIO"), (2, 1, "damaged", "cut at 5")]
    assert conditions.counts() == {2: (1, 1)}
    told = BrokerCondition.objects.get(broker_id=2)
    (waiting,) = conditions.throttled(told)
    assert (waiting.told, told.short_since) == (WAITING, None)
    assert (told.at - waiting.since).total_seconds() == 5
    note(lane, Said((), ((2, Condition(disk=Disk(100, 9, 10))),), ((2, Note(topic_id, 0, SOUND)),)))
    short = BrokerCondition.objects.get(broker_id=2)
    assert short.short_since is not None and short.throttled == []
    assert logs() == [(2, 1, "damaged", "cut at 5")]
    note(lane, Said((), ((2, Condition(disk=Disk(100, 8, 10))),), ()))
    assert BrokerCondition.objects.get(broker_id=2).short_since == short.short_since
    note(lane, Said((2,), ((2, Condition()),), ()))
    last = BrokerCondition.objects.get(broker_id=2)
    assert (logs(), last.disk_usable_bytes, last.short_since) == ([], None, None)


def test_who_lags_counts_while_the_one_leads_that_says_so(lane: LaneConnection) -> None:
    topic_id: UUID = Topic.objects.get().topic_id
    rows = {row.partition: row.id for row in Partition.objects.all()}

    def lagging() -> dict[int, list[int]]:
        found = conditions.lagging(list(rows.values()))
        return {number: found[row] for number, row in rows.items() if row in found}

    said = ((1, Lag(topic_id, 0, (2,), 4_000)), (1, Lag(topic_id, 1, (2,))), (2, Lag(topic_id, 2, (1,))))
    note(lane, Said((1,), ((1, Condition()),), (), said))
    assert lagging() == {0: [2], 1: [2]}, "broker 2 does not lead"
    note(lane, Said((), (), (), ((1, Lag(topic_id, 0)), (1, Lag(topic_id, 1, (2,))))))
    assert lagging() == {1: [2]}
    Partition.objects.filter(partition=1).update(isr=[1])
    assert lagging() == {}, "it is out of sync by the row"
    note(lane, Said((1,), (), (), ((9, Lag(topic_id, 1, (2,))),)))
    assert [one.broker_id for one in LagNote.objects.all()] == [2], "a new link, and a broker that is unknown"
    with lane.transaction(), lane.cursor() as cursor:
        store_conditions.forget(cursor, [2])
    assert not LagNote.objects.exists()


def test_a_client_that_calls_itself_what_cannot_be_stored_keeps_no_broker_from_being_heard(
    lane: LaneConnection,
) -> None:
    topic_id: UUID = Topic.objects.get().topic_id
    odd = ThrottledClient("ann\x00", "\\u0000 ti\x00ll", "producer_byte_rate", 10, 812, 3, 5_000)
    note(
        lane,
        Said(
            (),
            ((1, Condition(throttled=(odd,))), (2, Condition(disk=Disk(100, 50, 10)))),
            ((2, Note(topic_id, 0, OFFLINE, "EIO")),),
        ),
    )
    assert logs() == [(2, 0, "offline", "EIO")]
    (waiting,) = conditions.throttled(BrokerCondition.objects.get(broker_id=1))
    assert (waiting.told.user, waiting.told.client_id) == ("ann", "\\u0000 till")


def test_the_version_that_a_broker_runs_is_the_one_it_said_last(lane: LaneConnection) -> None:
    def said(condition: Condition) -> str:
        note(lane, Said((2,), ((2, condition),), ()))
        return BrokerCondition.objects.get(broker_id=2).version

    assert said(Condition(version="0.1.0+3f9ac21b")) == "0.1.0+3f9ac21b"
    assert said(Condition(version="\x00" + 41 * "9")) == 40 * "9"
    assert said(Condition()) == "", "it runs a version again that does not say"


def test_nothing_is_kept_of_who_is_not_registered(lane: LaneConnection) -> None:
    topic_id: UUID = Topic.objects.get().topic_id
    note(lane, Said((9,), ((9, Condition()),), ((9, Note(topic_id, 0, OFFLINE)),)))
    assert not BrokerCondition.objects.exists() and not LogNote.objects.exists()
    note(lane, Said((2,), ((2, Condition()),), ((2, Note(topic_id, 0, OFFLINE)),)))
    with lane.transaction(), lane.cursor() as cursor:
        store_conditions.forget(cursor, [2])
    assert not BrokerCondition.objects.exists() and not LogNote.objects.exists()


def test_only_logs_of_live_brokers_that_hold_the_partition_are_told(lane: LaneConnection) -> None:
    topic_id: UUID = Topic.objects.get().topic_id
    for where in (topic_id, uuid4()):
        note(
            lane, Said((), ((2, Condition()),), ((2, Note(where, 0, OFFLINE)), (2, Note(where, 7, OFFLINE))))
        )
    assert logs() == [(2, 0, "offline", "")]
    Broker.objects.filter(broker_id=2).update(fenced=True)
    assert logs() == [] and conditions.counts() == {}


def test_a_node_reads_which_logs_are_offline_and_no_others(lane: LaneConnection) -> None:
    topic_id: UUID = Topic.objects.get().topic_id
    bad = [(2, Note(topic_id, number, OFFLINE)) for number in range(2)]
    note(lane, Said((), ((2, Condition()),), (*bad, (1, Note(topic_id, 2, DAMAGED)))))
    ((broker_id, of, numbers),) = catalog.offline_logs(lane)
    assert (broker_id, of, sorted(numbers)) == (2, topic_id, [0, 1])
    note(lane, Said((), ((2, Condition()),), ((2, Note(topic_id, 1, SOUND)),)))
    assert catalog.offline_logs(lane) == [(2, topic_id, (0,))]
    note(lane, Said((2,), ((2, Condition()),), ()))
    assert catalog.offline_logs(lane) == []


def test_who_is_in_trouble_gets_nothing_new_where_a_page_shows_what_would_be_placed_nor_by_a_plan(
    lane: LaneConnection,
) -> None:
    topic_id: UUID = Topic.objects.get().topic_id
    cast.add_broker(3)

    def places() -> tuple[set[int], list[int]]:
        with lane.cursor() as cursor:
            (rows,) = cursor.execute(READ_BROKERS_TO_PLAN).fetchone() or ("[]",)
        planned = msgspec.json.decode(rows, type=list[StoredBroker])
        placed = placing.of_new(6, 1).assignments
        return {one for (one,) in placed}, [one.broker_id for one in planned if one.in_trouble]

    assert places() == ({1, 2, 3}, [])
    # Of partitions that it does not hold nothing is told any more.
    note(lane, Said((), ((3, Condition()),), ((3, Note(topic_id, 0, OFFLINE, "EIO")),)))
    assert places() == ({1, 2, 3}, [])
    note(lane, Said((), ((2, Condition()),), ((2, Note(topic_id, 0, OFFLINE, "EIO")),)))
    assert places() == ({1, 3}, [2])
    note(lane, Said((), ((3, Condition(disk=Disk(100, 9, 10))),), ()))
    assert places() == ({1}, [2, 3])
    assert {one[0] for one in placing.of_new(6, 2).assignments} == {1}


def test_who_is_away_follows_where_a_page_shows_what_would_be_placed(lane: LaneConnection) -> None:
    cast.add_broker(3, fenced=True)
    assert {frozenset(one) for one in placing.of_new(6, 2).assignments} == {frozenset({1, 2})}
    assert {one[2] for one in placing.of_new(6, 3).assignments} == {3}
    assert placing.of_new(6, 4).assignments == []
