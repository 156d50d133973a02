"""This room watches decisions, commits and acknowledgements of all nodes for what must never be."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from coordinator.commits import Commit
from coordinator.core import offsets
from coordinator.core.draft import GroupDecision
from coordinator.core.events import GroupEvent, Heard
from coordinator.core.memory import GroupState
from coordinator.core.native import sessions
from coordinator.core.offsets import Judgement
from groups.core import records
from muster.kernel.error_codes import ErrorCode
from muster.messages.member import PingResponse, StopFetcherResponse
from muster.messages.partitions import Partition, each_position
from tests.simulation.native.network import Connection, Truth

if TYPE_CHECKING:
    from tests.simulation.native.cluster import Cluster


class Watched(Commit):
    """A commit, looked at when it is judged and when it is answered."""

    def __init__(self, commit: Commit, checks: Checks, truth: Truth, arrival: int) -> None:
        super().__init__(commit.key, commit.connection)
        self._commit, self._checks, self._truth, self._arrival = commit, checks, truth, arrival

    def judge(self, state: GroupState) -> Judgement:
        judgement = self._commit.judge(state)
        self._checks.judged(state, judgement, self._truth, self._arrival)
        return judgement

    def answer(self, judgement: Judgement) -> None:
        self._checks.answered(judgement, self._arrival)
        self._commit.answer(judgement)


class Checks:
    """What was said, in the order in which nodes heard it, beside what was written of it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.world = cluster, cluster.world
        self._arrivals = 0
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
        return Watched(commit, self, self._hearing, self._arrivals)

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
            acknowledged_at, acknowledged = self._acknowledged.get(partition, (0, -1))
            self.world.forbid(
                offset < acknowledged and self._said[partition].get(offset, 0) < acknowledged_at,
                f"{offset} of {partition} was written, said before {acknowledged}, which was acknowledged",
            )

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

    def decided(self, state: GroupState, decision: GroupDecision, events: Sequence[GroupEvent]) -> None:
        """A decision is durable, or needs not be, and is about to be said."""
        for event in events:
            if isinstance(event, Heard) and isinstance(event.message, PingResponse | StopFetcherResponse):
                self.noted(event.message, decision.state)
        for record in decision.records:
            if isinstance(record, records.MemberRemoved) and record.why == sessions.SESSION_OVER:
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
