"""Behind a promotion that lost nothing anybody acted on, who was in sync leads, whoever else is away."""

import msgspec
import pytest

from controller.core.draft import ClusterDecision
from controller.core.events import LinkClosed, TimePassed, TookOver
from controller.core.records import LogsCompared, PossibleLoss
from controller.core.settings import ControllerSettings
from controller.core.state import ClusterRows, ClusterState
from controller.core.turn import heard as ping
from muster.messages.link.from_broker import Leaving, UnusableLogs
from muster.messages.link.log_ends import LogEnd, LogEnds
from muster.messages.link.protocol import SHOWS_LOGS
from muster.messages.link.rows import (
    DOUBTED,
    NO_LEADER,
    PROVEN,
    UNPROVEN_AGAIN,
    BrokerRow,
    PartitionRow,
    TopicRow,
)
from tests.unit.controller_core.stage import ORDERS, START, Cluster, heard, hello
from tests.unit.controller_core.test_replicas_show_their_logs_behind_a_lift import EPOCH, unproven

LIFTED = 1_000_100
BEFORE = 100
"""The metadata versions of the lift and before it."""


class Promoted(Cluster):
    """A standby took over; brokers 1 and 2 were in sync and have linked again, 3 is away."""

    def __init__(
        self,
        row: PartitionRow | None = None,
        proven_version: int = BEFORE,
        configs: dict[str, str] | None = None,
    ) -> None:
        self.settings, self.now = ControllerSettings(), START
        row = msgspec.structs.replace(row or unproven(isr=(1, 2)), version=LIFTED)
        brokers = [
            BrokerRow(b, 1_000_001, "a", {"client": f"127.0.0.1:{9000 + b}"}, live=b < 3, version=LIFTED)
            for b in (1, 2, 3, 4)
        ]
        rows = ClusterRows.of(
            "cluster-1",
            LIFTED,
            1_000,
            brokers,
            [TopicRow(ORDERS, "orders", 1, 3, configs or {})],
            [row],
            proven_version=proven_version,
        )
        self.state = ClusterState(rows)
        self.turn(TookOver(7))
        for b in (1, 2):
            self.turn(hello(b, protocol=SHOWS_LOGS))

    def shows(
        self, b: int, end: int = 90, obeyed: int = 60, epoch: int = 7, run: str = "a"
    ) -> ClusterDecision:
        """`obeyed`: which proven row its process obeyed last."""
        ends = (LogEnd(ORDERS, 0, EPOCH, epoch, end, 0, obeyed),)
        return self.turn(heard(f"link-{b}{run}", LogEnds(ends=ends)))

    @property
    def leader(self) -> int:
        return self.partition().leader


def lossy(decision: ClusterDecision) -> bool:
    return any(isinstance(one, PossibleLoss) for one in decision.records)


def test_who_was_in_sync_leads_at_once_and_no_loss_is_noted_though_somebody_is_away() -> None:
    cluster = Promoted()
    cluster.shows(1, 90)
    assert cluster.leader == NO_LEADER, "the other one may hold more"
    decision = cluster.shows(2, 100)
    row = cluster.partition()
    assert (row.leader, row.isr, row.unproven) == (2, (2,), PROVEN)
    assert not lossy(decision)
    [compared] = [one for one in decision.records if isinstance(one, LogsCompared)]
    assert compared.brokers == (1, 2)


def test_those_that_hold_the_same_stay_in_sync() -> None:
    cluster = Promoted()
    cluster.shows(1)
    cluster.shows(2, obeyed=BEFORE)
    assert (cluster.leader, cluster.partition().isr) == (1, (1, 2))


def test_another_owner_in_between_changes_nothing() -> None:
    cluster = Promoted()
    cluster.shows(1)
    cluster.state = ClusterState(cluster.state.rows)
    cluster.turn(TookOver(8))
    for b in (1, 2):
        cluster.turn(hello(b, protocol=SHOWS_LOGS))
        decision = cluster.shows(b)
    assert cluster.leader == 1 and not lossy(decision)


def waits_then_notes(cluster: Promoted) -> None:
    """It was not proven: the rest is waited for, and what it may have held is noted."""
    assert cluster.leader == NO_LEADER
    cluster.later(cluster.settings.unproven_patience_ms)
    for session in cluster.state.memory.sessions.values():
        if session.link is not None:
            ping(cluster.state.memory, session.link, 0, cluster.now, cluster.settings)
    assert lossy(cluster.turn(TimePassed())) and cluster.leader != NO_LEADER


@pytest.mark.parametrize("first", [True, False])
def test_a_member_that_has_obeyed_a_turn_that_is_lost_is_waited_with(first: bool) -> None:
    cluster = Promoted()
    cluster.shows(1, obeyed=BEFORE + 1 if first else BEFORE)
    cluster.shows(2, obeyed=BEFORE if first else BEFORE + 1)
    waits_then_notes(cluster)


def test_so_is_one_that_was_not_in_sync_and_is_here() -> None:
    cluster = Promoted(unproven((1, 2, 3, 4), isr=(1, 2)))
    cluster.turn(hello(3, protocol=SHOWS_LOGS))
    cluster.shows(3, 50, obeyed=BEFORE + 1)
    cluster.shows(1)
    cluster.shows(2)
    waits_then_notes(cluster)


def test_who_cannot_tell_what_it_obeyed_is_not_believed() -> None:
    cluster = Promoted()
    cluster.shows(1, obeyed=0)
    cluster.shows(2)
    waits_then_notes(cluster)


def test_another_process_of_a_member_is_not_believed_whatever_it_tells() -> None:
    cluster = Promoted()
    cluster.turn(LinkClosed("link-2a"), hello(2, "b", protocol=SHOWS_LOGS))
    cluster.shows(1)
    cluster.shows(2, run="b")
    waits_then_notes(cluster)


def test_nor_by_the_owner_behind_the_one_that_saw_it_come() -> None:
    cluster = Promoted()
    cluster.turn(LinkClosed("link-2a"), hello(2, "b", protocol=SHOWS_LOGS))
    cluster.state = ClusterState(cluster.state.rows)
    cluster.turn(TookOver(8))
    cluster.turn(hello(1, protocol=SHOWS_LOGS), hello(2, "b", protocol=SHOWS_LOGS))
    cluster.shows(1)
    cluster.shows(2, run="b")
    waits_then_notes(cluster)


def test_a_copy_that_was_adopted_proves_nothing() -> None:
    cluster = Promoted(proven_version=0)
    cluster.shows(1)
    cluster.shows(2)
    waits_then_notes(cluster)


@pytest.mark.parametrize("unproven_since", [DOUBTED, UNPROVEN_AGAIN])
def test_neither_a_lost_tail_nor_a_lift_before_the_last_one_is_passed_over(unproven_since: int) -> None:
    cluster = Promoted(unproven(isr=(1, 2), unproven=unproven_since))
    cluster.shows(1)
    cluster.shows(2)
    waits_then_notes(cluster)


def test_where_elections_may_be_unclean_somebody_else_may_have_led() -> None:
    cluster = Promoted(configs={"unclean.leader.election.enable": "true"})
    cluster.shows(1)
    cluster.shows(2)
    waits_then_notes(cluster)


def test_every_member_is_waited_for() -> None:
    cluster = Promoted(unproven(isr=(1, 2, 3)))
    cluster.shows(1)
    cluster.shows(2)
    waits_then_notes(cluster)


def test_a_member_whose_log_failed_is_waited_for() -> None:
    cluster = Promoted()
    cluster.shows(2, 100)
    cluster.turn(heard("link-2a", UnusableLogs(failed=((ORDERS, 0),))))
    cluster.shows(1)
    waits_then_notes(cluster)


def test_where_the_furthest_is_about_to_stop_nobody_leads_in_its_place_at_once() -> None:
    cluster = Promoted()
    cluster.shows(2, 100)
    cluster.turn(heard("link-2a", Leaving()))
    cluster.shows(1)
    assert cluster.leader == NO_LEADER


def test_who_was_out_of_sync_and_goes_further_is_no_case_for_belief() -> None:
    cluster = Promoted(unproven((1, 2, 3, 4), isr=(1, 2)))
    cluster.turn(hello(3, protocol=SHOWS_LOGS))
    cluster.shows(3, 91)
    cluster.shows(1)
    cluster.shows(2)
    assert cluster.leader == NO_LEADER


def test_a_broker_that_proved_that_more_was_lost_is_waited_for() -> None:
    cluster = Promoted()
    cluster.turn(hello(3, metadata_version=2 * LIFTED, protocol=SHOWS_LOGS))
    cluster.shows(1)
    cluster.shows(2)
    waits_then_notes(cluster)
