"""This room reads the controller's settings from the environment: MUSTER_ and Kafka's key in capitals."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.core.settings import ControllerSettings

_NUMBERS = {
    "broker.session.timeout.ms": "broker_session_timeout_ms",
    "broker.closed.link.timeout.ms": "closed_link_timeout_ms",
    "num.partitions": "default_partition_count",
    "default.replication.factor": "default_replication_factor",
    "min.insync.replicas": "default_min_insync_replicas",
}
_ACK_TIMEOUT = "controller.ack.timeout.ms"
_UNCLEAN = "unclean.leader.election.enable"


class SettingError(Exception):
    """A setting cannot be used; the text names its variable."""


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """What the core decides with, and how long a broker may be behind before its link is renewed."""

    core: ControllerSettings = field(default_factory=ControllerSettings)
    ack_timeout_ms: int = 30_000


def from_environment(environment: Mapping[str, str] = os.environ) -> ServiceSettings:
    """Read the settings; what is not set keeps its default. Raises SettingError."""
    given = {name: _number(key, environment) for key, name in _NUMBERS.items() if _name(key) in environment}
    unclean = environment.get(_name(_UNCLEAN), "false").strip().lower()
    if unclean not in ("true", "false"):
        raise SettingError(f"{_name(_UNCLEAN)}={unclean!r} is neither true nor false.")
    core = ControllerSettings(**given, default_unclean_leader_election=unclean == "true")
    if _name(_ACK_TIMEOUT) not in environment:
        return ServiceSettings(core)
    return ServiceSettings(core, _number(_ACK_TIMEOUT, environment))


def _name(key: str) -> str:
    return "MUSTER_" + key.upper().replace(".", "_")


def _number(key: str, environment: Mapping[str, str]) -> int:
    text = environment[_name(key)].strip()
    if not text.isdecimal() or int(text) < 1:
        raise SettingError(f"{_name(key)}={text!r} is not a whole number above 0.")
    return int(text)
