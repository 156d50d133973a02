"""This room tests where the options may stand that all commands share, and that none is passed over."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from muster.cli.app import app
from muster.cli.failures import ExitCode
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


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (("--url", "", "topics", "list"), "--url is empty."),
        (("topics", "list", "--url", ""), "--url is empty."),
        (("groups", "list", "--topic", ""), "--topic is empty."),
        (
            ("topics", "delete", "orders", "--reason", "why", "--yes", "--if-match", ""),
            "--if-match is empty.",
        ),
        (
            ("groups", "rebalance", "ann", "--reason", "why", "--idempotency-key="),
            "--idempotency-key is empty.",
        ),
        (("groups", "offsets", "ann", "--partition", "3"), "--partition names one of --topic."),
        (("topics", "partitions", "--partition", "3"), "--partition names one of --topic"),
        (("topics", "partitions", "--topic", "orders", "--partition", "3", "--leader", "1"), "nothing else"),
        (("topics", "as-of", "orders", ""), "The moment is empty"),
    ],
)
def test_what_says_nothing_stands_for_nothing(
    typed: tuple[str, ...], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable that nobody set let another cluster be asked, all rows be listed, any version be changed."""
    monkeypatch.setenv("MUSTER_URL", "http://127.0.0.1:1")
    result = CliRunner().invoke(app, typed)
    assert (result.exit_code, result.stdout) == (ExitCode.USAGE, "")
    assert told in result.stderr
