"""This room switches off rules of what is told and taken over behind an election that may lose records."""

from collections.abc import Iterator
from unittest.mock import patch

from broker.core.loss_watch import LossKey, LossWatch
from broker.core.replica import Replica
from controller.core import brokers
from muster.messages.link.losses import LossReport
from tests.simulation.replication.losses import HeldOnDisk
from tests.simulation.replication.mutants import mutant, replaced
from tests.simulation.replication.registration_mutants import MUTANTS

__all__ = ["MUTANTS"]

MUTANTS["deleted_stays_away"] = replaced(
    Replica,
    "must_begin_again",
    lambda must: lambda self, end, start, *, after_loss: must(self, end, start, after_loss=False),
)
MUTANTS["cut_too_far"] = replaced(
    Replica,
    "heed_diverging",
    lambda heed: (
        lambda self, asked, leaders: (
            end and end - 1 if (end := heed(self, asked, leaders)) is not None else None
        )
    ),
)
MUTANTS["loss_said_in_vain"] = lambda: patch.object(brokers, "_says_a_loss_in_vain", lambda _: False)
MUTANTS["gone_is_untold"] = replaced(
    LossWatch,
    "stopped",
    lambda _: lambda self, key: self._drop([(*key, epoch) for epoch in self._asked.get(key, ())]),
)
MUTANTS["next_one_answers"] = replaced(
    LossWatch, "_forget", lambda _: lambda self, key, last_epoch=None: None
)
MUTANTS["held_is_forgotten"] = replaced(HeldOnDisk, "load", lambda _: lambda self: {})


@mutant("start_is_forgotten")
def _() -> Iterator[None]:
    def say_alone(self: LossWatch, told: LossKey, at: int, committed: int) -> None:
        self._say(LossReport(*told, at, at, committed))

    with patch.object(LossWatch, "_say_where_it_began", say_alone):
        yield


@mutant("parting_is_guessed")
def _() -> Iterator[None]:
    settled = LossWatch.settled

    def settled_somewhere(self: LossWatch, *arguments: object) -> None:
        settled(self, *arguments[:4])  # type: ignore[arg-type]

    with (
        patch.object(LossWatch, "settled", settled_somewhere),
        patch.object(LossWatch, "emptied", lambda self, key: None),
    ):
        yield


@mutant("insync_begins_again")
def _() -> Iterator[None]:
    def must_begin_again(self: Replica, end: int, start: int, *, after_loss: bool) -> bool:
        return 0 < max(start, self.log.start_offset if after_loss else 0) >= end

    with patch.object(Replica, "must_begin_again", must_begin_again):
        yield
