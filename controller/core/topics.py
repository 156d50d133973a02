"""This room judges CreateTopics: names, counts, assignments and configs (conformance lines 199 to 204)."""

import re
from collections.abc import Mapping
from typing import Final

from controller.core.settings import ControllerSettings
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.from_broker import NewTopic

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION: Final = "unclean.leader.election.enable"


class Refused(Exception):
    """One topic of a request is refused; the others go on."""

    def __init__(self, error: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.error = error
        self.text = text


def check_name(name: str) -> None:
    """Raise Refused unless `name` can name a topic."""
    if name in (".", "..") or not _NAME.fullmatch(name):
        raise Refused(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "a topic's name has 1 to 249 letters, digits, '.', '_' and '-', and is neither . nor ..",
        )


def check_configs(configs: Mapping[str, str | None]) -> dict[str, str]:
    """The configs as they are stored; raises Refused for one that Muster does not act on."""
    kept = {}
    for key, value in configs.items():
        reads = _CONFIGS.get(key)
        if reads is None:
            raise Refused(ErrorCode.INVALID_CONFIG, f"{key} is not a config of a topic here")
        if value is None or not re.fullmatch(reads, value):
            raise Refused(ErrorCode.INVALID_CONFIG, f"{value!r} is no value of {key}")
        kept[key] = value
    return kept


_CONFIGS: Final[Mapping[str, str]] = {
    MIN_INSYNC_REPLICAS: r"[1-9][0-9]{0,3}",
    UNCLEAN_LEADER_ELECTION: r"true|false",
    "cleanup.policy": r"delete",
    "compression.type": r"producer",
    "retention.ms": r"-1|[0-9]{1,18}",
    "retention.bytes": r"-1|[0-9]{1,18}",
    "segment.bytes": r"[1-9][0-9]{1,9}",
    "max.message.bytes": r"[0-9]{1,9}",
}
"""What brokers act on: nothing is compacted or compressed anew, so nothing else is promised."""


def counts(wanted: NewTopic, live_count: int, settings: ControllerSettings) -> tuple[int, int]:
    """Partition count and replication factor of an automatic placement; raises Refused."""
    partitions = settings.default_partition_count if wanted.partition_count == -1 else wanted.partition_count
    factor = (
        settings.default_replication_factor if wanted.replication_factor == -1 else wanted.replication_factor
    )
    if partitions < 1:
        raise Refused(ErrorCode.INVALID_PARTITIONS, "a topic has at least one partition")
    if factor < 1:
        raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, "a partition has at least one replica")
    if factor > live_count:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{factor} replicas need as many live brokers, and there are {live_count}",
        )
    return partitions, factor


def check_assignments(
    wanted: NewTopic, registered: Mapping[int, object], live: set[int]
) -> list[tuple[int, ...]]:
    """The explicit assignments in order of partition; raises Refused."""
    if wanted.partition_count != -1 or wanted.replication_factor != -1:
        raise Refused(ErrorCode.INVALID_REQUEST, "assignments exclude a partition count and a factor")
    if sorted(wanted.assignments) != list(range(len(wanted.assignments))):
        raise _bad_assignment("partitions are not numbered from 0 without a gap")
    assignments = [wanted.assignments[number] for number in range(len(wanted.assignments))]
    for assigned in assignments:
        if not assigned or len(set(assigned)) != len(assigned) or len(assigned) != len(assignments[0]):
            raise _bad_assignment("each partition needs the same number of different brokers")
        if any(broker_id not in registered for broker_id in assigned):
            raise _bad_assignment("a broker is not registered")
        if live.isdisjoint(assigned):
            raise _bad_assignment("all brokers of a partition are away")
    return assignments


def _bad_assignment(text: str) -> Refused:
    return Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
