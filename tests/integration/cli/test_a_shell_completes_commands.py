"""A shell completes commands and options of `muster`, however it was started."""

import subprocess

import pytest

from tests.integration.cli.conftest import Muster


@pytest.mark.parametrize(
    ("typed", "word", "completed"),
    [
        ("muster gro", 1, ["groups"]),
        ("muster brokers d", 2, ["drain", "decommission"]),
        ("muster groups reset-offsets --to-e", 3, ["--to-earliest"]),
        ("muster topics list -o j", 4, ["json"]),
    ],
)
def test_words_are_completed(nobody: Muster, typed: str, word: int, completed: list[str]) -> None:
    asked = {"_MUSTER_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(word)}
    done = subprocess.run(
        nobody.command(),
        env=nobody.environment | asked,
        cwd=nobody.home,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout.split(), done.stderr) == (completed, "")


def test_help_calls_the_command_by_its_name(nobody: Muster) -> None:
    assert nobody.done("groups", "--help").out.startswith("Usage: muster groups ")
