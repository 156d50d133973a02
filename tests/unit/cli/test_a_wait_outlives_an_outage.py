"""Whoever waits for an end bears that nobody answers for a while, and is told that it goes on."""

from io import StringIO

import pytest

from muster.cli import asking
from muster.cli.failures import ExitCode, Failure
from muster.cli.places import Wanted
from muster.cli.screen import Output, Screen
from muster.cli.session import Session


@pytest.fixture
def session() -> Session:
    """Somebody who looks at the notes only."""
    return Session(Screen(Output.TABLE, False, StringIO(), StringIO()), Wanted(), 1.0)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "LOOK_S", 0.0)


def test_an_outage_ends_no_wait(session: Session) -> None:
    away = Failure(ExitCode.UNREACHABLE, "Nobody answers.")
    looks: list[tuple[str, bool] | Failure] = [("Running.", False), away, away, ("Done.", True)]
    found = iter(looks)

    def look() -> tuple[str, bool]:
        one = next(found)
        if isinstance(one, Failure):
            raise one
        return one

    asking.follow(session, look, "Plan 7", "muster plans show 7")
    assert next(found, None) is None


@pytest.mark.parametrize("code", [ExitCode.UNREACHABLE, ExitCode.NOT_ALLOWED])
def test_who_waits_no_more_is_told_that_it_goes_on(
    session: Session, code: ExitCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "PATIENCE_S", 0.0)

    def look() -> tuple[str, bool]:
        raise Failure(code, "No answer.", "Ask again.")

    with pytest.raises(Failure) as ended:
        asking.follow(session, look, "Plan 7", "muster plans show 7")
    assert ended.value.code is code
    assert ended.value.advice == "Ask again. Plan 7 may go on all the same. Look at it: muster plans show 7"
