"""A consumer that says where it stands reads at the replica that is nearest, what is committed (KIP-392)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from broker.core.replica_log import PartitionKey
from muster.kafkawire.api_table import ApiKey
from muster.kernel.topic_configs import LEADER, REPLICA_SELECTOR
from tests.unit.broker_data_plane.planes import (
    ORDERS,
    Broker,
    Client,
    broker,
    client,
    fetch,
    fetched,
    follower,
    produce,
)
from tests.unit.broker_data_plane.test_consumers_read_what_is_committed import values
from tests.unit.kafkawire.made_batches import made_batch

PRODUCE, FETCH = ApiKey.PRODUCE, ApiKey.FETCH
IN_STEP = (1, 2)
RACKS = {1: "north", 2: "south", 3: "south"}
KEY = PartitionKey(ORDERS, 0)
NOT_HERE, FENCED, UNKNOWN_EPOCH, NOT_AVAILABLE = 6, 74, 75, 78


def leads(one: Broker, version: int = 1, **more: Any) -> None:
    one.obey(version, **{"replicas": IN_STEP, "racks": RACKS, **more})


async def in_step(one: Broker, ann: Client, *written: bytes) -> None:
    """Broker 1 leads orders; it holds what was written, and so does broker 2."""
    leads(one)
    for value in written:
        await ann.ask(PRODUCE, 9, produce(value, acks=1))
    async with follower(one) as two:
        end = len(written)
        last_epoch = 1 if end else -1
        asked = fetch(
            end,
            version=16,
            replica=(2, 1),
            leader_epoch=1,
            last_epoch=last_epoch,
            start_offset=0,
            session=(0, 0),
        )
        await two.ask(FETCH, 16, asked)


def told(body: Any) -> tuple[int, int, list[bytes | None]]:
    """(error, where to go on, values) of the one partition."""
    answer = fetched(body)
    return int(answer.error_code), answer.preferred_read_replica, values(answer)


class Following(NamedTuple):
    """Broker 2, which follows broker 1, and a consumer's connection to it."""

    broker: Broker
    ann: Client

    def follows(self, version: int = 1, **more: Any) -> None:
        self.broker.obey(version, **{"replicas": IN_STEP, "racks": RACKS, **more})

    def takes(self, *batches: bytes, committed: int, start: int = 0) -> None:
        """An answer of its leader with these records."""
        hosted = self.broker.plane.named("orders", 0)
        assert hosted is not None
        asked = hosted.replica.next_fetch()
        assert asked is not None
        assert self.broker.plane.append_fetched(KEY, asked, b"".join(batches), committed, start)

    async def reads(self, offset: int, version: int = 12, **more: Any) -> tuple[int, int, list[bytes | None]]:
        asked = fetch(offset, **{"rack": "south", "version": version, **more})
        return told(await self.ann.ask(FETCH, version, asked))


def batch(offset: int, value: bytes) -> bytes:
    """As its leader has stored it in its epoch 1."""
    made = bytearray(made_batch([value]))
    made[0:8] = offset.to_bytes(8, "big")
    made[12:16] = (1).to_bytes(4, "big")
    return bytes(made)


@asynccontextmanager
async def following(folder: Path) -> AsyncIterator[Following]:
    async with broker(folder, 2) as two, client(two.client_port) as ann:
        found = Following(two, ann)
        found.follows()
        yield found


@pytest.mark.parametrize("version", range(11, 17))
async def test_the_leader_sends_a_reader_on_without_records(tmp_path: Path, version: int) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        await in_step(one, ann, b"a")
        asked = fetch(0, version=version, rack="south", max_wait_ms=5_000)
        answer = fetched(await ann.ask(FETCH, version, asked))
        assert (int(answer.error_code), answer.preferred_read_replica) == (0, 2)
        assert (answer.records or b"", answer.high_watermark, answer.log_start_offset) == (b"", 1, 0)
        assert one.client.fetches.nearest.sent_away == 1


@pytest.mark.parametrize("rack", ["", "north", "west"], ids=["states none", "the leader's", "nobody's"])
async def test_who_has_nobody_nearer_reads_at_the_leader(tmp_path: Path, rack: str) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        await in_step(one, ann, b"a")
        assert told(await ann.ask(FETCH, 12, fetch(0, rack=rack))) == (0, -1, [b"a"])


async def test_where_the_leader_is_chosen_for_all_nobody_is_sent_on(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        await in_step(one, ann, b"a")
        one.plane.know_levels({}, {REPLICA_SELECTOR: LEADER}, {})
        assert told(await ann.ask(FETCH, 12, fetch(0, rack="south"))) == (0, -1, [b"a"])


async def test_nobody_is_sent_to_who_is_out_of_sync_leaves_or_has_left(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        await in_step(one, ann, b"a")
        one.plane.leaving = frozenset({2})
        assert told(await ann.ask(FETCH, 12, fetch(0, rack="south"))) == (0, -1, [b"a"])
        one.plane.leaving = frozenset()
        leads(one, 2, isr=(1,))
        assert told(await ann.ask(FETCH, 12, fetch(0, rack="south"))) == (0, -1, [b"a"])


async def test_a_session_that_states_its_rack_no_more_is_served_here(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        await in_step(one, ann, b"a")
        begun = await ann.ask(FETCH, 13, fetch(0, version=13, rack="south", session=(0, 0)))
        assert told(begun) == (0, 2, [])
        asked = fetch(0, version=13, session=(begun.session_id, 1))
        assert told(await ann.ask(FETCH, 13, asked)) == (0, -1, [b"a"])


async def test_a_session_is_sent_on_each_time_it_asks_the_leader(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        await in_step(one, ann, b"a")
        begun = await ann.ask(FETCH, 13, fetch(0, version=13, rack="south", session=(0, 0)))
        assert told(begun) == (0, 2, [])
        again = fetch(0, version=13, rack="south", session=(begun.session_id, 1), is_empty=True)
        assert told(await ann.ask(FETCH, 13, again)) == (0, 2, [])


async def test_a_follower_serves_what_its_leader_said_is_committed(tmp_path: Path) -> None:
    async with following(tmp_path) as two:
        two.takes(batch(0, b"a"), batch(1, b"b"), committed=1)
        assert await two.reads(0) == (0, -1, [b"a"])
        assert await two.reads(1) == (0, -1, [])
        assert two.broker.client.fetches.nearest.bytes_read == len(batch(0, b"a"))


async def test_what_only_the_leader_may_know_is_left_to_it(tmp_path: Path) -> None:
    async with following(tmp_path) as two:
        two.takes(batch(0, b"a"), committed=1)
        assert await two.reads(2) == (NOT_AVAILABLE, -1, [])
        two.takes(committed=1, start=1)
        assert await two.reads(0) == (NOT_AVAILABLE, -1, [])


async def test_leader_epochs_are_compared_at_a_follower_too(tmp_path: Path) -> None:
    async with following(tmp_path) as two:
        two.takes(batch(0, b"a"), committed=1)
        assert await two.reads(0, leader_epoch=1) == (0, -1, [b"a"])
        assert await two.reads(0, leader_epoch=0) == (FENCED, -1, [])
        assert await two.reads(0, leader_epoch=2) == (UNKNOWN_EPOCH, -1, [])


async def test_what_is_not_committed_diverges_from_nothing(tmp_path: Path) -> None:
    async with following(tmp_path) as two:
        two.takes(batch(0, b"a"), batch(1, b"b"), committed=0)
        assert await two.reads(1, last_epoch=3) == (0, -1, [])


@pytest.mark.parametrize("version", [10, 12])
async def test_who_states_no_rack_is_served_by_leaders_alone(tmp_path: Path, version: int) -> None:
    async with following(tmp_path) as two:
        two.takes(batch(0, b"a"), committed=1)
        answer = fetched(await two.ann.ask(FETCH, version, fetch(0, version=version)))
        assert int(answer.error_code) == NOT_HERE


async def test_a_reader_that_waits_at_a_follower_is_woken_by_its_high_watermark(tmp_path: Path) -> None:
    async with following(tmp_path) as two:
        two.ann.send(FETCH, 12, fetch(0, rack="south", max_wait_ms=5_000))
        two.takes(batch(0, b"a"), committed=0)
        assert await two.ann.is_quiet()
        two.takes(committed=1)
        assert told(await two.ann.hear()) == (0, -1, [b"a"])


async def test_a_session_at_a_follower_is_told_what_is_new(tmp_path: Path) -> None:
    async with following(tmp_path) as two:
        begun = await two.ann.ask(FETCH, 13, fetch(0, version=13, rack="south", session=(0, 0)))
        two.ann.send(
            FETCH,
            13,
            fetch(
                0, version=13, rack="south", session=(begun.session_id, 1), is_empty=True, max_wait_ms=5_000
            ),
        )
        assert await two.ann.is_quiet()
        two.takes(batch(0, b"a"), committed=1)
        assert told(await two.ann.hear()) == (0, -1, [b"a"])


@pytest.mark.parametrize(
    ("becomes", "error"),
    [
        ({"isr": (1,)}, NOT_HERE),
        ({"leader": -1, "epoch": 2}, NOT_HERE),
        ({"replicas": (1,), "isr": (1,)}, NOT_HERE),
    ],
    ids=["out of sync", "without a leader", "no replica any more"],
)
async def test_who_waits_is_sent_back_as_soon_as_the_follower_may_not_serve(
    tmp_path: Path, becomes: dict[str, Any], error: int
) -> None:
    async with following(tmp_path) as two:
        two.ann.send(FETCH, 12, fetch(0, rack="south", max_wait_ms=5_000))
        assert await two.ann.is_quiet()
        two.follows(2, **becomes)
        assert told(await two.ann.hear()) == (error, -1, [])


async def test_a_follower_is_told_of_a_commit_at_once_where_it_is_read(tmp_path: Path) -> None:
    async with (
        broker(tmp_path) as one,
        client(one.client_port) as ann,
        client(one.client_port) as ben,
        follower(one) as two,
    ):
        leads(one, replicas=(1, 2, 3))
        asked: dict[str, Any] = {"version": 16, "replica": (2, 1), "leader_epoch": 1, "start_offset": 0}
        begun = await two.ask(FETCH, 16, fetch(0, **asked, session=(0, 0)))
        assert told(await ann.ask(FETCH, 12, fetch(0, rack="south"))) == (0, 2, [])
        session = begun.session_id
        two.send(FETCH, 16, fetch(0, **asked, session=(session, 1), is_empty=True, max_wait_ms=5_000))
        ben.send(PRODUCE, 9, produce(b"a"))
        assert fetched(await two.hear()).high_watermark == 0
        asked["last_epoch"] = 1
        two.send(FETCH, 16, fetch(1, **asked, session=(session, 2), max_wait_ms=5_000))
        assert await two.is_quiet()
        async with follower(one, 3) as three:
            await three.ask(FETCH, 16, fetch(1, **{**asked, "replica": (3, 1)}, session=(0, 0)))
        assert fetched(await two.hear()).high_watermark == 1
