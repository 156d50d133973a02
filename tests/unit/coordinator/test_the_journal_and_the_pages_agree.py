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
from tests.unit.classic_core.group import ClassicGroup
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


class JournalledClassic(ClassicGroup):
    """The same for a classic group; each turn takes a while."""

    def __init__(self) -> None:
        self.history = History(GroupRows("billing"))
        self.journal: list[Entry] = []
        self.summaries: list[dict[str, Any]] = []
        super().__init__()

    def turn(self, *events: Any) -> GroupDecision:
        decision = super().turn(*events)
        if decision.records:
            self.now = Instant(self.now + 10)
            words = self.history.entry(decision.records, decision.state, self.now)
            at = START + timedelta(milliseconds=self.now)
            self.journal.append(Entry(at, words.cause, msgspec.to_builtins(decision.records)))
            self.summaries.append(dict(words.summary))
        return decision


def test_the_rebalances_of_kafka_clients_are_told_with_cause_and_length() -> None:
    group = JournalledClassic()
    [ann] = group.stable("ann")
    group.join(client="ben")
    [ben] = [one for one in group.members if one != ann]
    group.join(ann)
    group.sync(ben)
    group.sync(group.leader, {ann: b"1"})
    group.leave(ben)
    # Whoever is alone ends the join phase in the turn that begins it.
    group.join(ann)
    group.sync(ann, {ann: b"2"})
    settled = [one for one in group.summaries if one["event"] == "settled"]
    told = [one for one in reversed(rebalances(group.journal)) if not one.open]
    assert [(one["generation"], one["preparing_ms"], one["length_ms"]) for one in settled] == [
        (one.generation, one.preparing_ms, one.length_ms) for one in told
    ]
    assert [(one.cause, one.detail, one.members) for one in told] == [
        ("member joined", ann, 1),
        ("member joined", ben, 2),
        ("member left", ben, 1),
    ]
    assert [one["members"] for one in settled] == [1, 2, 1]
    assert not any(one.failed for one in told)


def test_a_turn_of_kafka_clients_is_told_in_words() -> None:
    group = JournalledClassic()
    [ann] = group.stable("ann", instance="i-ann")
    group.join(instance="i-ann", client="ann")
    group.wait(group.settings.group_min_session_timeout_ms * 10)
    told = [entry.cause for entry in group.journal]
    assert told[0].startswith(f"rebalance closed: member joined {ann}; from now on a group of Kafka clients")
    assert f"{ann} leads, range; {ann} joined" in told[0]
    assert told[1] == f"rebalance settled: member joined {ann}"
    assert told[2].startswith("static member i-ann came back as i-ann-")
    assert told[-1].endswith("session over")
