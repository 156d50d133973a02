"""This room switches off rules of what is elected behind a database that was set back."""

from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from unittest.mock import patch

from broker.core import log_ends
from broker.core.replica import Role
from controller.core import recount
from controller.core.draft import Draft
from controller.core.election import Choice, elect
from controller.core.shown_logs import ShownLogs
from muster.messages.link.log_ends import LogEnd
from muster.messages.link.rows import NO_LEADER, PartitionRow
from tests.simulation.replication.loss_mutants import MUTANTS
from tests.simulation.replication.mutants import mutant, replaced

__all__ = ["MUTANTS"]

Without = Callable[..., Choice | None]

MUTANTS["shown_by_the_dead"] = replaced(ShownLogs, "forget", lambda _: lambda self, broker_id: None)
MUTANTS["end_before_epoch"] = lambda: patch.object(
    recount, "_reach", lambda end: (end.end_offset, end.last_epoch)
)
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
