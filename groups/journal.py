"""This room reads a group's turns from the journal."""

from groups.history import Entry, Rebalance, rebalances
from runtime.models import JournalEntry

_ENTRIES_READ = 200
"""Turns of one group that its page looks back on; a rebalance is two turns or more."""


def rebalances_of(group: str, shard: int, most: int) -> list[Rebalance]:
    """The last rebalances of a group, newest first."""
    rows = JournalEntry.objects.filter(key=group, lane=f"coordinator/{shard}").order_by("-id")
    entries = rows.values_list("at", "cause", "records")[:_ENTRIES_READ]
    told = [Entry(at, cause, tuple(records)) for at, cause, records in entries]
    return rebalances(reversed(told))[:most]


def last_rebalances(most: int) -> list[tuple[str, Rebalance]]:
    """The last rebalances of all groups, newest first, each with its group."""
    rows = JournalEntry.objects.filter(lane__startswith="coordinator/").order_by("-id")
    told: dict[str, list[Entry]] = {}
    for key, at, cause, records in rows.values_list("key", "at", "cause", "records")[:_ENTRIES_READ]:
        told.setdefault(key, []).append(Entry(at, cause, tuple(records)))
    found = [(key, one) for key, entries in told.items() for one in rebalances(reversed(entries))]
    return sorted(found, key=lambda pair: pair[1].started, reverse=True)[:most]
