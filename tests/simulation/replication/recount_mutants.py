"""This room switches off rules of what is elected behind a database that was set back."""

from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from unittest.mock import patch

import msgspec

from broker.core import log_ends, proven_rows, replica
from broker.core.led_epochs import LedEpochs
from broker.core.replica import Role
from controller.core import recount
from controller.core.draft import Draft
from controller.core.election import Choice, elect
from controller.core.shown_logs import ShownLogs
from muster.messages.link.from_broker import IsrProposal
from muster.messages.link.log_ends import LogEnd
from muster.messages.link.rows import NO_LEADER, PartitionRow
from tests.simulation.replication.loss_mutants import MUTANTS
from tests.simulation.replication.mutants import Mutant, mutant, replaced

__all__ = ["MUTANTS"]

LAST_OFFSET = 2**63 - 1
Without = Callable[..., Choice | None]

MUTANTS["shown_by_the_dead"] = replaced(ShownLogs, "forget", lambda _: lambda self, broker_id: None)
MUTANTS["end_before_epoch"] = lambda: patch.object(
    recount, "_reach", lambda end, begun, _: (end.end_offset >= begun, end.end_offset, end.last_epoch)
)
MUTANTS["led_is_forgotten"] = replaced(LedEpochs, "look", lambda _: lambda self, key, replica: None)
MUTANTS["cut_is_overlooked"] = replaced(
    LedEpochs, "shown_for", lambda whole: lambda self, row, end_offset: whole(self, row, LAST_OFFSET)
)
MUTANTS["deleted_is_brought_back"] = lambda: patch.object(recount, "_latest_start", lambda ends: 0)
MUTANTS["doubt_is_forgotten"] = lambda: patch.object(recount, "doubt", lambda draft, broker_id, lost: True)
MUTANTS["failed_is_shown"] = lambda: patch.object(log_ends, "Role", SimpleNamespace(OFFLINE=Role.FAILED))


@mutant("isr_is_believed")
def _() -> Iterator[None]:
    def judged(draft: Draft, row: PartitionRow, ends: Mapping[int, LogEnd], live: set[int]) -> Choice | None:
        choice = elect(row, row.isr, draft.usable(live, row), unclean=False)
        return choice if choice.leader != NO_LEADER else None

    with patch.object(recount, "_judged", judged):
        yield


@mutant("absent_are_forgotten")
def _() -> Iterator[None]:
    without: Without = recount._without_the_rest

    def in_silence(*arguments: object) -> Choice | None:
        choice = without(*arguments)
        return choice._replace(possible_loss="") if choice is not None else None

    with patch.object(recount, "_without_the_rest", in_silence):
        yield


def _forgetful(is_open: bool, is_other: bool) -> Mutant:
    """`proven_before` where a proposal that is open, or another lift, takes nothing away."""
    whole = proven_rows.proven_before

    def before_it(
        before: PartitionRow | None, row: PartitionRow, pending: IsrProposal | None, known: int
    ) -> int:
        if before is not None and before.is_unproven and is_other:
            before = msgspec.structs.replace(before, leader_epoch=row.leader_epoch)
        return whole(before, row, None if is_open else pending, known)

    return lambda: patch.object(replica, "proven_before", before_it)


MUTANTS["open_proposal_is_forgotten"] = _forgetful(is_open=True, is_other=False)
MUTANTS["other_lift_is_forgotten"] = _forgetful(is_open=False, is_other=True)
MUTANTS["another_process_is_believed"] = lambda: patch.object(
    recount, "_is_as_it_was", lambda draft, broker_id, row: True
)


@mutant("lost_turns_are_overlooked")
def _() -> Iterator[None]:
    proven: Without = recount._proven

    def whatever_they_obeyed(
        draft: Draft, row: PartitionRow, ends: Mapping[int, LogEnd], usable: set[int]
    ) -> Choice | None:
        low = {b: msgspec.structs.replace(end, proven_version=1) for b, end in ends.items()}
        return proven(draft, row, low, usable)

    with patch.object(recount, "_proven", whatever_they_obeyed):
        yield


@mutant("waits_for_everybody")
def _() -> Iterator[None]:
    with patch.object(recount, "_proven", lambda draft, row, ends, usable: None):
        yield
