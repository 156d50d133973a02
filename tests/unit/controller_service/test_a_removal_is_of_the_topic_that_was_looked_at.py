"""What groups have not read is found before the turn that removes partitions: of the topic as it was then."""

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

import msgspec
import pytest

from controller import service as services
from controller.core.events import Heard
from controller.core.records import RequestAnswered
from controller.core.requests import Asked
from controller.subject import CLUSTER
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.from_broker import CreatePartitions, GrownTopic, RemovePartitions
from muster.messages.link.protocol import LINK_PROTOCOL
from muster.messages.link.to_broker import TopicResults
from runtime.work_table import RequestRow
from tests.unit.controller_service.stage import HereAndNow, linked

FEWER = msgspec.to_builtins(Asked(RemovePartitions(topic="orders", partition_count=1, principal="mira")))
ROW = RequestRow("a-request", "cluster", "mira", "we test", FEWER, None, "")


class Looked(HereAndNow):
    """The same; every group has read everything, and something happens behind that look."""

    happens: Callable[[], None] | None = None

    async def query(self, function: Callable[[Any], Any]) -> Any:
        if function.__name__ != "find":
            return await super().query(function)
        if self.happens is not None:
            self.happens()
        return ()


@pytest.mark.parametrize(
    ("grows", "error"), [(True, ErrorCode.INVALID_UPDATE_VERSION), (False, ErrorCode.NONE)]
)
async def test_what_it_gained_since_is_not_removed_unlooked_at(
    monkeypatch: pytest.MonkeyPatch, grows: bool, error: ErrorCode
) -> None:
    monkeypatch.setattr(services, "ENDS_TIMEOUT_S", 0)
    here = Looked()
    service, links, _ = await linked(here)
    assert service.cluster.memory is not None
    for session in service.cluster.memory.sessions.values():
        session.protocol = LINK_PROTOCOL

    def grown(count: int) -> None:
        frame = CreatePartitions(topics=(GrownTopic(name="orders", partition_count=count),), timeout_ms=0)
        here.hand_in(service.cluster, CLUSTER, Heard(links[1], frame, UUID(int=count)))

    grown(2)
    if grows:
        here.happens = lambda: grown(4)
    service._asked(ROW)
    async with asyncio.timeout(10):
        while not any(isinstance(one, RequestAnswered) for one in here.recorded):
            await asyncio.sleep(0)
    [answer] = [one.answer for one in here.recorded if isinstance(one, RequestAnswered)]
    assert isinstance(answer, TopicResults)
    assert answer.topics[0].error is error
    for link in links.values():
        link.hang_up("the end")
