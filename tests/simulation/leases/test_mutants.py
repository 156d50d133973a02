"""Each broken rule of who is the controller is noticed by a script, which finds nothing where none is."""

import pytest

from tests.simulation.leases import scripted
from tests.simulation.leases.mutants import MUTANTS
from tests.simulation.leases.scripted import SCRIPTS, Script, violation_of
from tests.simulation.native.mutants import Mutant, applied

NOTICE: dict[str, Script] = {
    "no_settling": scripted.one_after_the_other_is_not_reached,
    "forgotten_when_done": scripted.the_controller_is_heard_and_hears_nobody,
    "anybody_takes_it_back": scripted.one_after_the_other_is_not_reached,
    "never_taken_back": scripted.brokers_reach_now_one_and_now_the_other,
    "newcomers_count": scripted.newcomers_reach_another_node_alone,
    "here_counts_there": scripted.brokers_come_and_go_at_another_node,
    "as_many_are_enough": scripted.as_many_reach_another_node,
    "silent_links_count": scripted.the_controller_is_heard_and_hears_nobody,
    "who_hangs_is_chosen": scripted.the_other_node_hangs,
    "no_holding": scripted.the_controller_is_not_reached_for_a_moment,
    "came_for_ever": scripted.brokers_that_came_to_another_node_die,
    "nobody_is_told_who_came": scripted.the_controller_is_heard_and_hears_nobody,
    "who_came_is_not_noted": scripted.the_controller_is_heard_and_hears_nobody,
    "best_whoever_made_way": scripted.whom_way_was_made_for_dies,
    "best_whoever_is_reached": scripted.most_reach_a_node_that_is_not_the_best,
    "no_freeze": scripted.the_controller_hears_nothing_of_the_database,
    "silence_is_borne": scripted.the_controller_is_heard_and_hears_nobody,
}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_the_controller_is_where_it_must_be(script: Script) -> None:
    assert violation_of(script) == ""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_script_notices(mutant: Mutant) -> None:
    with applied(mutant):
        assert violation_of(NOTICE[mutant.name]), mutant.rule
