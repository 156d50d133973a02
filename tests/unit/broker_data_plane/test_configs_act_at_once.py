"""What is set for a topic, a broker or the cluster holds for logs that are open, and for those to come."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from broker.hosted import HostedPartition
from broker.log.outcomes import LogSettings
from broker.plane_settings import DataPlaneSettings
from muster.kafkawire.api_table import ApiKey
from muster.messages.link.rows import TopicRow
from tests.unit.broker_data_plane.planes import ORDERS, Broker, broker, client, produce, produced

CLICKS = UUID(int=77)


def orders(one: Broker) -> HostedPartition:
    hosted = one.plane.hosted(ORDERS, 0)
    assert hosted is not None
    return hosted


async def test_the_nearest_level_holds_for_an_open_log_from_then_on(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        one.obey(1)
        log, plane = orders(one).log, one.plane
        assert (log.settings.segment_bytes, log.settings.retention_bytes) == (10_000, -1)

        plane.know_levels({}, {"log.retention.bytes": "5"}, {})
        assert (log.settings.segment_bytes, log.settings.retention_bytes) == (10_000, 5)
        plane.know_levels({"log.retention.bytes": "6"}, {"log.retention.bytes": "5"}, {})
        assert log.settings.retention_bytes == 6
        plane.know_topics([TopicRow(ORDERS, "orders", 1, 1, {"retention.bytes": "7"})])
        assert log.settings.retention_bytes == 7
        plane.know_topics([TopicRow(ORDERS, "orders", 1, 1, {})])
        assert log.settings.retention_bytes == 6, "what the topic no longer sets, the broker says"


async def test_a_topic_that_sets_a_key_itself_does_not_care_what_the_cluster_says(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        one.obey(1, configs={"max.message.bytes": "100"})
        one.plane.know_levels({}, {"message.max.bytes": "50"}, {})
        assert orders(one).log.settings.max_message_bytes == 100
        one.plane.know_topics([TopicRow(CLICKS, "clicks", 1, 1, {})])
        clicks = one.plane.topics.get(CLICKS)
        assert clicks is not None and clicks.log.max_message_bytes == 50


async def test_all_that_is_heard_of_topics_at_once_is_obeyed_in_one_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand topics that changed, beside twenty thousand replicas, held a broker's loop for seconds."""
    async with broker(tmp_path) as one:
        one.obey(1, partitions=3)
        passes: list[None] = []
        replicas = one.plane.partitions

        def counted() -> Iterator[HostedPartition]:
            passes.append(None)
            return replicas()

        monkeypatch.setattr(one.plane, "partitions", counted)
        others = [TopicRow(UUID(int=number), f"other-{number}", 1, 1) for number in range(100, 150)]
        one.plane.know_topics([*others, TopicRow(ORDERS, "orders", 3, 1, {"retention.bytes": "7"})])
        assert len(passes) == 1
        assert {hosted.log.settings.retention_bytes for hosted in replicas()} == {7}
        one.plane.know_topics([TopicRow(ORDERS, "orders", 3, 1, {"retention.bytes": "7"})])
        assert len(passes) == 1, "nothing of it holds differently"


async def test_min_insync_is_what_the_nodes_say_unless_it_is_set(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        one.obey(1, replicas=(1, 2, 3))
        replica = orders(one).replica
        one.plane.know_levels({}, {}, {"min.insync.replicas": "2"})
        assert replica.min_insync_replicas == 2
        one.plane.know_levels({}, {"min.insync.replicas": "3"}, {"min.insync.replicas": "2"})
        assert replica.min_insync_replicas == 3


async def test_the_logs_of_a_deleted_topic_are_kept_as_long_as_is_set_by_then(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        # An empty log has no folder.
        assert produced(await ann.ask(ApiKey.PRODUCE, 9, produce(b"a"))) == (0, 0)
        one.plane.stop(ORDERS, 0, is_deleted=True)
        assert await one.plane.upkeep.erase_old() == 0
        one.plane.know_levels({"log.segment.delete.delay.ms": "0"}, {}, {})
        async with asyncio.timeout(5):
            # The clock that reads the folder's age may stand still for a millisecond.
            while await one.plane.upkeep.erase_old() == 0:
                await asyncio.sleep(0)


async def test_what_a_broker_was_started_with_is_what_it_states(tmp_path: Path) -> None:
    settings = DataPlaneSettings(log=LogSettings(segment_bytes=2_097_152), file_delete_delay_ms=1_000)
    async with broker(tmp_path, settings=settings) as one:
        assert one.plane.topics.static == {"segment.bytes": "2097152", "file.delete.delay.ms": "1000"}
        assert one.plane.topics.file_delete_delay_ms == 1_000
        one.plane.know_levels({}, {"log.segment.delete.delay.ms": "5"}, {})
        assert one.plane.topics.file_delete_delay_ms == 5
