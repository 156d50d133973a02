"""The controller is left to a node to which more brokers come than its own hears, and to nobody else."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from muster.kernel.instants import Instant
from runtime.database import LeaseRow, Peer
from runtime.judging import LONGEST_GAP_MS, LOOK_EVERY_MS
from runtime.making_way import HOLD_MS, NO_GAIN, SETTLE_MS, Heard, MakingWay, gain
from runtime.ports import CONTROLLER_LANE, LiveNode
from runtime.sharing import MADE_WAY_REST_MS, QUIET_MS, WAIT_FOR_BEST_MS, best, to_give, to_take

OURS, THEIRS = "aaaa", "bbbb"
SETTLED_LOOKS = SETTLE_MS // LOOK_EVERY_MS + 2
HOLDING_LOOKS = HOLD_MS // LOOK_EVERY_MS + 2
MANY_LOOKS = SETTLED_LOOKS + 10 * HOLDING_LOOKS


def heard(*linked: int, silent: Iterable[int] = ()) -> Heard:
    return Heard(linked=frozenset(linked), silent=frozenset(silent))


class Rule:
    """The rule of one node that looks every 0.4 s, and what a peer tells it."""

    def __init__(self) -> None:
        self.rule = MakingWay()
        self.at_ms = 0
        self.peer = Peer(THEIRS, "node-2", "ws://two", False, 0, True)
        self.holds = True
        self.controller = OURS
        self.given: list[str] = []

    def look(self, here: Heard, came: Iterable[int] = (), looks: int = 1, **peers: Any) -> str | None:
        """The name of whom the lease is given to at one of so many looks; then it is no longer held."""
        for _ in range(looks):
            self.at_ms += LOOK_EVERY_MS
            told: dict[str, Any] = {"renewals": self.peer.renewals + 1, **peers}
            self.peer = replace(self.peer, came=frozenset(came), **told)
            now = Instant(self.at_ms)
            to = self.rule.look(OURS, [self.peer], here, now, self.controller, holds=self.holds)
            if to is not None:
                return to.node
        return None

    def settle(self) -> None:
        assert self.look(heard(1, 2, 3), looks=SETTLED_LOOKS) is None


def settled() -> Rule:
    rule = Rule()
    rule.settle()
    return rule


def test_who_hears_no_broker_makes_way_for_whom_they_come_to() -> None:
    rule = settled()
    assert rule.look(heard(), came=(1, 2, 3), looks=HOLD_MS // LOOK_EVERY_MS) is None
    assert rule.rule.made_way_for == ""
    assert rule.look(heard(), came=(1, 2, 3), looks=3) == "node-2"
    assert rule.rule.made_way_for == THEIRS


def test_it_is_told_before_it_is_done() -> None:
    rule = settled()
    while not rule.rule.made_way_for:
        assert rule.look(heard(), came=(1,)) is None
    assert rule.look(heard(), came=(1,)) == "node-2"


def test_nobody_comes_to_any_node_and_nothing_moves() -> None:
    assert settled().look(heard(), looks=MANY_LOOKS) is None


def test_who_is_alone_makes_way_for_nobody() -> None:
    rule = MakingWay()
    looks = range(0, MANY_LOOKS * LOOK_EVERY_MS, LOOK_EVERY_MS)
    assert all(rule.look(OURS, [], heard(), Instant(at), OURS, holds=True) is None for at in looks)


def test_as_many_here_as_there_leave_all_as_it_is() -> None:
    assert settled().look(heard(1), came=(2,), looks=MANY_LOOKS) is None
    assert settled().look(heard(1, 2), came=(3,), looks=MANY_LOOKS) is None
    assert settled().look(heard(1), came=(2, 3), looks=MANY_LOOKS) == "node-2"


def test_a_broker_that_is_heard_here_is_no_evidence_however_often_it_came_there() -> None:
    assert settled().look(heard(1, 2, 3), came=(1, 2, 3), looks=MANY_LOOKS) is None


def test_newcomers_do_not_rob_a_controller_of_the_brokers_that_it_has() -> None:
    """New machines reach the other node alone, and those that hold the partitions this one."""
    here = heard(1, 2)._replace(registered=frozenset({1, 2, 3}))
    assert settled().look(here, came=(4, 5, 6), looks=MANY_LOOKS) is None
    assert settled().look(here, came=(3, 4, 5, 6), looks=MANY_LOOKS) is None
    assert (
        settled().look(heard(1, 4, 5)._replace(registered=frozenset({1, 2, 3})), (2, 3), MANY_LOOKS)
        == "node-2"
    )


def test_newcomers_count_where_nobody_else_is_heard() -> None:
    for registered in ((), (1, 2, 3)):
        nobody = heard()._replace(registered=frozenset(registered))
        assert settled().look(nobody, came=(4,), looks=MANY_LOOKS) == "node-2"
        assert settled().look(heard(5)._replace(registered=frozenset(registered)), (4,), MANY_LOOKS) is None


def test_a_link_that_says_nothing_counts_until_its_broker_comes_to_another() -> None:
    rule = settled()
    silent = heard(1, 2, 3, silent=(1, 2, 3))
    assert rule.look(silent, looks=MANY_LOOKS) is None
    assert rule.look(silent, came=(1,), looks=MANY_LOOKS) is None
    assert rule.look(silent, came=(1, 2), looks=MANY_LOOKS) == "node-2"


def test_what_does_not_last_moves_nothing() -> None:
    rule = settled()
    for _ in range(10):
        assert rule.look(heard(), came=(1, 2, 3), looks=HOLD_MS // LOOK_EVERY_MS) is None
        assert rule.look(heard(1), came=(2,)) is None


def test_a_controller_is_looked_for_by_everybody_in_its_first_seconds() -> None:
    rule = Rule()
    assert rule.look(heard(), came=(1, 2, 3), looks=SETTLE_MS // LOOK_EVERY_MS) is None
    assert rule.look(heard(), came=(1, 2, 3), looks=SETTLED_LOOKS) == "node-2"


def test_after_a_database_that_stood_still_the_seconds_begin_again() -> None:
    rule = settled()
    rule.look(heard(), came=(1, 2, 3), looks=2)
    rule.at_ms += LONGEST_GAP_MS
    assert rule.look(heard(), came=(1, 2, 3), looks=SETTLE_MS // LOOK_EVERY_MS) is None


def test_the_row_of_a_peer_that_hangs_proves_nothing() -> None:
    rule = settled()
    assert rule.look(heard(), came=(1, 2, 3), looks=MANY_LOOKS, renewals=7) is None


def test_nobody_makes_way_for_a_node_that_leaves_or_is_gone() -> None:
    assert settled().look(heard(), came=(1,), looks=MANY_LOOKS, draining=True) is None
    assert settled().look(heard(), came=(1,), looks=MANY_LOOKS, there=False) is None


def test_who_was_told_of_it_and_hears_again_keeps_the_lease() -> None:
    rule = settled()
    while not rule.rule.made_way_for:
        rule.look(heard(), came=(1, 2, 3))
    assert rule.look(heard(1, 2, 3), came=(1, 2, 3), looks=MANY_LOOKS) is None
    assert rule.rule.made_way_for == ""


def test_who_made_way_takes_that_back_before_it_is_made_way_for() -> None:
    rule = settled()
    assert rule.look(heard(), came=(1, 2, 3), looks=MANY_LOOKS, made_way_for=OURS) is None
    assert rule.look(heard(), came=(1, 2, 3), made_way_for="") == "node-2"
    rule.holds, rule.controller = False, THEIRS
    assert rule.look(heard(), looks=3) is None
    assert rule.rule.made_way_for == THEIRS
    assert rule.look(heard(), made_way_for=OURS) is None
    assert rule.rule.made_way_for == ""


def test_who_left_it_to_this_node_long_ago_says_nothing_of_how_that_is_reached_now() -> None:
    """Else it would be the best node again as soon as it has made way, and the lease wander for ever."""
    rule = settled()
    assert rule.look(heard(), came=(1, 2, 3), looks=MANY_LOOKS) == "node-2"
    rule.holds = False
    for free_or_taken in ("", "cccc"):
        rule.controller = free_or_taken
        assert rule.look(heard(), looks=3, made_way_for=OURS) is None
        assert rule.rule.made_way_for == THEIRS


def test_who_is_the_controller_again_begins_anew() -> None:
    rule = settled()
    assert rule.look(heard(), came=(1, 2, 3), looks=MANY_LOOKS) == "node-2"
    rule.holds = False
    rule.look(heard(), came=(1, 2, 3), looks=2)
    rule.holds = True
    assert rule.look(heard(), came=(1, 2, 3)) is None
    assert rule.rule.made_way_for == ""


# --- who takes it -----------------------------------------------------------------------------------------


def node(number: int, made_way_for: str = "", *, draining: bool = False) -> LiveNode:
    return LiveNode(f"run-{number}", f"node-{number}", f"ws://{number}", draining, made_way_for=made_way_for)


def test_it_goes_to_whom_way_was_made_for_and_stays_there() -> None:
    nodes = [node(1, "run-3"), node(2), node(3)]
    for permuted in (nodes, nodes[::-1]):
        assert best(permuted, CONTROLLER_LANE) == node(3)
    assert best([node(1), node(2, "run-1"), node(3)], CONTROLLER_LANE) == node(1)
    assert best([node(1, "run-2"), node(2, "run-3"), node(3)], CONTROLLER_LANE) == node(3)
    quiet = {CONTROLLER_LANE: QUIET_MS}
    assert to_give(quiet, "run-3", nodes, 0) == []


def test_who_made_way_is_last_but_better_than_nobody() -> None:
    gone = "run-9"
    assert best([node(1, gone), node(2)], CONTROLLER_LANE) == node(2)
    assert best([node(2, gone), node(1)], CONTROLLER_LANE) == node(1)
    assert best([node(1, gone), node(2, draining=True)], CONTROLLER_LANE) == node(1, gone)
    assert best([node(1, gone), node(2, gone)], CONTROLLER_LANE) is not None


def test_other_leases_stay_where_they_are() -> None:
    leases = [f"coordinator/{shard}" for shard in range(64)]
    before = [best([node(1), node(2)], lease) for lease in leases]
    after = [best([node(1, "run-2"), node(2)], lease) for lease in leases]
    assert [one and one.run for one in before] == [one and one.run for one in after]


def test_who_made_way_waits_longer_for_another_to_take_it() -> None:
    free = [LeaseRow(CONTROLLER_LANE, None, 3, True)]
    nodes = [node(1, "run-2"), node(2)]
    for waited_ms, taken in ((WAIT_FOR_BEST_MS, []), (MADE_WAY_REST_MS, free)):
        assert to_take(free, "run-1", (), nodes, {CONTROLLER_LANE: waited_ms}) == taken
    assert to_take(free, "run-2", (), nodes, {}) == free


# --- all of it --------------------------------------------------------------------------------------------

NODES, BROKERS = range(3), range(5)
reached = st.fixed_dictionaries({one: st.frozensets(st.sampled_from(BROKERS)) for one in NODES})


@given(reached, st.sampled_from(NODES), st.frozensets(st.sampled_from(BROKERS)))
def test_hand_overs_end_where_no_node_hears_more_than_the_controller(
    hears: Mapping[int, frozenset[int]], controller: int, registered: frozenset[int]
) -> None:
    """Whatever is broken between nodes and brokers: brokers with a link come to nobody else."""
    worth = {one: (len(hears[one] & registered), len(hears[one])) for one in NODES}
    path = [controller]
    while True:
        linked = hears[path[-1]]
        peers = [
            Peer(f"run-{one}", f"node-{one}", "", False, 9, True, came=hears[one] - linked)
            for one in NODES
            if one != path[-1]
        ]
        here = Heard(linked=linked, registered=registered)
        gains = {gain(peer, peers, here): peer for peer in peers}
        if max(gains) <= NO_GAIN:
            break
        path.append(int(gains[max(gains)].run.removeprefix("run-")))
        assert worth[path[-1]] > worth[path[-2]]
    assert len(set(path)) == len(path)
    assert hears[path[-1]] or not any(hears.values())
