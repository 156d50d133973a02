"""This room is a simulated client's connection to one node: what arrives there, and what is answered."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from coordinator.classic_commits import ClassicCommit, Committed, Stated
from coordinator.core.events import ClassicRequest, ConnectionId, Waiter
from coordinator.core.memory import GroupState
from coordinator.core.offsets import NO_OFFSET, Judgement
from coordinator.service import NotServed
from coordinator.subject import refusal
from groups.core.state import NO_NOTE, OffsetNote
from muster.kernel.error_codes import ErrorCode
from muster.messages.partitions import Partition
from tests.simulation.native.rows import GROUP

if TYPE_CHECKING:
    from tests.simulation.classic.cluster import Cluster
    from tests.simulation.native.node import Node

Told = Callable[[ErrorCode], None]
Found = Mapping[Partition, tuple[int, OffsetNote]]


def _unheard(seat: Seat, said: Any) -> None:
    """Whoever asks only commits, or reads."""


class Seat:
    """coordinator.callers.Caller; `hear` is told of each answer that comes through, `broken`: none does."""

    closing = False

    def __init__(
        self,
        cluster: Cluster,
        node: Node,
        name: str,
        hear: Callable[[Seat, Any], None] = lambda seat, said: None,
    ) -> None:
        self.cluster, self.world, self.node = cluster, cluster.world, node
        self.id = ConnectionId(f"{name}/{cluster.next_number()}")
        self.broken = False
        self.waiting: dict[Waiter, ClassicRequest] = {}
        self._refused: set[Waiter] = set()
        self._hear = hear
        node.service.premises.callers.add(self, node.service.shard)

    # -- the client's end -------------------------------------------------------------------

    def send(self, action: Callable[..., None], *arguments: Any) -> None:
        """Something is on its way to the node; it arrives soon, if somebody is there then."""
        loop = self.node.loop
        self.world.soon(lambda: None if loop.over else loop.perform(action, *arguments))

    def leave_node(self) -> None:
        """The node sees the connection end."""
        self.broken = True
        self.send(self.node.service.premises.callers.remove, self, self.node.service.shard)

    # -- the node's end ---------------------------------------------------------------------

    def ask(self, event: ClassicRequest) -> None:
        """A request reaches the node."""
        self.waiting[event.waiter] = event
        self.node.service.request(self, GROUP, event)

    def say(self, message: Any) -> None:
        event = self.waiting.pop(message.waiter, None)
        if message.waiter in self._refused:
            return
        self.world.forbid(event is None, f"{self.id} is answered what it did not ask, or twice")
        assert event is not None
        self.cluster.checks.answered(event, message)
        self.world.soon(lambda: None if self.broken else self._hear(self, message))

    def hang_up(self, error: ErrorCode, text: str) -> None:
        for event in list(self.waiting.values()):
            self.say(refusal(event, error))
            # It may have been asked when the hang-up was on its way: what answers it then finds nobody.
            self._refused.add(event.waiter)

    def beat(self, member_id: str, instance: str | None, generation: int, told: Told) -> None:
        """A heartbeat reaches the node."""
        service = self.node.service
        error = service.heartbeat(GROUP, member_id, instance, generation)
        if error is None:
            later = service.heartbeat_later(GROUP, member_id, instance, generation)
            self._later(later, lambda found: self._back(told, found))
        else:
            self.cluster.checks.beaten(self.node, member_id, generation, error)
            self._back(told, error)

    def commit(
        self,
        member_id: str,
        instance: str | None,
        generation: int,
        positions: Mapping[Partition, Committed],
        told: Told,
    ) -> None:
        """An OffsetCommit reaches the node, as its door lets it in."""
        service = self.node.service
        if not service.accepting:
            self._back(told, ErrorCode.NOT_COORDINATOR)
            return
        ledger = self.cluster.ledger

        claims = ledger.asked(self, member_id, instance, generation, positions)

        def answer(judgement: Judgement) -> None:
            ledger.answered(claims, judgement)
            self._back(told, judgement.error)

        said = ClassicCommit(
            key=GROUP,
            connection=self.id,
            member_id=member_id,
            group_instance_id=instance,
            generation=generation,
            stated=Stated.of(positions),
            answer=answer,
        )
        ledger.handed_in(said, claims)
        if not service.commit(said):
            self._back(told, ErrorCode.NOT_COORDINATOR)

    def fetch(self, partitions: Iterable[Partition], told: Callable[[Found | ErrorCode], None]) -> None:
        """An OffsetFetch reaches the node."""
        wanted, ledger = tuple(partitions), self.cluster.ledger
        asked_at = ledger.now(wanted)

        def tell(state: GroupState) -> Found:
            rows = state.rows
            return {
                one: (rows.offsets.get(one, NO_OFFSET), rows.offset_notes.get(one, NO_NOTE)) for one in wanted
            }

        async def read() -> Found | ErrorCode:
            try:
                found = await self.node.service.read(GROUP, tell)
            except NotServed as problem:
                return problem.error
            ledger.fetched(asked_at, found)
            return found

        self._later(read(), lambda found: self._back(told, found))

    def _later(self, work: Coroutine[Any, Any, Any], then: Callable[[Any], None]) -> None:
        task = self.node.loop.create_task(work)
        task.add_done_callback(lambda done: None if done.cancelled() else then(done.result()))

    def _back(self, told: Callable[[Any], None], what: Any) -> None:
        self.world.soon(lambda: None if self.broken else told(what))
