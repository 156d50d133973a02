"""SPEED and FLIGHTS are numbers that a replay can use, or are refused by name."""

import pytest
from django.core.management.base import CommandError

from standalone.management.commands.demo import wanted


@pytest.mark.parametrize("text", ["fast", "nan", "inf", "-1", "0.001"])
def test_what_is_no_speed_is_refused_by_name(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPEED", text)
    with pytest.raises(CommandError, match=f"SPEED={text} does not work"):
        wanted("SPEED", 8.0, 0.01)


@pytest.mark.parametrize(("text", "number"), [("", 8.0), ("20", 20.0), (" 1e9 ", 1e9)])
def test_everything_else_is_taken(text: str, number: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPEED", text)
    assert wanted("SPEED", 8.0, 0.01) == number
