"""This room asks the controller for a node's Kafka clients: by rows, as a node has no link to it."""

import asyncio
import contextlib
from collections.abc import Container, Sequence
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from controller import catalog
from controller.asking import Asking, NoAnswer, TooLarge, Unstorable
from controller.journalling import ASKED_BY_A_CLIENT
from gateway.cluster import ClusterOfNode
from gateway.shared_reads import SharedRead
from kafkaserver.admin.asking import ANSWER_GRACE_S, ControllerUnreachable, TooLargeToForward, waits_s
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.from_broker import CreatePartitions, CreateTopics, ListReassignments, Wish
from muster.messages.link.rows import NO_LEADER
from muster.messages.link.to_broker import (
    CreateTopicsAnswer,
    OngoingReassignments,
    TopicResults,
    WishAnswer,
)
from runtime.ports import ConnectionLost, NodeContext

_LATE: Final = "it is made, but not all of its partitions have leaders yet"


class _Made(NamedTuple):
    topic_id: UUID
    name: str
    partition_count: int


class NodeController:
    """The controller as the door of a node reaches it (kafkaserver.admin.asking.Controller)."""

    def __init__(self, node: NodeContext, cluster: ClusterOfNode) -> None:
        self._cluster = cluster
        self._ongoing_moves = SharedRead(node, catalog.ongoing_reassignments)
        self._asking = Asking(node)

    async def ask(self, wish: Wish) -> WishAnswer:
        """The controller's answer. Raises ControllerUnreachable, TooLargeToForward."""
        if isinstance(wish, ListReassignments):
            return await self._ongoing(wish)
        principal: str = getattr(wish, "principal", "")
        loop = asyncio.get_running_loop()
        until = loop.time() + waits_s(wish)
        try:
            answer = await self._asking.ask(
                wish, principal, ASKED_BY_A_CLIENT, waits_s(wish) + ANSWER_GRACE_S
            )
        except NoAnswer as problem:
            raise ControllerUnreachable(str(problem)) from problem
        except TooLarge as problem:
            raise TooLargeToForward("the request is too large") from problem
        except Unstorable as problem:
            raise TooLargeToForward("a name or value holds U+0000, which none may have") from problem
        if isinstance(wish, CreateTopics | CreatePartitions):
            assert isinstance(answer, CreateTopicsAnswer | TopicResults)
            made = _made(wish, answer)
            return _with_late(answer, await self._late(made, until))
        return answer

    def woken(self, name: str) -> None:
        """A wake-up came."""
        self._asking.woken(name)

    def stop(self) -> None:
        """The connections are about to close."""
        self._asking.stop()

    async def _ongoing(self, wish: ListReassignments) -> OngoingReassignments:
        """What moves stands in rows: nobody need be asked."""
        try:
            told = await self._ongoing_moves.now()
        except ConnectionLost as problem:
            raise ControllerUnreachable(str(problem)) from problem
        wanted = None if wish.partitions is None else set(wish.partitions)
        return OngoingReassignments(
            correlation_id=0,
            ongoing=tuple(one for one in told if wanted is None or (one.topic, one.partition) in wanted),
        )

    async def _late(self, made: Sequence[_Made], until: float) -> set[UUID]:
        """What this node cannot tell leaders of when the time is over; all is well before, or gone again."""
        late = {one.topic_id for one in made if not self._is_led(one)}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                while late:
                    looks = self._cluster.looks
                    await self._cluster.next_look()
                    # A look behind the answer that does not find it: it was taken away since.
                    looked = self._cluster.looks > looks
                    late = {
                        one.topic_id
                        for one in made
                        if not self._is_led(one) and not (looked and self._is_gone(one))
                    }
        return late

    def _is_gone(self, made: _Made) -> bool:
        known = self._cluster.topics.get(made.name)
        if known is None or known.topic_id != made.topic_id:
            return True
        return len(known.partitions) < made.partition_count

    def _is_led(self, made: _Made) -> bool:
        known = self._cluster.topics.get(made.name)
        if known is None or known.topic_id != made.topic_id or len(known.partitions) < made.partition_count:
            return False
        return all(partition.leader != NO_LEADER for partition in known.partitions)


def _made(wish: CreateTopics | CreatePartitions, answer: CreateTopicsAnswer | TopicResults) -> list[_Made]:
    """The topics that are new, or grew, as they now are."""
    counts: dict[str, int] = {}
    if isinstance(answer, CreateTopicsAnswer):
        counts = {one.name: one.partition_count for one in answer.topics}
    elif isinstance(wish, CreatePartitions):
        counts = {one.name: one.partition_count for one in wish.topics}
    return [_Made(one.topic_id, one.name, counts[one.name]) for one in answer.topics if one.topic_id]


def _with_late(
    answer: CreateTopicsAnswer | TopicResults, late: Container[UUID | None]
) -> CreateTopicsAnswer | TopicResults:
    topics = tuple(
        msgspec.structs.replace(one, error=ErrorCode.REQUEST_TIMED_OUT, text=_LATE)
        if one.topic_id in late
        else one
        for one in answer.topics
    )
    return msgspec.structs.replace(answer, topics=topics)
