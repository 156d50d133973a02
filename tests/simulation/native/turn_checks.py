"""This room watches turns of either protocol: journal and rows (S3, S11, S15), requests, quarantines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from groups.core import records
from groups.core.classic import CLASSIC
from groups.core.requests import Verdict
from groups.core.rows import apply
from groups.core.state import GroupRows

if TYPE_CHECKING:
    from tests.simulation.native.cluster import Cluster
    from tests.simulation.native.node import Node

CLOCKS_APART = 0.99
"""Clocks run at most a third of a percent fast or slow."""

LEAPS_MS = 300
"""Of a leap of its clock a node gives back all but what had passed of a tick."""

_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(tuple[records.GroupRecord, ...]).decode


class TurnChecks:
    """What turns wrote so far. `requests` are those that were decided, by id."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.world = cluster, cluster.world
        self.folded = self.world.rows.rows
        self.requests: dict[str, records.RequestDecided] = {}
        self.deletions = 0
        self._kept_out_since: dict[str, float] = {}

    def run_ended(self, run: str) -> None:
        """Who is ended while its session is there answers nothing any more (leases.md section 5)."""
        node = next((one for one in self.cluster.nodes if one.status == "up" and one.keeper.run == run), None)
        if node is None or not self.world.rows.there(self.world.rows.tables["session"][run].backend):
            return
        self.world.forbid(not node.frozen, f"{node.name} was ended, and is neither gone nor frozen")

    def committed(self, node: Node, turn: Sequence[Any], before: GroupRows, rows: GroupRows) -> None:
        """A turn is durable."""
        generation = before.generation
        for record in turn:
            match record:
                case records.GenerationOpened() | records.GenerationSkipped():
                    self.world.forbid(record.generation != generation + 1, "a generation was left out")
                    generation = record.generation
                case records.MemberQuarantined():
                    self._kept_out_since[record.member_id] = self.world.now
                case records.QuarantineEnded():
                    self._quarantine_ended(record, before, turn)
                case records.RequestDecided():
                    self._request_decided(record, before, rows, turn)
                case records.OffsetsSet():
                    # Requests come last in a turn: who left in it is gone by then.
                    members = rows.members or (rows.classic.members if rows.classic else ())
                    self.world.forbid(members, "offsets were set under members that commit over them")
                case records.GroupDeleted():
                    self.deletions += 1
                    self._kept_out_since.clear()
        classic = rows.classic
        self.world.forbid((classic is None) != (rows.protocol != CLASSIC), "a group is in two worlds")
        self.world.forbid(classic and (rows.members or rows.owned), "a classic group has native members")
        self._fold(turn, rows)

    def _fold(self, turn: Sequence[Any], rows: GroupRows) -> None:
        """The journal tells what is stored (S11); offsets in batches are told by nobody but the rows."""
        if isinstance(turn[-1], records.GroupDeleted):
            self.folded = rows
            return
        self.folded = apply(self.folded, _decode(_encode(turn)))
        self.world.forbid(self.folded != rows, "the journal tells of another group than is stored")

    def batch(self, rows: GroupRows) -> None:
        """A batch raises no version and tells no record."""
        self.folded = rows

    def _quarantine_ended(
        self, record: records.QuarantineEnded, before: GroupRows, turn: Sequence[Any]
    ) -> None:
        asked = {one.asked for one in turn if isinstance(one, records.RequestDecided)}
        kept = before.quarantined.get(record.member_id)
        since = self._kept_out_since.pop(record.member_id, None)
        if "lift_quarantine" in asked or kept is None or since is None:
            return
        lasted = self.world.now - since
        self.world.forbid(
            lasted < kept.length_ms * CLOCKS_APART - LEAPS_MS,
            f"{record.member_id} was kept out for {lasted:.0f} ms of {kept.length_ms}",
        )

    def _request_decided(
        self, record: records.RequestDecided, before: GroupRows, rows: GroupRows, turn: Sequence[Any]
    ) -> None:
        """Each request is answered once, and what it is told is so."""
        name, answer = record.request_id, record.answer
        self.world.forbid(name in self.requests, f"request {name} was decided twice")
        self.requests[name] = record
        self.world.tell(f"        request {record.asked}: {answer.verdict} {answer.text}")
        if answer.verdict is not Verdict.DONE:
            return
        asked = self.cluster.operators.asked[name]
        self.world.forbid(asked.dry_run, f"a dry run of {record.asked} was carried out")
        as_expected = asked.expected in (None, before.key)
        self.world.forbid(not as_expected, f"{record.asked} was carried out on another version")
        ended = isinstance(turn[-1], records.GroupDeleted)
        if record.asked == "delete_group":
            self.world.forbid(not ended, "a group was not deleted that was said to be")
        for change in answer.changes:
            stored = {(one.topic_id, one.number): offset for one, offset in rows.offsets.items()}
            at = stored.get((change.topic_id, change.partition), -1)
            later = sum(isinstance(one, records.RequestDecided) for one in turn) > 1 or ended
            self.world.forbid(at != change.after and not later, f"request {name} is told of other offsets")
