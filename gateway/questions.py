"""This room answers what is asked about groups: committed offsets, descriptions, lists.

A shard answers after it has proved that nobody else wrote there meanwhile, so these wait. Committed offsets
are told by the topics as they now are: a node that knows less would say that nothing is committed, or tell
what was committed of the topic that had this name before.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from typing import Any, Final

from access.grants import Operation
from coordinator.core.memory import GroupState
from coordinator.describing import DescribedGroup, described
from coordinator.service import NotServed
from gateway.asking import KnownTopics, Shards, batched, refused_group
from gateway.session import KafkaSession
from gateway.translation import listing, offsets
from kafkaserver.callers import caller_of
from kafkaserver.later import Later
from kafkaserver.refusals import refuse
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import RequestHeader, frame_reply, read_request
from muster.kernel.error_codes import ErrorCode
from runtime.of_loops import OfLoops
from runtime.slices import Slices

TRIES: Final = 5
"""So often a node tries to know all topics before it refuses to tell offsets; each may take some seconds."""

ASKED_AT_ONCE: Final = 100
"""Groups of one request that are looked at together: what a shard proves is known to all of them in one pass
of the loop, and each may have hundreds of partitions, or members.
"""

SLICE_BYTES: Final = 16 * 1024
"""So much of an answer is worded before others have their turn: some four milliseconds."""

LEFT_OUT_BYTES: Final = 32
"""What is not told counts for so many: it was looked at."""

SLICE_S: Final = 0.004
"""For so long all answers of a node are worded in one round of its loop: whatever is asked, and by however
many, heartbeats and leases pass in between.
"""

LARGE: Final = 1_000
"""What has more members, or partitions, is looked through one at a time: each of hundreds may hold a MB.
All that a group has committed counts as so many while it is waited for.
"""

_slices = OfLoops(lambda loop: Slices(loop, SLICE_S))


async def in_slices(worded: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Each of them that is not empty, while others have their turn behind each slice."""
    unsaid_bytes = 0
    for one in worded:
        if one:
            yield one
        unsaid_bytes += len(one) or LEFT_OUT_BYTES
        if unsaid_bytes > SLICE_BYTES:
            unsaid_bytes = 0
            await _has_turn()


async def _has_turn() -> None:
    await _slices.of(asyncio.get_running_loop()).turn()


class QuestionHandlers:
    """Serves questions about the groups of this node."""

    def __init__(self, shards: Shards, cluster: KnownTopics, later: Later) -> None:
        self._shards = shards
        self._cluster = cluster
        self._later = later
        self._large = asyncio.Lock()
        self._lists = asyncio.Lock()
        """Another one: who lists waits for the lanes of all shards, and a large group for nobody else's."""

    @contextlib.asynccontextmanager
    async def _turn(self, size: int) -> AsyncIterator[None]:
        """So much is looked through now; in the order in which it was asked."""
        async with self._large if size > LARGE else contextlib.nullcontext():
            await _has_turn()
            yield

    # -- OffsetFetch

    def fetch_offsets(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """OffsetFetch of one group or of several. Raises MalformedFrame."""
        request = read_request(header, frame)
        asked = offsets.asked_offsets(header, request)
        elements = sum(
            LARGE if one.topics is None else sum(len(numbers) for _, numbers in one.topics) for one in asked
        )
        self._later.start(reply, self._fetch_offsets(header, asked, reply), elements + len(asked))

    async def _fetch_offsets(
        self, header: RequestHeader, asked: list[offsets.AskedOffsets], reply: Reply
    ) -> None:
        may_describe = caller_of(reply).may_describe
        worded: list[bytes] = []
        for some in batched(asked, ASKED_AT_ONCE):
            states = await asyncio.gather(*(self._offsets_of(reply, one) for one in some))
            for one, state in zip(some, states, strict=True):
                async with self._turn(_size(one, state)):
                    told: offsets.FoundOffsets | ErrorCode = (
                        state
                        if isinstance(state, ErrorCode)
                        else offsets.found_offsets(one, self._cluster.topics, state.rows, may_describe)
                    )
                    said = offsets.worded_offsets(header.api_version, one, told)
                    worded += [piece async for piece in in_slices(said)]
        body = offsets.offsets_answer(header.api_version, len(asked), worded)
        reply.send(frame_reply(header.api_key, header.api_version, header.correlation_id, body))

    async def _offsets_of(self, reply: Reply, asked: offsets.AskedOffsets) -> GroupState | ErrorCode:
        """The group as it is; what it has committed is looked up when it is this answer's turn."""
        error = refused_group(reply.session, asked.group_id, Operation.VIEW)
        if error is not None:
            return error
        try:
            for _ in range(TRIES):
                knows_all = await self._cluster.catch_up()
                found = await self._shards.of(asked.group_id).read(asked.group_id, _itself)
                if knows_all:
                    return found
                # The database is slow, or was away and the shard has waited for it. No error while it
                # may still be told: librdkafka hands this one to its application.
        except NotServed as problem:
            return problem.error
        return ErrorCode.NOT_COORDINATOR

    # -- DescribeGroups and ListGroups

    def describe(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """DescribeGroups; a group that is named twice is answered once. Raises MalformedFrame."""
        request = read_request(header, frame)
        names = list(dict.fromkeys(request.groups))
        asked = getattr(request, "include_authorized_operations", False)
        operations = caller_of(reply).group_operations if asked else listing.not_asked
        self._later.start(reply, self._describe(header, names, operations, reply), len(names))

    async def _describe(
        self, header: RequestHeader, names: list[str], operations: Callable[[str], int], reply: Reply
    ) -> None:
        worded: list[bytes] = []
        for some in batched(names, ASKED_AT_ONCE):
            states = await asyncio.gather(*(self._state_of(reply.session, name) for name in some))
            for name, state in zip(some, states, strict=True):
                async with self._turn(_members(state)):
                    group = (
                        DescribedGroup(name, state)
                        if isinstance(state, ErrorCode)
                        else described(name, state)
                    )
                    said = listing.described_group(header.api_version, group, operations)
                    worded += [piece async for piece in in_slices(said)]
        body = listing.describe_answer(header.api_version, len(names), worded)
        reply.send(frame_reply(header.api_key, header.api_version, header.correlation_id, body))

    async def _state_of(self, session: KafkaSession, name: str) -> GroupState | ErrorCode:
        error = refused_group(session, name, Operation.VIEW)
        if error is not None:
            return error
        try:
            return await self._shards.of(name).read(name, _itself)
        except NotServed as problem:
            return problem.error

    def list_groups(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """ListGroups: those of every shard that is served here. Raises MalformedFrame."""
        self._later.start(reply, self._list(header, read_request(header, frame), reply))

    async def _list(self, header: RequestHeader, request: Any, reply: Reply) -> None:
        """A shard that is not held here is another node's to list; any other error is the whole answer's."""
        served = [shard for shard in self._shards if shard.serving]
        async with self._lists:
            told = await asyncio.gather(*(shard.groups() for shard in served), return_exceptions=True)
        for groups in told:
            if isinstance(groups, NotServed):
                if groups.error is not ErrorCode.NOT_COORDINATOR:
                    reply.send(refuse(header, request, groups.error))
                    return
            elif isinstance(groups, BaseException):
                raise groups
        session: KafkaSession = reply.session
        listed = (group for groups in told if not isinstance(groups, BaseException) for group in groups)
        await _has_turn()
        may_view = partial(session.may, Operation.VIEW)
        said = listing.listed_groups(header.api_version, request, listed, may_view)
        body = listing.list_answer(header.api_version, [one async for one in in_slices(said)])
        reply.send(frame_reply(header.api_key, header.api_version, header.correlation_id, body))


def _itself(state: GroupState) -> GroupState:
    return state


def _size(asked: offsets.AskedOffsets, state: GroupState | ErrorCode) -> int:
    """How many partitions are looked through for it."""
    if asked.topics is not None:
        return sum(len(numbers) for _, numbers in asked.topics)
    return 0 if isinstance(state, ErrorCode) else len(state.rows.offsets)


def _members(state: GroupState | ErrorCode) -> int:
    if isinstance(state, ErrorCode):
        return 0
    classic = state.rows.classic
    return len(state.rows.members if classic is None else classic.members)
