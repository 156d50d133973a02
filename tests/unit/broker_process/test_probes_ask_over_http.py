"""Probes ask a broker over HTTP whether it lives, whether it is ready, and for its numbers."""

import asyncio

from broker.health import REQUEST_LIMIT_BYTES, HealthDoor
from kafkaserver.compiled import running


class Patient:
    """What the door is told about the broker."""

    def __init__(self) -> None:
        self.ailment = "no snapshot yet"

    def readiness(self) -> str:
        return self.ailment

    def samples(self) -> dict[str, float]:
        return {'muster_broker_partitions{role="leader"}': 2.0, "muster_broker_metadata_version": 7.0}


async def answer_to(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_ready_only_when_nothing_is_wrong() -> None:
    patient = Patient()
    door = HealthDoor(patient.readiness, patient.samples)
    port = await door.open("127.0.0.1", 0)
    try:
        assert b"200 OK" in await answer_to(port, b"GET /livez HTTP/1.1\r\n\r\n")
        not_ready = await answer_to(port, b"GET /readyz HTTP/1.1\r\n\r\n")
        assert b"503" in not_ready and b"no snapshot yet" in not_ready
        patient.ailment = ""
        ready = await answer_to(port, b"GET /readyz?verbose HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200 OK" in ready and ready.endswith(f"ready, {running}\n".encode())
    finally:
        await door.close()


def test_metrics_are_lines_of_name_and_value() -> None:
    patient = Patient()
    _, _, body = (
        HealthDoor(patient.readiness, patient.samples)
        .answer(b"GET /metrics HTTP/1.1\r\n\r\n")
        .partition(b"\r\n\r\n")
    )
    assert body == b'muster_broker_metadata_version 7\nmuster_broker_partitions{role="leader"} 2\n'


def test_nothing_else_is_served() -> None:
    patient = Patient()
    door = HealthDoor(patient.readiness, patient.samples)
    assert door.answer(b"POST /livez HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 405")
    assert door.answer(b"GET /../etc/passwd HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 404")


async def test_a_request_that_never_ends_is_dropped() -> None:
    patient = Patient()
    door = HealthDoor(patient.readiness, patient.samples)
    port = await door.open("127.0.0.1", 0)
    try:
        assert await answer_to(port, b"GET /" + b"a" * (4 * REQUEST_LIMIT_BYTES)) == b""
    finally:
        await door.close()
