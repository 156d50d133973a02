"""This room tests that a token opens doors exactly as long as it should, here and in the node's map."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone

from access.forgetting import forget_tokens
from access.grants import Operation, Role
from access.models import AccessEvent, ApiToken, Principal
from access.service import (
    TokenNameTaken,
    bearer,
    create_token,
    create_user,
    kafka_callers,
    lives_one_of,
    may_enter,
    revoke_token,
    token_map,
    verify,
)
from access.tokens import TokenMap
from kafkaserver.callers import KnownCallers
from muster.kernel.scram import verifier_of

pytestmark = pytest.mark.django_db


def known() -> TokenMap:
    """The map as a node loads it."""
    connection.ensure_connection()
    return token_map(connection.connection)


def test_a_new_token_is_known_by_the_web_and_by_the_node() -> None:
    text = create_token("ann", Role.OPERATOR)
    for caller in (verify(text), known().verify(text)):
        assert caller is not None
        assert (caller.principal, caller.role, caller.token) == ("ann", Role.OPERATOR, "ann")
        assert caller.may(Operation.CONSUME) and not caller.may(Operation.ADMINISTER)


def test_only_the_digest_is_stored() -> None:
    text = create_token("ann", Role.VIEWER)
    row = ApiToken.objects.get()
    secret = text.split("_", 2)[2]
    assert len(bytes(row.digest)) == 32
    assert secret not in str(row.__dict__)
    assert not any(secret in event.detail for event in AccessEvent.objects.all())


@pytest.mark.parametrize("spoil", ["secret", "prefix", "shape", "length", "alphabet"])
def test_a_spoiled_token_is_nobody(spoil: str) -> None:
    text = create_token("ann", Role.ADMIN)
    other = create_token("ben", Role.ADMIN)
    _, prefix, secret = text.split("_", 2)
    spoiled = {
        "secret": f"mst_{prefix}_{other.split('_', 2)[2]}",
        "prefix": f"mst_00000000_{secret}",
        "shape": f"{prefix}{secret}",
        "length": text + "A" * 400,
        "alphabet": f"mst_{prefix}_{'é' * 43}",
    }[spoil]
    assert verify(spoiled) is None
    assert known().verify(spoiled) is None


@pytest.mark.parametrize("days", [-3, 0, 3])
def test_a_token_ends_by_the_databases_clock_whatever_this_machine_believes(
    monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    off = timezone.now() + timedelta(days=days)
    monkeypatch.setattr(timezone, "now", lambda: off)
    text = create_token("ann", Role.VIEWER, good_for=timedelta(hours=1))
    assert verify(text) is not None
    assert known().verify(text) is not None
    ApiToken.objects.update(expires_at=Now() - timedelta(seconds=1))
    assert verify(text) is None
    assert known().verify(text) is None


def test_what_was_proved_once_proves_nothing_else() -> None:
    text = create_token("ann", Role.VIEWER)
    loaded = known()
    for _ in range(2):
        assert loaded.verify(text) is not None
        assert loaded.verify(text[:-2] + ("AA" if text[-2:] != "AA" else "BB")) is None


def test_a_token_taken_back_is_nobody() -> None:
    text = create_token("ann", Role.VIEWER)
    assert revoke_token("ann") == 1
    assert verify(text) is None
    assert len(known()) == 0
    assert revoke_token("ann") == 0


def test_a_disabled_principal_has_no_token() -> None:
    text = create_token("ann", Role.VIEWER)
    Principal.objects.update(disabled=True)
    assert verify(text) is None
    assert len(known()) == 0


def test_one_name_has_one_living_token_and_replace_takes_the_old_one_back() -> None:
    old = create_token("ann", Role.VIEWER)
    with pytest.raises(TokenNameTaken):
        create_token("ann", Role.VIEWER)
    new = create_token("ann", Role.ADMIN, replace=True)
    assert verify(old) is None
    caller = verify(new)
    assert caller is not None and caller.role is Role.ADMIN


def test_last_use_is_written_once_a_minute() -> None:
    text = create_token("ann", Role.VIEWER)
    verify(text)
    first = ApiToken.objects.get().last_used_at
    verify(text)
    assert first is not None
    assert ApiToken.objects.get().last_used_at == first


def test_the_command_prints_nothing_but_the_token(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("create_token", "probe", "--role", "operator")
    text = capsys.readouterr().out.strip()
    assert "\n" not in text
    assert verify(text) is not None
    with pytest.raises(CommandError, match="--replace"):
        call_command("create_token", "probe", "--role", "operator")
    call_command("create_token", "probe", "--role", "operator", "--replace")
    assert verify(text) is None
    call_command("revoke_token", "probe")
    with pytest.raises(CommandError, match="No living token"):
        call_command("revoke_token", "probe")


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("Bearer abc", "abc"),
        (b"bearer  abc", "abc"),
        ("Basic abc", None),
        ("Bearer ", None),
        ("", None),
        (None, None),
    ],
)
def test_a_bearer_header_is_read_and_no_other(header: str | bytes | None, found: str | None) -> None:
    assert bearer(header) == found


def test_brokers_are_told_what_a_token_is_good_for_and_what_proves_it() -> None:
    text = create_token("ann", Role.CLIENT, topics=["orders*"], groups=["team-a"])
    connection.ensure_connection()
    (row,) = kafka_callers(connection.connection)
    assert (row.name, row.principal, row.operations) == ("ann", "ann", ("consume", "produce"))
    assert (row.topics, row.groups) == (("orders*",), ("team-a",))
    door = KnownCallers([row], key=b"key of a test")
    assert door.caller_of_token("ann", text) == door.caller("ann")
    for one in row.scram:
        expected = verifier_of(one.mechanism, text, one.salt, one.iterations)
        assert (one.stored_key, one.server_key) == (expected.stored_key, expected.server_key)
    revoke_token("ann")
    assert kafka_callers(connection.connection) == ()


def test_a_token_for_names_that_cannot_be_is_not_made() -> None:
    with pytest.raises(CommandError, match="may only stand at the end"):
        call_command("create_token", "ann", "--role", "client", "--topic", "a*b")
    assert not ApiToken.objects.exists()


def test_a_token_is_new_where_the_one_that_is_known_by_its_name_was_replaced() -> None:
    def is_new(*known: str) -> bool:
        connection.ensure_connection()
        return lives_one_of(connection.connection, {"ann", "eve"}, known)

    prefix = create_token("ann", Role.CONSUMER).split("_")[1]
    assert is_new() and not is_new(prefix)
    create_token("ann", Role.CONSUMER, replace=True)
    assert is_new(prefix)
    revoke_token("ann")
    assert not is_new()


def test_a_replacement_that_is_good_for_more_than_the_old_token_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bounds = ("--topic", "orders*", "--group", "team-*")
    call_command("create_token", "ann", "--role", "client", *bounds)
    call_command("create_token", "ann", "--role", "client", *bounds, "--replace")
    assert capsys.readouterr().err == ""
    call_command("create_token", "ann", "--role", "client", "--group", "team-*", "--replace")
    told = capsys.readouterr()
    assert "good for topics orders* only" in told.err and "--topic" in told.err and "groups" not in told.err
    # Scripts take what stands on stdout for the token.
    assert verify(told.out.strip()) is not None


def test_tokens_that_ended_a_year_ago_are_forgotten() -> None:
    """A stack revokes those of its last start with each start."""
    for name, revoked, ended in (
        ("ann", 367, None), ("ben", 367, -9), ("cleo", None, 367), ("dora", 365, 365), ("eva", None, -9),
    ):  # fmt: skip
        create_token(name, Role.VIEWER)
        ApiToken.objects.filter(name=name).update(
            revoked_at=revoked and Now() - timedelta(days=revoked),
            expires_at=ended and Now() - timedelta(days=ended),
        )
    connection.ensure_connection()
    assert forget_tokens(connection.connection) == 3
    assert set(ApiToken.objects.values_list("name", flat=True)) == {"dora", "eva"}


def test_a_replacement_of_nobody_says_that_nothing_was_taken_back(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whoever misspells the name of a token that leaked believes that it opens nothing any more."""
    call_command("create_token", "shiping-app", "--role", "client", "--replace")
    told = capsys.readouterr()
    assert "none was taken back" in told.err and verify(told.out.strip()) is not None
    call_command("enroll_broker", "22", "--rotate")
    assert "no secret was replaced" in capsys.readouterr().err
    call_command("enroll_broker", "22", "--rotate")
    assert capsys.readouterr().err == ""


def test_what_somebody_who_is_locked_out_is_given_says_that_it_opens_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    password = tmp_path / "password"
    password.write_text("a flight to Boston")
    create_user("ann", Role.VIEWER, None)
    may_enter("ann", allowed=False)
    call_command("create_token", "ann", "--role", "client")
    assert "lock_out ann --undo" in capsys.readouterr().err
    call_command("create_user", "ann", "--role", "operator", "--password-file", str(password))
    told = capsys.readouterr()
    assert "lock_out ann --undo" in told.err and "may sign in" not in told.out
