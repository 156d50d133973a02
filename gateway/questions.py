"""This room answers what is asked about groups: committed offsets, descriptions, lists.

A shard answers after it has proved that nobody else wrote there meanwhile, so these wait. Committed offsets
are told by the topics as they now are: a node that knows less would say that nothing is committed, or tell
what was committed of the topic that had this name before.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from typing import Any, Final

from access.grants import Operation
from coordinator.core.memory import GroupState
from coordinator.describing import DescribedGroup, ListedGroup
from coordinator.service import NotServed
from gateway.asking import KnownTopics, Shards, batched, refused_group
from gateway.session import KafkaSession
from gateway.translation import listing, offsets
from kafkaserver.callers import caller_of
from kafkaserver.later import Later
from kafkaserver.refusals import refuse
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import RequestHeader, encode_reply, frame_reply, read_request
from muster.kernel.error_codes import ErrorCode

TRIES: Final = 5
"""So often a node tries to know all topics before it refuses to tell offsets; each may take some seconds."""

ASKED_AT_ONCE: Final = 100
"""Groups of one request that are looked at together: what a shard proves is known to all of them in one pass
of the loop, and each may have hundreds of partitions, or members.
"""

SLICE_BYTES: Final = 16 * 1024
"""So much of an answer is worded before others have their turn: some four milliseconds."""


async def in_slices(worded: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Each of them, while others have their turn behind each slice."""
    unsaid_bytes = 0
    for one in worded:
        yield one
        unsaid_bytes += len(one)
        if unsaid_bytes > SLICE_BYTES:
            unsaid_bytes = 0
            await asyncio.sleep(0)


class QuestionHandlers:
    """Serves questions about the groups of this node."""

    def __init__(self, shards: Shards, cluster: KnownTopics, later: Later) -> None:
        self._shards = shards
        self._cluster = cluster
        self._later = later

    # -- OffsetFetch

    def fetch_offsets(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """OffsetFetch of one group or of several. Raises MalformedFrame."""
        request = read_request(header, frame)
        asked = offsets.asked_offsets(header, request)
        elements = sum(len(numbers) for one in asked for _, numbers in one.topics or ())
        self._later.start(reply, self._fetch_offsets(header, asked, reply), elements + len(asked))

    async def _fetch_offsets(
        self, header: RequestHeader, asked: list[offsets.AskedOffsets], reply: Reply
    ) -> None:
        worded: list[bytes] = []
        for some in batched(asked, ASKED_AT_ONCE):
            found = await asyncio.gather(*(self._offsets_of(reply, one) for one in some))
            said = (
                offsets.worded_offsets(header.api_version, one, told)
                for one, told in zip(some, found, strict=True)
            )
            worded += [one async for one in in_slices(said)]
        body = offsets.offsets_answer(header.api_version, worded)
        reply.send(frame_reply(header.api_key, header.api_version, header.correlation_id, body))

    async def _offsets_of(
        self, reply: Reply, asked: offsets.AskedOffsets
    ) -> offsets.FoundOffsets | ErrorCode:
        error = refused_group(reply.session, asked.group_id, Operation.VIEW)
        if error is not None:
            return error
        try:
            tell = partial(self._found, asked, caller_of(reply).may_describe)
            for _ in range(TRIES):
                knows_all = await self._cluster.catch_up()
                found = await self._shards.of(asked.group_id).read(asked.group_id, tell)
                if knows_all:
                    return found
                # The database is slow, or was away and the shard has waited for it. No error while it
                # may still be told: librdkafka hands this one to its application.
        except NotServed as problem:
            return problem.error
        return ErrorCode.NOT_COORDINATOR

    def _found(
        self, asked: offsets.AskedOffsets, may_describe: offsets.MayTopic, state: GroupState
    ) -> offsets.FoundOffsets:
        return offsets.found_offsets(asked, self._cluster.topics, state.rows, may_describe)

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
            groups = await asyncio.gather(*(self._described(reply.session, name) for name in some))
            said = (listing.described_group(header.api_version, group, operations) for group in groups)
            worded += [one async for one in in_slices(said)]
        body = listing.describe_answer(header.api_version, worded)
        reply.send(frame_reply(header.api_key, header.api_version, header.correlation_id, body))

    async def _described(self, session: KafkaSession, name: str) -> DescribedGroup:
        error = refused_group(session, name, Operation.VIEW)
        if error is not None:
            return DescribedGroup(name, error)
        return await self._shards.of(name).describe(name)

    def list_groups(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """ListGroups: those of every shard that is served here. Raises MalformedFrame."""
        self._later.start(reply, self._list(header, read_request(header, frame), reply))

    async def _list(self, header: RequestHeader, request: Any, reply: Reply) -> None:
        """A shard that is not held here is another node's to list; any other error is the whole answer's."""
        served = [shard for shard in self._shards if shard.serving]
        told = await asyncio.gather(*(shard.groups() for shard in served), return_exceptions=True)
        session: KafkaSession = reply.session
        listed: list[ListedGroup] = []
        for groups in told:
            if isinstance(groups, NotServed):
                if groups.error is not ErrorCode.NOT_COORDINATOR:
                    reply.send(refuse(header, request, groups.error))
                    return
            elif isinstance(groups, BaseException):
                raise groups
            else:
                listed += [group for group in groups if session.may(Operation.VIEW, group.group_id)]
        body = listing.list_answer(header.api_version, request, listed)
        reply.send(encode_reply(header.api_key, header.api_version, header.correlation_id, body))
