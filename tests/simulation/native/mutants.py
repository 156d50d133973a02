"""This room breaks one rule of the cores at a time, in memory, to see that the simulation notices.

A mutant replaces text inside functions and swaps their code; product code has no switches for it.
"""

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from coordinator.callers import Orders
from coordinator.commits import Commits
from coordinator.core import decide, draft, offsets
from coordinator.core.native import attempts, frames, handle, sessions
from coordinator.speech import Speech
from coordinator.subject import Groups
from groups.core.state import GroupRows
from muster.client.core.session import MemberSession
from runtime import turn
from runtime.freshness import Freshness
from runtime.judging import Judge
from runtime.lanes import HeldLane


@dataclass(frozen=True)
class Patch:
    """In this function, this text is replaced."""

    function: Callable[..., Any]
    old: str
    new: str

    def __str__(self) -> str:
        return self.function.__name__


LOOKED_THROUGH = 400


@dataclass(frozen=True)
class Mutant:
    """One rule switched off. `seeds` are known to notice; without any, a script of `scripted` must.

    When walks change, one of the first LOOKED_THROUGH takes their place.
    """

    name: str
    rule: str
    patches: tuple[Patch, ...]
    seeds: tuple[int, ...] = ()

    @property
    def walks(self) -> tuple[int, ...]:
        """The seeds to try, in this order."""
        return (*self.seeds, *range(LOOKED_THROUGH))


NO_REPAIR = Patch(handle._repair, "assigned = sessions", "return\n    assigned = sessions")
SETS_ONLY = Patch(handle._repair, "assigned = sessions.has_assigned(draft, member_id)", "assigned = False")

STARTED = '"" in attempt.lost'
"""In the mutant below: the attempt has been told who is to start what, and has written nothing of it."""

OWN_AFTER_START = (
    Patch(
        attempts.close,
        "    generation = draft.rows.generation + 1\n"
        "    draft.record(records.GenerationOpened(generation))\n",
        f"""    if not ({STARTED}):
        draft.record(records.GenerationOpened(draft.rows.generation + 1))
        draft.waiting = set(attempt.losers | attempt.gained.keys())
        for member_id in sorted(draft.waiting):
            draft.tell_ownership(member_id)
        lost = {{**attempt.lost, "": frozenset()}}
        waiting = frozenset(draft.waiting)
        draft.attempt = replace(attempt, key=draft.key_of_turn, waiting=waiting, lost=lost)
        return
    generation = draft.rows.generation
""",
    ),
    Patch(
        frames._commands,
        "key = state.rows.key\n",
        f"""key = state.rows.key
    attempt = draft.attempt
    if attempt is not None and {STARTED}:
        owned = {{one: dict(rows) for one, rows in state.rows.owned.items()}}
        for member_id, partitions in attempt.lost.items():
            for partition in partitions:
                del owned[member_id][partition]
        for member_id, partitions in attempt.gained.items():
            owned.setdefault(member_id, {{}}).update(dict.fromkeys(partitions))
        state = replace(state, rows=replace(state.rows, owned=owned))
""",
    ),
    Patch(
        handle._start_answered,
        "    started = [",
        f"""    attempt = draft.attempt
    if attempt is not None and {STARTED} and Key(answer.generation, answer.version) == attempt.key:
        draft.waiting.discard(member_id)
        if not draft.waiting:
            attempts.close(draft)
        return
    started = [""",
    ),
)

KEPT_OPEN = """\
assigned=count_assigned(rows),
            attempt=__import__("coordinator.core.memory", fromlist=["Attempt"]).Attempt(
                rows.key, frozenset(), frozenset(), frozenset([""]), {}, {}
            )
            if rows.phase == "PreparingRebalance"
            else None,"""

UNKNOWN = "if not await _was_written(lane, row):"
SPOKEN = "    subject.settle(key, state, decision)\n"


def _getter(a_property: object) -> Callable[..., Any]:
    """The function of a property."""
    assert isinstance(a_property, property) and a_property.fget is not None
    return a_property.fget


KEY_OF_ROWS = _getter(GroupRows.key)
KEY_OF_TURN = _getter(draft.Draft.key_of_turn)

MUTANTS = (
    Mutant(
        "own_after_start",
        "ownership is written after the Start responses (000 chapter 9, step 4.6)",
        OWN_AFTER_START,
        seeds=(0,),
    ),
    Mutant(
        "volatile_attempt",
        "the number in a key begins again within its generation",
        (
            Patch(KEY_OF_ROWS, "self.version", "self.version % 8"),
            Patch(KEY_OF_TURN, "self.rows.before.version + 1", "(self.rows.before.version + 1) % 8"),
        ),
        seeds=(0,),
    ),
    Mutant(
        "resume_prep",
        "a load keeps the attempt open that was under way",
        (Patch(decide._awakened, "assigned=count_assigned(rows),", KEPT_OPEN),),
        seeds=(0,),
    ),
    Mutant(
        "key_gen_only",
        "StopFetcher bars every StartFetcher of its generation",
        (
            Patch(
                MemberSession._told_to_stop,
                "return [self._end_and_answer",
                "self._bar = request.generation\n    return [self._end_and_answer",
            ),
            Patch(
                MemberSession._told_to_start,
                "if self.stage is Stage.REGISTERED:",
                "if request.generation > getattr(self, '_bar', -1):",
            ),
        ),
        seeds=(112,),
    ),
    Mutant(
        "command_before_reply",
        "commands of the turn leave before the answer to Register",
        (
            Patch(
                Groups.settle,
                "(*decision.replies, *decision.commands)",
                "(*decision.commands, *decision.replies)",
            ),
        ),
        seeds=(1,),
    ),
    Mutant(
        "overtaken",
        "what is said later to the same caller overtakes what waits for the next slice",
        (Patch(Speech._wait, "unsaid.append(", "unsaid.appendleft("),),
        seeds=(32, 36),
    ),
    Mutant(
        "owner_stands_by",
        "who comes to own a partition stands by for it as before",
        (
            Patch(
                attempts._other_standbys,
                "frozenset(each_partition(read)) - owns",
                "frozenset(each_partition(read))",
            ),
        ),
        seeds=(1031,),
    ),
    Mutant(
        "no_wanted_at_load",
        "a load does not want a rebalance",
        (Patch(decide._awakened, 'wanted=LOADED if rows.members and not settled else ""', 'wanted=""'),),
        seeds=(8,),
    ),
    Mutant(
        "wanted_cleared",
        "joins since the snapshot are forgotten at adoption",
        (
            Patch(attempts.adopt, "draft.want(MEMBERS_CHANGED)", "pass"),
            Patch(attempts.settle, "draft.finished = None", 'draft.finished, draft.wanted = None, ""'),
        ),
        seeds=(1,),
    ),
    Mutant(
        "wanted_unread",
        "what is wanted for what no row tells is forgotten at adoption",
        (Patch(attempts.adopt, "proposal.version >= draft.wanted_at", "True"),),
        seeds=(116,),
    ),
    Mutant(
        "asked_in_prep",
        "a handler is asked while an attempt is open, and reads who owned what before its close",
        (Patch(attempts.settle, "draft.attempt is None and not", "not"),),
        seeds=(72,),
    ),
    Mutant(
        "no_filter",
        "a target is adopted with shares of members that left",
        (
            Patch(
                attempts._Subscriptions.still,
                "session = self._sessions.get",
                "return True\n    session = self._sessions.get",
            ),
        ),
        seeds=(1,),
    ),
    Mutant(
        "repair_in_prep",
        "ping repair while the attempt is open",
        (Patch(handle._ping_answered, "if draft.attempt is None and repair:", "if True:"),),
        seeds=(199,),
    ),
    Mutant("no_repair", "no ping repair", (NO_REPAIR,), seeds=(141,)),
    Mutant(
        "repair_set_only register_no_start",
        "ping repair compares sets only, not `assigned`, and no StartFetcher after Register",
        (SETS_ONLY, Patch(handle._register, "draft.tell_ownership(member_id)", "pass")),
        seeds=(63,),
    ),
    Mutant(
        "repair_set_only no_hang_up",
        "ping repair compares sets only, and whoever said what could not be decided is left waiting",
        (SETS_ONLY, Patch(Groups.refuse, "if isinstance(event, Heard):", "if False:")),
        seeds=(278,),
    ),
    Mutant(
        "no_start_after_fail no_repair",
        "losers are not told after a failed attempt, and no repair",
        (NO_REPAIR, Patch(attempts.fail, "draft.tell_ownership(member_id)", "pass")),
        seeds=(141,),
    ),
    Mutant(
        "register_no_start no_repair",
        "no StartFetcher after Register, and no repair",
        (NO_REPAIR, Patch(handle._register, "draft.tell_ownership(member_id)", "pass")),
        seeds=(1,),
    ),
    Mutant(
        "startr_any",
        "any Start response turns rows running",
        (
            Patch(
                handle._start_answered,
                "not tenure.running and tenure.since_generation <= answer.generation",
                "not tenure.running",
            ),
        ),
        seeds=(12,),
    ),
    Mutant(
        "no_since",
        "commit rule without since_generation",
        (Patch(offsets.refusal, "tenure.since_generation <= position.generation", "position.generation"),),
        seeds=(24,),
    ),
    Mutant(
        "no_order",
        "a turn and a batch do not wait for what the same caller said before on the other way",
        (
            Patch(Orders.turn, "elif line.held or line.way is not _TURN:", "elif False:"),
            Patch(Orders.batch, "elif line.held or line.way is not _BATCH:", "elif False:"),
        ),
    ),
    Mutant(
        "stamp_current",
        "the member states its newest generation instead of the one it fetched under",
        (
            Patch(
                MemberSession.commit,
                "correlation_id = self._next_id()",
                "positions = {one: Position(at.offset, self.generation) for one, at in positions.items()}\n"
                "    correlation_id = self._next_id()",
            ),
        ),
        seeds=(91,),
    ),
    Mutant(
        "flush_after",
        "offsets of Stop responses are not written with the ownership",
        (Patch(attempts.close, "draft.flush()", "pass"),),
        seeds=(0,),
    ),
    Mutant(
        "ack_early",
        "CommitOffsets is acknowledged before COMMIT",
        (Patch(Commits.gather, "if not rows:", "if True:"),),
        seeds=(4,),
    ),
    Mutant(
        "refused_keeps_cache",
        "the cache outlives a refused batch, which may be stored nevertheless",
        (Patch(Commits.refused, "self._groups.drop(key)", "pass"),),
    ),
    Mutant(
        "speak_early",
        "a turn is spoken before it is written",
        (
            Patch(
                turn._conclude, "    if decision.records and not", SPOKEN + "    if decision.records and not"
            ),
        ),
        seeds=(2,),
    ),
    Mutant(
        "assume_lost",
        "a turn whose outcome is unknown counts as not written",
        (Patch(turn._write, UNKNOWN, "if [await _was_written(lane, row)]:"),),
        seeds=(30,),
    ),
    Mutant(
        "assume_done",
        "a turn whose outcome is unknown counts as written",
        (
            Patch(
                turn._write,
                "if not await _was_written(lane, row):",
                "if not [await _was_written(lane, row)]:",
            ),
        ),
        seeds=(1,),
    ),
    Mutant(
        "no_freeze",
        "a node that cannot renew goes on answering",
        (
            Patch(
                Freshness.frozen_at, "self._announced or sent_at is None or", "sent_at is None or False and"
            ),
        ),
        seeds=(590,),
    ),
    Mutant(
        "no_postponement",
        "time in which nothing could be heard counts",
        (Patch(HeldLane.postpone, "self._stood_still_ms += late_ms", "pass"),),
        seeds=(96,),
    ),
    Mutant(
        "dup_token",
        "the same id with another token is accepted while the holder lives",
        (
            Patch(
                handle._why_refused,
                "if not hmac.compare_digest(present.token_hash, token_hash):",
                "if False:",
            ),
        ),
        seeds=(10,),
    ),
    Mutant(
        "expiry_unfenced",
        "the coordinator ends a session before the member has stopped by its own clock",
        (Patch(draft.session_length_ms, "session + session // 100 + 1 +", "2 * session // 3 +"),),
        seeds=(7,),
    ),
    Mutant(
        "expel_at_once",
        "a member that answers pings but not Stop or Start is removed at once",
        (Patch(sessions.cut_off, "expelled=True", "expelled=True, ends_at=draft.now"),),
        seeds=(201,),
    ),
    Mutant(
        "heard_renews",
        "the member counts its session from the last frame it heard",
        (
            Patch(
                MemberSession._pinged,
                "self.nodes = ping",
                "self.deadline = after(now, self.wishes.session_timeout_ms)\n    self.nodes = ping",
            ),
        ),
        seeds=(24,),
    ),
    Mutant(
        "kept_too_long",
        "a member goes on where it was although a second generation was opened meanwhile",
        (Patch(MemberSession._nobody_else_had, "generation <= lapsed + 1", "generation <= lapsed + 2"),),
    ),
    Mutant(
        "own_clock_ignored",
        "the member does not stop by its own clock",
        (Patch(MemberSession.may_fetch, "return deadline is None or", "return True or"),),
        seeds=(156,),
    ),
    Mutant(
        "refusal_alone",
        "an address that refuses ends nobody whose session is there",
        (Patch(Judge._is_gone, "return not peer.there", "return True"),),
        seeds=(14,),
    ),
)


@contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """The cores with this rule switched off."""
    saved: list[tuple[FunctionType, CodeType]] = []
    try:
        for patch in mutant.patches:
            function = patch.function
            assert isinstance(function, FunctionType)
            saved.append((function, function.__code__))
            function.__code__ = _mutated(function, patch)
        yield
    finally:
        for function, code in saved:
            function.__code__ = code


def _mutated(function: FunctionType, patch: Patch) -> CodeType:
    source = textwrap.dedent(inspect.getsource(function))
    times = source.count(patch.old)
    assert times == 1, f"{function.__qualname__} holds {patch.old!r} {times} times, and must once"
    scope = dict(function.__globals__)
    exec(
        compile(
            "from __future__ import annotations\n" + source.replace(patch.old, patch.new),
            function.__qualname__,
            "exec",
        ),
        scope,
    )
    mutated = scope[function.__name__]
    if isinstance(mutated, property):
        mutated = mutated.fget
    assert isinstance(mutated, FunctionType)
    return mutated.__code__
