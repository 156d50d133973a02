"""A node tells Kafka's tools of a directory without logs, and takes none into it."""

import pytest

from muster.kafkawire.api_table import ApiKey, part, request_class
from muster.kernel.error_codes import ErrorCode
from tests.unit.gateway.doors import kafka_door


@pytest.mark.parametrize("version", [1, 2, 3, 4])
async def test_a_directory_is_told_so_that_tools_which_ask_everybody_go_on(version: int) -> None:
    async with kafka_door() as door:
        answer = await (await door.peer()).ask(ApiKey.DESCRIBE_LOG_DIRS, version, topics=None)
        assert [(int(one.error_code), one.topics) for one in answer.results] == [(0, ())]


@pytest.mark.parametrize("version", [1, 2])
async def test_no_log_is_moved_to_it(version: int) -> None:
    shape = request_class(ApiKey.ALTER_REPLICA_LOG_DIRS, version)
    topics = (part(shape, "AlterReplicaLogDirTopic")(name="orders", partitions=(0, 1)),)
    dirs = (part(shape, "AlterReplicaLogDir")(path="/data", topics=topics),)
    async with kafka_door() as door:
        answer = await (await door.peer()).ask(ApiKey.ALTER_REPLICA_LOG_DIRS, version, dirs=dirs)
        (told,) = answer.results
        assert [int(one.error_code) for one in told.partitions] == [ErrorCode.LOG_DIR_NOT_FOUND] * 2
