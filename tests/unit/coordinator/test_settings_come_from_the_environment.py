"""The numbers of groups and of the consumers' door are settings, with the defaults of the rules."""

import pytest

from coordinator.core.settings import GroupSettings
from coordinator.settings import CoordinatorSettings, DoorLimits, read_settings
from muster.kernel.environment import SettingError


def test_what_nobody_says_is_as_the_rules_have_it() -> None:
    assert read_settings({}) == CoordinatorSettings(GroupSettings(), DoorLimits())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MUSTER_ON_EXHAUSTED", "expell"),
        ("MUSTER_GROUP_MIN_SESSION_TIMEOUT_MS", "-5"),
        ("MUSTER_GROUP_MAX_SIZE", "many"),
        ("MUSTER_CONSUMER_DOOR_CONNECTIONS", "0"),
        ("MUSTER_GROUP_MIN_SESSION_TIMEOUT_MS", "1800001"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(SettingError, match=name):
        read_settings({name: value})


def test_the_length_of_a_lease_is_no_setting() -> None:
    """The leases themselves would not follow it."""
    assert read_settings({"MUSTER_LEASE_TTL_MS": "60000"}).group.lease_ttl_ms == GroupSettings().lease_ttl_ms
