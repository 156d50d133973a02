"""This room holds the numbers that rule a group's protocol, and what its owner knows of the cluster."""

from collections.abc import Callable
from dataclasses import dataclass

from muster.messages.member import BrokerInfo, NodeInfo


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Each field is a setting of the same name with dots (000 chapter 4); durations in milliseconds.

    `on_exhausted`: after `rebalance_max_retries` unanswered commands, `expel` cuts off the member
    that does not answer; `fail` gives up the rebalance, as 000 chapter 9 does.
    """

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 10_000
    group_max_metadata_bytes: int = 67_108_864
    group_initial_rebalance_delay_ms: int = 3_000
    lease_ttl_ms: int = 5_000
    ping_max_retries: int = 0
    rebalance_max_retries: int = 4
    rebalance_backoff_ms: int = 200
    on_exhausted: str = "expel"


def _no_pattern_matches(pattern: str, topic: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What members are told of the cluster, and how a pattern is matched (RE2 is the shell's)."""

    nodes: tuple[NodeInfo, ...] = ()
    brokers: tuple[BrokerInfo, ...] = ()
    matches: Callable[[str, str], bool] = _no_pattern_matches
