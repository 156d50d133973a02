"""This room knows the assignors by the names that a group's row may hold."""

from collections.abc import Mapping

from coordinator.core.assignors import (
    co_partitioned,
    rack_aware,
    range_by_topic,
    redundant,
    round_robin,
    sticky,
)
from coordinator.core.assignors.interface import Assignor

ASSIGNORS: Mapping[str, Assignor] = {
    "sticky": sticky.assign,
    "range": range_by_topic.assign,
    "roundrobin": round_robin.assign,
    "copartitioned": co_partitioned.assign,
    "rackaware": rack_aware.assign,
    "redundant": redundant.assign,
}

DEFAULT_ASSIGNOR = "sticky"
