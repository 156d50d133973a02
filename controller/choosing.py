"""This room shows the brokers that a form may name: one by one, or so many that only their runs are read."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from django.db.models import QuerySet

from controller.models import Broker
from muster.kernel.runs import runs_of

ONE_BY_ONE: Final = 24
"""So many are named each with its rack."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The brokers of the cluster, in the order of their ids."""

    brokers: QuerySet[Broker]

    @property
    def are_many(self) -> bool:
        return len(self.brokers) > ONE_BY_ONE

    @property
    def fenced(self) -> list[int]:
        return [one.broker_id for one in self.brokers if one.fenced]

    @property
    def runs_of_fenced(self) -> str:
        return runs(self.fenced)

    @property
    def racks(self) -> list[tuple[str, str]]:
        """Each rack with the runs of its ids."""
        names = sorted({one.rack for one in self.brokers})
        return [(name, runs(one.broker_id for one in self.brokers if one.rack == name)) for name in names]


def choice() -> Choice:
    """All that there are; read when somebody looks, as a form that was sent may not."""
    return Choice(Broker.objects.defer("secret_hash").order_by("broker_id"))


def runs(ids: Iterable[int]) -> str:
    """`1 to 4, 7, 8`: ids in their order, of which three or more in a row are one run."""
    return ", ".join(
        f"{first} to {last}" if last > first + 1 else ", ".join(map(str, range(first, last + 1)))
        for first, last in runs_of(ids)
    )
