"""This room keeps every change of what the group has committed, and watches who made it (S4, S6 to S10).

Each offset that a client commits is another number, so that what is stored tells whose commit it was.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coordinator.classic_commits import Committed
from coordinator.commits import Commit
from coordinator.core.events import ConnectionId, GroupDeletion, OffsetDeletion, TopicsDeleted
from coordinator.core.offsets import NO_OFFSET, Judgement
from coordinator.store_offsets import GroupOffsets, StoredOffset
from groups.core import records
from groups.core.classic import CLASSIC
from groups.core.consumer_protocol import subscribed_topics
from groups.core.phases import Phase
from groups.core.requests import GroupRequest
from groups.core.state import NO_NOTE, GroupRows, OffsetNote
from muster.kernel.error_codes import ErrorCode
from muster.messages.partitions import Partition, each_partition, each_position
from tests.simulation.native.aged import RETENTION_MS, database_ms

if TYPE_CHECKING:
    from tests.simulation.classic.cluster import Cluster
    from tests.simulation.classic.seat import Seat
    from tests.simulation.native.node import Node

Stored = tuple[int, OffsetNote]
NOTHING: Stored = (NO_OFFSET, NO_NOTE)
MAY_BE_STORED = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
"""After these nobody knows what became of a commit."""

ANSWERED_MS = 3_000

ASKED_FOR = GroupRequest | OffsetDeletion | GroupDeletion


@dataclass(eq=False)
class Claim:
    """One offset that somebody asked to commit, and with what identity."""

    text: str
    partition: Partition
    offset: int
    number: int
    connection: ConnectionId
    member_id: str
    instance: str | None
    generation: int
    note: OffsetNote
    writes: int
    """How often its partition had been written when it was asked."""
    queued: int = 0
    """Its place among all that was to be judged, at whatever node; 0: its caller's turn was to come first."""
    written: bool = False
    refused: bool = False


class Ledger:
    """What was stored, change by change, beside what was asked, answered and read."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.world = cluster, cluster.world
        self.acknowledged = 0
        self._history: dict[Partition, list[Stored]] = defaultdict(lambda: [NOTHING])
        self._claims: dict[tuple[Partition, int], list[Claim]] = defaultdict(list)
        self._newest: dict[tuple[ConnectionId, Partition], int] = {}
        self._written: dict[Partition, int] = {}
        self._writers: dict[Partition, list[ConnectionId]] = defaultdict(list)
        self._numbers = self._queued = 0
        self._acknowledged: dict[Partition, int] = {}
        self._handed_in: dict[Commit, list[Claim]] = {}
        self._open: dict[int, tuple[Seat, float, list[Claim]]] = {}
        self._committed_at: dict[Partition, float] = {}
        self._phase_at = 0.0

    # -- what clients ask and hear ----------------------------------------------------------

    def asked(
        self,
        seat: Seat,
        member_id: str,
        instance: str | None,
        generation: int,
        positions: Mapping[Partition, Committed],
    ) -> list[Claim]:
        """A commit reached a node."""
        self._numbers += 1
        claims = []
        for partition, one in positions.items():
            note = OffsetNote(one.leader_epoch, one.metadata)
            claim = Claim(
                f"{one.offset} of {partition}",
                partition,
                one.offset,
                self._numbers,
                seat.id,
                member_id,
                instance,
                generation,
                note,
                len(self._writers[partition]),
            )
            self._claims[partition, one.offset].append(claim)
            claims.append(claim)
        self._open[self._numbers] = seat, self.world.now, claims
        return claims

    def handed_in(self, commit: Commit, claims: list[Claim]) -> None:
        """It is in its caller's order."""
        self._handed_in[commit] = claims

    def queued(self, commit: Commit) -> None:
        """It is to be judged behind all that other connections have had queued."""
        self._queued += 1
        for claim in self._handed_in.pop(commit, ()):
            claim.queued = self._queued

    def answered(self, claims: Iterable[Claim], judgement: Judgement) -> None:
        """A node is about to answer it: what it says is durable is, what it refuses never will be."""
        for claim in claims:
            self._open.pop(claim.number, None)
            if judgement.error is ErrorCode.NONE:
                self.acknowledged += 1
                newest = max(self._acknowledged.get(claim.partition, 0), claim.queued)
                self._acknowledged[claim.partition] = newest
                overtaken = claim.number < self._written.get(claim.partition, 0) or self._was_beside(claim)
                self.world.forbid(
                    not claim.written and not overtaken, f"{claim.text} is acknowledged and not stored"
                )
            elif judgement.error not in MAY_BE_STORED:
                claim.refused = True
                same = [one for one in self._claims[claim.partition, claim.offset] if one is not claim]
                is_told = any(one.written and not one.refused for one in same)
                # Asked twice, it may have been stored by the other one.
                self.world.forbid(claim.written and not is_told, f"{claim.text} is refused and stored")

    def _was_beside(self, claim: Claim) -> bool:
        """Another connection's commit was written meanwhile: between two of them there is no order."""
        return any(one != claim.connection for one in self._writers[claim.partition][claim.writes :])

    def unanswered(self) -> list[str]:
        """Commits that nobody answered for a while, at nodes that are there."""
        until = self.world.now - ANSWERED_MS
        late = [claims for seat, at, claims in self._open.values() if at < until and not seat.node.loop.over]
        return [claim.text for claims in late for claim in claims]

    def now(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        """How long the histories are at this moment."""
        return {one: len(self._history[one]) for one in partitions}

    def fetched(
        self, asked_at: Mapping[Partition, int], found: Mapping[Partition, tuple[int, OffsetNote]]
    ) -> None:
        """A node tells what is committed: as it was at some moment since it was asked, never as before."""
        for partition, stored in found.items():
            since = self._history[partition][asked_at[partition] - 1 :]
            self.world.forbid(
                stored not in since, f"of {partition} {stored} is told, which was not so since it was asked"
            )

    # -- what is stored ---------------------------------------------------------------------

    def batch(self, written: GroupOffsets, rows: GroupRows) -> None:
        """A batch is durable; the rows are those that it was judged on."""
        for (_, partition), both in written.items():
            offset, note = _parts(both)
            claims = [one for one in self._claims[partition, offset] if not one.refused]
            self.world.forbid(not claims, f"{offset} of {partition} is stored, which nobody asked for")
            self.world.forbid(claims[-1].note != note, f"{partition} has another note than was committed")
            may = [one for one in claims if _may_commit(one, rows)]
            self.world.forbid(
                not may,
                f"{claims[-1].member_id or 'nobody'} of generation {claims[-1].generation} commits in "
                f"{rows.phase} {rows.generation}",
            )
            for claim in may:
                place = claim.connection, partition
                self.world.forbid(
                    claim is may[-1] and claim.number < self._newest.get(place, 0),
                    f"an older commit of {place} came after a newer",
                )
                self.world.forbid(
                    claim is may[-1] and claim.queued < self._acknowledged.get(partition, 0),
                    f"{claim.text} is written over a newer that was acknowledged",
                )
                self._newest[place] = claim.number
                claim.written = True
            self._writers[partition].append(claims[-1].connection)
            self._written[partition] = max(self._written.get(partition, 0), claims[-1].number)
            self._put(partition, (offset, note))
        self._compare(rows)

    def turn(self, node: Node, before: GroupRows, turn: Sequence[Any], rows: GroupRows) -> None:
        """A turn is durable."""
        events = node.decided_on
        by_itself = not any(isinstance(event, ASKED_FOR) for event in events)
        for record in turn:
            match record:
                case records.OffsetsDeleted():
                    for partition in each_partition(record.partitions):
                        if by_itself:
                            topics_too = any(isinstance(event, TopicsDeleted) for event in events)
                            self._check_age(partition, before, topics_too)
                        self._put(partition, NOTHING)
                case records.OffsetsSet() | records.OffsetsFlushed():
                    for partition, position in each_position(record.offset_info):
                        self._put(partition, (position.offset, NO_NOTE))
                case records.GroupDeleted():
                    self.world.forbid(
                        by_itself and not before.ephemeral and not self._is_old(before, self._phase_at),
                        "a group was deleted that was not without members for the retention",
                    )
                    for partition in list(self._history):
                        self._put(partition, NOTHING)
        if before.phase is not rows.phase or not before.version:
            self._phase_at = self.world.now
        self._compare(rows)

    def _put(self, partition: Partition, stored: Stored) -> None:
        self._committed_at[partition] = self.world.now
        if self._history[partition][-1] != stored:
            self._history[partition].append(stored)

    def _compare(self, rows: GroupRows) -> None:
        """What is stored is what the last change left: nothing else changes it."""
        known = {one: history[-1] for one, history in self._history.items() if history[-1] != NOTHING}
        stored = {one: (offset, rows.offset_notes.get(one, NO_NOTE)) for one, offset in rows.offsets.items()}
        self.world.forbid(known != stored, "committed offsets changed, and nobody changed them")

    # -- what goes by itself ----------------------------------------------------------------

    def _check_age(self, partition: Partition, before: GroupRows, topics_too: bool) -> None:
        if topics_too and partition.topic_id not in self.cluster.topic_ids():
            return
        reason = self._why_kept(partition, before)
        self.world.forbid(reason, f"{partition} expired: {reason}")

    def _why_kept(self, partition: Partition, before: GroupRows) -> str:
        classic = before.classic
        if before.phase in (Phase.PREPARING_REBALANCE, Phase.COMPLETING_REBALANCE):
            return f"the group is {before.phase}"
        since = self._committed_at[partition]
        if before.phase is Phase.EMPTY and (
            before.protocol != CLASSIC or (classic and classic.protocol_type)
        ):
            since = self._phase_at
        elif before.phase is Phase.STABLE and partition.topic in _subscribed(before):
            return "somebody reads it"
        return "" if self._is_old(before, since) else "it is not old"

    def _is_old(self, before: GroupRows, since: float) -> bool:
        return database_ms(self.world.now - since) >= RETENTION_MS

    # -- how it must end --------------------------------------------------------------------

    def orphans(self) -> list[str]:
        """Partitions of topics that are no more, with an offset."""
        known = self.cluster.topic_ids()
        return [str(one) for one in self.world.rows.rows.offsets if one.topic_id not in known]


def _parts(stored: StoredOffset) -> Stored:
    return (stored, NO_NOTE) if isinstance(stored, int) else stored


def _may_commit(claim: Claim, rows: GroupRows) -> bool:
    if claim.generation < 0:
        return rows.phase is Phase.EMPTY
    member = rows.classic.members.get(claim.member_id) if rows.classic else None
    return (
        member is not None
        and claim.generation == rows.generation
        and rows.phase is not Phase.COMPLETING_REBALANCE
        and claim.instance in (None, member.group_instance_id)
    )


def _subscribed(rows: GroupRows) -> Iterator[str]:
    """What members read; of a native group no offset goes while it has any."""
    for member in rows.members.values():
        yield from member.topics
    if rows.classic is not None:
        for one in rows.classic.members.values():
            yield from subscribed_topics(one.metadata(rows.classic.protocol_name)) or ()
