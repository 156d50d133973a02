"""Somebody names clusters once and speaks of them by name; tokens are kept for him alone."""

from access.grants import Role
from access.service import create_token
from tests.integration.cli.conftest import Muster
from tests.integration.web import cast
from tests.integration.web.served import WebProcess


def test_a_cluster_is_named_used_and_forgotten(web: WebProcess, nobody: Muster) -> None:
    cast.one_night(groups=1)
    token = create_token("viewer", Role.VIEWER)
    added = nobody.done("context", "add", "night", "--url", f"{web.url}/api/v1/", fed=f"{token}\n")
    words = ("--contains", "depart", "-o", "name")
    assert "night is used from now on" in added.err and "until now" not in added.err
    assert nobody.done("groups", "list", *words).out == "departures\n"
    nobody.done("context", "add", "away", "--url", "https://away.example", "--token", "mst_away")
    listed = nobody.done("context", "list")
    assert [line.split()[:2] for line in listed.out.splitlines()[1:]] == [
        ["*", "away"],
        ["-", "night"],
    ]
    assert nobody.done("groups", "list", "--context", "night", *words).out == "departures\n"
    again = nobody.done("context", "add", "away", "--url", "https://far.example", "--token", "mst_away")
    assert "away was https://away.example until now." in again.err
    same = nobody.done("context", "add", "away", "--url", "https://far.example", "--token", "mst_other")
    assert "until now" not in same.err
    nobody.done("context", "use", "night")
    shown = nobody.done("context", "show")
    assert web.url in shown.out and "contexts.toml" in shown.out
    everything = [added, listed, shown, nobody.done("context", "show", "-o", "json")]
    assert not any(secret in one.out + one.err for one in everything for secret in (token, "mst_away"))
    file = nobody.home / ".config" / "muster" / "contexts.toml"
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o640)
    assert "Others can read the tokens" in nobody.done("context", "list").err
    nobody.done("context", "remove", "night")
    assert nobody("groups", "list").code == 2
    assert nobody("context", "use", "night").code == 3 and token not in file.read_text(encoding="utf-8")


def test_a_context_that_cannot_be_is_refused(nobody: Muster) -> None:
    assert "--url" in nobody("context", "add", "night").err
    assert "not behind TLS" in nobody("context", "add", "night", "--url", "http://night.example").err
    assert nobody("context", "add", "../night", "--url", "https://night.example").code == 2
    without = nobody("context", "add", "night", "--url", "https://night.example", "--token-file", "absent")
    assert without.code == 2 and "The token's file absent cannot be read" in without.err
    spoilt = nobody("context", "add", "night", "--url", "https://night.example", fed="a b\n")
    assert spoilt.code == 2 and "a b" not in spoilt.err
    assert nobody.done("context", "list", "-o", "name").out == ""
