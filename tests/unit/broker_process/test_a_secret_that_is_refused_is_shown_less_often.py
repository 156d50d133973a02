"""A secret that no node knows is unknown until an operator does something: it is shown ever less often."""

import asyncio
from http import HTTPStatus
from pathlib import Path

import structlog
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from broker.folder import DataFolder
from broker.link import LONGEST_PAUSE_S, Pauses
from broker.process import BrokerProcess
from broker.settings import from_environment
from tests.unit.kafkaserver.served import until


def test_pauses_double_while_the_secret_is_refused_and_are_short_again_afterwards() -> None:
    pauses = Pauses(0.2)
    assert [pauses.after(refused=False) for _ in range(3)] == [0.2, 0.2, 0.2]
    assert [pauses.after(refused=True) for _ in range(4)] == [0.4, 0.8, 1.6, 3.2]
    assert {pauses.after(refused=True) for _ in range(100)} == {6.4, LONGEST_PAUSE_S}
    assert pauses.after(refused=False) == 0.2


def test_an_interval_that_is_longer_anyway_stays() -> None:
    pauses = Pauses(30.0)
    assert [pauses.after(refused=refused) for refused in (False, True, True)] == [30.0, 30.0, 30.0]


async def test_two_nodes_that_refuse_it_are_told_of_once_each(tmp_path: Path) -> None:
    asked: list[int] = []

    def refuse(door: ServerConnection, _request: Request) -> Response:
        asked.append(door.local_address[1])
        return door.respond(HTTPStatus.FORBIDDEN, "")

    async def nobody(_: ServerConnection) -> None:
        raise AssertionError("it was let in")

    async with (
        serve(nobody, "127.0.0.1", 0, process_request=refuse) as one,
        serve(nobody, "127.0.0.1", 0, process_request=refuse) as two,
    ):
        ports = [door.sockets[0].getsockname()[1] for door in (one, two)]
        settings = from_environment(
            {
                "MUSTER_BROKER_ID": "1",
                "MUSTER_BROKER_LISTEN": "127.0.0.1:0",
                "MUSTER_BROKER_DATA": str(tmp_path),
                "MUSTER_NODES": ",".join(f"ws://127.0.0.1:{port}" for port in ports),
                "MUSTER_BROKER_SECRET": "s3cret",
                "MUSTER_BROKER_RELINK_INTERVAL_MS": "1",
            }
        )
        with DataFolder(tmp_path, 1) as data, structlog.testing.capture_logs() as logged:
            data.open("boot-1")
            process, stop = BrokerProcess(settings, data), asyncio.Event()
            running = asyncio.create_task(process.run(stop))
            await until(lambda: len(asked) >= 6)
            assert "by this secret" in process.ailment()
            stop.set()
            await running
    assert set(asked) == set(ports)
    assert len([one for one in logged if one["event"] == "no link"]) == 2
