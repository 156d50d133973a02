"""This room sees that each broken rule of the classic protocol is noticed, in the core and in the shells."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.simulation.classic import mutants, shell_mutants
from tests.simulation.classic.runner import run_seed
from tests.simulation.native.mutants import Mutant, applied
from tests.unit.classic_core.test_a_plain_telling_answers_the_same import Protocol

ONCE = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize(
    "mutant", [*mutants.SEEN_BY_SEEDS, *shell_mutants.SEEN_BY_SEEDS], ids=lambda mutant: mutant.name
)
def test_the_simulation_notices(mutant: Mutant) -> None:
    with applied(mutant):
        assert any(run_seed(seed).violation for seed in mutant.walks), mutant.rule


@pytest.mark.parametrize("mutant", mutants.SEEN_BY_THE_PLAIN_TELLING, ids=lambda mutant: mutant.name)
def test_the_plain_telling_notices(mutant: Mutant) -> None:
    with applied(mutant):
        assert any(breaks(examples) for examples in (60, 1_000)), mutant.rule


def breaks(examples: int) -> bool:
    """Whether so many walks meet something that is not as the plain telling says, whatever it is."""
    try:
        run_state_machine_as_test(Protocol, settings=settings(ONCE, max_examples=examples))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        return True
    return False


@pytest.mark.parametrize(
    ("mutant", "test"),
    [*mutants.SEEN_BY_A_TEST, *shell_mutants.SEEN_BY_A_TEST],
    ids=lambda one: getattr(one, "name", ""),
)
def test_the_test_notices(mutant: Mutant, test: Callable[[], None]) -> None:
    test()
    with applied(mutant), pytest.raises(AssertionError):
        test()
