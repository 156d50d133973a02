"""Where there is something to lead, or logs have to be shown, is known without a look at all partitions."""

from controller.core import leaders, recount
from controller.core.draft import Draft
from controller.core.events import LinkClosed, TimePassed
from controller.core.records import PartitionsRemoved, TopicDeleted
from controller.core.settings import ControllerSettings
from controller.core.state import after_records
from muster.messages.link.from_broker import CreateTopics, NewTopic
from tests.unit.controller_core.stage import ORDERS, Cluster, heard, hello, row
from tests.unit.controller_core.test_replicas_show_their_logs_behind_a_lift import Lifted, unproven


class LooksAtNone(Draft):
    """A turn that may look at no partition."""

    def partitions_of_topic(self, topic_id: object) -> None:  # type: ignore[override]
        raise AssertionError("a partition is looked at")

    all_partitions = partitions_of_topic  # type: ignore[assignment]


def test_a_hello_looks_for_none_where_all_are_led() -> None:
    cluster = Cluster([row(number, (1, 2, 3), 1, (1, 2, 3)) for number in range(3)])
    draft = LooksAtNone(cluster.state, cluster.now, ControllerSettings())
    recount.said_hello(draft)
    assert leaders.elect_leaderless(draft, 1)
    leaders.want_first_leaders(draft)


def test_it_finds_what_the_same_turn_left_without_a_leader() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1,)), row(1, (1, 2, 3), 1, (1, 2, 3))])
    cluster.turn(LinkClosed("link-1a"))
    cluster.turn(hello(1, "b"))
    assert cluster.partition().leader == 1 and cluster.partition().leader_epoch == 3, "it died first"


def test_what_is_new_or_lost_its_last_leader_is_counted_until_somebody_leads() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1,)), row(1, (1, 2, 3), 1, (1, 2, 3))])
    assert cluster.state.rows.leaderless == {}
    cluster.turn(LinkClosed("link-1a"))
    cluster.later(1_000)
    cluster.turn(TimePassed())
    assert cluster.state.rows.leaderless == {ORDERS: 1}
    cluster.turn(hello(1, "b"))
    assert cluster.state.rows.leaderless == {}

    topic = NewTopic(name="clicks", partition_count=2, replication_factor=3)
    wanted = CreateTopics(correlation_id=1, topics=(topic,), timeout_ms=1_000)
    cluster.turn(heard("link-2a", wanted))
    assert list(cluster.state.rows.leaderless.values()) == [2]


def test_who_is_elected_by_its_log_is_not_counted_any_more() -> None:
    cluster = Lifted(unproven(), unproven(number=1), row(2, (1, 2, 3), 1, (1, 2, 3)))
    assert cluster.state.rows.leaderless == {ORDERS: 2}
    for b in (1, 2, 3):
        cluster.shows(b, 7, 90)
    assert not cluster.partition().is_unproven
    assert cluster.state.rows.leaderless == {ORDERS: 1}


def test_what_is_gone_is_not_counted_any_more() -> None:
    rows = Lifted(unproven(), unproven(number=1)).state.rows
    assert after_records(rows, [PartitionsRemoved(ORDERS, "orders", 1, 1)]).leaderless == {ORDERS: 1}
    assert after_records(rows, [TopicDeleted(ORDERS, "orders", 2)]).leaderless == {}
    assert rows.leaderless == {ORDERS: 2}, "what was before stays as it was"


def test_what_was_read_is_counted() -> None:
    cluster = Cluster([unproven(), unproven(number=1), row(2, (1, 2, 3), 1, (1, 2, 3))])
    assert cluster.state.rows.leaderless == {ORDERS: 2}
