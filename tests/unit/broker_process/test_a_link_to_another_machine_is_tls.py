"""A broker shows its secret to nodes that it trusts, and nowhere in the clear off loopback."""

import asyncio
import ssl
from pathlib import Path

import pytest

from broker.settings import from_environment, refuse_open_doors
from kafkaserver.guard import Guard
from kafkaserver.tls import Certificate
from muster.kernel.environment import SettingError
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.to_broker import HelloRefused
from tests.unit.broker_process.controller_side import ControllerSide, linked_broker

CERTIFICATES = Path(__file__).parents[1] / "kafkaserver" / "certificates"
FIRST, KEY = CERTIFICATES / "first.crt", CERTIFICATES / "first.key"
ENOUGH = {
    "MUSTER_BROKER_ID": "1",
    "MUSTER_BROKER_DATA": "/data/1",
    "MUSTER_NODES": "ws://127.0.0.1:9301",
    "MUSTER_BROKER_SECRET": "s3cret",
}


@pytest.mark.parametrize("trusted", ["first", "second"])
async def test_a_node_is_believed_by_its_certificate(tmp_path: Path, trusted: str) -> None:
    controller = ControllerSide()
    controller.serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    controller.serving.load_cert_chain(FIRST, KEY)
    ca = {"MUSTER_KAFKA_TLS_CA": str(CERTIFICATES / f"{trusted}.crt")}
    async with asyncio.timeout(30), linked_broker(tmp_path, controller, **ca) as process:
        if trusted == "first":
            _, hello = await controller.bind()
            assert hello.broker_id == 1
            return
        while "not tried" in process._link.why_unlinked:
            await asyncio.sleep(0.01)
        assert "CERTIFICATE_VERIFY_FAILED" in process._link.why_unlinked
        assert controller.links.empty()


async def test_a_named_node_of_another_machine_is_not_shown_the_secret_in_the_clear(tmp_path: Path) -> None:
    controller = ControllerSide()
    async with asyncio.timeout(30), linked_broker(tmp_path, controller) as process:
        link = await controller.links.get()
        await link.recv()
        there = HelloRefused(error=ErrorCode.NOT_CONTROLLER, controller_address="ws://192.0.2.1:9301")
        await controller.say(link, there)
        await link.close()
        await controller.links.get()
        why = process._link.why_unlinked
        assert "192.0.2.1" in why and "no TLS" in why


@pytest.mark.parametrize(
    ("given", "tls", "says"),
    [
        ({"MUSTER_BROKER_REPLICATION_LISTEN": "192.0.2.7:9093"}, False, "records would travel in the clear"),
        ({"MUSTER_BROKER_REPLICATION_LISTEN": "0.0.0.0:9093"}, True, "REPLICATION_ADDRESS is not set"),
        ({"MUSTER_BROKER_LISTEN": "[::]:9092"}, True, "MUSTER_BROKER_ADDRESS is not set"),
        ({"MUSTER_BROKER_REPLICATION_LISTEN": "192.0.2.7:9093"}, True, ""),
        (
            {
                "MUSTER_BROKER_REPLICATION_LISTEN": "0.0.0.0:9093",
                "MUSTER_BROKER_REPLICATION_ADDRESS": "one.example:9093",
            },
            True,
            "",
        ),
        ({"MUSTER_BROKER_REPLICATION_LISTEN": "127.0.0.1:9093"}, False, ""),
    ],
)
def test_listeners_that_others_reach_are_safe_and_have_a_name(
    given: dict[str, str], tls: bool, says: str
) -> None:
    guard = Guard(sasl=True, certificate=Certificate(FIRST, KEY) if tls else None)
    settings = from_environment({**ENOUGH, **given})
    if not says:
        refuse_open_doors(settings, guard)
        return
    with pytest.raises(SettingError, match=says):
        refuse_open_doors(settings, guard)
