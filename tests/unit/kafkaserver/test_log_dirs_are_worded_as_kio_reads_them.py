"""DescribeLogDirs is written by hand: in each version it says what was described."""

import gc

import pytest

from kafkaserver.admin.log_dirs import DescribedFolder, DescribedLog, DescribedLogs, answer_log_dirs
from muster.kafkawire.api_table import SERVED, ApiKey, RequestHeader
from muster.kernel.error_codes import ErrorCode
from tests.unit.kafkaserver.kafka_requests import body_of

API = SERVED[ApiKey.DESCRIBE_LOG_DIRS]
LOGS = [DescribedLog("orders", 0, 2**40, 0), DescribedLog("clicks", 7, 0, 3), DescribedLog("orders", 1, 5, 9)]


def folder(version: int) -> DescribedFolder:
    logs = DescribedLogs(version)
    for one in LOGS:
        logs.add(one)
    return DescribedFolder("/data/ä", 10**12, -1, logs)


@pytest.mark.parametrize("version", range(API.minimum, API.maximum + 1))
def test_each_version_tells_of_each_log(version: int) -> None:
    header = RequestHeader(ApiKey.DESCRIBE_LOG_DIRS, version, 1, "test", 0)
    told = body_of(ApiKey.DESCRIBE_LOG_DIRS, version, answer_log_dirs(header, folder(version)))
    (one,) = told.results
    assert (one.log_dir, int(one.error_code)) == ("/data/ä", 0)
    logs = [
        (topic.name, log.partition_index, log.partition_size, log.offset_lag, log.is_future_key)
        for topic in one.topics
        for log in topic.partitions
    ]
    assert logs == [
        ("orders", 0, 2**40, 0, False),
        ("orders", 1, 5, 9, False),
        ("clicks", 7, 0, 3, False),
    ]
    if version >= 4:
        assert (one.total_bytes, one.usable_bytes) == (10**12, -1)


@pytest.mark.parametrize("version", range(API.minimum, API.maximum + 1))
def test_no_folder_is_no_result_and_says_why_where_it_can(version: int) -> None:
    header = RequestHeader(ApiKey.DESCRIBE_LOG_DIRS, version, 1, "test", 0)
    refused = answer_log_dirs(header, None, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    told = body_of(ApiKey.DESCRIBE_LOG_DIRS, version, refused)
    assert told.results == ()
    if version >= 3:
        assert int(told.error_code) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_no_object_is_kept_of_a_log_until_the_answer_is_worded() -> None:
    logs = DescribedLogs(API.maximum)
    gc.collect()
    before = len(gc.get_objects())
    for number in range(1_000):
        logs.add(DescribedLog("orders", number, number, 0))
    gc.collect()
    assert len(gc.get_objects()) - before < 100
