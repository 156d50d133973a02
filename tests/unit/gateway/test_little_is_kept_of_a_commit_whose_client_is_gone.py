"""A commit counts when its client is gone; what is refused of it takes no memory meanwhile."""

import gc
from collections.abc import Callable

import pytest

from muster.kafkawire.api_table import ApiKey, build, part, request_class
from muster.kafkawire.offset_commits import AskedTopic
from tests.unit.coordinator.shards import eventually
from tests.unit.gateway.doors import KEY, Door, Peer, kafka_door

REFUSED = 40


def commits(peer: Peer, topic: str, metadata: str) -> None:
    """One offset that is good, and many that are not."""
    shape = request_class(ApiKey.OFFSET_COMMIT, 9)
    place, named = part(shape, "OffsetCommitRequestPartition"), part(shape, "OffsetCommitRequestTopic")

    def at(number: int, metadata: str) -> object:
        return build(
            place,
            partition_index=number,
            committed_offset=5,
            committed_leader_epoch=-1,
            committed_metadata=metadata,
        )

    peer.send(
        ApiKey.OFFSET_COMMIT,
        9,
        group_id=KEY,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=(
            named(name="orders", partitions=(at(0, ""),)),
            named(name=topic, partitions=tuple(at(1, metadata) for _ in range(REFUSED))),
        ),
    )


def database_stands_still(door: Door) -> None:
    door.shards.store.gate.clear()


def catalog_is_not_read(door: Door) -> None:
    door.node.may_look.clear()


@pytest.mark.parametrize(
    ("topic", "metadata", "stops"),
    [("orders", "x" * 5_000, database_stands_still), ("nowhere", "", catalog_is_not_read)],
)
async def test_what_is_refused_is_forgotten_with_its_client(
    topic: str, metadata: str, stops: Callable[[Door], None]
) -> None:
    async with kafka_door() as door:
        stops(door)
        ann = await door.peer()
        before = kept()
        commits(ann, topic, metadata)
        await eventually(lambda: kept() > before)
        ann.close()
        await eventually(lambda: not door.listener.server._connections)
        assert kept() <= before
        door.node.may_look.set()
        door.shards.store.gate.set()
        await eventually(lambda: committed(door) == [5])


def committed(door: Door) -> list[int]:
    rows = door.shards.database.tables["groups"].get(KEY)
    return list(rows.offsets.values()) if rows else []


def kept() -> int:
    """How many topics of commits are."""
    gc.collect()
    return sum(type(one) is AskedTopic for one in gc.get_objects())
