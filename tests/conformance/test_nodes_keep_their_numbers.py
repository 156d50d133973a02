"""A node has the number that its name was given first; no other name ever gets it."""

from tests.conformance.databases import Breakable

FIRST, SECOND, THIRD = "aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb", "cccccccccccccccc"


def test_a_name_keeps_its_number_over_its_runs(breakable: Breakable) -> None:
    link = breakable.database.connect(FIRST, "session")
    assert link.begin_run(FIRST, "node-1", "ws://one") == 10_001
    assert link.begin_run(SECOND, "node-2", "ws://two") == 10_002
    link.leave(FIRST)
    assert link.begin_run(THIRD, "node-1", "ws://elsewhere") == 10_001
    link.close()


def test_peers_see_number_and_kafka_endpoint(breakable: Breakable) -> None:
    ann, ben = breakable.database.connect(FIRST, "session"), breakable.database.connect(SECOND, "session")
    ann.begin_run(FIRST, "node-1", "ws://one", "127.0.0.1:9302")
    ben.begin_run(SECOND, "node-2", "ws://two")
    [one], [two] = ben.renew(SECOND).peers, ann.renew(FIRST).peers
    assert (one.as_node().node_id, one.as_node().kafka) == (10_001, "127.0.0.1:9302")
    assert (two.as_node().node_id, two.as_node().kafka) == (10_002, "")
    ann.close()
    ben.close()
