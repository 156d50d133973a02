"""A seed that fails prints a command; the command shows the same violation, with the whole trail."""

import shlex

import pytest

from tests.simulation import run
from tests.simulation.classic.shell_mutants import SEEN_BY_SEEDS
from tests.simulation.native.mutants import MUTANTS, Mutant, applied


def named(mutants: tuple[Mutant, ...], name: str) -> Mutant:
    return next(mutant for mutant in mutants if mutant.name == name)


@pytest.mark.parametrize(
    ("simulation", "mutant"),
    [("classic", named(SEEN_BY_SEEDS, "cache_misses_commits")), ("native", named(MUTANTS, "dup_token"))],
)
def test_the_command_replays_it(simulation: str, mutant: Mutant, capsys: pytest.CaptureFixture[str]) -> None:
    [seed] = mutant.seeds
    with applied(mutant):
        assert run.main([simulation, "--first", str(seed), "--seeds", "1", "--jobs", "1"]) == 1
        told, command, _ = capsys.readouterr().out.splitlines()
        python, _, module, *arguments = shlex.split(command.removeprefix("    replay: "))
        assert (python, module, arguments[0]) == ("python", "tests.simulation.run", simulation)
        assert run.main(arguments) == 1
        *trail, violation = capsys.readouterr().out.splitlines()
    assert violation == told and trail
    assert run.main(arguments) == 0
