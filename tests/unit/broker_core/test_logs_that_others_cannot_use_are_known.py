"""A broker knows which logs of others cannot be used: from snapshots and changes, whatever their version."""

from broker.core.cluster_view import ClusterView
from broker.metadata import ClientMetadata
from muster.messages.link.rows import AlikePartitions, BrokerRow, PartitionRow, TopicRow, UnusableAt
from muster.messages.link.to_broker import Changes, SnapshotChunk
from tests.unit.broker_core.stage import ORDERS

THREE = tuple(PartitionRow(ORDERS, number, (1, 2, 3), 1, 1, (1, 2), 3) for number in range(3))
TOPIC = TopicRow(ORDERS, "orders", 3, 3)


class Told:
    """A broker's view of its link, and what clients are told by it."""

    def __init__(self, *unusable: UnusableAt) -> None:
        self.known = ClusterView(1)
        self.metadata = ClientMetadata(self.known)
        self.link(*unusable)

    def link(self, *unusable: UnusableAt) -> None:
        self.known.open_link()
        brokers = tuple(BrokerRow(b, 1, "a", {"client": f"127.0.0.1:{9000 + b}"}) for b in (1, 2, 3))
        rows = {"brokers": brokers, "topics": (TOPIC,), "partitions": THREE}
        first = SnapshotChunk(metadata_version=5, number=0, last=False, **rows)  # type: ignore[arg-type]
        self.known.obey(first)
        self.known.obey(SnapshotChunk(metadata_version=5, number=1, last=True, unusable=unusable))
        self.metadata.know_brokers()
        self.metadata.renew("cluster-1", None)

    def hears(self, *unusable: UnusableAt, version: int = 5, **more: object) -> None:
        frame = Changes(metadata_version=version, unusable=unusable, **more)  # type: ignore[arg-type]
        heeded = self.known.obey(frame)
        assert not heeded.hang_up
        self.metadata.forget(heeded.deleted_topics, heeded.shrunk_topics)
        self.metadata.renew("cluster-1", heeded.told)

    @property
    def failed(self) -> list[tuple[int, ...]]:
        topic = self.metadata.renew("cluster-1", ()).topics["orders"]
        return [one.failed for one in topic.partitions]


def test_a_snapshot_says_which_and_the_next_one_replaces_it() -> None:
    told = Told(UnusableAt(2, ORDERS, (0, 2)), UnusableAt(3, ORDERS, (2,)))
    assert told.failed == [(2,), (), (2, 3)]
    told.link(UnusableAt(3, ORDERS, (1,)))
    assert told.failed == [(), (3,), ()]


def test_changes_add_and_take_away_though_their_version_is_no_new_one() -> None:
    told = Told()
    told.hears(UnusableAt(3, ORDERS, (0, 1)))
    told.hears(UnusableAt(2, ORDERS, (1,)))
    assert told.failed == [(3,), (2, 3), ()]
    told.hears(UnusableAt(3, ORDERS, (2,), (0, 1)))
    assert told.failed == [(), (2,), (3,)] and told.known.metadata_version == 5
    told.hears(UnusableAt(2, ORDERS, (), (1,)), UnusableAt(3, ORDERS, (), (2,)), version=6)
    assert told.failed == [(), (), ()] and told.known.unusable == {}


def test_rows_that_change_in_the_same_frame_keep_it() -> None:
    told = Told(UnusableAt(2, ORDERS, (1,)))
    elsewhere = AlikePartitions(ORDERS, (1, 2, 3), 3, 2, (3,), (0, 1))
    told.hears(UnusableAt(1, ORDERS, (0,)), version=6, leader_and_isr=(elsewhere,))
    assert told.failed == [(1,), (2,), ()]


def test_what_is_deleted_or_removed_leaves_nothing_behind() -> None:
    told = Told(UnusableAt(2, ORDERS, (0, 2)))
    told.hears(version=6, topics=(TopicRow(ORDERS, "orders", 2, 3, version=6),))
    added = AlikePartitions(ORDERS, (1, 2, 3), 1, 2, (1, 2, 3), (2,))
    told.hears(version=7, topics=(TopicRow(ORDERS, "orders", 3, 3, version=7),), leader_and_isr=(added,))
    assert told.failed == [(2,), (), ()]
    told.hears(version=8, deleted_topics=(ORDERS,))
    assert told.known.unusable == {}


def test_of_a_partition_that_is_not_known_it_is_kept_for_when_it_is() -> None:
    told = Told()
    told.hears(UnusableAt(2, ORDERS, (3,)))
    added = AlikePartitions(ORDERS, (1, 2, 3), 1, 1, (1, 2, 3), (3,))
    told.hears(version=6, topics=(TopicRow(ORDERS, "orders", 4, 3, version=6),), partitions=(added,))
    assert told.failed == [(), (), (), (2,)]
