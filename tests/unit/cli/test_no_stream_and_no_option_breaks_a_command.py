"""A full disk, a closed stream, a narrow encoding, options that are nothing: words, no traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from muster.cli.failures import ExitCode

SHOW = ("--url", "https://one.example", "context", "show")


def run(folder: Path, *words: str, script: str = "exec {}", **environment: str) -> tuple[int, str, str]:
    """How a command in a shell ended, and what it wrote."""
    command = " ".join([sys.executable, "-m", "muster.cli", *(f"'{word}'" for word in words)])
    kept = {**os.environ, "XDG_CONFIG_HOME": str(folder), "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(
        ["sh", "-c", script.format(command)],
        env={**kept, **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_full_disk_is_said_in_words(tmp_path: Path) -> None:
    code, _, said = run(tmp_path, *SHOW, script="exec {} >/dev/full")
    assert code == ExitCode.REFUSED and said.startswith("muster: The answer could not be written")
    assert "Traceback" not in said


def test_an_answer_that_nobody_takes_is_written_nowhere(tmp_path: Path) -> None:
    assert run(tmp_path, *SHOW, script="exec {} >&-") == (0, "", "")


def test_what_a_terminal_cannot_write_is_spelled_out(tmp_path: Path) -> None:
    narrow = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "MUSTER_CA_FILE": "/\u2192"}
    code, out, said = run(tmp_path, *SHOW, **narrow)
    assert code == 0 and "\\ud" in out, said


def test_a_command_runs_in_a_folder_that_is_gone(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    assert run(tmp_path, *SHOW, script="cd gone && rmdir ../gone && exec {}")[0] == 0
    assert not gone.exists()


def test_a_closed_stdin_can_be_asked_nothing(tmp_path: Path) -> None:
    words = ("--url", "http://127.0.0.1:1", "topics", "create", "orders")
    code, out, said = run(tmp_path, *words, script="exec {} <&-")
    assert (code, out) == (ExitCode.USAGE, "") and said.startswith("muster: Say why: --reason TEXT.")


@pytest.mark.parametrize(
    ("name", "held", "told"),
    [
        ("empty", b" \n", "is empty"),
        ("binary", b"\xff\xfe", "cannot be read"),
        ("two-lines", b"mst_a\nmst_b\n", "something that no token holds"),
        ("missing", None, "cannot be read"),
        (".", None, "cannot be read"),
        ("~nobody-of-here/token", None, "cannot be read"),
    ],
)
def test_a_file_that_holds_no_token_is_named(
    tmp_path: Path, name: str, held: bytes | None, told: str
) -> None:
    if held is not None:
        (tmp_path / name).write_bytes(held)
    for words, environment in (
        (("--token-file", name), {}),
        ((), {"MUSTER_TOKEN_FILE": name, "MUSTER_TOKEN": "mst_unused"}),
    ):
        code, out, said = run(tmp_path, *words, *SHOW, **environment)
        assert (code, out) == (ExitCode.USAGE, "") and told in said and "Traceback" not in said
        assert "mst_a" not in said


def test_a_file_that_ends_its_line_holds_a_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"  mst_abcdefgh_x\r\n")
    code, out, said = run(tmp_path, "--token-file", "token", *SHOW)
    assert code == 0 and "token        yes" in out, said


def test_an_account_without_a_home_keeps_no_contexts(tmp_path: Path) -> None:
    code, _, said = run(tmp_path, "context", "show", XDG_CONFIG_HOME="", HOME="", MUSTER_HOME=str(tmp_path))
    assert code == ExitCode.USAGE and "No cluster is named" in said


def test_a_time_before_all_times_is_none(tmp_path: Path) -> None:
    words = ("groups", "reset-offsets", "g", "--all-topics", "--by-duration", "999999999d", "--reason", "x")
    code, out, said = run(tmp_path, "--url", "http://127.0.0.1:1", *words)
    assert (code, out) == (ExitCode.USAGE, "") and "there was no time yet" in said


@pytest.mark.parametrize("proxy", ["socks5h://127.0.0.1:1", "foo://127.0.0.1:1"])
def test_a_proxy_that_cannot_be_used_is_named(tmp_path: Path, proxy: str) -> None:
    words = ("--url", "https://one.example", "--token", "mst_x", "status")
    code, out, said = run(tmp_path, *words, ALL_PROXY=proxy, NO_PROXY="", no_proxy="")
    assert (code, out) == (ExitCode.USAGE, "") and "Traceback" not in said
    assert said.startswith("muster: The proxy that the environment names cannot be used")


def test_a_file_of_contexts_that_holds_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "muster").mkdir()
    (tmp_path / "muster" / "contexts.toml").write_text("contexts = 3\n", encoding="utf-8")
    code, _, said = run(tmp_path, "context", "list")
    assert code == ExitCode.USAGE and "contexts.toml holds no contexts: 3" in said


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--timeout", "nan"), "nan is no number"),
        (("--timeout", "inf"), "inf is not in the range"),
        (("topics", "show", "", "--url", "http://127.0.0.1:1"), "A name is empty"),
        (
            ("topics", "delete", "", "--url", "http://127.0.0.1:1", "--yes", "--reason", "x"),
            "A name is empty",
        ),
    ],
)
def test_what_is_nothing_is_refused_before_anybody_is_asked(
    tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    code, out, said = run(tmp_path, *words, *(() if "topics" in words else SHOW))
    assert (code, out) == (ExitCode.USAGE, "") and told in said and "Traceback" not in said


@pytest.mark.parametrize("typed", ["x", "0", "1.5", "9" * 19])
def test_what_is_no_number_is_told_so(tmp_path: Path, typed: str) -> None:
    """It said `'x' is not a valid int range`."""
    code, _, said = run(tmp_path, "brokers", "show", typed)
    assert code == ExitCode.USAGE and f"'{typed}' is no whole number from 1 on." in said
