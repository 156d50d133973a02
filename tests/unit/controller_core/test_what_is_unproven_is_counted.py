"""Whether replicas have to show their logs is known without a look at all partitions."""

from controller.core import recount
from controller.core.draft import Draft
from controller.core.records import PartitionsRemoved, TopicDeleted
from controller.core.settings import ControllerSettings
from controller.core.state import after_records
from tests.unit.controller_core.stage import ORDERS, Cluster, row
from tests.unit.controller_core.test_replicas_show_their_logs_behind_a_lift import Lifted, unproven


class LooksAtNone(Draft):
    """A turn that may look at no partition."""

    def partitions_of_topic(self, topic_id: object) -> None:  # type: ignore[override]
        raise AssertionError("a partition is looked at")

    all_partitions = partitions_of_topic  # type: ignore[assignment]


def test_a_hello_looks_for_none_where_all_are_proven() -> None:
    cluster = Cluster([row(number, (1, 2, 3), 1, (1, 2, 3)) for number in range(3)])
    recount.said_hello(LooksAtNone(cluster.state, cluster.now, ControllerSettings()))


def test_who_is_elected_by_its_log_is_not_counted_any_more() -> None:
    cluster = Lifted(unproven(), unproven(number=1), row(2, (1, 2, 3), 1, (1, 2, 3)))
    assert cluster.state.rows.unproven == {ORDERS: 2}
    for b in (1, 2, 3):
        cluster.shows(b, 7, 90)
    assert not cluster.partition().is_unproven
    assert cluster.state.rows.unproven == {ORDERS: 1}


def test_what_is_gone_is_not_counted_any_more() -> None:
    rows = Lifted(unproven(), unproven(number=1)).state.rows
    assert after_records(rows, [PartitionsRemoved(ORDERS, "orders", 1, 1)]).unproven == {ORDERS: 1}
    assert after_records(rows, [TopicDeleted(ORDERS, "orders", 2)]).unproven == {}
    assert rows.unproven == {ORDERS: 2}, "what was before stays as it was"


def test_what_was_read_is_counted() -> None:
    cluster = Cluster([unproven(), unproven(number=1), row(2, (1, 2, 3), 1, (1, 2, 3))])
    assert cluster.state.rows.unproven == {ORDERS: 2}
