"""This room reads the coordinator's settings from the environment; `muster.kernel.settings` declares them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from coordinator.core.settings import GroupSettings
from muster.kernel.environment import Environment, SettingError
from muster.kernel.settings import DECLARED

Settings = TypeVar("Settings")
# The leases of this house keep to it: a number of the product, not of an installation.
NO_SETTINGS = frozenset({"lease_ttl_ms"})


@dataclass(frozen=True, slots=True)
class DoorLimits:
    """What a consumer may do to this node; each field is a setting, durations in milliseconds."""

    frames_per_second: int = 2_000
    registration_timeout_ms: int = 10_000
    connections: int = 10_000
    connections_per_principal: int = 10_000
    unanswered_commits: int = 1_000


@dataclass(frozen=True, slots=True)
class CoordinatorSettings:
    """All settings of the coordinator: the protocol's, the door's, and for how long offsets wait and stay."""

    group: GroupSettings = field(default_factory=GroupSettings)
    door: DoorLimits = field(default_factory=DoorLimits)
    offset_commit_interval_ms: int = 1_000
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000


def read_settings(given: Mapping[str, str] = os.environ) -> CoordinatorSettings:
    """The settings that `given` names, defaults for the rest. Raises SettingError for what cannot be used."""
    environment = Environment(given, DECLARED)
    group = _read(GroupSettings, environment, "MUSTER_")
    if group.group_min_session_timeout_ms > group.group_max_session_timeout_ms:
        raise SettingError(
            "MUSTER_GROUP_MIN_SESSION_TIMEOUT_MS is above MUSTER_GROUP_MAX_SESSION_TIMEOUT_MS."
        )
    return CoordinatorSettings(
        group=group,
        door=_read(DoorLimits, environment, "MUSTER_CONSUMER_DOOR_"),
        offset_commit_interval_ms=environment.number("MUSTER_OFFSET_COMMIT_INTERVAL_MS"),
        offsets_retention_minutes=environment.number("MUSTER_OFFSETS_RETENTION_MINUTES"),
        offsets_retention_check_interval_ms=environment.number("MUSTER_OFFSETS_RETENTION_CHECK_INTERVAL_MS"),
    )


def _read(kind: type[Settings], environment: Environment, prefix: str) -> Settings:
    names = [one.name for one in fields(kind) if one.name not in NO_SETTINGS]  # type: ignore[arg-type]
    told: dict[str, Any] = {name: environment.value(prefix + name.upper()) for name in names}
    return kind(**told)
