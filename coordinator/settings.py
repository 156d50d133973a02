"""This room reads the coordinator's settings from the environment.

A setting's variable is its key in capitals: `group.max.size` is MUSTER_GROUP_MAX_SIZE.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from coordinator.core.settings import GroupSettings

Settings = TypeVar("Settings")


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
    """All settings of the coordinator: the protocol's, the door's, and the committer's interval."""

    group: GroupSettings = field(default_factory=GroupSettings)
    door: DoorLimits = field(default_factory=DoorLimits)
    offset_commit_interval_ms: int = 1_000


def read_settings(environment: Mapping[str, str] = os.environ) -> CoordinatorSettings:
    """The settings that `environment` names, defaults for the rest; ValueError for a number that is none."""
    interval = environment.get("MUSTER_OFFSET_COMMIT_INTERVAL_MS")
    return CoordinatorSettings(
        group=_read(GroupSettings, environment, "MUSTER_"),
        door=_read(DoorLimits, environment, "MUSTER_CONSUMER_DOOR_"),
        offset_commit_interval_ms=int(interval) if interval else 1_000,
    )


def _read(kind: type[Settings], environment: Mapping[str, str], prefix: str) -> Settings:
    given: dict[str, Any] = {}
    for one in fields(kind):  # type: ignore[arg-type]
        text = environment.get(prefix + one.name.upper())
        if text:
            given[one.name] = text if one.type in (str, "str") else int(text)
    return kind(**given)
