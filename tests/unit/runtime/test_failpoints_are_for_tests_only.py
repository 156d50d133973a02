"""Named failpoints act only when MUSTER_TEST=1, at the passing that was asked for."""

import signal

import pytest

from runtime.failpoints import Failpoints, UnknownAction


def armed(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> tuple[Failpoints, list[int]]:
    signals: list[int] = []
    monkeypatch.setattr(signal, "pthread_kill", lambda thread, number: signals.append(number))
    return Failpoints(environment), signals


def test_without_the_test_flag_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    failpoints, signals = armed(monkeypatch, {"MUSTER_FAILPOINTS": "turn.fenced=exit"})
    failpoints.passing("turn.fenced")
    assert signals == []


def test_the_named_passing_acts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"MUSTER_TEST": "1", "MUSTER_FAILPOINTS": "turn.fenced=stop@2; turn.written=exit"}
    failpoints, signals = armed(monkeypatch, environment)
    for _ in range(3):
        failpoints.passing("turn.fenced")
    failpoints.passing("turn.written")
    failpoints.passing("turn.begin")
    assert signals == [signal.SIGSTOP, signal.SIGKILL]


def test_an_unknown_action_is_refused() -> None:
    with pytest.raises(UnknownAction):
        Failpoints({"MUSTER_TEST": "1", "MUSTER_FAILPOINTS": "turn.fenced=sleep"})
