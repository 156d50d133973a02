"""This room is what every handler of group requests needs: the shard of a group, and who may ask it."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, Final, Protocol

import structlog

from access.grants import Operation
from coordinator.service import ShardService
from gateway.session import KafkaSession
from gateway.translation.groups import storable
from kafkaserver.cluster_answers import TopicView
from kafkaserver.replies import Reply
from muster.kernel.error_codes import ErrorCode
from muster.kernel.shards import shard_of
from runtime.ports import shard_lane

log = structlog.get_logger(__name__)

GROUP_ID_LENGTH: Final = 255
"""What the row of a group holds; Kafka's clients may say up to 32,767 bytes."""


class KnownTopics(Protocol):
    """Where topics are looked up."""

    @property
    def topics(self) -> Mapping[str, TopicView]:
        """The topics of the instant, by name."""

    def look_again(self, then: Callable[[], None]) -> None:
        """Call `then` when they were read once more."""


class Shards:
    """The shards of groups, by group; of each this node knows whether it holds it."""

    def __init__(self, services: Mapping[str, ShardService]) -> None:
        self._services = services

    def __iter__(self) -> Iterator[ShardService]:
        return iter(self._services.values())

    def of(self, group_id: str) -> ShardService:
        """The service of the group's shard."""
        return self._services[shard_lane(shard_of(group_id))]


def refused_group(session: KafkaSession, group_id: str, operation: Operation) -> ErrorCode | None:
    """Why nobody, or not this one, may ask about a group of this name (conformance 2)."""
    if not group_id or len(group_id) > GROUP_ID_LENGTH or not storable(group_id):
        return ErrorCode.INVALID_GROUP_ID
    return None if session.may(operation, group_id) else ErrorCode.GROUP_AUTHORIZATION_FAILED


class Later:
    """Answers that must wait for something; nobody waits longer than his connection lives."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, reply: Reply, work: Coroutine[Any, Any, None], elements: int = 1) -> None:
        """Let `work` answer `reply`; `elements` are what it asks for, and count as parked."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)

        def gone() -> None:
            task.cancel()

        reply.park(elements, gone)

        def ended(done: asyncio.Task[None]) -> None:
            self._tasks.discard(done)
            if not done.cancelled() and done.exception() is not None:
                log.error("an answer failed", peer=reply.peer, exc_info=done.exception())
                reply.hang_up("our own mistake")

        task.add_done_callback(ended)

    def stop(self) -> None:
        """The connections are about to close."""
        for task in self._tasks:
            task.cancel()
