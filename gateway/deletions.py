"""This room answers what removes: DeleteGroups, OffsetDelete."""

import asyncio
from typing import Any, Final

from access.grants import Operation
from gateway.asking import KnownTopics, Shards, batched, refused_group
from gateway.session import KafkaSession
from gateway.translation import deleting
from kafkaserver.callers import caller_of
from kafkaserver.later import Later
from kafkaserver.refusals import refuse
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import RequestHeader, frame_reply, read_request
from muster.kernel.error_codes import ErrorCode
from muster.messages.partitions import Partition

AT_ONCE: Final = 2_000
"""Groups of one request that are deleted together: each shard's share is one transaction, and whoever else
has a turn of the shard waits behind it.
"""

BEGUN_AT_ONCE: Final = 100
"""Of these, in one round of the loop."""


class DeletionHandlers:
    """Serves what removes groups of this node, or their offsets."""

    def __init__(self, shards: Shards, cluster: KnownTopics, later: Later) -> None:
        self._shards = shards
        self._cluster = cluster
        self._later = later

    def delete_groups(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """DeleteGroups; a group that is named twice is answered once. Raises MalformedFrame."""
        request = read_request(header, frame)
        names = list(dict.fromkeys(request.groups_names))
        self._later.start(reply, self._delete_groups(header, names, reply), len(names))

    async def _delete_groups(self, header: RequestHeader, names: list[str], reply: Reply) -> None:
        errors: list[ErrorCode] = []
        for some in batched(names, AT_ONCE):
            deleting_them: list[asyncio.Task[ErrorCode]] = []
            async with asyncio.TaskGroup() as tasks:
                for few in batched(some, BEGUN_AT_ONCE):
                    deleting_them += [
                        tasks.create_task(self._delete_group(reply.session, name)) for name in few
                    ]
                    await self._later.turn()
            errors += [task.result() for task in deleting_them]
        body = deleting.deleted_groups(header.api_version, dict(zip(names, errors, strict=True)))
        reply.send(frame_reply(header.api_key, header.api_version, header.correlation_id, body))

    async def _delete_group(self, session: KafkaSession, name: str) -> ErrorCode:
        refused = refused_group(session, name, Operation.OPERATE)
        return await self._shards.of(name).delete_group(name) if refused is None else refused

    def delete_offsets(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """OffsetDelete. Raises MalformedFrame."""
        request = read_request(header, frame)
        refused = refused_group(reply.session, request.group_id, Operation.OPERATE)
        if refused is not None:
            reply.send(refuse(header, request, refused))
            return
        self._later.start(reply, self._delete_offsets(header, request, reply))

    async def _delete_offsets(self, header: RequestHeader, request: Any, reply: Reply) -> None:
        # What it does not know yet is told as unknown.
        await self._cluster.catch_up()
        named = deleting.named_partitions(request, self._cluster.topics, caller_of(reply).may_describe)
        partitions = [one for one in named.values() if isinstance(one, Partition)]
        outcome = await self._shards.of(request.group_id).delete_offsets(request.group_id, partitions)
        if isinstance(outcome, ErrorCode):
            reply.send(refuse(header, request, outcome))
            return
        body = deleting.deleted_offsets(header.api_version, named, outcome)
        reply.send(frame_reply(header.api_key, header.api_version, header.correlation_id, body))
