"""This room tests where the options may stand that all commands share."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from muster.cli.app import app
from muster.kernel.version import VERSION


def told(*arguments: str) -> str:
    """What the command wrote, of one that asks nobody."""
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(autouse=True)
def nobodys_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No contexts, no stack."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def test_a_cluster_is_named_before_the_command_or_behind_it() -> None:
    before = told("--url", "https://one.example", "context", "show")
    assert "https://one.example" in before
    assert told("context", "show", "--url", "https://one.example") == before


def test_its_version_is_told_without_a_cluster() -> None:
    assert told("--version") == f"muster {VERSION}\n"


def test_what_stands_behind_the_command_counts() -> None:
    shown = told(
        "--url", "https://one.example", "-o", "json", "context", "show", "--url", "https://two.example"
    )
    assert "https://two.example" in shown and "https://one.example" not in shown
    assert shown.startswith("{")
