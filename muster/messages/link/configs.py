"""This room holds the wish for other configs of topics and brokers, and its answer."""

from enum import IntEnum, StrEnum

import msgspec

from muster.kernel.error_codes import ErrorCode


class ResourceType(IntEnum):
    """What has configs, by Kafka's numbers."""

    TOPIC = 2
    BROKER = 4


class Change(StrEnum):
    """What is done to one key."""

    SET = "set"
    DELETE = "delete"
    APPEND = "append"
    """Words are added to a list."""
    SUBTRACT = "subtract"


class ConfigChange(msgspec.Struct, frozen=True, array_like=True):
    """One key of one resource; a key that is deleted needs no value."""

    key: str
    change: Change
    value: str | None = None


class AlteredConfigs(msgspec.Struct, frozen=True, kw_only=True):
    """A topic by its name, a broker by its id, the whole cluster by "".

    `is_whole`: what is not named is unset. `expected_version`: the version of the row that was looked at;
    another one is a refusal. None: whatever it is.
    """

    type: int
    name: str
    changes: tuple[ConfigChange, ...]
    is_whole: bool = False
    expected_version: int | None = None


class AlterConfigs(msgspec.Struct, frozen=True, tag="AlterConfigs", tag_field="type", kw_only=True):
    """AlterConfigs and IncrementalAlterConfigs; each resource is judged by itself."""

    correlation_id: int = 0
    resources: tuple[AlteredConfigs, ...]
    validate_only: bool = False
    principal: str = ""


class ConfigResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one resource."""

    type: int
    name: str
    error: ErrorCode = ErrorCode.NONE
    text: str = ""
    version: int = 0
    """Of the row from now on; of an error it says nothing."""


class ConfigResults(msgspec.Struct, frozen=True, tag="ConfigResults", tag_field="type", kw_only=True):
    """Answers AlterConfigs, in the order of the request."""

    correlation_id: int = 0
    results: tuple[ConfigResult, ...]
