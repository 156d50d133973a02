"""What a turn could not write is answered if an answer can say so; what it could not say needs new links."""

import asyncio

from controller.core.events import Heard
from controller.core.state import Altering
from controller.links import BrokerLink
from controller.subject import CLUSTER
from muster.kernel.error_codes import ErrorCode
from muster.messages import codec
from muster.messages.link.from_broker import (
    AlterPartition,
    AlterReassignments,
    CreateTopics,
    NewTopic,
    WantedReplicas,
)
from muster.messages.link.to_broker import CreateTopicsAnswer, ReassignmentResult, ReassignmentResults
from runtime.turn import GaveUp, NotSpoken
from tests.unit.controller_service.stage import ORDERS, HereAndNow, linked

TOPIC = NewTopic(name="clicks", partition_count=10_000)


def wanted(link: BrokerLink) -> Heard:
    return Heard(link, CreateTopics(correlation_id=3, topics=(TOPIC,), timeout_ms=60_000), ORDERS)


async def answer(said: "asyncio.Queue[str]") -> CreateTopicsAnswer:
    async with asyncio.timeout(5):
        while True:
            frame = codec.decode_to_broker(await said.get())
            if isinstance(frame, CreateTopicsAnswer):
                return frame


async def test_who_asked_for_topics_hears_that_there_are_none_and_keeps_the_link() -> None:
    service, links, said = await linked(HereAndNow())
    service.cluster.refuse(CLUSTER, [wanted(links[1])], GaveUp("controller: cluster"))
    heard = await answer(said)
    assert (heard.correlation_id, heard.topics[0].error) == (3, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert not links[1].is_unbound
    links[1].hang_up("the end")


async def test_a_leader_whose_proposal_was_not_decided_is_hung_up_on() -> None:
    """Its proposal is open until a snapshot ends it: no answer could."""
    service, links, _ = await linked(HereAndNow())
    service.cluster.refuse(
        CLUSTER, [Heard(links[1], AlterPartition(proposals=()), ORDERS)], GaveUp("controller")
    )
    assert links[1].is_unbound
    assert not links[2].is_unbound


async def test_nobody_keeps_a_link_on_which_a_turn_may_be_missing() -> None:
    service, links, _ = await linked(HereAndNow())
    service.cluster.refuse(CLUSTER, [], NotSpoken("controller: cluster"))
    assert links[1].is_unbound
    assert links[2].is_unbound


async def test_a_request_that_turns_go_on_with_is_answered_with_what_is_done_and_what_is_not() -> None:
    service, links, said = await linked(HereAndNow())
    moves = tuple(WantedReplicas(topic="clicks", partition=n, replicas=(1,)) for n in range(3))
    done = ReassignmentResult(topic="clicks", partition=0)
    memory = service.cluster.memory
    assert memory is not None
    frame = AlterReassignments(correlation_id=4, partitions=moves)
    memory.altering = [Altering(links[1], frame, ORDERS, frozenset(), (done,))]
    service.cluster.refuse(CLUSTER, [], GaveUp("controller: cluster"))
    async with asyncio.timeout(5):
        while not isinstance(heard := codec.decode_to_broker(await said.get()), ReassignmentResults):
            pass
    none, unknown = ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR
    assert [one.error for one in heard.results] == [none, unknown, unknown]
    assert not memory.altering and not links[1].is_unbound
    links[1].hang_up("the end")
