"""This room asks the controller what only it decides, over the link: topics, blocks of producer ids."""

import asyncio
import itertools
from collections.abc import Callable

from broker.handlers_forwarded import ControllerUnreachable, TooLargeToForward
from kafkaserver.producer_ids import ProducerIdBlock
from muster.messages import codec
from muster.messages.limits import MAX_FRAME_FROM_BROKER_BYTES
from muster.messages.link.from_broker import (
    AllocateProducerIds,
    AlterReassignments,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    FromBroker,
    GrownTopic,
    ListReassignments,
    NamedTopic,
    NewTopic,
    WantedReplicas,
)
from muster.messages.link.to_broker import (
    CreatedTopic,
    CreateTopicsAnswer,
    OngoingReassignment,
    OngoingReassignments,
    ProducerIds,
    ReassignmentResult,
    ReassignmentResults,
    TopicResult,
    TopicResults,
)

PRODUCER_IDS_TIMEOUT_S = 5.0
TURN_TIMEOUT_S = 30.0
"""For what is decided in one turn and waits for nothing more."""
ANSWER_GRACE_S = 2.0
"""The controller keeps the request's own timeout; this is for its answer's way back."""
LONGEST_TIMEOUT_MS = 300_000
REQUESTS = 1_000
"""Forwarded requests that may wait for the controller at once."""

SendFrame = Callable[[FromBroker], bool]

_Answer = CreateTopicsAnswer | TopicResults | ReassignmentResults | OngoingReassignments | ProducerIds


class Forwarding:
    """Questions on their way to the controller; an answer is believed only on the link that asked.

    A question whose link breaks ends with ControllerUnreachable: whether the controller heard it is
    unknown, and the client asks again (a topic that exists by then says so).
    """

    def __init__(self, send: SendFrame) -> None:
        self._send = send
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[_Answer]] = {}
        self._linked = asyncio.Event()

    def link_ready(self) -> None:
        """The snapshot of a link is applied: questions may go out."""
        self._linked.set()

    def link_lost(self) -> None:
        self._linked.clear()
        asked, self._asked = self._asked, {}
        for future in asked.values():
            if not future.done():
                future.set_exception(ControllerUnreachable("the link to the controller broke"))

    def hear(self, answer: _Answer) -> None:
        """An answer came; one that nobody waits for any more is dropped."""
        future = self._asked.pop(answer.correlation_id, None)
        if future is not None and not future.done():
            future.set_result(answer)

    async def create_topics(
        self, topics: tuple[NewTopic, ...], timeout_ms: int, validate_only: bool, principal: str
    ) -> tuple[CreatedTopic, ...]:
        """One answer for each topic, when they lead or the timeout is over.

        Raises ControllerUnreachable, TooLargeToForward.
        """
        timeout_ms = max(0, min(timeout_ms, LONGEST_TIMEOUT_MS))

        def question(number: int) -> CreateTopics:
            return CreateTopics(
                correlation_id=number,
                topics=topics,
                timeout_ms=timeout_ms,
                validate_only=validate_only,
                principal=principal,
            )

        answer = await self._ask(question, timeout_ms / 1000 + ANSWER_GRACE_S)
        assert isinstance(answer, CreateTopicsAnswer)
        return answer.topics

    async def delete_topics(self, topics: tuple[NamedTopic, ...], principal: str) -> tuple[TopicResult, ...]:
        """One answer for each topic, in this order. Raises ControllerUnreachable, TooLargeToForward."""
        answer = await self._ask(
            lambda number: DeleteTopics(correlation_id=number, topics=topics, principal=principal),
            TURN_TIMEOUT_S,
        )
        assert isinstance(answer, TopicResults)
        return answer.topics

    async def create_partitions(
        self, topics: tuple[GrownTopic, ...], timeout_ms: int, validate_only: bool, principal: str
    ) -> tuple[TopicResult, ...]:
        """One answer for each topic, in this order, when all partitions lead or the timeout is over.

        Raises ControllerUnreachable, TooLargeToForward.
        """
        timeout_ms = max(0, min(timeout_ms, LONGEST_TIMEOUT_MS))

        def question(number: int) -> CreatePartitions:
            return CreatePartitions(
                correlation_id=number,
                topics=topics,
                timeout_ms=timeout_ms,
                validate_only=validate_only,
                principal=principal,
            )

        answer = await self._ask(question, timeout_ms / 1000 + ANSWER_GRACE_S)
        assert isinstance(answer, TopicResults)
        return answer.topics

    async def alter_reassignments(
        self, partitions: tuple[WantedReplicas, ...], may_change_factor: bool, principal: str
    ) -> tuple[ReassignmentResult, ...]:
        """One answer for each partition, in this order. Raises ControllerUnreachable, TooLargeToForward."""

        def question(number: int) -> AlterReassignments:
            return AlterReassignments(
                correlation_id=number,
                partitions=partitions,
                may_change_factor=may_change_factor,
                principal=principal,
            )

        answer = await self._ask(question, TURN_TIMEOUT_S)
        assert isinstance(answer, ReassignmentResults)
        return answer.results

    async def list_reassignments(
        self, partitions: tuple[tuple[str, int], ...] | None
    ) -> tuple[OngoingReassignment, ...]:
        """What is asked for or under way; None: of all. Raises ControllerUnreachable, TooLargeToForward."""
        answer = await self._ask(
            lambda number: ListReassignments(correlation_id=number, partitions=partitions), TURN_TIMEOUT_S
        )
        assert isinstance(answer, OngoingReassignments)
        return answer.ongoing

    async def producer_ids(self) -> ProducerIdBlock:
        """A block of producer ids that nobody else was given. Raises ControllerUnreachable."""
        answer = await self._ask(
            lambda number: AllocateProducerIds(correlation_id=number), PRODUCER_IDS_TIMEOUT_S
        )
        assert isinstance(answer, ProducerIds)
        return ProducerIdBlock(answer.first, answer.count)

    async def _ask(self, question: Callable[[int], FromBroker], timeout_s: float) -> _Answer:
        if len(self._asked) >= REQUESTS:
            raise ControllerUnreachable("too many requests wait for the controller")
        number = next(self._numbers)
        frame = question(number)
        if len(codec.encode(frame)) > MAX_FRAME_FROM_BROKER_BYTES:
            # Sent, it would cost the link: every broker that the client then asks would lose its own.
            raise TooLargeToForward("the request is too large to be forwarded")
        try:
            async with asyncio.timeout(timeout_s):
                await self._linked.wait()
                future: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
                self._asked[number] = future
                if not self._send(frame):
                    raise ControllerUnreachable("there is no link to the controller")
                return await future
        except TimeoutError:
            raise ControllerUnreachable("the controller did not answer in time") from None
        finally:
            self._asked.pop(number, None)
