"""SPEED is a number that a replay can use, or is refused by name."""

import pytest

from muster.kernel.environment import SettingError
from standalone.management.commands.demo import speed


@pytest.mark.parametrize("text", ["fast", "nan", "inf", "-1", "0.001"])
def test_what_is_no_speed_is_refused_by_name(text: str) -> None:
    with pytest.raises(SettingError, match=f"SPEED={text} does not work"):
        speed(text)


@pytest.mark.parametrize(("text", "number"), [("20", 20.0), ("1e9", 1e9)])
def test_everything_else_is_taken(text: str, number: float) -> None:
    assert speed(text) == number
