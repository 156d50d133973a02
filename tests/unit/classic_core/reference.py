"""This room is a second, plain telling of the classic protocol, to compare with (conformance 14 to 102).

One request at a time; every member looks after its own clock; nothing is fast. Where Kafka leaves a choice
open, which of several protocols with equal votes wins and who leads after the leader went, the core's choice
is taken if it is one of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from coordinator.core.events import Join, Leave, Sync
from coordinator.core.settings import GroupSettings
from muster.kernel.error_codes import ErrorCode as E

Said = tuple[Any, ...]
Choice = tuple[str, str]
"""Protocol name and leader."""


@dataclass
class Member:
    instance: str | None
    protocols: tuple[tuple[str, bytes], ...]
    session: int
    rebalance: int
    ends: int
    fresh: bool = False
    join: int | None = None
    sync: int | None = None
    owes: bool = False
    assignment: bytes = b""


@dataclass
class Reference:
    """One group. `said` collects answers: waiter, then what it hears. `choice` tells what the core chose."""

    settings: GroupSettings
    choice: Callable[[], Choice]
    phase: str = "Empty"
    generation: int = 0
    kind: str = ""
    protocol: str | None = None
    leader: str = ""
    exists: bool = False
    members: dict[str, Member] = field(default_factory=dict)
    pending: dict[str, int] = field(default_factory=dict)
    kept_out: dict[str, tuple[int, int]] = field(default_factory=dict)
    join_ends: int | None = None
    remaining: int | None = None
    added: bool = False
    sync_ends: int | None = None
    now: int = 0
    said: list[tuple[int, Said]] = field(default_factory=list)

    # -- JoinGroup --------------------------------------------------------------------------

    def join(self, r: Join) -> None:
        error = self._no_room(r) or self._no_common(r)
        if r.member_id and not self.exists:
            self._refuse(r, E.UNKNOWN_MEMBER_ID, r.member_id)
        elif (r.group_instance_id or r.client_id) in self.kept_out:
            self._refuse(r, E.COORDINATOR_NOT_AVAILABLE, r.member_id)
        elif error is E.GROUP_MAX_SIZE_REACHED:
            self.pending.pop(r.member_id, None)
            if r.member_id in self.members:
                self._remove(r.member_id)
            self._refuse(r, error, "")
        elif error:
            self._refuse(r, error, r.member_id)
        elif r.member_id in self.pending:
            if r.group_instance_id is not None:
                self._refuse(r, E.UNKNOWN_SERVER_ERROR, r.member_id)
            else:
                del self.pending[r.member_id]
                self._enter(r, r.member_id)
        elif r.member_id:
            fault = self.fault(r.member_id, r.group_instance_id)
            if fault:
                self._refuse(r, fault, r.member_id)
            else:
                self._again(r)
        else:
            self._stranger(r)
        self.settle()

    def _no_room(self, r: Join) -> E | None:
        most = self.settings.group_max_size
        # An instance that comes back is counted where it was (Kafka counted it twice: KAFKA-20601).
        member_id = r.member_id or self.holder(r.group_instance_id)
        joined = [name for name, one in self.members.items() if one.join is not None]
        if self.phase == "PreparingRebalance":
            full = member_id not in joined and len(joined) >= most
        else:
            full = self.phase != "Empty" and member_id not in self.members and len(self.members) >= most
        is_given_one = not r.member_id and r.group_instance_id is None and r.must_know_id
        full = full or (is_given_one and len(self.pending) >= most)
        return E.GROUP_MAX_SIZE_REACHED if full else None

    def _no_common(self, r: Join) -> E | None:
        mine = {name for name, _ in r.protocols}
        fits = bool(r.protocol_type and mine)
        if self.members and fits:
            fits = r.protocol_type == self.kind and bool(mine & self._common())
        return None if fits else E.INCONSISTENT_GROUP_PROTOCOL

    def _common(self) -> set[str]:
        return set.intersection(*({name for name, _ in one.protocols} for one in self.members.values()))

    def _stranger(self, r: Join) -> None:
        self.exists = True
        holder = self.holder(r.group_instance_id)
        if holder:
            self._replace(r, holder)
        elif r.group_instance_id is None and r.must_know_id:
            self.pending[r.fresh_member_id] = self.now + r.session_timeout_ms
            self._refuse(r, E.MEMBER_ID_REQUIRED, r.fresh_member_id)
        else:
            self._enter(r, r.fresh_member_id)

    def _enter(self, r: Join, member_id: str) -> None:
        if not self.members:
            self.kind = r.protocol_type
        self.members[member_id] = Member(
            r.group_instance_id,
            r.protocols,
            r.session_timeout_ms,
            r.rebalance_timeout_ms,
            ends=self.now + 300_000,
            fresh=True,
            join=r.waiter,
        )
        if self.phase == "PreparingRebalance":
            self.added = True
        else:
            self.rebalance()

    def _again(self, r: Join) -> None:
        me = self.members[r.member_id]
        same = r.protocols == me.protocols
        quiet = {"CompletingRebalance": same, "Stable": same and self.leader != r.member_id}
        if quiet.get(self.phase):
            me.ends = self.now + me.session
            self._welcome(r.waiter, r.member_id)
            return
        if me.join is not None:
            self.say(me.join, E.REBALANCE_IN_PROGRESS, r.member_id)
        me.protocols, me.session, me.rebalance = r.protocols, r.session_timeout_ms, r.rebalance_timeout_ms
        if self.phase != "PreparingRebalance":
            self.rebalance()
        me.join = r.waiter

    def _replace(self, r: Join, old: str) -> None:
        was, fresh = self.members[old], r.fresh_member_id
        leader_before = self.leader
        self._remove(old, E.FENCED_INSTANCE_ID)
        if leader_before == old:
            self.leader = fresh
        me = self.members[fresh] = Member(
            r.group_instance_id,
            r.protocols,
            r.session_timeout_ms,
            r.rebalance_timeout_ms,
            ends=self.now + r.session_timeout_ms,
            assignment=was.assignment,
        )
        if self.phase == "Stable" and self.protocol in self.winners():
            leads = self.leader == fresh
            if r.answers_skip:
                self._welcome(r.waiter, fresh, skip=leads)
            else:
                self._welcome(r.waiter, fresh, leader=leader_before, listing=False)
            return
        if self.phase != "PreparingRebalance":
            self.rebalance()
        me.join = r.waiter

    # -- operators --------------------------------------------------------------------------

    def take_out(self, name: str, client: str, quarantine_ms: int) -> None:
        """An operator removes a member, named by its id or its instance, and keeps whoever bears its name out
        for a time; all dynamic members are of one `client`, and several of them are not told apart.
        """
        if name not in self.members:
            name = self.holder(name) or name
        one = self.members.get(name)
        dynamic = sum(other.instance is None for other in self.members.values())
        if not self.exists or (one is None and not quarantine_ms):
            return
        if quarantine_ms and one is not None and one.instance is None and dynamic > 1:
            return
        if quarantine_ms:
            kept_out = name if one is None else one.instance or client
            self.kept_out[kept_out] = (self.now + quarantine_ms, quarantine_ms)
        if one is not None:
            self._remove(name)
            if self.phase != "PreparingRebalance":
                self.rebalance()
        self.settle()

    def let_in(self) -> None:
        """The end of each turn: whose time is over may come again."""
        self.kept_out = {name: one for name, one in self.kept_out.items() if one[0] > self.now}

    # -- SyncGroup, LeaveGroup, heartbeats --------------------------------------------------

    def sync(self, r: Sync) -> None:
        self._sync(r)
        self.settle()

    def _sync(self, r: Sync) -> None:
        error = self._sync_error(r)
        if error:
            self.say(r.waiter, error, b"")
            return
        me = self.members[r.member_id]
        me.owes = False
        if self.phase == "Stable":
            me.ends = self.now + me.session
            self.say(r.waiter, E.NONE, me.assignment)
            return
        if me.sync is not None:
            self.say(me.sync, E.REBALANCE_IN_PROGRESS, b"")
        me.sync = r.waiter
        if self.leader == r.member_id:
            self.phase = "Stable"
            for name, one in self.members.items():
                one.assignment = r.assignments.get(name, b"")
                if one.sync is not None:
                    self.say(one.sync, E.NONE, one.assignment)
                    one.sync, one.ends = None, self.now + one.session

    def _sync_error(self, r: Sync) -> E | None:
        fault = self.fault(r.member_id, r.group_instance_id)
        if fault:
            return fault
        if r.generation != self.generation:
            return E.ILLEGAL_GENERATION
        if r.protocol_type not in (None, self.kind) or r.protocol_name not in (None, self.protocol):
            return E.INCONSISTENT_GROUP_PROTOCOL
        return E.REBALANCE_IN_PROGRESS if self.phase == "PreparingRebalance" else None

    def leave(self, r: Leave) -> None:
        before, errors = len(self.members), []
        for one in r.members:
            name = one.member_id
            if name in self.pending:
                del self.pending[name]
                errors.append(E.NONE)
                continue
            if not name and one.group_instance_id is not None:
                name = self.holder(one.group_instance_id)
            fault = self.fault(name, one.group_instance_id)
            if not fault:
                self._remove(name)
            errors.append(fault or E.NONE)
        self.say(r.waiter, *errors)
        if len(self.members) < before and self.phase != "PreparingRebalance":
            self.rebalance()
        self.settle()

    def beat(self, member_id: str, instance: str | None, generation: int) -> E:
        fault = self.fault(member_id, instance)
        if fault:
            return fault
        if generation != self.generation:
            return E.ILLEGAL_GENERATION
        me = self.members[member_id]
        me.ends = max(me.ends, self.now + me.session) if not me.fresh else me.ends
        return E.REBALANCE_IN_PROGRESS if self.phase == "PreparingRebalance" else E.NONE

    def fault(self, member_id: str, instance: str | None) -> E | None:
        if instance is not None and not self.holder(instance):
            return E.UNKNOWN_MEMBER_ID
        if instance is not None and self.holder(instance) != member_id:
            return E.FENCED_INSTANCE_ID
        return None if member_id in self.members else E.UNKNOWN_MEMBER_ID

    def holder(self, instance: str | None) -> str:
        held = [
            name for name, one in self.members.items() if instance is not None and one.instance == instance
        ]
        return held[0] if held else ""

    # -- phases and clocks ------------------------------------------------------------------

    def rebalance(self) -> None:
        longest = max((one.rebalance for one in self.members.values()), default=0)
        for one in self.members.values():
            if one.sync is not None:
                self.say(one.sync, E.REBALANCE_IN_PROGRESS, b"")
                one.sync, one.ends = None, self.now + one.session
            one.owes = False
        self.sync_ends = None
        delay = self.settings.group_initial_rebalance_delay_ms
        first = self.phase == "Empty"
        self.join_ends = self.now + (delay if first else longest)
        self.remaining, self.added = (max(longest - delay, 0) if first else None), False
        self.phase = "PreparingRebalance"

    def tick(self, now: int) -> None:
        """What is due at this instant: sessions, who never synced, the join timer."""
        self.now, expired = now, False
        for name in [name for name, ends in self.pending.items() if ends <= now]:
            del self.pending[name]
            expired = True
        for name, one in list(self.members.items()):
            waits = one.join is not None or one.sync is not None
            if one.ends <= now and (one.fresh or not waits):
                self._remove(name)
                expired = True
                if self.phase != "PreparingRebalance":
                    self.rebalance()
        if self.sync_ends is not None and self.sync_ends <= now:
            self.sync_ends = None
            debtors = [name for name, one in self.members.items() if one.owes]
            for name in debtors:
                self._remove(name)
            if debtors:
                self.rebalance()
        self.settle(expired=expired)

    def settle(self, *, expired: bool = False) -> None:
        while self.join_ends is not None and self.join_ends <= self.now:
            if self.remaining and self.added:
                step = min(self.settings.group_initial_rebalance_delay_ms, self.remaining)
                self.join_ends, self.remaining, self.added = self.now + step, self.remaining - step, False
                continue
            for name in [
                name for name, one in self.members.items() if one.join is None and one.instance is None
            ]:
                self._remove(name)
            joined = any(one.join is not None for one in self.members.values())
            if joined or not self.members:
                self._complete()
            else:
                longest = max(one.rebalance for one in self.members.values())
                self.join_ends, self.remaining = self.now + longest, None
        if self.join_ends is None or self.pending or (self.remaining is not None and not expired):
            return
        if all(one.join is not None for one in self.members.values()):
            self._complete()

    def _complete(self) -> None:
        self.join_ends, self.generation = None, self.generation + 1
        if not self.members:
            self.phase, self.protocol, self.leader = "Empty", None, ""
            return
        protocol, leader = self.choice()
        joined = {name for name, one in self.members.items() if one.join is not None}
        assert protocol in self.winners(), f"{protocol} had not the most votes"
        assert leader == self.leader or (self.leader not in joined and leader in joined), f"{leader} leads"
        self.phase, self.protocol, self.leader = "CompletingRebalance", protocol, leader
        for name, one in self.members.items():
            if one.join is not None:
                self._welcome(one.join, name)
            one.join, one.fresh, one.owes, one.ends = None, False, True, self.now + one.session
        self.sync_ends = self.now + max(one.rebalance for one in self.members.values())

    def winners(self) -> set[str]:
        common, votes = self._common(), dict[str, int]()
        for one in self.members.values():
            name = next(name for name, _ in one.protocols if name in common)
            votes[name] = votes.get(name, 0) + 1
        return {name for name, count in votes.items() if count == max(votes.values())}

    def load(self, now: int) -> None:
        """Another owner: nobody waits, ids that have not joined are forgotten, clocks run anew."""
        self.now = now
        self.pending = {}
        self.kept_out = {name: (now + length, length) for name, (_, length) in self.kept_out.items()}
        longest = max((one.rebalance for one in self.members.values()), default=0)
        for one in self.members.values():
            one.join = one.sync = None
            one.fresh, one.owes = False, self.phase == "CompletingRebalance"
            one.ends = now + one.session + self.settings.lease_ttl_ms
        self.sync_ends = now + longest if self.phase == "CompletingRebalance" else None
        self.join_ends = now + longest if self.phase == "PreparingRebalance" else None
        self.remaining, self.added = None, False
        if len(self.members) > self.settings.group_max_size and self.phase in (
            "Stable",
            "CompletingRebalance",
        ):
            self.rebalance()

    def _remove(self, name: str, error: E = E.UNKNOWN_MEMBER_ID) -> None:
        one = self.members.pop(name)
        if one.join is not None:
            self.say(one.join, error, name if error is E.FENCED_INSTANCE_ID else "")
        if one.sync is not None:
            self.say(one.sync, error, b"")
        if self.leader == name:
            self.leader = ""

    # -- answers ----------------------------------------------------------------------------

    def say(self, waiter: int, *what: Any) -> None:
        self.said.append((waiter, what))

    def _refuse(self, r: Join, error: E, member_id: str) -> None:
        self.say(r.waiter, error, member_id)

    def _welcome(
        self, waiter: int, name: str, *, leader: str | None = None, listing: bool = True, skip: bool = False
    ) -> None:
        leader = self.leader if leader is None else leader
        listed = {
            (other, one.instance, dict(one.protocols).get(self.protocol or "", b""))
            for other, one in self.members.items()
            if listing and self.leader == name
        }
        self.say(waiter, E.NONE, name, self.generation, self.protocol, leader, frozenset(listed), skip)
