"""Which logs of live brokers cannot be used is told to every broker, as it changes and with each snapshot."""

from uuid import UUID

from controller.core.dispatch import TurnChanges, frames_for, snapshot, unusable_news
from controller.core.draft import ClusterDecision
from controller.core.events import LinkClosed, TookOver
from controller.core.state import ClusterState
from muster.messages.limits import MAX_ROWS_PER_CHANGES, MAX_ROWS_PER_FRAME
from muster.messages.link.from_broker import UnusableLogs
from muster.messages.link.rows import UnusableAt
from muster.messages.link.to_broker import Changes, SnapshotChunk
from tests.unit.controller_core.stage import ORDERS, Cluster, heard, hello, row, said

NEVER = UUID(int=99)


def in_changes(decision: ClusterDecision, broker_id: int) -> list[tuple[int, tuple[UnusableAt, ...]]]:
    """What each frame of changes to this broker says, and of which version it is."""
    frames = said(decision, f"link-{broker_id}a")
    return [(one.metadata_version, one.unusable) for one in frames if isinstance(one, Changes)]


def test_every_broker_hears_of_a_log_that_failed_with_what_came_of_it() -> None:
    cluster = Cluster([row(n, (1, 2, 3), 1, (1, 2, 3)) for n in range(2)])
    decision = cluster.turn(heard("link-1a", UnusableLogs(failed=((ORDERS, 0),))))
    version = cluster.state.rows.metadata_version
    for broker_id in (1, 2, 3):
        assert in_changes(decision, broker_id) == [(version, (UnusableAt(1, ORDERS, (0,)),))]


def test_where_no_row_changes_it_is_told_at_the_version_that_was_told_before() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1, 2))])
    version = cluster.state.rows.metadata_version
    failed = cluster.turn(heard("link-3a", UnusableLogs(failed=((ORDERS, 0),))))
    assert failed.records == () and cluster.state.rows.metadata_version == version
    assert in_changes(failed, 1) == [(version, (UnusableAt(3, ORDERS, (0,)),))]
    again = cluster.turn(heard("link-3a", UnusableLogs(failed=((ORDERS, 0),))))
    assert in_changes(again, 1) == [], "nothing is new"
    usable = cluster.turn(heard("link-3a", UnusableLogs(usable=((ORDERS, 0),))))
    assert in_changes(usable, 1) == [(version, (UnusableAt(3, ORDERS, (), (0,)),))]


def test_a_process_that_could_open_its_log_is_told_of_with_its_hello() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1, 2))])
    cluster.turn(heard("link-3a", UnusableLogs(failed=((ORDERS, 0),))))
    cluster.turn(LinkClosed("link-3a"))
    [(_, told)] = in_changes(cluster.turn(hello(3, run="b")), 1)
    assert told == (UnusableAt(3, ORDERS, (), (0,)),)


def test_a_snapshot_names_all_of_them_and_a_new_owner_hears_them_anew() -> None:
    cluster = Cluster([row(n, (1, 2, 3), 1, (1, 2)) for n in range(2)])
    cluster.turn(heard("link-3a", UnusableLogs(failed=((ORDERS, 0), (ORDERS, 1)))))
    cluster.turn(LinkClosed("link-1a"))
    [chunk] = [one for one in said(cluster.turn(hello(1)), "link-1a") if isinstance(one, SnapshotChunk)]
    assert chunk.unusable == (UnusableAt(3, ORDERS, (0, 1)),)

    cluster.state = ClusterState(cluster.state.rows)
    cluster.turn(TookOver(8))
    [chunk] = [one for one in said(cluster.turn(hello(1)), "link-1a") if isinstance(one, SnapshotChunk)]
    assert chunk.unusable == ()
    told = cluster.turn(hello(3, unusable_logs=((ORDERS, 1),)))
    assert in_changes(told, 1) == [(cluster.state.rows.metadata_version, (UnusableAt(3, ORDERS, (1,)),))]
    [chunk] = [one for one in said(told, "link-3a") if isinstance(one, SnapshotChunk)]
    assert chunk.unusable == (UnusableAt(3, ORDERS, (1,)),), "it knows of its own, too"


def test_a_whole_disk_that_fails_is_told_in_frames_of_a_bounded_size() -> None:
    count = 2 * MAX_ROWS_PER_CHANGES + 1
    now = {b: frozenset((ORDERS, number) for number in range(count)) for b in (1, 2)}
    news = unusable_news({}, now)
    assert [(one.broker_id, len(one.failed)) for one in news] == [(1, count), (2, count)]
    frames = frames_for([3], TurnChanges(5, 7, (), (), (), unusable=news))[3]
    for parts, most in (
        (frames, MAX_ROWS_PER_CHANGES),
        (snapshot(5, [], [], [], unusable=news), MAX_ROWS_PER_FRAME),
    ):
        sizes = [sum(len(one.failed) for one in part.unusable) for part in parts]
        assert max(sizes) == most and sum(sizes) == 2 * count
        heard_of = {
            (one.broker_id, number) for part in parts for one in part.unusable for number in one.failed
        }
        assert len(heard_of) == 2 * count
    assert [one.complete for one in frames] == [False] * (len(frames) - 1) + [True]


def test_what_is_usable_again_and_what_fails_are_told_together() -> None:
    before = {1: frozenset({(ORDERS, 0), (ORDERS, 1)}), 2: frozenset({(ORDERS, 5)})}
    now = {1: frozenset({(ORDERS, 1), (ORDERS, 2), (NEVER, 0)}), 2: frozenset({(ORDERS, 5)})}
    news = unusable_news(before, now)
    assert news == (UnusableAt(1, ORDERS, (2,), (0,)), UnusableAt(1, NEVER, (0,)))
    [frame] = frames_for([3], TurnChanges(5, 7, (), (), (), unusable=news))[3]
    assert frame.unusable == news and frame.complete
