"""An older database names a broker as in sync for what it gave up since: it does not lead with nothing."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

import pytest

from broker.core.replica import Role
from broker.core.replica_log import PartitionKey
from broker.log import given_up
from broker.log.checkpoints import LEADER_EPOCHS, save_offsets
from broker.log.given_up import SINCE, WHY
from broker.shown_logs import ShownLogs
from muster.messages.link.from_broker import FromBroker
from muster.messages.link.protocol import SHOWS_LOGS
from muster.messages.link.rows import UNPROVEN, PartitionRow, TopicRow
from tests.unit.broker_data_plane.planes import ORDERS, Broker, broker
from tests.unit.broker_log.logs import append

FIRST = PartitionKey(ORDERS, 0)
ALL = (1, 2, 3)


def holding(one: Broker) -> None:
    """It leads orders, with one record."""
    one.obey(1, replicas=ALL)
    hosted = one.plane.hosted(*FIRST)
    assert hosted is not None
    append(hosted.log, b"a")


def gave_up(one: Broker) -> None:
    """It held a record of orders, which was moved away from it."""
    holding(one)
    one.obey(2, leader=2, epoch=2, replicas=(2, 3))
    assert one.plane.hosted(*FIRST) is None
    one.plane.forget_topics(())


def role(one: Broker) -> Role:
    hosted = one.plane.hosted(*FIRST)
    assert hosted is not None
    return hosted.replica.role


@pytest.mark.parametrize("leader", [1, 2])
async def test_it_counts_as_failed_where_an_older_row_has_it_in_sync(tmp_path: Path, leader: int) -> None:
    stated: list[object] = []
    async with broker(tmp_path) as one:
        gave_up(one)
    async with broker(tmp_path) as again:
        again.plane.on_trouble = lambda: stated.append(again.plane.troubles.unusable)
        again.obey(1_000_001, leader=leader, epoch=1_000_001, replicas=ALL)
        assert role(again) is Role.FAILED
        assert again.plane.troubles.reason(FIRST) == WHY
        assert stated == [(FIRST,)], "another is to lead"


async def test_its_next_process_confesses_and_copies(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        gave_up(one)
        one.obey(1_000_001, epoch=1_000_001, replicas=ALL)
        assert role(one) is Role.FAILED
    async with broker(tmp_path) as again:
        assert again.plane.damaged == (FIRST,), "which leaves the in-sync replicas whatever the floor"
        again.plane.confessed()
        again.obey(1_000_002, leader=2, epoch=1_000_002, replicas=ALL, isr=(2, 3))
        assert role(again) is Role.FOLLOWER
        assert again.plane.troubles.unusable == ()
    async with broker(tmp_path) as last:
        assert last.plane.damaged == (), "once"
        last.obey(1_000_003, leader=2, epoch=1_000_002, replicas=ALL)
        assert role(last) is Role.FOLLOWER


async def test_who_is_killed_before_its_hello_is_heard_confesses_again(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        gave_up(one)
        one.obey(1_000_001, epoch=1_000_001, replicas=ALL)
    for _ in range(2):
        async with broker(tmp_path) as again:
            assert again.plane.damaged == (FIRST,)


async def test_who_is_added_again_copies_and_may_lead(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        gave_up(one)
        one.obey(3, leader=2, epoch=2, replicas=ALL, isr=(2, 3))
        assert role(one) is Role.FOLLOWER
        one.obey(4, leader=2, epoch=2, replicas=ALL)
        one.plane.forget_topics(())
    async with broker(tmp_path) as again:
        again.obey(5, leader=1, epoch=3, replicas=ALL)
        assert role(again) is Role.LEADER, "what it had caught up with was empty"


async def test_a_partition_that_was_removed_and_came_again_is_led(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        gave_up(one)
        one.obey(9, epoch=6, replicas=ALL, base_epoch=5)
        assert role(one) is Role.LEADER


async def test_a_log_without_a_record_leads_nothing_either(tmp_path: Path) -> None:
    """The others may have got their first records since the backup."""
    async with broker(tmp_path) as one:
        one.obey(1, replicas=ALL)
        one.obey(2, leader=2, epoch=2, replicas=(2, 3))
        one.obey(1_000_001, epoch=1_000_001, replicas=ALL)
        assert role(one) is Role.FAILED


async def test_who_is_killed_as_soon_as_it_gave_up_remembers_it(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        holding(one)
        one.obey(2, leader=2, epoch=2, replicas=(2, 3))
        shutil.copytree(tmp_path, tmp_path / "killed")
    async with broker(tmp_path / "killed") as again:
        again.obey(1_000_001, epoch=1_000_001, replicas=ALL)
        assert role(again) is Role.FAILED


async def test_who_is_killed_as_soon_as_it_is_added_again_remembers_that(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        gave_up(one)
        await one.plane.upkeep.checkpoint()
        one.obey(3, leader=2, epoch=2, replicas=ALL, isr=(2, 3))
        shutil.copytree(tmp_path, tmp_path / "killed")
    async with broker(tmp_path / "killed") as again:
        again.obey(5, leader=1, epoch=3, replicas=ALL)
        assert role(again) is Role.LEADER


async def test_a_line_that_is_torn_names_nothing_and_spoils_no_other(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        holding(one)
        (one.plane.folder / SINCE).write_text(f"\n{ORDERS} 0 -1")
        one.obey(2, leader=2, epoch=2, replicas=(2, 3))
        with open(one.plane.folder / SINCE, "a", encoding="ascii") as file:
            file.write(f"\n{ORDERS} 0 -1")
        shutil.copytree(tmp_path, tmp_path / "killed")
    async with broker(tmp_path / "killed") as again:
        again.obey(1_000_001, epoch=1_000_001, replicas=ALL)
        assert role(again) is Role.FAILED


async def test_a_failed_log_that_cannot_be_read_moves_away_and_is_remembered(tmp_path: Path) -> None:
    """It moves away because its disk fails: each such log would end the link."""
    async with broker(tmp_path) as one:
        holding(one)
        hosted = one.plane.hosted(*FIRST)
        assert hosted is not None
        hosted.log.fail("the disk does not answer")
        epochs = hosted.log.folder / LEADER_EPOCHS
        epochs.unlink()
        epochs.mkdir()
        one.obey(2, leader=2, epoch=2, replicas=(2, 3))
        assert one.plane.hosted(*FIRST) is None
        assert one.plane.keys_on_disk == frozenset()
        one.obey(1_000_001, epoch=1_000_001, replicas=ALL)
        assert role(one) is Role.FAILED


async def test_a_log_whose_name_another_topic_has_is_remembered(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        holding(one)
    async with broker(tmp_path) as again:
        another = PartitionKey(UUID(int=2), 0)
        again.plane.know_topics([TopicRow(another.topic_id, "orders", 1, 1, {})])
        again.plane.obey(PartitionRow(*another, (1,), 1, 1, (1,), 5))
        hosted = again.plane.hosted(*another)
        assert hosted is not None
        append(hosted.log, b"b")
        again.obey(1_000_001, epoch=1_000_001, replicas=ALL)
        assert role(again) is Role.FAILED


async def test_hundreds_that_go_and_are_named_again_cost_a_file_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []

    def counted(path: Path, offsets: Mapping[PartitionKey, int]) -> None:
        written.append(path.name)
        save_offsets(path, offsets)

    async with broker(tmp_path) as one:
        one.obey(1, replicas=ALL, partitions=300)
        monkeypatch.setattr(given_up, "save_offsets", counted)
        one.obey(2, leader=2, epoch=2, replicas=(2, 3), partitions=300)
        one.plane.forget_topics(())
        assert written == []
        await one.plane.upkeep.checkpoint()
        assert written == [given_up.FILE]
        one.obey(1_000_001, epoch=1_000_001, replicas=ALL, partitions=300)
        one.plane.forget_topics(())
        assert written == [given_up.FILE, given_up.WITHHELD]


async def test_where_nobody_knows_who_is_in_sync_it_shows_no_empty_log(tmp_path: Path) -> None:
    """The others may have moved on: that it holds nothing says nothing of what was committed."""
    async with broker(tmp_path) as one:
        gave_up(one)
        said: list[FromBroker] = []

        def send(frame: FromBroker) -> bool:
            said.append(frame)
            return True

        shown = ShownLogs(one.plane, send)
        shown.linked(SHOWS_LOGS)
        one.obey(1_000_001, leader=-1, epoch=1_000_001, replicas=ALL, isr=(2, 3), unproven=UNPROVEN)
        assert role(one) is Role.FAILED
        hosted = one.plane.hosted(*FIRST)
        assert hosted is not None and hosted.replica.row is not None
        shown.show([hosted.replica.row])
        assert said == []
