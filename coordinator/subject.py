"""This room holds the groups of one shard in memory, and says what was decided to their members."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from coordinator.cluster_view import ClusterView
from coordinator.connections import Connections
from coordinator.core import decide as core
from coordinator.core.draft import GroupDecision
from coordinator.core.events import (
    ConnectionId,
    GroupEvent,
    HangUp,
    Heard,
    ItemFailed,
    ItemFinished,
    Saying,
)
from coordinator.core.memory import GroupState
from coordinator.core.settings import GroupSettings
from coordinator.history import History
from coordinator.store import GroupStore
from groups.core.records import GroupDeleted, GroupRecord, ItemAdopted
from groups.core.state import GroupRows
from muster.kernel.decision import Decision
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant
from muster.messages.errors import NORMAL_CLOSE, POLICY_VIOLATION_CLOSE
from muster.messages.member import PingResponse
from runtime.ports import Entry, NodeContext

logger = logging.getLogger("muster.coordinator")

INTERNAL_ERROR_CLOSE = 1011

PHANTOMS_MAX = 64
"""How many groups of a shard may be in memory that no row holds: those whose first Register is under way."""


class Groups:
    """The cache of one shard, and `runtime.ports.Subject` for its lane."""

    def __init__(
        self,
        node: NodeContext,
        store: GroupStore,
        settings: GroupSettings,
        view: ClusterView,
        connections: Connections,
    ) -> None:
        self.states: dict[str, GroupState] = {}
        self._node = node
        self._store = store
        self._settings = settings
        self._view = view
        self._connections = connections
        self._history: dict[str, History] = {}
        self._still_bound: dict[str, dict[str, ConnectionId]] = {}
        self._adopted: dict[str, str] = {}
        self._phantoms: dict[str, None] = {}

    @property
    def store(self) -> GroupStore:
        return self._store

    def cached(self, key: str) -> GroupState | None:
        return self.states.get(key)

    def revive(
        self, key: str, loaded: GroupRows, now: Instant
    ) -> tuple[GroupState, Decision[GroupRecord, Saying]]:
        bound = {
            member_id: connection_id
            for member_id, connection_id in self._still_bound.get(key, {}).items()
            if self._is_open(connection_id)
        }
        decision = core.load(loaded, now, self._settings, self._view.surroundings(), bound)
        return GroupState(loaded), decision

    def preload(self, loaded: GroupRows, now: Instant) -> None:
        """Take rows that were read in bulk; a group whose load must be written is left for its own turn.

        A turn may have loaded the group after that read: then its state is the newer one.
        """
        if loaded.group_id in self.states:
            return
        decision = core.load(loaded, now, self._settings, self._view.surroundings())
        if not decision.records:
            self.states[loaded.group_id] = decision.state

    def decide(
        self, key: str, state: GroupState, events: Sequence[GroupEvent], now: Instant
    ) -> Decision[GroupRecord, Saying]:
        news = [self._in_its_place(event) for event in events if not self._is_adopted(key, state, event)]
        return core.decide(state, news, now, self._settings, self._view.surroundings())

    def _is_adopted(self, key: str, state: GroupState, event: GroupEvent) -> bool:
        """A finished item may be read twice before it is adopted, or after its group was deleted; another
        adoption would find no row, and everything that is decided with it would be undone.
        """
        if not isinstance(event, ItemFinished | ItemFailed):
            return False
        return not state.rows.handler_asked or event.item_id == self._adopted.get(key)

    def _in_its_place(self, event: GroupEvent) -> GroupEvent:
        """Say of a ping answer whether a commit that came after it may have been written before it."""
        if isinstance(event, Heard) and isinstance(event.message, PingResponse):
            connection = self._connections.get(event.connection)
            if connection is None or connection.commits_heard != event.commits_before:
                return replace(event, overtaken=True)
        return event

    def before(self, key: str, state: GroupState) -> GroupRows:
        return state.rows

    def entry(self, key: str, events: Sequence[GroupEvent], decision: Decision[GroupRecord, Saying]) -> Entry:
        history = self._history.get(key)
        if history is None:
            before = self.states.get(key)
            history = self._history[key] = History((before or _state_after(decision)).rows)
        return history.entry(decision.records, _state_after(decision), self._node.now())

    def settle(self, key: str, state: GroupState, decision: Decision[GroupRecord, Saying]) -> None:
        after = _state_after(decision)
        self._still_bound.pop(key, None)
        for record in decision.records:
            if isinstance(record, ItemAdopted):
                self._adopted[key] = record.item_id
        if any(isinstance(record, GroupDeleted) for record in decision.records):
            self._forget(key)
        else:
            self.states[key] = after
            self._forget_phantoms(key, after)
        for saying in (*decision.replies, *decision.commands):
            self._say(saying)
        if decision.records:
            self._node.wake("group", key)

    def _forget_phantoms(self, key: str, state: GroupState) -> None:
        """A group that exists only because a stranger named it must not stay in our memory."""
        self._phantoms.pop(key, None)
        if state.rows.version == 0:
            self._phantoms[key] = None
            if len(self._phantoms) > PHANTOMS_MAX:
                self._forget(next(iter(self._phantoms)))

    def _forget(self, key: str) -> None:
        self.states.pop(key, None)
        self._history.pop(key, None)
        self._adopted.pop(key, None)
        self._phantoms.pop(key, None)

    def drop(self, key: str) -> None:
        state = self.states.pop(key, None)
        if state is not None:
            self._still_bound[key] = {member: one for one, member in state.memory.bound.items()}

    def refuse(self, key: str, events: Sequence[GroupEvent], error: Exception) -> None:
        logger.error("group %s: events could not be decided", key, exc_info=error)
        for event in events:
            if isinstance(event, Heard):
                connection = self._connections.get(event.connection)
                if connection is not None:
                    connection.hang_up(INTERNAL_ERROR_CLOSE, "UNKNOWN_SERVER_ERROR")

    def forget(self) -> None:
        """The shard was given up: another node's cache is the one that counts."""
        self.states.clear()
        self._history.clear()
        self._still_bound.clear()
        self._adopted.clear()
        self._phantoms.clear()

    def _say(self, saying: Saying) -> None:
        connection = self._connections.get(saying.connection)
        if connection is None:
            return
        if isinstance(saying, HangUp):
            error = saying.error_code
            if error is ErrorCode.NONE:
                connection.hang_up(NORMAL_CLOSE, saying.text)
            else:
                connection.hang_up(POLICY_VIOLATION_CLOSE, f"{error.name}: {saying.text}")
        else:
            connection.say(saying.message)

    def _is_open(self, connection_id: ConnectionId) -> bool:
        connection = self._connections.get(connection_id)
        return connection is not None and not connection.closing


def _state_after(decision: Decision[Any, Any]) -> GroupState:
    assert isinstance(decision, GroupDecision)
    return decision.state
