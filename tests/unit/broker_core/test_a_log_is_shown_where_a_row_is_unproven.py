"""A replica shows how far its log goes behind an unproven row, and nothing where that would be a guess."""

from uuid import UUID

import msgspec
import pytest

from broker.core.leader_epochs import NO_EPOCH
from broker.core.led_epochs import Led, LedEpochs
from broker.core.log_ends import end_for
from broker.core.replica import Replica, Role
from muster.kernel.instants import Instant
from muster.messages.link.log_ends import LogEnd
from muster.messages.link.rows import DOUBTED, NO_LEADER, PROVEN, UNPROVEN, PartitionRow
from tests.simulation.replication.memory_log import MemoryLog, Stored

ORDERS = UUID(int=1)
NOW = Instant(0)


def log(*epochs: int) -> MemoryLog:
    return MemoryLog(tuple(Stored(epoch, value, (2, 1)) for value, epoch in enumerate(epochs, start=1)))


def row(
    leader: int = NO_LEADER, epoch: int = 1_000_002, version: int = 9, unproven: int = UNPROVEN
) -> PartitionRow:
    return PartitionRow(ORDERS, 0, (1, 2, 3), leader, epoch, (1, 2, 3), version, unproven=unproven)


def test_it_is_the_epoch_of_the_last_batch_and_the_end() -> None:
    replica, asked = Replica(1, log(1, 1, 2)), row()
    replica.obey(asked, NOW, from_snapshot=True)
    assert end_for(asked, replica, LedEpochs()) == LogEnd(ORDERS, 0, 1_000_002, 2, 3, led_epoch=NO_EPOCH)


def test_an_empty_log_is_shown_as_well() -> None:
    replica, asked = Replica(1, log()), row()
    replica.obey(asked, NOW)
    assert end_for(asked, replica, LedEpochs()) == LogEnd(ORDERS, 0, 1_000_002, -1, 0, led_epoch=NO_EPOCH)


def test_of_a_log_that_failed_nothing_is_shown() -> None:
    replica, asked = Replica(1, log(1)), row()
    replica.fail()
    replica.obey(asked, NOW)
    assert end_for(asked, replica, LedEpochs()) is None


@pytest.mark.parametrize("other", [row(unproven=PROVEN), row(leader=2)])
def test_nobody_asks_where_the_row_is_proven_or_somebody_leads(other: PartitionRow) -> None:
    replica = Replica(1, log(1))
    replica.obey(other, NOW)
    assert end_for(other, replica, LedEpochs()) is None


def test_a_row_that_came_late_is_not_answered() -> None:
    replica, newer = Replica(1, log(1)), row(epoch=1_000_003, version=10)
    replica.obey(newer, NOW)
    older = row()
    replica.obey(older, NOW)
    assert end_for(older, replica, LedEpochs()) is None and end_for(newer, replica, LedEpochs()) is not None


def shown_behind(*rows: PartitionRow) -> int:
    """Which proven row the last of `rows` is answered with."""
    replica = Replica(1, log(1))
    for one in rows:
        replica.obey(one, NOW, from_snapshot=True)
    return told(replica)


def told(replica: Replica) -> int:
    assert replica.row is not None
    end = end_for(replica.row, replica, LedEpochs())
    assert end is not None
    return end.proven_version


LED = row(leader=1, epoch=2, version=7, unproven=PROVEN)


def test_it_says_which_proven_row_was_obeyed_last() -> None:
    assert shown_behind(LED, row()) == 7
    led_again = row(leader=1, epoch=1_000_003, version=12, unproven=PROVEN)
    assert shown_behind(LED, row(), led_again, row(epoch=2_000_003, version=20)) == 12


def test_a_process_that_has_obeyed_none_says_so() -> None:
    assert shown_behind(row()) == 0


def test_another_row_of_the_same_lift_takes_nothing_away() -> None:
    assert shown_behind(LED, row(), row(version=11, unproven=DOUBTED)) == 7


def test_behind_another_lift_nobody_can_tell_who_led_in_between() -> None:
    assert shown_behind(LED, row(), row(epoch=2_000_002, version=20)) == 0


def test_who_asked_for_another_isr_and_heard_no_answer_does_not_know_what_became_of_it() -> None:
    replica = Replica(1, log(1))
    replica.obey(row(leader=1, epoch=2, version=7, unproven=PROVEN), NOW)
    assert replica.propose(Instant(NOW + 60_000), True, {1, 2, 3}, lag_time_max_ms=10_000) is not None
    replica.obey(row(), NOW, from_snapshot=True)
    assert told(replica) == 0


def test_who_heard_the_answer_knows() -> None:
    replica = Replica(1, log(1))
    replica.obey(row(leader=1, epoch=2, version=7, unproven=PROVEN), NOW)
    asked = replica.propose(Instant(NOW + 60_000), True, {1, 2, 3}, lag_time_max_ms=10_000)
    assert asked is not None
    replica.hear_answer(asked.base_version, None, NOW)
    replica.obey(row(), NOW, from_snapshot=True)
    assert told(replica) == 7


def test_what_is_shown_neither_grows_nor_is_cut_by_an_answer_of_before() -> None:
    replica = Replica(1, log(1, 1))
    replica.obey(row(leader=2, epoch=2, version=8, unproven=PROVEN), NOW)
    asked = replica.next_fetch()
    assert asked is not None and replica.accepts(asked)
    unproven = row()
    replica.obey(unproven, NOW, from_snapshot=True)
    shown = end_for(unproven, replica, LedEpochs())
    assert not replica.accepts(asked) and replica.next_fetch() is None
    assert replica.heed_diverging(asked, replica.log.end_of_epoch(0)) is None
    assert replica.role is Role.OFFLINE and end_for(unproven, replica, LedEpochs()) == shown


def led_in(epoch: int, replica: Replica, led: LedEpochs) -> None:
    version = epoch + 1
    replica.obey(row(1, epoch, version, PROVEN), NOW)
    led.look((ORDERS, 0), replica)


def led_epoch_of(replica: Replica, led: LedEpochs, asked: PartitionRow) -> int:
    replica.obey(asked, NOW)
    end = end_for(asked, replica, led)
    assert end is not None
    return end.led_epoch


def test_who_led_without_a_batch_shows_the_epoch() -> None:
    replica, led = Replica(1, log(1, 1, 2)), LedEpochs()
    led_in(3, replica, led)
    led_in(5, replica, led)
    assert led_epoch_of(replica, led, row()) == 5


def test_who_followed_shows_none() -> None:
    replica, led = Replica(1, log(1, 1, 2)), LedEpochs()
    replica.obey(row(2, 5, 6, PROVEN), NOW)
    led.look((ORDERS, 0), replica)
    assert not led.news and led_epoch_of(replica, led, row()) == NO_EPOCH


def test_who_began_with_an_empty_log_held_nothing_that_was_committed() -> None:
    replica, led = Replica(1, log()), LedEpochs()
    led_in(5, replica, led)
    assert not led.news and led_epoch_of(replica, led, row()) == NO_EPOCH


def test_a_log_that_was_cut_since_shows_no_epoch_before_it_has_grown_again() -> None:
    kept, led = log(1, 1, 2), LedEpochs()
    replica = Replica(1, kept)
    led_in(5, replica, led)
    kept.truncate(2)
    assert led_epoch_of(replica, led, row()) == NO_EPOCH
    kept.append(Stored(2, 4, (2, 1)))
    assert led_epoch_of(replica, led, row(epoch=1_000_003, version=10)) == 5


def test_an_epoch_of_a_partition_that_was_removed_says_nothing_of_the_next() -> None:
    replica, led = Replica(1, log(7, 7)), LedEpochs()
    led.led[ORDERS, 0] = Led(5, 2)
    asked = msgspec.structs.replace(row(), base_epoch=6)
    assert led_epoch_of(replica, led, asked) == NO_EPOCH
