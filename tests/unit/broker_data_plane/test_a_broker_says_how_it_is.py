"""With its pings a broker says how it is, for people: disk, logs in trouble, who lags, who waits."""

from pathlib import Path

import pytest

from broker import condition as looks
from broker.condition import DISK_INTERVAL_MS, LOOK_INTERVAL_MS, BrokerCondition
from muster.messages.link.condition import (
    DAMAGED,
    LEADERLESS,
    MENDED,
    MOST_THROTTLED,
    OFFLINE,
    Disk,
    LagNote,
    LogNote,
    ThrottledClient,
)
from muster.messages.link.quotas import QuotaRow
from muster.messages.link.rows import NO_LEADER, PartitionRow
from tests.unit.broker_data_plane.planes import ORDERS, Broker, broker
from tests.unit.broker_log.logs import append

BOTH = (1, 2)


def _said(one: Broker) -> BrokerCondition:
    """One that has said what there was to say, and may look again."""
    condition = BrokerCondition(one.plane, one.quotas, one.plane.clock)
    first = condition.news()
    assert first is not None and first.begins
    one.now_ms += LOOK_INTERVAL_MS
    return condition


def _note(condition: BrokerCondition) -> LogNote:
    news = condition.news()
    assert news is not None and not news.begins
    (note,) = news.logs
    return note


async def test_nothing_is_said_while_nothing_changes(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        one.obey(1, replicas=BOTH)
        condition = _said(one)
        assert condition.news() is None
        condition.begin()
        again = condition.news()
        assert again is not None and again.begins


async def test_a_disk_is_told_now_and_then_and_at_once_when_it_is_short(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        room = one.plane.upkeep
        room.disk = Disk(10_000, 5_000, 1_000)
        condition = _said(one)
        room.disk = Disk(10_000, 4_000, 1_000)
        assert condition.news() is None, "that is no news yet"
        room.disk = Disk(10_000, 900, 1_000)
        short = condition.news()
        assert short is not None and short.disk == Disk(10_000, 900, 1_000)
        room.disk = Disk(10_000, 800, 1_000)
        one.now_ms += DISK_INTERVAL_MS
        later = condition.news()
        assert later is not None and later.disk == Disk(10_000, 800, 1_000)


async def test_a_log_that_failed_is_told_with_what_the_disk_said(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        one.obey(1, replicas=BOTH)
        condition = _said(one)
        hosted = one.plane.hosted(ORDERS, 0)
        assert hosted is not None
        hosted.log.fail("not flushed: EIO")
        assert _note(condition) == LogNote(ORDERS, 0, OFFLINE, "not flushed: EIO")


async def test_who_holds_what_nobody_leads_says_how_much(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        one.obey(1, replicas=BOTH)
        hosted = one.plane.hosted(ORDERS, 0)
        assert hosted is not None
        append(hosted.log, b"a", b"b")
        condition = _said(one)
        one.obey(2, leader=NO_LEADER, epoch=2, replicas=BOTH, isr=(2,))
        assert _note(condition) == LogNote(ORDERS, 0, LEADERLESS, "", 2)
        one.obey(3, leader=2, epoch=3, replicas=BOTH, isr=(2,))
        one.now_ms += LOOK_INTERVAL_MS
        assert _note(condition) == LogNote(ORDERS, 0, "")


async def test_what_never_had_a_leader_lacks_nothing(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        one.obey(1, leader=NO_LEADER, epoch=0, replicas=BOTH, isr=())
        assert _said(one).news() is None


async def test_damage_is_told_until_it_is_copied_again_and_then_that_it_was(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        one.obey(1, leader=2, replicas=BOTH, isr=(2,))
        hosted = one.plane.hosted(ORDERS, 0)
        assert hosted is not None
        condition = _said(one)
        one.plane.found_damaged[hosted.key] = "the batch at offset 812 is damaged"
        assert _note(condition) == LogNote(ORDERS, 0, DAMAGED, "the batch at offset 812 is damaged")
        one.obey(2, leader=2, replicas=BOTH, isr=BOTH)
        one.now_ms += LOOK_INTERVAL_MS
        assert _note(condition) == LogNote(ORDERS, 0, MENDED, "the batch at offset 812 is damaged")
        one.obey(3, leader=1, epoch=2, replicas=BOTH, isr=BOTH)
        one.now_ms += LOOK_INTERVAL_MS
        assert condition.news() is None, "who has copied it again may lead it"


async def test_who_leads_what_was_damaged_lacks_it_for_good(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        one.obey(1, replicas=BOTH, isr=(1,))
        condition = _said(one)
        hosted = one.plane.hosted(ORDERS, 0)
        assert hosted is not None
        hosted.damage = "the batch at offset 5 is damaged"
        assert _note(condition).state == DAMAGED


def _leads(one: Broker, partition: int = 0) -> None:
    """It leads a partition that two must hold, and has a record more than its follower."""
    hosted = one.plane.hosted(ORDERS, partition)
    assert hosted is not None
    hosted.replica.require(2)
    append(hosted.log, b"a")


def _lags(one: Broker, condition: BrokerCondition) -> list[LagNote]:
    one.now_ms += LOOK_INTERVAL_MS
    news = condition.news()
    return [] if news is None else list(news.lags)


async def test_a_follower_that_lives_and_lags_is_named_while_acks_all_is_refused(tmp_path: Path) -> None:
    """The floor keeps it in the ISR: by the row nothing is wrong with the partition."""
    async with broker(tmp_path, 1) as one:
        one.obey(1, replicas=BOTH)
        _leads(one)
        one.plane.live = set(BOTH)
        condition = _said(one)
        assert _lags(one, condition) == []
        one.now_ms += one.plane.settings.replica_lag_time_max_ms
        assert _lags(one, condition) == [LagNote(ORDERS, 0, (2,), 0)]
        assert _lags(one, condition) == [], "that was said"
        condition.begin()
        assert _lags(one, condition) == [LagNote(ORDERS, 0, (2,), 2 * LOOK_INTERVAL_MS)]
        one.plane.live = {1}
        assert _lags(one, condition) == [LagNote(ORDERS, 0)], "who has no session is told by the rows"
        one.plane.live = set(BOTH)
        assert _lags(one, condition) == [LagNote(ORDERS, 0, (2,), 0)]
        one.obey(2, leader=2, epoch=2, replicas=BOTH)
        assert _lags(one, condition) == [LagNote(ORDERS, 0)], "who leads no more refuses for another reason"


async def test_of_many_partitions_some_are_looked_at_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "LEADERS_AT_ONCE", 2)
    async with broker(tmp_path, 1) as one:
        one.obey(1, replicas=BOTH, partitions=3)
        for number in range(3):
            _leads(one, number)
        one.plane.live = set(BOTH)
        one.now_ms += one.plane.settings.replica_lag_time_max_ms + 1
        condition = BrokerCondition(one.plane, one.quotas, one.plane.clock)
        first = condition.news()
        assert first is not None and [note.partition for note in first.lags] == [0, 1]
        assert [note.partition for note in _lags(one, condition)] == [2]
        one.plane.stop(ORDERS, 2)
        rounds = [note for _ in range(3) for note in _lags(one, condition)]
        assert rounds == [LagNote(ORDERS, 2)], "it is not hosted any more, and the others lag still"


async def test_partitions_that_others_lead_keep_no_look_from_those_that_are_led_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "LEADERS_AT_ONCE", 1)
    async with broker(tmp_path, 1) as one:
        one.obey(1, leader=2, replicas=BOTH, partitions=3)
        one.plane.obey(PartitionRow(ORDERS, 2, BOTH, 1, 2, BOTH, 2))
        _leads(one, 2)
        one.plane.live = set(BOTH)
        one.now_ms += one.plane.settings.replica_lag_time_max_ms + 1
        news = BrokerCondition(one.plane, one.quotas, one.plane.clock).news()
        assert news is not None and news.lags == (LagNote(ORDERS, 2, (2,)),)


async def test_who_waits_for_a_quota_is_named_the_longest_wait_first(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        condition = _said(one)
        one.quotas.know([QuotaRow(None, "", producer_byte_rate=10)])
        for number in range(MOST_THROTTLED + 5):
            one.quotas.produced("ann", f"till-{number}", 100 + number, one.plane.clock())
        news = condition.news()
        assert news is not None and len(news.throttled) == MOST_THROTTLED and news.throttled_more == 5
        last = MOST_THROTTLED + 4
        assert news.throttled[0] == ThrottledClient(
            user=None,
            client_id=f"till-{last}",
            quota="producer_byte_rate",
            rate=10,
            wait_ms=(90 + last) * 100 + 1,
            answers=1,
            age_ms=0,
        )
