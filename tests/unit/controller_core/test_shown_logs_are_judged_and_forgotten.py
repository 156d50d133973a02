"""Logs that were shown are judged by where they begin, too, and forgotten when nobody asks any more."""

from controller.core.election import LAST_EPOCH
from controller.core.events import TimePassed
from controller.core.records import LogsCompared
from muster.messages.link.protocol import SHOWS_LOGS
from muster.messages.link.rows import NO_LEADER
from tests.unit.controller_core.stage import hello
from tests.unit.controller_core.test_replicas_show_their_logs_behind_a_lift import (
    PATIENCE_MS,
    Lifted,
    elect,
    lossy,
    unproven,
)


def test_nothing_is_kept_of_logs_that_were_compared_after_patience_was_over() -> None:
    cluster = Lifted(unproven(isr=(1,)), said_hello=(2, 3))
    cluster.shows(2, 7, 90)
    cluster.shows(3, 7, 90)
    cluster.later(PATIENCE_MS)
    cluster.turn(TimePassed())
    elect(cluster, unclean=True)
    for _ in range(3):
        cluster.later(PATIENCE_MS)
        cluster.turn(TimePassed(), hello(2, "b", protocol=SHOWS_LOGS))
    assert not cluster.state.memory.shown.of(unproven().key, unproven().leader_epoch)


def test_who_ends_before_another_log_begins_does_not_lead_without_a_note() -> None:
    cluster = Lifted()
    cluster.shows(1, -1, 100, start=100)
    cluster.shows(3, -1, 0)
    decision = cluster.shows(2, 7, 90)
    assert cluster.partition().leader == 1 or lossy(decision)


def test_where_epochs_are_used_up_no_record_says_that_somebody_leads() -> None:
    cluster = Lifted(unproven(leader_epoch=LAST_EPOCH - 1))
    cluster.shows(1, 7, 90, epoch=LAST_EPOCH - 1)
    cluster.shows(2, 7, 90, epoch=LAST_EPOCH - 1)
    decision = cluster.shows(3, 7, 90, epoch=LAST_EPOCH - 1)
    assert cluster.partition().leader == NO_LEADER
    assert all(one.leader == NO_LEADER for one in decision.records if isinstance(one, LogsCompared))
