"""What the owner writes beside a turn is what pages tell from the journal: one fold says both."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from coordinator.core.draft import GroupDecision
from coordinator.history import History
from groups.core.state import GroupRows
from groups.history import Entry, rebalances
from muster.kernel.instants import Instant
from tests.unit.coordinator_core.group import Group

START = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)


class Journalled(Group):
    """A group whose turns are worded as its owner words them."""

    def __init__(self, mode: str) -> None:
        super().__init__(rows=GroupRows("readers", rebalance_mode=mode))
        self.history = History(self.rows)
        self.journal: list[Entry] = []
        self.summaries: list[dict[str, Any]] = []

    def turn(self, *events: Any) -> GroupDecision:
        decision = super().turn(*events)
        if decision.records:
            self.now = Instant(self.now + 10)
            words = self.history.entry(decision.records, decision.state, self.now)
            at = START + timedelta(milliseconds=self.now)
            self.journal.append(Entry(at, words.cause, msgspec.to_builtins(decision.records)))
            self.summaries.append(dict(words.summary))
        return decision


@pytest.mark.parametrize(("mode", "moved"), [("eager", 3), ("incremental", 3)])
def test_who_moved_and_how_long_it_took_is_the_same_in_both(mode: str, moved: int) -> None:
    group = Journalled(mode)
    group.settled("ann")
    group.settled("ben")
    settled = [one for one in group.summaries if one["event"] == "settled"]
    told = [one for one in reversed(rebalances(group.journal)) if not one.open]
    assert [(one["generation"], one["moved"], one["preparing_ms"], one["length_ms"]) for one in settled] == [
        (one.generation, one.moved, one.preparing_ms, one.length_ms) for one in told
    ]
    assert settled[-1]["moved"] == moved
