"""This room shows deaths: silence, a closed link, elections in the turn and by a worker's proposals."""

from uuid import UUID

import msgspec
import pytest

from controller.core.draft import ClusterDecision, Draft
from controller.core.election import Policy
from controller.core.events import BrokerGone, Event, HangUp, LinkClosed, ProposalsReady, TimePassed, TookOver
from controller.core.leaders import remove
from controller.core.proposing import PROPOSED_AT_MOST, LeaderProposal, Seats, Task, propose
from controller.core.records import PartitionsChanged, PossibleLoss, WorkAdopted, WorkOffered
from controller.core.settings import ControllerSettings
from controller.core.state import NOTHING_LOST
from controller.core.turn import heard, postpone
from muster.messages.link.rows import NO_LEADER, TopicRow
from muster.messages.link.to_broker import Changes
from tests.unit.controller_core.stage import ORDERS, Cluster, hello, row, said
from tests.unit.messages.made_rows import seats

CLICKS = UUID(int=11)
FULL = ControllerSettings(max_changed_in_bulk=0)
FEW_A_TURN = ControllerSettings(max_changed_in_bulk=10)


def test_a_silent_leader_is_replaced_by_the_first_live_member_in_order_of_assignment() -> None:
    cluster = Cluster([row(0, (1, 3, 2), 1, (1, 2, 3))])
    cluster.later(9_000)
    for b in (2, 3):
        assert heard(cluster.state.memory, f"link-{b}a", 0, cluster.now, cluster.settings)
    decision = cluster.turn(TimePassed())

    partition = cluster.partition()
    assert (partition.leader, partition.leader_epoch, partition.isr) == (3, 2, (2, 3))
    assert partition.version == cluster.state.rows.metadata_version
    assert not cluster.state.rows.brokers[1].live
    assert any(isinstance(one, HangUp) and one.link == "link-1a" for one in decision.commands)


def test_a_silent_follower_leaves_the_isr_and_the_leader_epoch_stays() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1, 2, 3))])
    cluster.turn(LinkClosed("link-3a"))
    cluster.later(1_000)
    cluster.turn(TimePassed())

    partition = cluster.partition()
    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 1, (1, 2))


def test_a_closed_link_leaves_a_second_to_come_back() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1, 2, 3))])
    decision = cluster.turn(LinkClosed("link-1a"))
    assert decision.look_again_at == cluster.now + 1_000
    cluster.later(999)
    cluster.turn(hello(1))
    cluster.later(500)
    assert cluster.turn(TimePassed()).records == ()
    assert cluster.partition().leader == 1


def test_a_process_that_has_ended_is_waited_for_no_longer() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1, 2, 3))])
    cluster.turn(LinkClosed("link-1a"))
    cluster.turn(BrokerGone(1, 1))

    assert not cluster.state.rows.brokers[1].live
    assert (cluster.partition().leader, cluster.partition().isr) == (2, (2, 3))


@pytest.mark.parametrize(
    ("since", "epoch"),
    [
        pytest.param((), 2, id="another process had said hello"),
        pytest.param((LinkClosed("link-1a"), hello(1)), 1, id="it has a link again"),
        pytest.param((), 1, id="its link was never closed"),
    ],
)
def test_what_was_found_of_a_process_before_counts_no_more(since: tuple[Event, ...], epoch: int) -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1, 2, 3))])
    if since:
        cluster.turn(*since)
    decision = cluster.turn(BrokerGone(1, epoch))

    assert decision.records == ()
    assert cluster.state.rows.brokers[1].live and cluster.partition().leader == 1


def test_time_in_which_the_owner_stood_still_is_nobodys_silence() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1, 2, 3))])
    cluster.later(20_000)
    postpone(cluster.state.memory, 20_000)
    assert cluster.turn(TimePassed()).records == ()


def test_the_last_member_keeps_its_seat_and_nobody_leads() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1,))])
    cluster.turn(LinkClosed("link-1a"))
    cluster.later(1_000)
    cluster.turn(TimePassed())

    partition = cluster.partition()
    assert (partition.leader, partition.leader_epoch, partition.isr) == (-1, 2, (1,))


def test_an_unclean_election_happens_only_where_the_topic_asks_for_it() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1,))], configs={"unclean.leader.election.enable": "true"})
    cluster.turn(LinkClosed("link-1a"))
    cluster.later(1_000)
    decision = cluster.turn(TimePassed())

    assert (cluster.partition().leader, cluster.partition().isr) == (2, (2,))
    assert any(isinstance(record, PossibleLoss) for record in decision.records)


def die_in_a_full_turn(cluster: Cluster, broker_id: int) -> ClusterDecision:
    """The broker's session is over in a turn that has no room for what becomes of its partitions."""
    cluster.turn(LinkClosed(f"link-{broker_id}a"))
    cluster.later(1_000)
    cluster.settings = FULL
    death = cluster.turn(TimePassed())
    cluster.settings = ControllerSettings()
    return death


def test_the_turn_of_a_death_elects_as_many_as_it_has_room_for_and_a_worker_computes_the_rest() -> None:
    cluster = Cluster([row(n, (1, 2, 3), 1, (1, 2, 3)) for n in range(25)], settings=FEW_A_TURN)
    cluster.turn(LinkClosed("link-1a"))
    cluster.later(1_000)
    death = cluster.turn(TimePassed())
    assert [one.key for one in death.records if isinstance(one, WorkOffered)] == ["1"]
    assert led_by(cluster, 2) == 10

    few = Cluster([row(n, (1, 2, 3), 1, (1, 2, 3)) for n in range(10)], settings=FEW_A_TURN)
    few.turn(LinkClosed("link-1a"))
    few.later(1_000)
    assert not any(isinstance(one, WorkOffered) for one in few.turn(TimePassed()).records)
    assert led_by(few, 2) == 10


def test_nobody_is_elected_who_dies_in_the_same_turn() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1, 2, 3))])
    cluster.turn(LinkClosed("link-1a"), LinkClosed("link-2a"))
    cluster.later(1_000)
    cluster.turn(TimePassed())

    partition = cluster.partition()
    assert (partition.leader, partition.leader_epoch, partition.isr) == (3, 2, (3,)), "one election, not two"


def test_many_elections_are_a_workers_work_and_adopted_in_one_turn() -> None:
    cluster = Cluster([row(number, (1, 2, 3), 1, (1, 2, 3)) for number in range(50)])
    death = die_in_a_full_turn(cluster, 1)
    assert [one.key for one in death.records if isinstance(one, WorkOffered)] == ["1"]
    assert cluster.partition().leader == 1, "not yet"

    found = seats(cluster.state.rows.partitions.values())
    proposals = propose(Task.BROKER_CHANGE, "1", found, {2, 3}, lambda topic: Policy(1, False))
    travelled = msgspec.convert(msgspec.to_builtins(proposals), tuple[LeaderProposal, ...])
    decision = cluster.turn(ProposalsReady(4, Task.BROKER_CHANGE, "1", travelled))

    assert {p.leader for p in cluster.state.rows.partitions.values()} == {2}
    assert WorkAdopted(4) in decision.records
    [changes] = said(decision, "link-3a")
    assert isinstance(changes, Changes)
    [alike] = changes.leader_and_isr
    assert (alike.leader, alike.partitions) == (2, tuple(range(50))), "what is alike is said once"


def test_of_too_much_nothing_is_proposed_and_the_turn_decides_it() -> None:
    ways = [Seats(UUID(int=number), (1, 2), 1, (1, 2)) for number in range(PROPOSED_AT_MOST + 1)]

    def proposed(found: list[Seats]) -> int:
        return len(propose(Task.BROKER_CHANGE, "1", found, {2}, lambda topic: Policy(1, False)))

    assert (proposed(ways[1:]), proposed(ways)) == (PROPOSED_AT_MOST, 0)

    cluster = Cluster([row(number, (1, 2, 3), 1, (1, 2, 3)) for number in range(50)])
    die_in_a_full_turn(cluster, 1)
    cluster.turn(ProposalsReady(4, Task.BROKER_CHANGE, "1", ()))
    assert led_by(cluster, 2) == 50


@pytest.mark.parametrize("by_a_worker", [False, True])
def test_what_stands_alike_is_judged_by_what_its_own_topic_says(by_a_worker: bool) -> None:
    of_orders = row(0, (1, 2, 3), 1, (1,))
    of_clicks = msgspec.structs.replace(of_orders, topic_id=CLICKS)
    cluster = Cluster([of_orders, of_clicks])
    for topic_id, unclean in ((ORDERS, "true"), (CLICKS, "false")):
        configs = {"unclean.leader.election.enable": unclean}
        cluster.state.rows.put_topic(TopicRow(topic_id, str(topic_id), 1, 3, configs))
    if by_a_worker:
        die_in_a_full_turn(cluster, 1)
        cluster.turn(ProposalsReady(4, Task.BROKER_CHANGE, "1", ()))
    else:
        cluster.turn(LinkClosed("link-1a"))
        cluster.later(1_000)
        cluster.turn(TimePassed())
    partitions = cluster.state.rows.partitions
    assert (partitions[ORDERS, 0].leader, partitions[CLICKS, 0].leader) == (2, NO_LEADER)


def test_of_topics_that_it_holds_nothing_of_no_policy_is_looked_for() -> None:
    of_clicks = msgspec.structs.replace(row(0, (2, 3), 2, (2, 3)), topic_id=CLICKS)
    cluster = Cluster([row(0, (1, 2, 3), 1, (1, 2, 3)), of_clicks])
    draft = Draft(cluster.state, cluster.now, cluster.settings)
    assert remove(draft, 1, NOTHING_LOST)
    assert list(draft._policies) == [ORDERS]


def test_what_changed_underneath_a_proposal_is_decided_again() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1, 2, 3)), row(1, (1, 2, 3), 1, (1, 2, 3))])
    die_in_a_full_turn(cluster, 1)
    stale = LeaderProposal(Seats(ORDERS, (1, 2, 3), 1, (1, 3)), 3, (3,))
    dead = LeaderProposal(Seats(ORDERS, (1, 2, 3), 1, (1, 2, 3)), 1, (1, 2, 3))
    decision = cluster.turn(ProposalsReady(4, Task.BROKER_CHANGE, "1", (stale, dead)))

    [changed] = [record.alike for record in decision.records if isinstance(record, PartitionsChanged)]
    assert (changed.leader, changed.isr, changed.partitions) == (2, (2, 3), (0, 1))


def test_a_proposal_is_adopted_where_it_fits_and_decided_again_where_it_does_not() -> None:
    """Half of the partitions it names have changed since: to what, only the turn knows."""
    cluster = Cluster([row(number, (1, 2, 3), 1, (1, 2, 3)) for number in range(4)])
    die_in_a_full_turn(cluster, 1)
    found = seats(cluster.state.rows.partitions.values())
    proposals = propose(Task.BROKER_CHANGE, "1", found, {2, 3}, lambda topic: Policy(1, False))
    cluster.turn(LinkClosed("link-2a"))
    cluster.later(1_000)
    cluster.turn(TimePassed())
    cluster.turn(ProposalsReady(4, Task.BROKER_CHANGE, "1", proposals))

    assert {p.leader for p in cluster.state.rows.partitions.values()} == {3}


def dead_leader_of(partitions: int, settings: ControllerSettings) -> tuple[Cluster, ProposalsReady]:
    """Broker 1 led them all and is dead, which left some to a worker, who has proposed."""
    cluster = Cluster([row(n, (1, 2, 3), 1, (1, 2, 3)) for n in range(partitions)], settings=settings)
    cluster.turn(LinkClosed("link-1a"))
    cluster.later(1_000)
    cluster.turn(TimePassed())
    found = seats(cluster.state.rows.partitions.values())
    proposals = propose(Task.BROKER_CHANGE, "1", found, {2, 3}, lambda topic: Policy(1, False))
    return cluster, ProposalsReady(4, Task.BROKER_CHANGE, "1", proposals)


def led_by(cluster: Cluster, broker_id: int) -> int:
    return sum(one.leader == broker_id for one in cluster.state.rows.partitions.values())


def test_more_than_a_turn_takes_is_adopted_turn_by_turn() -> None:
    cluster, ready = dead_leader_of(35, FEW_A_TURN)
    assert led_by(cluster, 2) == 10
    first = cluster.turn(ready)
    assert led_by(cluster, 2) == 20
    assert first.look_again_at == cluster.now, "the next turn follows at once"
    assert WorkAdopted(4) not in first.records, "a new owner would find the rest"

    second, last = cluster.turn(), cluster.turn(TimePassed())
    assert WorkAdopted(4) not in second.records and WorkAdopted(4) in last.records
    assert led_by(cluster, 2) == 35
    assert {one.leader_epoch for one in cluster.state.rows.partitions.values()} == {2}
    assert cluster.turn(TimePassed()).records == ()


def test_a_broker_that_is_back_between_two_such_turns_ends_them() -> None:
    cluster, ready = dead_leader_of(25, FEW_A_TURN)
    cluster.turn(ready)
    decision = cluster.turn(hello(1))
    assert WorkAdopted(4) in decision.records
    assert (led_by(cluster, 2), led_by(cluster, 1)) == (20, 5)


def test_a_new_owner_goes_on_where_the_old_one_stopped() -> None:
    cluster, ready = dead_leader_of(25, FEW_A_TURN)
    cluster.turn(ready)
    cluster.turn(TookOver(8))
    for _ in range(2):
        cluster.turn(ready)
    assert led_by(cluster, 2) == 25
    assert {one.leader_epoch for one in cluster.state.rows.partitions.values()} == {2}


def test_proposals_about_a_broker_that_is_back_are_dropped() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1, 2, 3))])
    die_in_a_full_turn(cluster, 1)
    cluster.turn(hello(1))
    proposal = LeaderProposal(Seats(ORDERS, (1, 2, 3), 1, (1, 2, 3)), 2, (2, 3))
    cluster.turn(ProposalsReady(4, Task.BROKER_CHANGE, "1", (proposal,)))
    assert cluster.partition().leader == 1
