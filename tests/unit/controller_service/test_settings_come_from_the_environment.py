"""The numbers that the controller decides with are settings, with the defaults of the rules."""

import pytest

from controller.configuration import ServiceSettings, from_environment
from muster.kernel.environment import SettingError


def test_what_nobody_says_is_as_the_rules_have_it() -> None:
    assert from_environment({}) == ServiceSettings()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MUSTER_BROKER_SESSION_TIMEOUT_MS", "-5"),
        ("MUSTER_NUM_PARTITIONS", "0"),
        ("MUSTER_UNCLEAN_LEADER_ELECTION_ENABLE", "maybe"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(SettingError, match=name):
        from_environment({name: value})
