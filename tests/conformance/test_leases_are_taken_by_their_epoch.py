"""Sessions end once, leases are taken from the epoch that was seen, looks show who is there."""

from runtime.database import Said
from tests.conformance.databases import Breakable

ANN, BEN = "aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"


def test_one_of_two_takers_wins(breakable: Breakable) -> None:
    first, second = breakable.direct(), breakable.direct()
    assert first.take("coordinator/0", 0, ANN)
    assert not second.take("coordinator/0", 0, BEN)
    assert second.epochs(["coordinator/0"]) == {"coordinator/0": (ANN, 1)}


def test_a_lease_is_free_while_its_run_is_unknown_or_ended(breakable: Breakable) -> None:
    link = breakable.database.connect(ANN, "session")
    link.begin_run(ANN, "node-1", "ws://one")
    link.take("coordinator/0", 0, ANN)
    link.take("coordinator/1", 0, BEN)
    free = {lease.name: lease.free for lease in link.renew(ANN).leases}
    assert free == {"coordinator/0": False, "coordinator/1": True, "coordinator/4": True}
    link.leave(ANN)
    assert all(lease.free for lease in link.renew(ANN).leases)
    link.close()


def test_a_renewal_of_an_ended_run_finds_no_row(breakable: Breakable) -> None:
    ann, ben = breakable.database.connect(ANN, "session"), breakable.database.connect(BEN, "session")
    ann.begin_run(ANN, "node-1", "ws://one")
    ben.begin_run(BEN, "node-2", "ws://two")
    assert ann.renew(ANN).renewals == 1
    [peer] = ben.renew(BEN).peers
    assert (peer.run, peer.node, peer.address, peer.renewals, peer.there) == (
        ANN,
        "node-1",
        "ws://one",
        1,
        True,
    )
    assert ben.end_run(ANN, peer.renewals)
    assert ann.renew(ANN).renewals is None
    assert not ben.end_run(ANN, peer.renewals)
    ann.close()
    ben.close()


def test_who_renewed_since_it_was_seen_is_left_alone(breakable: Breakable) -> None:
    ann, ben = breakable.database.connect(ANN, "session"), breakable.database.connect(BEN, "session")
    ann.begin_run(ANN, "node-1", "ws://one")
    ben.begin_run(BEN, "node-2", "ws://two")
    [peer] = ben.renew(BEN).peers
    ann.renew(ANN)
    assert not ben.end_run(ANN, peer.renewals)
    assert ann.renew(ANN).renewals == 2
    ann.close()
    ben.close()


def test_a_look_shows_that_a_terminated_session_is_gone(breakable: Breakable, until_sync) -> None:  # type: ignore[no-untyped-def]
    ann, ben = breakable.database.connect(ANN, "session"), breakable.database.connect(BEN, "session")
    ann.begin_run(ANN, "node-1", "ws://one")
    ben.begin_run(BEN, "node-2", "ws://two")
    ben.terminate(ann.backend)
    until_sync(lambda: not ben.renew(BEN).peers[0].there)
    ann.close()
    ben.close()


def test_what_is_said_with_a_renewal_is_seen_until_another_says_otherwise(breakable: Breakable) -> None:
    ann, ben = breakable.database.connect(ANN, "session"), breakable.database.connect(BEN, "session")
    ann.begin_run(ANN, "node-1", "ws://one")
    ben.begin_run(BEN, "node-2", "ws://two")

    def seen() -> tuple[frozenset[int], str]:
        [peer] = ben.renew(BEN).peers
        return peer.came, peer.made_way_for

    assert seen() == (frozenset(), "")
    ann.renew(ANN, Said(frozenset({3, 1}), BEN))
    assert seen() == (frozenset({1, 3}), BEN)
    ann.renew(ANN)
    assert seen() == (frozenset(), "")
    ann.close()
    ben.close()


def test_a_draining_node_says_so(breakable: Breakable) -> None:
    ann, ben = breakable.database.connect(ANN, "session"), breakable.database.connect(BEN, "session")
    ann.begin_run(ANN, "node-1", "ws://one")
    ben.begin_run(BEN, "node-2", "ws://two")
    ann.drain(ANN)
    assert [peer.draining for peer in ben.renew(BEN).peers] == [True]
    ann.close()
    ben.close()
