"""Which cluster a command asks, and which token it shows there: options, environment, contexts, a stack."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from muster.cli.failures import ExitCode, Failure
from muster.cli.places import Contexts, Place, Wanted, contexts_path, find


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Somebody whose contexts are `home` (current) and `away`."""
    said = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "HOME": str(tmp_path)}
    contexts = Contexts(contexts_path(said), "home")
    contexts.named["home"] = {"url": "https://home.example", "token": "mst_home"}
    contexts.named["away"] = {"url": "https://away.example", "token": "mst_away", "ca_file": "/ca.pem"}
    contexts.write()
    return said


def write_stack(folder: Path, pid: int, **more: Any) -> None:
    """What a stack tells scripts."""
    folder.mkdir(parents=True, exist_ok=True)
    told = {"web": "http://127.0.0.1:8000", "token": "mst_stack", "pid": pid} | more
    (folder / "stack.json").write_text(json.dumps(told), encoding="utf-8")


def asked(wanted: Wanted, environment: dict[str, str], folder: Path) -> tuple[str, str]:
    """The address, and the token shown there."""
    place = find(wanted, environment, folder)
    return place.url, place.token


def test_the_current_context_is_asked_unless_something_else_is_said(
    environment: dict[str, str], tmp_path: Path
) -> None:
    assert asked(Wanted(), environment, tmp_path) == ("https://home.example", "mst_home")
    assert asked(Wanted(), environment | {"MUSTER_CONTEXT": "away"}, tmp_path)[1] == "mst_away"
    assert asked(Wanted(context="away"), environment, tmp_path)[1] == "mst_away"
    assert find(Wanted(context="away"), environment, tmp_path).ca_file == "/ca.pem"
    environment |= {"MUSTER_URL": "https://said.example", "MUSTER_TOKEN": "mst_said"}
    assert asked(Wanted(), environment, tmp_path) == ("https://said.example", "mst_said")
    assert asked(Wanted(url="https://typed.example"), environment, tmp_path)[0] == "https://typed.example"
    # A context that is named speaks for itself: a token that lies about is not its.
    assert asked(Wanted(context="away"), environment, tmp_path) == ("https://away.example", "mst_away")


def test_a_token_goes_nowhere_but_where_it_belongs(environment: dict[str, str], tmp_path: Path) -> None:
    write_stack(tmp_path / ".muster", os.getpid())
    assert asked(Wanted(url="https://other.example"), environment, tmp_path) == ("https://other.example", "")
    with pytest.raises(Failure, match="not behind TLS"):
        find(Wanted(url="http://other.example", token="mst_x"), environment, tmp_path)
    place = find(Wanted(url="http://other.example", token="mst_x", plaintext=True), environment, tmp_path)
    assert place.token == "mst_x" and "mst_x" not in repr(place)


def test_a_token_is_read_from_its_file(environment: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("mst_file\n", encoding="utf-8")
    said = environment | {"MUSTER_URL": "https://said.example", "MUSTER_TOKEN_FILE": str(file)}
    assert asked(Wanted(), said, tmp_path)[1] == "mst_file"
    assert asked(Wanted(token_file=str(file)), environment, tmp_path)[1] == "mst_file"
    with pytest.raises(Failure, match="cannot be read"):
        find(Wanted(token_file=str(tmp_path / "none")), environment, tmp_path)


def test_a_stack_that_runs_beside_is_found(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    below = tmp_path / "checkout" / "docs"
    below.mkdir(parents=True)
    with pytest.raises(Failure, match="No cluster is named"):
        find(Wanted(), environment, below)
    write_stack(tmp_path / "checkout" / ".muster" / "demo", os.getpid())
    assert asked(Wanted(), environment, below) == ("http://127.0.0.1:8000", "mst_stack")
    # One that ended is none.
    write_stack(tmp_path / "checkout" / ".muster" / "other", 2**22 + 1)
    assert asked(Wanted(), environment, below) == ("http://127.0.0.1:8000", "mst_stack")
    write_stack(tmp_path / "checkout" / ".muster" / "second", os.getpid())
    with pytest.raises(Failure, match="Several stacks run"):
        find(Wanted(), environment, below)
    # The demo runs in the home of `make up`, which is chosen by its own name all the same.
    home = tmp_path / "checkout" / ".muster"
    write_stack(home, os.getpid(), token="mst_up")
    assert asked(Wanted(), environment | {"MUSTER_HOME": str(home)}, below)[1] == "mst_up"
    write_stack(tmp_path / "mine", os.getpid(), token="mst_mine")
    assert asked(Wanted(), environment | {"MUSTER_HOME": str(tmp_path / "mine")}, below)[1] == "mst_mine"


def test_contexts_are_kept_as_they_were_and_for_their_owner_alone(environment: dict[str, str]) -> None:
    path = contexts_path(environment)
    contexts = Contexts.read(path)
    contexts.named["odd"] = {"url": "https://odd.example", "token_file": 'a "b" \\ \t é 😀'}
    contexts.write()
    again = Contexts.read(path)
    assert (again.current, again.named) == ("home", contexts.named)
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o077 == 0
    path.chmod(0o644)
    contexts.write()
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("https://muster.example/", "https://muster.example"),
        ("https://muster.example/api/v1/", "https://muster.example"),
        ("https://proxy.example/muster/api/v1", "https://proxy.example/muster"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_an_address_has_one_form(typed: str, read: str, tmp_path: Path) -> None:
    assert find(Wanted(url=typed), {"HOME": str(tmp_path)}, tmp_path) == Place(read, found="--url")


@pytest.mark.parametrize(
    "typed",
    ["muster.example", "ftp://muster.example", "https://", "https://a:b@muster.example", "http://x:99999"],
)
def test_what_is_no_address_is_a_mistake_of_whoever_typed_it(typed: str, tmp_path: Path) -> None:
    with pytest.raises(Failure) as refused:
        find(Wanted(url=typed), {"HOME": str(tmp_path)}, tmp_path)
    assert refused.value.code is ExitCode.USAGE


def test_a_file_that_is_spoilt_is_named(environment: dict[str, str], tmp_path: Path) -> None:
    contexts_path(environment).write_text("current = \n", encoding="utf-8")
    with pytest.raises(Failure, match=r"contexts\.toml cannot be read"):
        find(Wanted(), environment, tmp_path)
