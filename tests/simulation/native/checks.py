"""This room watches decisions, commits and acknowledgements of all nodes for what must never be."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from coordinator.classic_commits import ClassicCommit
from coordinator.commits import Commit
from coordinator.core import offsets
from coordinator.core.decide import decide
from coordinator.core.draft import GroupDecision
from coordinator.core.events import GroupEvent, Heard, Say
from coordinator.core.memory import GroupState
from coordinator.core.offsets import NO_OFFSET, Judgement
from groups.core import records
from groups.core.requests import GroupRequest, Verdict
from groups.core.state import GroupRows
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant
from muster.messages.member import (
    PingResponse,
    RegisterConsumerRequest,
    RegisterConsumerResponse,
    StopFetcherResponse,
)
from muster.messages.partitions import Partition, each_partition, each_position
from tests.simulation.native.ageing import Ageing, goes_by_itself
from tests.simulation.native.network import Connection, Truth
from tests.simulation.native.turn_checks import TurnChecks

if TYPE_CHECKING:
    from tests.simulation.native.cluster import Cluster
    from tests.simulation.native.node import Node

_NOTHING: Mapping[Partition, int] = {}


class Watched(Commit):
    """A commit, looked at when it is judged and when it is answered."""

    def __init__(self, commit: Commit, checks: Checks, truth: Truth, arrival: int) -> None:
        super().__init__(commit.key, commit.connection, commit.partitions)
        self._commit, self._checks, self._truth, self._arrival = commit, checks, truth, arrival

    def judge(self, state: GroupState) -> Judgement:
        judgement = self._commit.judge(state)
        self._checks.judged(state, judgement, self._truth, self._arrival)
        return judgement

    def answer(self, judgement: Judgement) -> None:
        self._checks.answered(judgement, self._arrival)
        self._commit.answer(judgement)


class WatchedOutside(Watched):
    """A commit of somebody who is no member: it is said when it is judged, for nobody's turn comes first."""

    def judge(self, state: GroupState) -> Judgement:
        judgement = self._commit.judge(state)
        self._arrival = self._checks.judged_outside(judgement)
        return judgement


class Checks(TurnChecks):
    """What was said, in the order in which nodes heard it, beside what was written of it.

    `changed_at`: when offsets were changed from outside, `begins_at`: where whoever gets them next begins.
    """

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.changed_at: dict[Partition, float] = {}
        self.begins_at: dict[Partition, int] = {}
        self.ageing = Ageing(self.world)
        self._arrivals = 0
        self._changed_after: dict[Partition, tuple[int, int]] = {}
        self._hearing: Truth = {}
        self._truth: dict[int, tuple[object, Truth]] = {}
        self._said: dict[Partition, dict[int, int]] = defaultdict(dict)
        self._answered: dict[Partition, set[int]] = defaultdict(set)
        self._acknowledged: dict[Partition, tuple[int, int]] = {}

    # -- what is heard ----------------------------------------------------------------------

    @contextmanager
    def hearing(self, connection: Connection, text: str, truth: Truth) -> Iterator[None]:
        """A node hears this text; beside it, under which generation each offset was really fetched."""
        self._arrivals += 1
        self._hearing = truth
        try:
            yield
        finally:
            self._hearing = {}

    def heard(self, message: Any) -> None:
        """A frame goes to a turn."""
        if isinstance(message, PingResponse | StopFetcherResponse):
            self._truth[id(message)] = (message, self._hearing)
            for partition, position in each_position(message.offset_info):
                self._said[partition][position.offset] = self._arrivals

    def watched(self, commit: Commit) -> Commit:
        """A commit goes to a batch: look at what is judged and at what is answered."""
        kind = WatchedOutside if isinstance(commit, ClassicCommit) else Watched
        return kind(commit, self, self._hearing, self._arrivals)

    def judged_outside(self, judgement: Judgement) -> int:
        """This of a commit of nobody is about to be written; its place among all that is said."""
        self._arrivals += 1
        for partition, offset in judgement.accepted.items():
            self._said[partition][offset] = self._arrivals
        return self._arrivals

    def judged(self, state: GroupState, judgement: Judgement, truth: Truth, arrival: int) -> None:
        """This of a commit that came as the `arrival`th is about to be written."""
        tenures = {one: at for owned in state.rows.owned.values() for one, at in owned.items()}
        for partition, offset in judgement.accepted.items():
            self._said[partition][offset] = arrival
            self.world.forbid(
                truth[partition] < tenures[partition].since_generation,
                f"an offset of an earlier tenure of {partition} was committed",
            )

    def answered(self, judgement: Judgement, arrival: int) -> None:
        """This is about to be answered."""
        if judgement.error is ErrorCode.NONE:
            for partition, offset in judgement.accepted.items():
                self._acknowledge(partition, arrival, offset)

    # -- what is written --------------------------------------------------------------------

    def written(self, rows: Mapping[Partition, int]) -> None:
        """These offsets are durable; none may be older than what was acknowledged."""
        for partition, offset in rows.items():
            said_at = self._said[partition].get(offset, 0)
            changed_after, changed_to = self._changed_after.get(partition, (-1, offset))
            # A batch of unknown outcome is written again.
            self.world.forbid(
                said_at <= changed_after and offset != changed_to,
                f"{offset} of {partition} was written, said before it was changed from outside",
            )
            acknowledged_at, acknowledged = self._acknowledged.get(partition, (0, -1))
            self.world.forbid(
                offset < acknowledged and said_at < acknowledged_at,
                f"{offset} of {partition} was written, said before {acknowledged}, which was acknowledged",
            )

    def batch(self, rows: GroupRows, written: Mapping[Partition, int] = _NOTHING) -> None:
        super().batch(rows)
        self.ageing.written(written)
        if not rows.members:
            self._changed_from_outside(written)

    def committed(self, node: Node, turn: Sequence[Any], before: GroupRows, rows: GroupRows) -> None:
        super().committed(node, turn, before, rows)
        by_itself = goes_by_itself(node.decided_on)
        if by_itself:
            self.ageing.turn(node, turn, before, rows)
        self.world.forbid(
            len(rows.members) > self.world.settings.group_max_size, "the group has more members than it may"
        )
        for record in turn:
            match record:
                case records.MemberAdded():
                    name = record.member_id
                    self.world.forbid(name in before.quarantined, f"{name} came in though it is kept out")
                case records.QuarantineEnded():
                    self.world.forbid(record.member_id in rows.members, f"{record.member_id} is let in early")
                case records.OffsetsFlushed():
                    self.ageing.written(one for one, _ in each_position(record.offset_info))
                case records.OffsetsSet():
                    self.ageing.written(one for one, _ in each_position(record.offset_info))
                    told = {one: at.offset for one, at in each_position(record.offset_info)}
                    self._changed_from_outside(told)
                case records.OffsetsDeleted() if not by_itself:
                    self._changed_from_outside(dict.fromkeys(each_partition(record.partitions), NO_OFFSET))
                case records.GroupDeleted():
                    # Some may have been set in this very turn.
                    known = before.offsets.keys() | self.begins_at.keys()
                    self._changed_from_outside(dict.fromkeys(known, NO_OFFSET))

    def _changed_from_outside(self, offsets_of: Mapping[Partition, int]) -> None:
        """By nobody who had fetched it: it counts more than all that was said before."""
        for partition, offset in offsets_of.items():
            self.changed_at[partition] = self.world.now
            self.begins_at[partition] = self.world.floor[partition] = offset
            self._said[partition][offset] = self._arrivals
            self._changed_after[partition] = self._arrivals, offset
            self._acknowledged.pop(partition, None)

    def remembered(self, node: Node) -> None:
        """A turn or a batch was heard of: its owner knows what is stored, and nothing else (S11)."""
        state = node.state
        if state is not None and node is self.cluster.owner:
            is_same = self.world.same(state.rows, self.world.rows.rows)
            self.world.forbid(not is_same, f"{node.name} remembers other rows")

    def _acknowledge(self, partition: Partition, arrival: int, offset: int) -> None:
        """A node says that it is durable: it is stored, or something that was said after it."""
        stored = self.world.rows.rows.offsets.get(partition, -1)
        self.world.forbid(
            stored != offset and self._said[partition].get(stored, 0) < arrival,
            f"{offset} of {partition} is acknowledged, and {stored} is stored, which was said before",
        )
        self._answered[partition].add(offset)
        if arrival >= self._acknowledged.get(partition, (0, -1))[0]:
            self._acknowledged[partition] = (arrival, offset)

    def acknowledged(self, partition: Partition, offset: int) -> None:
        """A member was told that it is durable."""
        self.world.forbid(
            offset not in self._answered[partition], f"{offset} of {partition} was acknowledged by nobody"
        )

    # -- what is decided --------------------------------------------------------------------

    def left_a_trace(
        self,
        node: Node,
        state: GroupState,
        events: Sequence[GroupEvent],
        now: Instant,
        decision: GroupDecision,
    ) -> None:
        """A turn of nothing but refused requests changes what time alone would have changed (S14)."""
        refused = {
            one.connection
            for one in decision.replies
            if isinstance(one, Say)
            and isinstance(one.message, RegisterConsumerResponse)
            and one.message.error_code != ErrorCode.NONE
        }
        done = {
            one.request_id
            for one in decision.records
            if isinstance(one, records.RequestDecided) and one.answer.verdict is Verdict.DONE
        }

        def is_refused(event: GroupEvent) -> bool:
            if isinstance(event, GroupRequest):
                return event.id not in done
            if not isinstance(event, Heard) or not isinstance(event.message, RegisterConsumerRequest):
                return False
            return event.connection in refused

        if not events or not all(map(is_refused, events)):
            return
        alone = decide(state, (), now, self.world.settings, node.groups._view.surroundings())
        written = tuple(one for one in decision.records if not isinstance(one, records.RequestDecided))
        self.world.forbid(written != alone.records, "a refused request left a trace in the rows")
        self.world.forbid(
            _remembered(decision.state) != _remembered(alone.state),
            "a refused request left a trace in the owner's memory",
        )

    def decided(self, state: GroupState, decision: GroupDecision, events: Sequence[GroupEvent]) -> None:
        """A decision is durable, or needs not be, and is about to be said."""
        for event in events:
            if isinstance(event, Heard) and isinstance(event.message, PingResponse | StopFetcherResponse):
                self.noted(event.message, decision.state)
        for record in decision.records:
            if isinstance(record, records.MemberRemoved) and not record.why.startswith("left"):
                token_hash = state.rows.members[record.member_id].token_hash
                self.cluster.check_expiry(record.member_id, token_hash)
            if isinstance(record, records.PartitionsRunning):
                self.cluster.check_running(record, decision.state.rows)

    def noted(self, message: PingResponse | StopFetcherResponse, state: GroupState) -> None:
        """These positions were decided on, in a turn or beside the lane."""
        _, truth = self._truth.pop(id(message), (message, {}))
        owned = state.rows.owned.get(message.consumer_id, {})
        for partition, position in each_position(message.offset_info):
            noted = state.memory.dirty.get(partition)
            tenure = owned.get(partition)
            if tenure is None or noted != position.offset or partition not in truth:
                continue
            if offsets.refusal(tenure, position, state.rows.generation) == 0:
                self.world.forbid(
                    truth[partition] < tenure.since_generation,
                    f"an offset of an earlier tenure of {partition} was noted",
                )


def _remembered(state: GroupState) -> tuple[Any, ...]:
    memory = state.memory
    mappings: tuple[Mapping[Any, Any], ...] = (
        memory.sessions,
        memory.bound,
        memory.dirty,
        state.quarantine_ends,
    )
    wanted = (memory.wanted, memory.wanted_from, memory.wanted_at, memory.failures)
    return (*map(dict, mappings), wanted, memory.attempt, memory.finished)
