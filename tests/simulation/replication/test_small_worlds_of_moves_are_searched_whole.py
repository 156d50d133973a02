"""This room searches small worlds of moves whole: every order of what may happen, with the real cores.

Each rule of the table of moves (replication.md section 2) is missed by one of the searches.
"""

import pytest

from tests.simulation.replication.small_search import bounded_worlds, search
from tests.simulation.replication.topic_mutants import MUTANTS

SEARCHED = {
    "ap_no_version": "replaced by another",
    "cancel_empties_isr": "the old one dies, and it is cancelled",
    "cancel_no_epoch": "cancelled",
    "drain_waits_for_the_dead": "somebody dies",
    "fail_by_timer": "from one to two",
    "floor_counts_adding": "from one to two",
    "init_is_done": "cancelled",
    "stray_reused": "cancelled",
    "switch_early": "replaced by another",
    "switch_no_epoch": "cancelled",
    "takeover_forgets": "taken over",
    "two_active": "replaced by another",
    "two_writes": "cancelled",
}
"""By mutant, the world that notices it."""


def search_through(name: str) -> None:
    found = search(bounded_worlds()[name])
    assert not found.violation, f"{found.violation} by {found.path}"
    assert found.states > 1_000


@pytest.mark.parametrize("name", sorted(bounded_worlds()))
def test_nothing_that_may_happen_breaks_a_rule(name: str) -> None:
    search_through(name)


@pytest.mark.parametrize("name", sorted(SEARCHED))
def test_the_search_ends_early_without_the_rule(name: str) -> None:
    with MUTANTS[name]():
        assert search(bounded_worlds()[SEARCHED[name]]).violation
