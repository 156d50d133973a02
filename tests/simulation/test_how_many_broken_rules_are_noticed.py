"""Every mutant of the groups' cores and shells is killed by a test of its own; here they are counted."""

from tests.simulation.classic import mutants as classic
from tests.simulation.classic import shell_mutants as shells
from tests.simulation.native import mutants as native
from tests.simulation.native import operator_mutants
from tests.simulation.native.test_mutants import TRANSCRIPT_MUTANTS


def test_of_the_groups_they_are_more_than_a_hundred() -> None:
    names = [
        *(mutant.name for mutant in (*native.MUTANTS, *operator_mutants.MUTANTS)),
        *(transcript for transcript, _ in TRANSCRIPT_MUTANTS),
        *(mutant.name for mutant in (*classic.SEEN_BY_SEEDS, *classic.SEEN_BY_THE_PLAIN_TELLING)),
        *(mutant.name for mutant, _ in classic.SEEN_BY_A_TEST),
        *(mutant.name for mutant in shells.SEEN_BY_SEEDS),
        *(mutant.name for mutant, _ in shells.SEEN_BY_A_TEST),
    ]
    assert len(names) == len(set(names))
    assert len(names) >= 100
