"""This room knows the assignors by the names that a group's row may hold."""

from collections.abc import Mapping

from coordinator.core.assignors import co_partitioned, range_by_topic, round_robin, sticky
from coordinator.core.assignors.interface import Assignor

ASSIGNORS: Mapping[str, Assignor] = {
    "sticky": sticky.assign,
    "range": range_by_topic.assign,
    "roundrobin": round_robin.assign,
    "copartitioned": co_partitioned.assign,
}

DEFAULT_ASSIGNOR = "sticky"
