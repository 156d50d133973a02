"""Rendezvous: every node finds the same owner, few leases move when a node comes or goes, all are taken."""

from runtime.database import LeaseRow
from runtime.ports import LiveNode, shard_lane
from runtime.sharing import MOVES_AT_ONCE, QUIET_MS, WAIT_FOR_BEST_MS, best, to_give, to_take

ONE, TWO, THREE = (LiveNode(f"run-{name}", f"node-{name}", f"ws://{name}") for name in ("1", "2", "3"))
LEASES = [shard_lane(shard) for shard in range(64)]
NEVER_BUSY = 10**9


def owners(*nodes: LiveNode) -> dict[str, LiveNode | None]:
    return {lease: best(nodes, lease) for lease in LEASES}


def free(name: str) -> LeaseRow:
    return LeaseRow(name, None, 3, True)


def test_the_order_in_which_nodes_are_seen_changes_nothing() -> None:
    assert owners(ONE, TWO, THREE) == owners(THREE, ONE, TWO)


def test_each_node_gets_a_share() -> None:
    shares = list(owners(ONE, TWO, THREE).values())
    assert all(8 <= shares.count(node) <= 40 for node in (ONE, TWO, THREE))


def test_only_the_leases_of_a_node_that_went_move() -> None:
    before, after = owners(ONE, TWO, THREE), owners(ONE, TWO)
    assert all(after[lease] == before[lease] for lease in LEASES if before[lease] != THREE)


def test_a_draining_node_gets_nothing() -> None:
    draining = LiveNode(THREE.run, THREE.node, THREE.address, draining=True)
    assert owners(ONE, TWO, draining) == owners(ONE, TWO)


def test_free_leases_are_taken_at_once_by_the_best_and_later_by_anybody() -> None:
    rows = [free(name) for name in LEASES]
    mine = {row.name for row in to_take(rows, ONE.run, (), [ONE, TWO], {})}
    assert mine == {name for name, node in owners(ONE, TWO).items() if node == ONE}
    waited = dict.fromkeys(LEASES, WAIT_FOR_BEST_MS)
    assert {row.name for row in to_take(rows, ONE.run, (), [ONE, TWO], waited)} == set(LEASES)


def test_a_lease_that_names_us_and_is_not_held_is_taken_again() -> None:
    row = LeaseRow(LEASES[0], ONE.run, 4, False)
    assert to_take([row], ONE.run, (), [ONE, TWO], {}) == [row]
    assert to_take([row], ONE.run, [row.name], [ONE, TWO], {}) == []
    assert to_take([row], TWO.run, (), [ONE, TWO], {}) == []


def test_leases_move_when_they_are_quiet_and_a_few_at_a_time() -> None:
    quiet = dict.fromkeys(LEASES, NEVER_BUSY)
    moves = to_give(quiet, ONE.run, [ONE, TWO], moving=0)
    assert len(moves) == MOVES_AT_ONCE
    assert all(best([ONE, TWO], name) == TWO == node for name, node in moves)
    assert to_give(quiet, ONE.run, [ONE, TWO], moving=MOVES_AT_ONCE) == []
    assert to_give(dict.fromkeys(LEASES, QUIET_MS - 1), ONE.run, [ONE, TWO], moving=0) == []
    assert to_give(quiet, ONE.run, [ONE], moving=0) == []
