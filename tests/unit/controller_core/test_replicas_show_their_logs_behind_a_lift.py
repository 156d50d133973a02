"""Where a database was set back its rows elect nobody: who leads is whoever's log goes furthest."""

import msgspec
import pytest

from controller.core.draft import ClusterDecision
from controller.core.election import LAST_EPOCH
from controller.core.events import LinkClosed, TimePassed, TookOver
from controller.core.records import LogsCompared, Phase, PossibleLoss, Reassignment, ShownEnd, ShownLogs
from controller.core.settings import ControllerSettings
from controller.core.state import ClusterState
from controller.core.turn import heard as ping
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.configs import AlterConfigs, AlteredConfigs, Change, ConfigChange, ResourceType
from muster.messages.link.from_broker import (
    AlterReassignments,
    ElectLeaders,
    Leaving,
    UnusableLogs,
    WantedReplicas,
)
from muster.messages.link.log_ends import NOT_NOTED, LogEnd, LogEnds
from muster.messages.link.protocol import SHOWS_LOGS
from muster.messages.link.rows import DOUBTED, NO_LEADER, PROVEN, UNPROVEN, PartitionRow
from muster.messages.link.to_broker import ElectionResults, ReassignmentResults
from tests.unit.controller_core.stage import FRESH, ORDERS, Cluster, heard, hello, said

EPOCH = 1_000_001
PATIENCE_MS = ControllerSettings().unproven_patience_ms


def unproven(
    assigned: tuple[int, ...] = (1, 2, 3), isr: tuple[int, ...] = (1, 2, 3), number: int = 0, **other: object
) -> PartitionRow:
    """The row of a database that was set back and lifted."""
    fields = {"leader": NO_LEADER, "leader_epoch": EPOCH, "unproven": UNPROVEN} | other
    return PartitionRow(ORDERS, number, assigned, isr=isr, version=5, **fields)  # type: ignore[arg-type]


class Lifted(Cluster):
    """Every broker says hello as one that can show its logs, on a link of its second run."""

    def __init__(self, *rows: PartitionRow, said_hello: tuple[int, ...] = (1, 2, 3), **other: object) -> None:
        super().__init__(rows or (unproven(),), **other)  # type: ignore[arg-type]
        self.turn(*(LinkClosed(f"link-{b}a") for b in (1, 2, 3)))
        self.later(1_000)
        self.turn(TimePassed())
        for b in said_hello:
            self.turn(hello(b, "b", protocol=SHOWS_LOGS))

    def later(self, ms: int) -> None:
        """Whoever has a link is heard meanwhile."""
        super().later(ms)
        for session in self.state.memory.sessions.values():
            if session.link is not None:
                ping(self.state.memory, session.link, 0, self.now, self.settings)

    def shows(
        self,
        b: int,
        last_epoch: int,
        end: int,
        start: int = 0,
        epoch: int = EPOCH,
        run: str = "b",
        led: int = NOT_NOTED,
    ) -> ClusterDecision:
        ends = (LogEnd(ORDERS, 0, epoch, last_epoch, end, start, led_epoch=led),)
        return self.turn(heard(f"link-{b}{run}", LogEnds(ends=ends)))

    def expire(self, b: int, run: str = "b") -> None:
        self.turn(LinkClosed(f"link-{b}{run}"))
        self.later(1_000)
        self.turn(TimePassed())


def lossy(decision: ClusterDecision) -> list[str]:
    return [one.reason for one in decision.records if isinstance(one, PossibleLoss)]


def test_nobody_leads_by_the_row_alone() -> None:
    cluster = Lifted()
    assert cluster.partition().leader == NO_LEADER
    cluster.later(PATIENCE_MS - 1)
    cluster.turn(TimePassed())
    assert cluster.partition().leader == NO_LEADER and cluster.partition().isr == (1, 2, 3)


def test_when_all_have_shown_their_logs_the_furthest_leads_with_those_that_hold_the_same() -> None:
    cluster = Lifted()
    cluster.shows(1, 7, 90)
    cluster.shows(3, 7, 100)
    decision = cluster.shows(2, 7, 100)
    row = cluster.partition()
    assert (row.leader, row.isr, row.leader_epoch, row.unproven) == (2, (2, 3), EPOCH + 1, PROVEN)
    assert not lossy(decision)
    [compared] = [one for one in decision.records if isinstance(one, LogsCompared)]
    assert (compared.leader, compared.brokers) == (2, (1, 2, 3))
    ends = (ShownEnd(7, 90), ShownEnd(7, 100), ShownEnd(7, 100))
    assert compared.logs == (ShownLogs(0, ends),)


def test_what_was_compared_alike_is_one_record_and_equal_ends_are_said_once() -> None:
    cluster = Lifted(*(unproven(number=n) for n in range(1_000)))
    ends = tuple(LogEnd(ORDERS, n, EPOCH, 7, 90) for n in range(1_000))
    for b in (1, 2, 3):
        decision = cluster.turn(heard(f"link-{b}b", LogEnds(ends=ends)))
    [compared] = [one for one in decision.records if isinstance(one, LogsCompared)]
    assert [one.partition for one in compared.logs] == list(range(1_000))
    assert {one.ends for one in compared.logs} == {(ShownEnd(7, 90),)}
    assert len(msgspec.json.encode(compared)) < 20 * 1_000


def test_a_later_leader_epoch_goes_before_a_longer_log() -> None:
    cluster = Lifted()
    cluster.shows(1, 7, 100)
    cluster.shows(2, 8, 90)
    cluster.shows(3, 7, 100)
    assert (cluster.partition().leader, cluster.partition().isr) == (2, (2,))


def test_who_led_later_goes_before_a_batch_that_nobody_took() -> None:
    cluster = Lifted()
    cluster.shows(1, 7, 100, led=9)
    cluster.shows(2, 7, 100, led=3)
    decision = cluster.shows(3, 8, 101, led=8)
    assert (cluster.partition().leader, cluster.partition().isr) == (1, (1, 2)), "both hold the same"
    assert not lossy(decision)
    [compared] = [one for one in decision.records if isinstance(one, LogsCompared)]
    ends = (ShownEnd(7, 100, 9), ShownEnd(7, 100, 3), ShownEnd(8, 101, 8))
    assert compared.logs == (ShownLogs(0, ends),)


def test_a_log_that_goes_on_behind_the_same_batch_holds_what_a_later_leader_held() -> None:
    cluster = Lifted()
    cluster.shows(1, 7, 90, led=9)
    cluster.shows(2, 7, 100, led=-1)
    assert not lossy(cluster.shows(3, 8, 80, led=8))
    assert (cluster.partition().leader, cluster.partition().isr) == (2, (2,))


def test_who_led_a_log_of_which_all_was_deleted_goes_before_one_that_was_left_behind() -> None:
    cluster = Lifted()
    cluster.shows(1, -1, 100, start=100, led=9)
    cluster.shows(2, -1, 100, start=100, led=-1)
    assert not lossy(cluster.shows(3, 7, 105, led=7))
    assert (cluster.partition().leader, cluster.partition().isr) == (1, (1, 2))


def test_where_a_broker_of_before_notes_no_epoch_batches_alone_decide() -> None:
    cluster = Lifted()
    cluster.shows(1, 7, 100, led=9)
    cluster.shows(2, 7, 100)
    cluster.shows(3, 8, 80, led=8)
    assert cluster.partition().leader == 3


def test_who_was_not_in_sync_by_the_row_leads_if_it_goes_furthest() -> None:
    cluster = Lifted(unproven(isr=(1,)))
    cluster.shows(1, 7, 90)
    cluster.shows(2, 8, 95)
    assert not lossy(cluster.shows(3, 7, 90))
    assert cluster.partition().leader == 2


def test_who_begins_elsewhere_is_not_in_sync_before_it_was_compared() -> None:
    cluster = Lifted()
    cluster.shows(1, 7, 100, start=10)
    cluster.shows(2, 7, 100, start=20)
    cluster.shows(3, 7, 100, start=20)
    assert (cluster.partition().leader, cluster.partition().isr) == (2, (2, 3))


def test_when_patience_is_over_the_furthest_leads_and_what_others_may_hold_is_noted() -> None:
    cluster = Lifted(said_hello=(1, 2))
    cluster.shows(1, 7, 90)
    assert not cluster.shows(2, 7, 100).records
    cluster.later(PATIENCE_MS)
    decision = cluster.turn(TimePassed())
    assert (cluster.partition().leader, cluster.partition().isr) == (2, (2,))
    [noted] = [one for one in decision.records if isinstance(one, PossibleLoss)]
    assert "not every replica has shown" in noted.reason and 3 in noted.isr


def test_the_turn_looks_again_when_patience_is_over() -> None:
    cluster = Lifted(said_hello=(1, 2))
    decision = cluster.shows(1, 7, 90)
    assert decision.look_again_at is not None
    assert decision.look_again_at <= cluster.now + PATIENCE_MS


def test_patience_begins_when_somebody_is_there() -> None:
    cluster = Lifted(said_hello=())
    cluster.later(10 * PATIENCE_MS)
    cluster.turn(TimePassed())
    cluster.turn(hello(1, "b", protocol=SHOWS_LOGS))
    cluster.shows(1, 7, 90)
    assert cluster.partition().leader == NO_LEADER
    cluster.turn(hello(2, "b", protocol=SHOWS_LOGS), hello(3, "b", protocol=SHOWS_LOGS))
    cluster.shows(2, 7, 100)
    assert not lossy(cluster.shows(3, 7, 90))
    assert cluster.partition().leader == 2


def test_patience_being_over_elects_nobody_of_whom_the_row_knows_nothing() -> None:
    cluster = Lifted(unproven(isr=(1,)), said_hello=(2, 3))
    cluster.shows(2, 7, 90)
    cluster.shows(3, 7, 90)
    cluster.later(PATIENCE_MS)
    cluster.turn(TimePassed())
    assert cluster.partition().leader == NO_LEADER


def test_a_topic_that_allows_it_goes_on_without_any_of_those() -> None:
    configs = {"unclean.leader.election.enable": "true"}
    cluster = Lifted(unproven(isr=(1,)), said_hello=(2, 3), configs=configs)
    cluster.shows(2, 7, 80)
    cluster.shows(3, 7, 90)
    assert cluster.partition().leader == NO_LEADER, "others may come still"
    cluster.later(PATIENCE_MS)
    assert lossy(cluster.turn(TimePassed()))
    assert cluster.partition().leader == 3


def test_a_topic_that_allows_it_only_later_goes_on_with_the_next_pass() -> None:
    cluster = Lifted(unproven(isr=(1,)), said_hello=(2, 3))
    cluster.shows(2, 7, 80)
    cluster.shows(3, 7, 90)
    cluster.later(PATIENCE_MS)
    cluster.turn(TimePassed())
    allowed = (ConfigChange("unclean.leader.election.enable", Change.SET, "true"),)
    orders = AlteredConfigs(type=ResourceType.TOPIC, name="orders", changes=allowed)
    cluster.turn(heard("link-2b", AlterConfigs(resources=(orders,))))
    cluster.later(ControllerSettings().leader_imbalance_check_interval_ms)
    cluster.turn(TimePassed())
    assert lossy(cluster.turn(TimePassed()))
    assert cluster.partition().leader == 3


def test_brokers_of_the_version_before_are_believed_when_patience_is_over() -> None:
    cluster = Lifted(said_hello=())
    cluster.turn(hello(1, "b"), hello(2, "b"), hello(3, "b"))
    cluster.later(PATIENCE_MS)
    assert lossy(cluster.turn(TimePassed()))
    row = cluster.partition()
    assert (row.leader, row.isr, row.unproven) == (1, (1, 2, 3), PROVEN)


def test_who_has_not_said_hello_to_this_owner_is_no_broker_of_before() -> None:
    cluster = Lifted(settings=ControllerSettings(unproven_patience_ms=100))
    cluster.state = ClusterState(cluster.state.rows)
    cluster.turn(TookOver(8))
    cluster.turn(hello(2, cluster.state.rows.brokers[2].incarnation, protocol=SHOWS_LOGS))
    cluster.later(100)
    cluster.turn(TimePassed())
    assert cluster.partition().leader == NO_LEADER, "broker 1 is live by its row, and may be of this version"


def test_another_process_has_shown_nothing() -> None:
    cluster = Lifted()
    cluster.shows(1, 7, 100)
    cluster.shows(2, 7, 90)
    cluster.turn(LinkClosed("link-1b"))
    cluster.turn(hello(1, "c", protocol=SHOWS_LOGS))
    cluster.shows(3, 7, 90)
    assert cluster.partition().leader == NO_LEADER, "its log may be shorter now"
    cluster.shows(1, 7, 50, run="c")
    assert cluster.partition().leader == 2


def test_who_is_not_heard_any_more_has_shown_nothing() -> None:
    cluster = Lifted()
    cluster.shows(1, 7, 100)
    cluster.expire(1)
    cluster.shows(2, 7, 90)
    cluster.shows(3, 7, 90)
    assert cluster.partition().leader == NO_LEADER
    assert cluster.partition().isr == (1, 2, 3), "nobody is spared before it is known who holds what"


def test_what_answers_another_row_is_passed_over() -> None:
    cluster = Lifted()
    cluster.shows(1, 7, 90, epoch=EPOCH - 1)
    cluster.shows(2, 7, 90)
    cluster.shows(3, 7, 90)
    assert cluster.partition().leader == NO_LEADER
    cluster.shows(1, 7, 90)
    assert cluster.partition().leader == 1


def test_a_log_that_failed_since_shows_nothing() -> None:
    cluster = Lifted()
    cluster.shows(1, 7, 100)
    cluster.turn(heard("link-1b", UnusableLogs(failed=((ORDERS, 0),))))
    cluster.shows(2, 7, 90)
    cluster.shows(3, 7, 90)
    assert cluster.partition().leader == NO_LEADER
    cluster.later(PATIENCE_MS)
    assert lossy(cluster.turn(TimePassed()))
    assert cluster.partition().isr == (2, 3)


def test_who_lost_its_tail_since_makes_the_election_doubtful() -> None:
    cluster = Lifted(said_hello=(2, 3))
    cluster.turn(hello(1, "b", protocol=SHOWS_LOGS, lost_tail=True))
    assert cluster.partition().unproven == DOUBTED
    assert cluster.partition().isr == (1, 2, 3)
    cluster.shows(1, 7, 0)
    cluster.shows(2, 7, 90)
    assert lossy(cluster.shows(3, 7, 90))
    assert (cluster.partition().leader, cluster.partition().unproven) == (2, PROVEN)


def test_damage_makes_doubtful_what_it_names_alone() -> None:
    cluster = Lifted(unproven(), unproven(number=1), said_hello=(2, 3))
    cluster.turn(hello(1, "b", protocol=SHOWS_LOGS, damaged_logs=((ORDERS, 1),)))
    assert [cluster.partition(n).unproven for n in (0, 1)] == [UNPROVEN, DOUBTED]


def test_who_is_about_to_stop_is_waited_for() -> None:
    cluster = Lifted()
    cluster.shows(1, 7, 100)
    cluster.turn(heard("link-1b", Leaving()))
    cluster.shows(2, 7, 90)
    cluster.shows(3, 7, 90)
    assert cluster.partition().leader == NO_LEADER
    cluster.later(PATIENCE_MS)
    assert lossy(cluster.turn(TimePassed()))
    assert (cluster.partition().leader, cluster.partition().isr) == (2, (2, 3))


def elect(cluster: Cluster, *, unclean: bool) -> tuple[ErrorCode, ClusterDecision]:
    wish = ElectLeaders(correlation_id=1, partitions=(("orders", 0),), unclean=unclean, principal="olga")
    decision = cluster.turn(heard("link-2b", wish))
    [answer] = [one for one in said(decision, "link-2b") if isinstance(one, ElectionResults)]
    return answer.results[0].error, decision


def test_an_operator_goes_on_at_once_with_the_furthest_of_those_that_are_there() -> None:
    cluster = Lifted(said_hello=(2, 3))
    cluster.shows(2, 7, 90)
    cluster.shows(3, 7, 100)
    error, decision = elect(cluster, unclean=True)
    assert error is ErrorCode.NONE and "olga" in lossy(decision)[0]
    assert (cluster.partition().leader, cluster.partition().unproven) == (3, PROVEN)


def test_the_preferred_leader_is_not_elected_by_the_row() -> None:
    cluster = Lifted()
    error, _ = elect(cluster, unclean=False)
    assert error is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    cluster.later(ControllerSettings().leader_imbalance_check_interval_ms)
    for b in (1, 2, 3):
        cluster.turn(hello(b, "c", protocol=SHOWS_LOGS))
    assert cluster.partition().leader == NO_LEADER


def moving(cluster: Cluster, target: tuple[int, ...], phase: Phase) -> None:
    """A reassignment of the time before the database was set back."""
    rows = cluster.state.rows
    one = Reassignment(
        id=FRESH, topic_id=ORDERS, topic="orders", partition=0, origin=(1, 2, 3), target=target, phase=phase
    )
    rows.reassignments[one.key] = one
    if phase is Phase.IN_PROGRESS:
        rows.moving[one.key] = None


def cancel(cluster: Cluster) -> ErrorCode:
    wanted = (WantedReplicas(topic="orders", partition=0),)
    decision = cluster.turn(heard("link-2b", AlterReassignments(correlation_id=2, partitions=wanted)))
    [answer] = [one for one in said(decision, "link-2b") if isinstance(one, ReassignmentResults)]
    return answer.results[0].error


def test_no_replica_is_dropped_before_it_is_known_who_holds_what() -> None:
    cluster = Lifted(unproven(removing=(2, 3)))
    moving(cluster, (1,), Phase.IN_PROGRESS)
    assert cancel(cluster) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert cluster.partition().assigned == (1, 2, 3)
    cluster.shows(1, 7, 90)
    cluster.shows(2, 7, 90)
    cluster.shows(3, 7, 90)
    cluster.turn(TimePassed())
    assert cluster.partition().assigned == (1,) and cluster.partition().leader == 1


def test_nobody_comes_to_a_partition_before_it_is_known_who_holds_what() -> None:
    cluster = Lifted(unproven((1, 2), isr=(1, 2)), said_hello=(1, 2))
    wanted = (WantedReplicas(topic="orders", partition=0, replicas=(3, 1)),)
    cluster.turn(heard("link-2b", AlterReassignments(correlation_id=1, partitions=wanted)))
    assert cluster.partition().assigned == (1, 2), "broker 3 is away, and never held anything of it"
    cluster.shows(1, 7, 90)
    decision = cluster.shows(2, 7, 90)
    assert not lossy(decision)
    assert (cluster.partition().leader, cluster.partition().assigned) == (1, (3, 1, 2))


def test_what_has_not_begun_is_cancelled_at_any_time() -> None:
    cluster = Lifted()
    moving(cluster, (1,), Phase.INIT)
    assert cancel(cluster) is ErrorCode.NONE
    for b in (1, 2, 3):
        cluster.shows(b, 7, 90)
    assert cluster.partition().assigned == (1, 2, 3)


def test_another_owner_is_shown_the_logs_anew() -> None:
    cluster = Lifted()
    cluster.shows(1, 7, 90)
    cluster.shows(2, 7, 90)
    cluster.state = ClusterState(cluster.state.rows)
    cluster.turn(TookOver(8))
    for b in (1, 2, 3):
        stated = cluster.state.rows.brokers[b]
        cluster.turn(hello(b, stated.incarnation, protocol=SHOWS_LOGS))
    cluster.shows(3, 7, 90)
    assert cluster.partition().leader == NO_LEADER
    cluster.shows(1, 7, 90)
    cluster.shows(2, 7, 90)
    assert cluster.partition().leader == 1


def test_what_is_too_much_for_one_turn_is_elected_in_the_next() -> None:
    settings = ControllerSettings(max_changed_in_bulk=1)
    cluster = Lifted(unproven(), unproven(number=1), settings=settings)
    for b in (1, 2, 3):
        ends = tuple(LogEnd(ORDERS, n, EPOCH, 7, 90) for n in (0, 1))
        decision = cluster.turn(heard(f"link-{b}b", LogEnds(ends=ends)))
    assert [cluster.partition(n).leader for n in (0, 1)] == [1, NO_LEADER]
    assert decision.look_again_at == cluster.now
    cluster.turn(TimePassed())
    assert cluster.partition(1).leader == 1


def test_where_epochs_are_used_up_nobody_leads_and_nobody_is_waited_for() -> None:
    cluster = Lifted(unproven(leader_epoch=LAST_EPOCH - 1))
    for b in (1, 2, 3):
        cluster.shows(b, 7, 90, epoch=LAST_EPOCH - 1)
    row = cluster.partition()
    assert (row.leader, row.leader_epoch, row.unproven) == (NO_LEADER, LAST_EPOCH, PROVEN)


def test_where_epochs_are_used_up_and_one_is_away_who_is_in_sync_stays_so() -> None:
    cluster = Lifted(unproven(isr=(1,), leader_epoch=LAST_EPOCH - 1), said_hello=(1, 2))
    cluster.shows(1, 7, 90, epoch=LAST_EPOCH - 1)
    cluster.later(PATIENCE_MS)
    cluster.turn(TimePassed())
    row = cluster.partition()
    assert (row.leader, row.leader_epoch, row.isr) == (NO_LEADER, LAST_EPOCH, (1,))


def test_a_row_that_a_node_of_before_has_elected_for_is_believed() -> None:
    cluster = Lifted(unproven(leader=1))
    cluster.expire(1)
    row = cluster.partition()
    assert row.leader in (2, 3) and row.unproven == PROVEN


@pytest.mark.parametrize("stated", [(), (LogEnd(ORDERS, 9, EPOCH, 7, 90),)])
def test_of_what_is_not_there_nothing_is_kept(stated: tuple[LogEnd, ...]) -> None:
    cluster = Lifted()
    assert not cluster.turn(heard("link-1b", LogEnds(ends=stated))).records
    assert not cluster.state.memory.shown.unjudged
