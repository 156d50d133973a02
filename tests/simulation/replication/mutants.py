"""This room switches single rules of the real cores off, to show that the walks would notice.

The names are those of replication.md; each mutant is a context in which a function is replaced. What only
files can show is in `disk_mutants`. `no_fence` and `speak_first` are rules of `runtime.turn` and the store,
for which the database of this simulation stands in; `switch_*` come with reassignment.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import msgspec

from broker.core import nearest_replica
from broker.core.cluster_view import ClusterView
from broker.core.in_sync import Progress
from broker.core.replica import FetchPosition, Obeyed, Replica, Role
from controller.core import brokers, election, leaders, leaving, partitions, preferred
from controller.core.draft import Draft, policy_of
from controller.core.election import Choice, Policy
from controller.core.proposing import LeaderProposal, Seats
from controller.core.state import Adopting, LostTail, Memory, Session
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant, after
from tests.simulation.replication.broker_process import Broker, FetchAnswer
from tests.simulation.replication.controller_process import Controller, Database
from tests.simulation.replication.memory_log import MemoryLog
from tests.simulation.replication.world import World

Mutant = Callable[[], AbstractContextManager[object]]
MUTANTS: dict[str, Mutant] = {}


def mutant(name: str) -> Callable[[Callable[[], Iterator[None]]], None]:
    """Register a generator as the context of mutant `name`."""

    def register(switch_off: Callable[[], Iterator[None]]) -> None:
        MUTANTS[name] = contextmanager(switch_off)

    return register


def replaced(owner: object, name: str, make: Callable[[Any], Any]) -> Mutant:
    """A mutant that replaces `owner.name` by `make(the original)`."""
    original = getattr(owner, name)
    return lambda: patch.object(owner, name, make(original))


# ---------------------------------------------------------------------------------- controller

MUTANTS["ap_no_version"] = replaced(
    partitions,
    "judge",
    lambda judge: (
        lambda row, proposal, *rest: judge(
            row, msgspec.structs.replace(proposal, base_version=row.version), *rest
        )
    ),
)
MUTANTS["bep_ap"] = replaced(
    partitions,
    "judge",
    lambda judge: (
        lambda row, proposal, sender, live, registered, fewest: judge(
            row,
            msgspec.structs.replace(
                proposal, broker_epochs={b: one.broker_epoch for b, one in registered.items()}
            ),
            sender,
            live,
            registered,
            fewest,
        )
    ),
)
MUTANTS["old_link_read"] = replaced(
    Memory,
    "broker_of",
    lambda broker_of: (
        lambda self, link: (
            broker_of(self, link) or (b if (b := int(str(link).split(".")[0])) in self.sessions else None)
        )
    ),
)
MUTANTS["epoch_kept"] = replaced(
    Draft, "choose", lambda choose: lambda self, row, choice: _choose_without_epoch(choose, self, row, choice)
)
MUTANTS["unclean"] = replaced(
    Draft, "policy", lambda policy: lambda self, topic: Policy(policy(self, topic).min_insync_replicas, True)
)
MUTANTS["floor_of_the_cluster"] = replaced(
    Draft, "policy", lambda _: lambda self, topic: policy_of({}, self.levels())
)
MUTANTS["min_not_heard"] = lambda: patch.object(Replica, "require", lambda self, least: None)
MUTANTS["empty_isr"] = replaced(
    election, "without", lambda _: lambda row, b, floor, lost: tuple(m for m in row.isr if m != b)
)
MUTANTS["lost_kept"] = replaced(
    election, "without", lambda without: lambda row, b, floor, lost: without(row, b, floor, False)
)
MUTANTS["never_answer"] = replaced(partitions, "answer_proposals", lambda _: lambda draft: None)


MUTANTS["no_fence"] = replaced(Database, "is_fenced_in", lambda _: lambda self, epoch: True)
MUTANTS["speak_first"] = replaced(
    Controller, "write", lambda write: lambda self, decision: _write_what_was_said(write, self, decision)
)


def _write_what_was_said(write: Any, controller: Controller, decision: Any) -> bool:
    """Before the commit everything was said; it matters where the commit does not come."""
    if decision.records and not controller.database.is_fenced_in(controller.epoch):
        controller.speak(decision)
    return bool(write(controller, decision))


MUTANTS["damage_kept"] = replaced(LostTail, "covers", lambda _: lambda self, row: self.everywhere)
MUTANTS["twin_admitted"] = replaced(brokers, "refusal", lambda _: lambda draft, frame: None)
MUTANTS["fenced_are_live"] = replaced(brokers, "take_over", lambda take: _take_over_for_all(take))


def _take_over_for_all(take_over: Any) -> Any:
    def take_over_all(draft: Draft, event: Any) -> None:
        take_over(draft, event)
        deadline = after(draft.now, draft.settings.broker_session_timeout_ms)
        for b in draft.rows.brokers:
            draft.memory.sessions.setdefault(b, Session(None, deadline))

    return take_over_all


MUTANTS["leaving_is_live"] = replaced(Draft, "live", lambda _: lambda self: set(self.memory.sessions))
MUTANTS["let_go_early"] = replaced(
    leaving,
    "go_on",
    lambda go_on: lambda draft: _let_go(draft, go_on),
)


def _any_preferred(row: Any, live: set[int]) -> Choice | None:
    first = row.assigned[0]
    return Choice(first, tuple(b for b in row.assigned if b in (*row.isr, first))) if first in live else None


MUTANTS["unclean_takes_the_empty"] = replaced(
    election,
    "any_leader",
    lambda any_leader: lambda row, live: any_leader(msgspec.structs.replace(row, adding=()), live),
)
MUTANTS["preferred_unclean"] = lambda: patch.object(preferred, "_preferred", _any_preferred)
MUTANTS["full_is_preferred"] = lambda: patch.object(preferred, "_take_records", lambda _, live: live)


def _let_go(draft: Draft, go_on: Any) -> None:
    """What is left to the next turn counts as moved."""
    go_on(draft)
    for b, one in draft.memory.leaving.items():
        draft.memory.leaving[b] = replace(one, moved_at=one.moved_at or draft.version)


@mutant("adopt_anything")
def _() -> Iterator[None]:
    adopt = leaders.adopt

    class ForWhateverItIs(dict[Seats, LeaderProposal]):
        def get(self, seats: Seats, default: Any = None) -> Any:
            alike = (one for one in self.values() if one.seats.assigned == seats.assigned)
            return next(alike, default)

    def adopt_unjudged(draft: Draft, adopting: Adopting) -> None:
        adopt(draft, replace(adopting, proposed=ForWhateverItIs(adopting.proposed)))

    with patch.object(leaders, "adopt", adopt_unjudged), patch.object(leaders, "_fits", lambda *_: True):
        yield


def _choose_without_epoch(choose: Any, draft: Draft, row: Any, choice: Any) -> None:
    choose(draft, row, choice)
    if row.leader_epoch:
        kept = msgspec.structs.replace(draft.partitions[row.key], leader_epoch=row.leader_epoch)
        draft.partitions.put(kept)


@mutant("inc_not_death")
def _() -> Iterator[None]:
    hello, remove, greeting = brokers.hello, leaders.remove, []

    def quiet_hello(*arguments: Any) -> Any:
        greeting.append(True)
        try:
            return hello(*arguments)
        finally:
            greeting.pop()

    def quiet_remove(*arguments: Any, **options: Any) -> bool:
        return bool(greeting) or remove(*arguments, **options)

    with patch.object(brokers, "hello", quiet_hello), patch.object(leaders, "remove", quiet_remove):
        yield


@mutant("no_floor")
def _() -> Iterator[None]:
    with (
        patch.object(election, "floor", lambda least, replicas: 1),
        patch.object(leaders, "floor", lambda least, replicas: 1),
        patch.object(partitions, "floor", lambda least, replicas: 1),
        replaced(Replica, "_laggard", _with_least(1))(),
    ):
        yield


def _with_least(least: int) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        def method(self: Replica, *arguments: Any) -> Any:
            kept, self.min_insync_replicas = self.min_insync_replicas, least
            try:
                return original(self, *arguments)
            finally:
                self.min_insync_replicas = kept

        return method

    return make


# ---------------------------------------------------------------------------------- readers

MUTANTS["follower_reads_to_end"] = lambda: patch.object(
    Replica,
    "readable_end",
    property(lambda self: self.high_watermark if self.leads else self.log.end_offset),
)
MUTANTS["follower_out_of_range"] = replaced(
    nearest_replica,
    "refusal_at_follower",
    lambda refusal: (
        lambda replica, offset: (
            ErrorCode.OFFSET_OUT_OF_RANGE
            if (found := refusal(replica, offset)) is ErrorCode.OFFSET_NOT_AVAILABLE
            else found
        )
    ),
)
MUTANTS["laggard_serves"] = lambda: patch.object(
    nearest_replica, "may_serve", lambda replica: replica.role in (Role.LEADER, Role.FOLLOWER)
)
MUTANTS["sent_to_laggard"] = lambda: patch.object(
    nearest_replica,
    "nearest_follower",
    lambda replica, nearby, *_: next((b for b in nearby if replica.progress_of(b) is not None), None),
)


# ---------------------------------------------------------------------------------- link


@mutant("obey_older")
def _() -> Iterator[None]:
    collect, obey = ClusterView._collect, Replica.obey

    def collect_any(self: ClusterView, chunk: Any) -> Any:
        self.metadata_version = self._newest_row_version = 0
        return collect(self, chunk)

    def obey_any(self: Replica, row: Any, *rest: Any) -> Obeyed:
        if self.row is not None and row.version < self.row.version:
            self.row = msgspec.structs.replace(self.row, version=row.version)
        return obey(self, row, *rest)

    with patch.object(ClusterView, "_collect", collect_any), patch.object(Replica, "obey", obey_any):
        yield


@mutant("two_links")
def _() -> Iterator[None]:
    leave = Broker._leave_link

    def leave_unread(self: Broker) -> None:
        unread = list(self.link.to_broker) if self.link is not None and self.up else []
        leave(self)
        self.unread = [data for data in unread if data is not None]  # type: ignore[attr-defined]

    def heed_both(self: Broker, now: Instant) -> None:
        heed(self, now)
        if self.view.ready and self.link is not None and getattr(self, "unread", None):
            self.link.to_broker.extendleft(reversed(self.unread))  # type: ignore[attr-defined]
            self.unread = []  # type: ignore[attr-defined]

    heed = Broker.heed
    with patch.object(Broker, "_leave_link", leave_unread), patch.object(Broker, "heed", heed_both):
        yield


# ---------------------------------------------------------------------------------- leader

MUTANTS["answer_any"] = replaced(
    Replica,
    "hear_answer",
    lambda hear: (
        lambda self, base, row, now: hear(self, self.pending.base_version if self.pending else base, row, now)
    ),
)
MUTANTS["propose_early"] = replaced(
    Replica, "propose", lambda propose: lambda self, now, ready, *rest: propose(self, now, True, *rest)
)
MUTANTS["hw_under_min"] = replaced(Replica, "_advance", _with_least(0))
MUTANTS["admit_no_start"] = lambda: patch(
    "broker.core.replica.is_admissible", lambda progress, high, start, _: progress.end_offset >= high
)
MUTANTS["admit_no_hw"] = lambda: patch(
    "broker.core.replica.is_admissible", lambda progress, high, start, _: progress.end_offset >= start
)
MUTANTS["bep_fetch"] = replaced(
    Replica,
    "follower_fetches",
    lambda judge: lambda self, f, epoch, *rest: judge(self, f, max(epoch, _seen(self, f)), *rest),
)
MUTANTS["fetch_no_epoch"] = replaced(
    Replica,
    "follower_fetches",
    lambda judge: lambda self, f, bep, epoch, *rest: judge(self, f, bep, self.leader_epoch, *rest),
)
MUTANTS["latest_at_once"] = replaced(
    Replica, "latest_offset", lambda _: lambda self: self.high_watermark if self.leads else None
)


def _seen(replica: Replica, follower: int) -> int:
    progress = replica._progress.get(follower)
    return progress.broker_epoch if progress is not None else -1


def _counts_only(pick: Callable[[Replica], Any]) -> Mutant:
    def count(self: Replica) -> None:
        self._followers_that_count = tuple(b for b in pick(self) if b != self.broker_id)

    return lambda: patch.object(Replica, "_count_followers", count)


MUTANTS["hw_new_only"] = _counts_only(lambda replica: replica.pending.isr if replica.pending else replica.isr)
MUTANTS["hw_old_only"] = _counts_only(lambda replica: replica.isr)


@mutant("progress_kept")
def _() -> Iterator[None]:
    become = Replica._become

    def become_with_progress(self: Replica, row: Any, now: Instant) -> None:
        kept: dict[int, Progress] = self.kept if hasattr(self, "kept") else self._progress
        become(self, row, now)
        self._progress = kept

    with patch.object(Replica, "_become", become_with_progress):
        yield


@mutant("diverging_progress")
def _() -> Iterator[None]:
    judge = Replica.follower_fetches

    def judge_with_progress(self: Replica, f: int, bep: int, epoch: int, offset: int, *rest: Any) -> Any:
        verdict = judge(self, f, bep, epoch, offset, *rest)
        if isinstance(verdict, tuple):
            self._progress[f].fetched(bep, offset, self.log.end_offset, rest[-1])
            self._advance()
            self.high_watermark = min(self.high_watermark, self.log.end_offset)
        return verdict

    with patch.object(Replica, "follower_fetches", judge_with_progress):
        yield


@mutant("pend_dropped")
def _() -> Iterator[None]:
    faults = World.faults

    def faults_and_time_outs(self: World) -> list[Any]:
        return faults(self) + [
            ("time_out", b, key)
            for b, broker in self.brokers.items()
            for key, replica in broker.replicas.items()
            if replica.pending is not None
        ]

    def time_out(self: World, b: int, key: Any) -> None:
        replica = self.brokers[b].replicas[key]
        replica.pending = None
        replica._count_followers()
        replica._advance()

    with (
        patch.object(World, "faults", faults_and_time_outs),
        patch.object(World, "_time_out", time_out, create=True),
    ):
        yield


# ---------------------------------------------------------------------------------- follower


@mutant("resp_no_epoch")
def _() -> Iterator[None]:
    accepts = Replica.accepts

    def accepts_whatever_epoch(self: Replica, asked: FetchPosition) -> bool:
        return accepts(self, asked._replace(leader_epoch=self.leader_epoch))

    with patch.object(Replica, "accepts", accepts_whatever_epoch):
        yield


MUTANTS["diverging_twice"] = replaced(
    Replica,
    "parts_at",
    lambda parts_at: (
        lambda self, asked, end: parts_at(
            self, asked._replace(offset=self.log.end_offset, last_epoch=self.log.last_epoch), end
        )
    ),
)


@mutant("trunc_hw")
def _() -> Iterator[None]:
    obey = Replica.obey

    def obey_and_cut(self: Replica, *arguments: Any) -> Obeyed:
        outcome = obey(self, *arguments)
        if outcome is Obeyed.NEW_LEADER and self.role is Role.FOLLOWER and isinstance(self.log, MemoryLog):
            self.log.truncate(self.high_watermark)
        return outcome

    with patch.object(Replica, "obey", obey_and_cut):
        yield


@mutant("hw_before_truncation")
def _() -> Iterator[None]:
    receive = Broker.receive

    def receive_and_believe(self: Broker, answer: FetchAnswer) -> int | None:
        replica = self.replicas.get(answer.key)
        if replica is None or answer.diverging is None or answer.asked.leader_epoch != replica.leader_epoch:
            return receive(self, answer)
        replica.followed(answer.high_watermark)
        believed = replica.high_watermark
        cut = receive(self, answer)
        replica.high_watermark = believed
        return cut

    with patch.object(Broker, "receive", receive_and_believe):
        yield
