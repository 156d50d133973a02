"""This room starts consumers as processes, and checks what they wrote down: what must hold after any kill."""

import json
import os
import signal
import sys
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from standalone.children import end, launch
from tests.integration.coordinator.control_plane import ControlPlane, Process
from tests.integration.sdk.brokers import LoneBroker
from tests.tidy.sources import ROOT


class Fact(NamedTuple):
    """One line of a consumer's evidence."""

    at: int
    consumer: str
    what: str
    partition: int
    offset: int
    tenure: int
    value: str
    lost: tuple[int, ...] = ()


class ConsumerProcess(Process):
    """A consumer in a process of its own (tests.integration.sdk.consuming)."""

    def __init__(
        self,
        plane: ControlPlane,
        topic: LoneBroker,
        group: str,
        consumer_id: str,
        folder: Path,
        session_timeout_ms: int,
    ) -> None:
        self.consumer_id = consumer_id
        self._evidence = folder / f"{consumer_id}.evidence"
        self._hold = folder / f"{consumer_id}.evidence.hold"
        log = folder / f"{consumer_id}.log"
        words: dict[str, Any] = {
            "group": group,
            "topic": topic.topic,
            "consumer-id": consumer_id,
            "nodes": ",".join(plane.addresses.values()),
            "evidence": self._evidence,
            "session-timeout-ms": session_timeout_ms,
        }
        command = [sys.executable, "-m", "tests.integration.sdk.consuming"]
        command += [f"--{name}={word}" for name, word in words.items()]
        environment = {**os.environ, "MUSTER_TOKEN": plane.token(), "PYTHONPATH": str(ROOT)}
        super().__init__(consumer_id, launch(command, folder=ROOT, log=log, environment=environment), log)

    def facts(self, what: str = "") -> list[Fact]:
        """What it wrote down so far, of this kind."""
        if not self._evidence.exists():
            return []
        whole, _, _ = self._evidence.read_text().rpartition("\n")
        facts = [json.loads(line) for line in whole.splitlines()]
        return [
            Fact(consumer=self.consumer_id, **{**fact, "lost": tuple(fact.get("lost", ()))})
            for fact in facts
            if what in ("", fact["what"])
        ]

    def hold(self) -> None:
        """Keep the next record in hand."""
        self._hold.touch()

    def release(self) -> None:
        """Commit the record in hand, and go on."""
        self._hold.unlink()

    def stop(self) -> None:
        """End it, however it is."""
        if not self.ended:
            self.resume()
            end(self.popen, signal.SIGKILL)


def consumed(consumers: Iterable[ConsumerProcess]) -> set[str]:
    """The values that somebody consumed."""
    return {fact.value for one in consumers for fact in one.facts("consumed")}


def check(consumers: Iterable[ConsumerProcess]) -> None:
    """Order within each tenure, and acknowledged commits that never go back, whoever was killed."""
    everything = sorted(fact for one in consumers for fact in one.facts())
    offsets: dict[tuple[str, int, int], list[int]] = {}
    acknowledged: dict[int, list[int]] = {}
    for fact in everything:
        if fact.what == "consumed":
            offsets.setdefault((fact.consumer, fact.partition, fact.tenure), []).append(fact.offset)
        elif fact.what == "committed":
            acknowledged.setdefault(fact.partition, []).append(fact.offset)
    for tenure, found in offsets.items():
        assert all(later == earlier + 1 for earlier, later in pairwise(found)), f"{tenure}: {found}"
    for partition, found in acknowledged.items():
        assert found == sorted(set(found)), f"commits of partition {partition} went back or twice: {found}"


def watch_commits(plane: ControlPlane) -> None:
    """Let the database note each committed offset that becomes lower than it was."""
    plane.execute(
        "CREATE TABLE IF NOT EXISTS commit_gone_back"
        " (group_name text, partition int, before int8, after int8)"
    )
    plane.execute(
        "CREATE OR REPLACE FUNCTION note_commit_gone_back() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO commit_gone_back VALUES"
        " (NEW.group_name, NEW.partition, OLD.committed_offset, NEW.committed_offset); RETURN NULL; END $$"
    )
    plane.execute(
        "CREATE OR REPLACE TRIGGER commit_gone_back AFTER UPDATE ON committed_offset FOR EACH ROW"
        " WHEN (NEW.committed_offset < OLD.committed_offset) EXECUTE FUNCTION note_commit_gone_back()"
    )


def commits_gone_back(plane: ControlPlane, group: str) -> list[tuple[object, ...]]:
    """Committed offsets of the group that became lower: partition, before, after."""
    return plane.query(
        "SELECT partition, before, after FROM commit_gone_back WHERE group_name = %s ORDER BY 1, 2", group
    )
