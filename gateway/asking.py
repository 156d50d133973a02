"""This room is what every handler of group requests needs: the shard of a group, and who may ask it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from access.grants import Operation
from coordinator.service import ShardService
from gateway.habits import TopicsOfNow
from gateway.session import KafkaSession
from gateway.translation.groups import storable
from muster.kernel.error_codes import ErrorCode
from muster.kernel.shards import SHARD_COUNT, shard_of
from runtime.ports import shard_lane

GROUP_ID_LENGTH: Final = 249
"""What the row of a group holds; Kafka's clients may say up to 32,767 bytes."""

One = TypeVar("One")


def batched(asked: Sequence[One], most: int) -> Iterator[Sequence[One]]:
    """All of them in their order, at most so many together."""
    return (asked[first : first + most] for first in range(0, len(asked), most))


class KnownTopics(TopicsOfNow, Protocol):
    """The same, for whoever can wait until they are read anew."""

    @property
    def looks(self) -> int:
        """How often they were read."""

    def look_again(self, then: Callable[[], None]) -> None:
        """Call `then` when they were read once more, or could not be."""

    async def catch_up(self) -> bool:
        """True as soon as all is known that was decided until now; False if nobody can say whether it is."""


class Shards:
    """The shards of groups, by group; of each this node knows whether it holds it."""

    def __init__(self, services: Mapping[str, ShardService]) -> None:
        self._services = services
        self._by_shard = [services[shard_lane(shard)] for shard in range(SHARD_COUNT)]

    def __iter__(self) -> Iterator[ShardService]:
        return iter(self._services.values())

    def of(self, group_id: str) -> ShardService:
        """The service of the group's shard."""
        return self._by_shard[shard_of(group_id)]


def refused_group(session: KafkaSession, group_id: str, operation: Operation) -> ErrorCode | None:
    """Why nobody, or not this one, may ask about a group of this name (conformance 2)."""
    if not group_id or len(group_id) > GROUP_ID_LENGTH or not storable(group_id):
        return ErrorCode.INVALID_GROUP_ID
    return None if session.may(operation, group_id) else ErrorCode.GROUP_AUTHORIZATION_FAILED
